"""Law: the slots of docs/from-simpy.md are all free again after any interrupt, at any time."""

import doctest
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import Environment, Interrupt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-simpy.md"


def shown() -> dict[str, Any]:
    """The class and the process as the page has them."""
    names: dict[str, Any] = {"Environment": Environment}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text()):
        if example.source.startswith(("from collections", "class Slots")):
            exec(example.source, names)
    return names


# Whole numbers, so that interrupts often fall on the very instant of a release.
TIMES = st.integers(0, 12)
JOBS = st.lists(st.tuples(TIMES, st.integers(1, 4), TIMES | st.none()), min_size=1, max_size=12)


@given(count=st.integers(1, 3), jobs=JOBS)
def test_no_slot_is_lost_and_none_is_held_twice(
    count: int, jobs: list[tuple[int, int, int | None]]
) -> None:
    env = Environment()
    slots = shown()["Slots"](env, count)
    inside, most = 0, 0

    def job(arrival: int, service: int) -> Generator[Any, Any, None]:
        nonlocal inside, most
        try:
            yield env.timeout(arrival)
            turn = slots.acquire()
            try:
                yield turn
                inside, most = inside + 1, max(most, inside + 1)
                try:
                    yield env.timeout(service)
                finally:
                    inside -= 1
            finally:
                slots.release(turn)
        except Interrupt:
            pass

    for arrival, service, stop in jobs:
        process = env.process(job(arrival, service))
        if stop is not None:
            env.call_at(stop, lambda p=process: p.interrupt("stop") if p.is_alive else None)
    env.run()
    assert most <= count
    assert slots.free == count
    assert not slots.queue


@pytest.mark.parametrize("when", [1, 2, 5], ids=["waiting", "as its turn comes", "holding"])
def test_an_interrupted_job_leaves_its_slot_to_the_next(when: int) -> None:
    env = Environment()
    slots = shown()["Slots"](env, 1)
    done = []

    def job(name: str, service: int) -> Generator[Any, Any, None]:
        turn = slots.acquire()
        try:
            yield turn
            yield env.timeout(service)
            done.append((name, env.now))
        except Interrupt:
            pass
        finally:
            slots.release(turn)

    processes = [env.process(job(*each)) for each in (("a", 2), ("b", 4), ("c", 1))]
    env.call_at(when, processes[1].interrupt)
    env.run()
    assert done == [("a", 2.0), ("c", max(when, 2) + 1.0)]
    assert slots.free == 1
