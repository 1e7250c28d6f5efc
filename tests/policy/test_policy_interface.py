"""Policies written in Python: their state, their decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pytest

from twinloop import _core
from twinloop.policy import (
    Decision,
    Kill,
    Place,
    Policy,
    Preempt,
    Reserve,
    SetState,
    View,
    Wake,
)

VIEW = cast(View, None)


class Counting(Policy):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def decide(self, view: View) -> Iterable[Decision] | None:
        self.seen.append(1)
        return None


def test_runs_share_no_state_with_the_policy_or_with_each_other() -> None:
    policy = Counting()
    rng = np.random.default_rng(1)
    one, other = policy.start(VIEW, rng), policy.start(VIEW, rng)
    one.decide(VIEW)
    assert isinstance(one, Counting)
    assert isinstance(other, Counting)
    assert (policy.seen, one.seen, other.seen) == ([], [1], [])


def test_a_policy_must_decide() -> None:
    with pytest.raises(TypeError, match="decide"):
        Policy()  # type: ignore[abstract]


def test_the_base_class_has_no_method_failed() -> None:
    assert not hasattr(Counting(), "failed"), "a failed decision would pass unseen"


def test_the_native_view_has_the_members_of_the_interface() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(_core.View) == public(View)


DECISIONS: list[Any] = [
    Place(1, 2), Place(1, (2, 3), cores=4.0), Reserve(1, 5.0, 2), Wake(1), Preempt(1), Kill(1),
    SetState(1, "off"),
]  # fmt: skip


def test_decisions_are_equal_by_value_and_kind() -> None:
    for i, one in enumerate(DECISIONS):
        for j, other in enumerate(DECISIONS):
            assert (one == other) == (i == j)
    kinds = {type(decision): decision.kind for decision in DECISIONS}
    assert len(set(kinds.values())) == len(kinds) == 6


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_has_no_other_attributes(decision: Any) -> None:
    assert not hasattr(decision, "__dict__")
    with pytest.raises(AttributeError):
        decision.colour = "red"
