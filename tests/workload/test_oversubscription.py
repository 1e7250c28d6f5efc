"""Correction of the demand of tasks that were sampled on oversubscribed nodes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from twinloop import Trace, Workload

COLUMNS = ["task", "machine", "pid", "t", "dt", "cpu"]


def run(
    rates: list[list[float]], cores: list[float], node: float = 1.0, speed: float = 1.0
) -> Trace:
    """Tasks that all run on one node, sampled every second."""
    names = [f"t{i}" for i in range(len(rates))]
    usage = [
        (name, "n", i + 1, t + 1.0, 1.0, rate)
        for i, (name, own) in enumerate(zip(names, rates, strict=True))
        for t, rate in enumerate(own)
    ]
    length = [float(len(own)) for own in rates]
    return Trace(
        tasks=pl.DataFrame({"id": names, "submit": [0.0] * len(names), "requested_cores": cores}),
        nodes=pl.DataFrame({"node": ["n"], "cores": [node], "mhz": [1000.0 * speed]}),
        placements=pl.DataFrame(
            {
                "task": names,
                "attempt": [0] * len(names),
                "machine": ["n"] * len(names),
                "cores": cores,
                "start": [0.0] * len(names),
                "end": length,
            }
        ),
        usage=pl.DataFrame(
            usage, schema=["task", "machine", "pid", "t", "dt", "cpu"], orient="row"
        ),
    )


def demand(trace: Trace) -> dict[str, list[tuple[float, float]]]:
    found = Workload.from_trace(trace).fragments
    return {
        str(name): own.select("duration", "rate").rows()
        for (name,), own in found.group_by("task", maintain_order=True)
    }


def test_two_tasks_on_one_core_have_a_demand_of_one_core_each():
    found = demand(run([[0.5, 0.5], [0.5, 0.5]], [1.0, 1.0]))
    assert found == {"t0": [(0.5, 1.0), (0.5, 1.0)], "t1": [(0.5, 1.0), (0.5, 1.0)]}


def test_a_task_below_its_fair_share_keeps_its_demand():
    # The second task sleeps most of the time: the first one gets all it can use.
    found = demand(run([[0.9, 0.9], [0.1, 0.1]], [1.0, 1.0]))
    assert found["t1"] == [(1.0, 0.1), (1.0, 0.1)]
    assert found["t0"] == [(pytest.approx(0.9), 1.0)] * 2


def test_tasks_on_a_node_that_is_not_busy_keep_their_demand():
    given = [[0.5, 0.5], [0.3, 0.3]]
    assert demand(run(given, [1.0, 1.0])) == {
        f"t{i}": [(1.0, rate) for rate in own] for i, own in enumerate(given)
    }


def test_tasks_on_a_node_with_enough_cores_keep_their_demand():
    found = demand(run([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]))
    assert found == {"t0": [(1.0, 0.5)] * 2, "t1": [(1.0, 0.5)] * 2}


def test_corrected_tasks_are_counted():
    notes = Workload.from_trace(run([[0.5], [0.5]], [1.0, 1.0])).cleaned
    said = [note for note in notes if "oversubscribed" in note.what]
    assert [(note.count, note.examples) for note in said] == [(2, ("t0", "t1"))]


@given(
    st.lists(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.floats(0.5, 3.0),
)
def test_work_is_kept(rates: list[list[float]], node: float):
    trace = run(rates, [1.0] * len(rates), node)
    work = Workload.from_trace(trace).tasks["work"].to_list()
    assert work == pytest.approx([sum(own) for own in rates], abs=1e-9)


def test_the_replay_takes_as_long_as_the_run():
    # Two of three seconds of work on one core, side by side: both end at 6.
    trace = run([[0.5] * 6, [0.5] * 6], [1.0, 1.0])
    again = tl.simulate(
        tl.Scenario(
            platform="1x1",
            workload=trace,
            policy={"name": "pack-ic", "options": {"overcommit": 2}},
        )
    )
    assert again.placements["end"].to_list() == pytest.approx([6.0, 6.0])
