"""Finish times of random sharing and flow cases: Twinloop against SimGrid.

Every case runs in Twinloop in three ways (declared before the run; by callbacks during the run; as
columns, if there are no changes) and once in SimGrid, set to plain weighted max-min (see
`simgrid_oracle`). A difference is relative to the time from start to finish, which is stricter than
relative to the finish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from simgrid_cases import FAMILIES, cases
from simgrid_oracle import (
    MAX_MIN,
    OracleActivity,
    OracleCase,
    OracleChange,
    SimGrid,
    SimGridMissing,
)

from twinloop import engine

TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def simgrid() -> SimGrid:
    try:
        return SimGrid()
    except SimGridMissing as missing:
        pytest.skip(f"SimGrid is not installed here: {missing}")


@dataclass
class ComparisonTally:
    cases: int = 0
    activities: int = 0
    worst: float = 0.0

    def add(self, other: ComparisonTally) -> None:
        self.cases += other.cases
        self.activities += other.activities
        self.worst = max(self.worst, other.worst)

    def __str__(self) -> str:
        return (
            f"{self.cases:6} cases {self.activities:8} finish times"
            f"   worst relative difference {self.worst:.1e}"
        )


@pytest.fixture(scope="module")
def total() -> Iterator[ComparisonTally]:
    tally = ComparisonTally()
    yield tally
    print(f"\nSimGrid, all: {tally}")


def run_declared(case: OracleCase) -> list[float | None]:
    env = engine.Environment()
    resources = [env.resource(capacity) for capacity in case.capacities]
    for index, resource in enumerate(resources):
        profile = [c for c in case.changes if c.verb == "capacity" and c.subject == index]
        if profile:
            resource.set_profile([c.time for c in profile], [c.value for c in profile])
    started = [
        env.start(
            a.work,
            [resources[r] for r in a.resources],
            limit=a.limit,
            weight=a.weight,
            at=a.start + a.latency,
        )
        for a in case.activities
    ]
    for change in case.changes:
        if change.verb != "capacity":
            env.call_at(change.time, apply_change, change, resources, started)
    env.run()
    return [activity.finished for activity in started]


def run_by_callbacks(case: OracleCase) -> list[float | None]:
    env = engine.Environment()
    resources = [env.resource(capacity) for capacity in case.capacities]
    started: dict[int, engine.Activity] = {}

    def start(index: int) -> None:
        a = case.activities[index]
        shares = {"limit": a.limit, "weight": a.weight, "latency": a.latency}
        if case.flow:
            started[index] = env.start(a.work, [resources[r] for r in a.resources], **shares)
        else:
            started[index] = resources[a.resources[0]].execute(a.work, **shares)

    for index, activity in enumerate(case.activities):
        env.call_at(activity.start, start, index)
    for change in case.changes:
        env.call_at(change.time, apply_change, change, resources, started)
    env.run()
    return [started[index].finished for index in range(len(case.activities))]


def apply_change(change: OracleChange, resources, started) -> None:
    if change.verb == "capacity":
        resources[change.subject].set_capacity(change.value)
        return
    activity = started[change.subject]
    if activity.finished is not None:
        return
    if change.verb == "weight":
        activity.set_weight(change.value)
    elif change.verb == "suspend":
        activity.suspend()
    else:
        activity.resume()


def run_as_columns(case: OracleCase) -> list[float]:
    longest = max(len(a.resources) for a in case.activities)
    run = engine.run_columns(
        [a.start + a.latency for a in case.activities],
        [a.work for a in case.activities],
        capacity=list(case.capacities),
        resource=[[*a.resources, *[-1] * (longest - len(a.resources))] for a in case.activities],
        limit=[math.inf if a.limit is None else a.limit for a in case.activities],
        weight=[a.weight for a in case.activities],
    )
    return list(run.finish)


def difference(case: OracleCase, ours: list[float | None], theirs: list[float]) -> float:
    """Return the largest difference, relative to the time from start to finish."""
    if None in ours or min(theirs) < 0.0:
        return math.inf
    return max(
        abs(our - their) / (their - activity.start)
        for activity, our, their in zip(case.activities, ours, theirs, strict=True)
    )


def compare(case: OracleCase, theirs: list[float]) -> float:
    ways = (
        [run_declared, run_by_callbacks]
        if case.changes
        else [run_declared, run_by_callbacks, run_as_columns]
    )
    return max(difference(case, way(case), theirs) for way in ways)


@pytest.mark.parametrize("flow", [False, True], ids=["sharing", "flow"])
@pytest.mark.parametrize("family", FAMILIES)
def test_finish_times_are_those_of_simgrid(
    simgrid: SimGrid, total: ComparisonTally, family: str, flow: bool
) -> None:
    tally = ComparisonTally()
    for case, theirs in zip(made := cases(family, flow), simgrid.play(made), strict=True):
        found = compare(case, theirs)
        tally.add(ComparisonTally(1, len(case.activities), found))
        assert found <= TOLERANCE, f"{case.name}: {found:.1e}, SimGrid {theirs}\n{case.text()}"
    total.add(tally)
    print(f"\n{tally}")


# One resource of 10/s: 100 at weight 1 and 100 at weight 2 get 10/3 and 20/3 until the second ends
# at 15 s; the first then has 50 left and ends at 20 s.
BY_HAND = OracleCase(
    "by hand", False, (10.0,), (OracleActivity(0, 100, (0,)), OracleActivity(0, 100, (0,), None, 2))
)


def test_simgrid_gives_the_times_computed_by_hand(simgrid: SimGrid) -> None:
    assert simgrid.play([BY_HAND])[0] == pytest.approx([20.0, 15.0], rel=1e-9)


@pytest.mark.parametrize(
    "error", [{"weight": 2.001}, {"limit": 6.66}, {"work": 100.001}, {"start": 0.0001}], ids=str
)
def test_an_error_in_the_input_of_one_side_is_noticed(simgrid: SimGrid, error: dict) -> None:
    theirs = simgrid.play([BY_HAND])[0]
    first, second = BY_HAND.activities
    wrong = replace(BY_HAND, activities=(first, replace(second, **error)))
    assert compare(BY_HAND, theirs) <= TOLERANCE
    assert all(
        difference(BY_HAND, way(wrong), theirs) > TOLERANCE
        for way in (run_declared, run_by_callbacks)
    )


@pytest.mark.parametrize("flow", [False, True], ids=["sharing", "flow"])
def test_the_cases_depend_on_the_weights(simgrid: SimGrid, flow: bool) -> None:
    """Most cases with two or more weights fail if all weights are set to 1."""
    weighted = [c for c in cases("plain", flow)[:100] if len({a.weight for a in c.activities}) > 1]
    noticed = 0
    for case, theirs in zip(weighted, simgrid.play(weighted), strict=True):
        equal = replace(case, activities=tuple(replace(a, weight=1.0) for a in case.activities))
        noticed += difference(case, run_declared(equal), theirs) > TOLERANCE
    assert noticed > len(weighted) / 2


def test_simgrid_with_its_default_network_model_is_not_max_min(simgrid: SimGrid) -> None:
    """The options of `MAX_MIN` are needed, and are applied."""
    flow = OracleCase("flow", True, (10.0,), (OracleActivity(0, 100, (0,)),))
    assert simgrid.play([flow], MAX_MIN)[0] == pytest.approx([10.0], rel=1e-9)
    assert simgrid.play([flow], ())[0] == pytest.approx([10.0 / 0.97], rel=1e-9)
