"""Service levels: counted by hand, at their limits, and for what never got its instance."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from twinloop import metrics
from twinloop.description import DescriptionError
from twinloop.platform import Platform
from twinloop.platform.service_level import ServiceLevel
from twinloop.scenario import Scenario
from twinloop.trace import Trace


def make_platform(*levels: dict[str, Any], name: str = "east") -> Platform:
    return Platform.from_dict(
        {
            "clusters": [{"hosts": [{"cores": 1}]}],
            "clouds": [{"name": name, "sla": list(levels)}],
        }
    )


def make_trace(waits: list[float | None], reasons: list[str | None] | None = None) -> Trace:
    count = len(waits)
    return Trace(
        instances=pl.DataFrame(
            {
                "instance": [f"instance-{i + 1}" for i in range(count)],
                "cloud": "east",
                "requested": [10.0] * count,
                "ready": [None if wait is None else 10.0 + wait for wait in waits],
                "start": [10.0] * count,
                "end": [None if reasons and reasons[i] is None else 500.0 for i in range(count)],
                "reason": reasons or ["released"] * count,
            },
            schema_overrides={"ready": pl.Float64, "end": pl.Float64, "reason": pl.String},
        )
    )


def judge(trace: Trace, **level: Any) -> dict[str, Any]:
    table = metrics.service_levels(trace, platform=make_platform(level))
    return table.row(0, named=True)


@pytest.mark.parametrize(("share", "violated"), [(0.24, True), (0.25, False), ("25 %", False)])
def test_a_level_is_violated_if_more_than_its_share_exceed_the_limit(
    share: Any, violated: bool
) -> None:
    """One of four waits longer than 120 s; a wait of exactly 120 s does not exceed it."""
    found = judge(make_trace([0, 119, 120, 121]), metric="instance_wait", limit="2min", share=share)
    assert (found["count"], found["exceeded"], found["share"]) == (4, 1, 0.25)
    assert found["violated"] is violated


def test_instances_that_never_were_ready() -> None:
    """Refused and lost ones exceed; one given back after 490 s may; one that still waits may."""
    trace = make_trace(
        [5, None, None, None, None], ["released", "refused", "lost", "released", None]
    )
    short = judge(trace, metric="instance_wait", limit=400)
    assert (short["exceeded"], short["count"], short["unknown"]) == (4, 5, 0)
    long = judge(trace, metric="instance_wait", limit=490)
    assert (long["exceeded"], long["count"], long["unknown"]) == (2, 3, 2)
    assert long["share"] == pytest.approx(2 / 3)


def test_without_any_instance_nothing_is_violated_or_kept() -> None:
    found = judge(Trace(), metric="instance_wait", limit=1)
    assert (found["count"], found["share"], found["violated"]) == (0, None, None)


def test_downtime_is_the_time_in_which_an_instance_was_stopped() -> None:
    states = pl.DataFrame(
        {
            "instance": ["instance-1", "instance-1", "instance-2", "instance-2"],
            "state": ["stopped", "stopped", "stopped", "migrating"],
            "start": [20.0, 40.0, 20.0, 30.0],
            "end": [21.0, 41.5, 22.0, 90.0],
        }
    )
    trace = make_trace([0, 0, 0]).replace(instance_states=states)
    assert judge(trace, metric="downtime", limit=2)["exceeded"] == 1
    assert judge(trace, metric="downtime", limit=1.9)["exceeded"] == 2
    assert judge(trace, metric="downtime", limit="2500ms")["violated"] is False


def make_scenario(*levels: dict[str, Any], queue: str = "blocking") -> Scenario:
    """Three tasks of 60 s on one core: waits of 0, 60 and 120 s, turnarounds of 60 to 180 s."""
    placement = {"name": "first-fit", "options": {"queue": queue}}
    return Scenario.from_dict(
        {
            "platform": {
                "clusters": [{"hosts": [{"cores": 1}]}],
                "clouds": [
                    {"name": "east", "sla": list(levels), "controllers": {"placement": placement}}
                ],
            },
            "workload": {"tasks": [{"id": name, "run_time": 60} for name in "abc"]},
            "policy": "one-per-task",
        }
    )


def test_levels_of_tasks() -> None:
    levels: list[dict[str, Any]] = [
        {"metric": "wait", "limit": "1min"},
        {"metric": "turnaround", "limit": "1min"},
        {"metric": "slowdown", "limit": 1.5},
        {"metric": "bounded_slowdown", "limit": 3, "name": "gold"},
    ]
    table = metrics.service_levels(tl.simulate(make_scenario(*levels)))
    assert table["exceeded"].to_list() == [1, 2, 2, 0]
    assert table["count"].to_list() == [3] * 4
    assert table["violated"].to_list() == [True, True, True, False]
    assert table["rule"].to_list()[::3] == ["wait > 60 s for at most 0 %", "gold"]


def test_tasks_whose_instance_was_refused_exceed_every_limit() -> None:
    level = {"metric": "wait", "limit": "1000h", "share": "50 %"}
    found = metrics.service_levels(tl.simulate(make_scenario(level, queue="refuse")))
    assert found.select("count", "exceeded", "violated").rows() == [(3, 2, True)]


def test_a_scenario_without_levels_has_no_rows() -> None:
    assert metrics.service_levels(tl.simulate(make_scenario())).is_empty()


@given(
    st.lists(st.floats(0, 400), min_size=1, max_size=20),
    st.floats(0, 400),
    st.floats(0, 1),
)
def test_the_share_is_that_of_a_count(waits: list[float], limit: float, share: float) -> None:
    # Times are 10 s later, and so are rounded.
    values = [(10.0 + wait) - 10.0 for wait in waits]
    found = judge(make_trace(list(waits)), metric="instance_wait", limit=limit, share=share)
    expected = sum(value > limit for value in values) / len(values)
    assert found["share"] == expected
    assert found["violated"] == (expected > share)


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"metric": "speed", "limit": 1}, "metric", "speed"),
        ({"metric": "wait"}, "limit", "is missing"),
        ({"metric": "wait", "limit": "2 GB"}, "limit", "'GB' is not a unit for a duration"),
        ({"metric": "wait", "limit": -1}, "limit", "greater than or equal to 0|not be negative|0"),
        ({"metric": "slowdown", "limit": "10s"}, "limit", "slowdown has no unit"),
        ({"metric": "wait", "limit": 1, "share": "many"}, "share", "must be a share, not 'many'"),
        ({"metric": "wait", "limit": 1, "share": "120 %"}, "share", "1"),
    ],
)
def test_wrong_levels_name_their_field(values: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(DescriptionError, match=problem) as found:
        ServiceLevel.from_dict(values)
    assert found.value.problems[0].field == field


def test_names_of_levels_are_unique() -> None:
    level = {"name": "gold", "metric": "wait", "limit": 1}
    with pytest.raises(DescriptionError, match=r"sla\[1\].name: another service level"):
        make_platform(level, level)


def test_levels_survive_writing() -> None:
    level = ServiceLevel(metric="instance_wait", limit="2min", share="5 %")
    assert ServiceLevel.from_text(level.to_yaml()) == level
