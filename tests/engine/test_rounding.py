"""Hand-computed cases that do and do not depend on rounding."""

import pytest

from .programs import Operation, Program
from .rounding import hangs_on_rounding

PLAIN = {"limit": None, "weight": 1.0, "kind": 0, "priority": 0, "latency": 0.0}


def halt(at: float, work: float = 10.0, capacity: float = 0.0, limit: float = 0.1) -> bool:
    """An activity that ends about 100 s, on a capacity that becomes another one at a time."""
    operations: list[Operation] = [
        ("start", work, [0], PLAIN | {"limit": limit}, False),
        ("set_profile", 0, [(at, capacity), (1.0, 1.0)], False),
        ("advance", 200.0),
    ]
    return hangs_on_rounding(Program("max-min", [(1.0, None)], operations), operations)


def test_a_capacity_that_vanishes_within_rounding_of_an_end() -> None:
    # 0.1 in float64 is a little more than a tenth, so that the end is a little before 100 s.
    assert halt(100.0)
    assert halt(100.0, limit=0.1 - 2e-17)


@pytest.mark.parametrize("at", [100.0 - 1e-9, 100.0 + 1e-9, 99.0, 101.0])
def test_a_capacity_that_vanishes_at_another_time(at: float) -> None:
    assert not halt(at)


@pytest.mark.parametrize("capacity", [0.01, 0.05, 0.5])
def test_a_capacity_that_is_left_ends_it_a_hair_later(capacity: float) -> None:
    assert not halt(100.0, capacity=capacity)


@pytest.mark.parametrize("apart", [0.0, 1e-9])
def test_a_capacity_that_is_taken_away_by_hand(apart: float) -> None:
    operations: list[Operation] = [
        ("start", 10.0, [0], PLAIN | {"limit": 0.1}, False),
        ("advance", 100.0 - apart),
        ("set_capacity", 0, 0.0),
    ]
    program = Program("max-min", [(1.0, None)], operations)
    assert hangs_on_rounding(program, operations) == (apart == 0.0)


def test_an_end_before_the_operations_played_last_is_judged_too() -> None:
    operations: list[Operation] = [
        ("start", 10.0, [0], PLAIN | {"limit": 0.1}, False),
        ("advance", 100.0),
        ("set_capacity", 0, 0.0),
        ("advance", 10.0),
        ("finish",),
    ]
    program = Program("max-min", [(1.0, None)], operations)
    assert hangs_on_rounding(program, operations)
    assert not hangs_on_rounding(program, operations[:2])
