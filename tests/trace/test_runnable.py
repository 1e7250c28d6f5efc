"""Cores and run time of a task are equal in all parts of the program."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from twinloop.trace import Summary, Trace
from twinloop.trace.quality import check
from twinloop.trace.recorded_runs import collect_runs
from twinloop.workload import Workload

NAN, INF = float("nan"), float("inf")


def one(task: dict[str, Any], *placements: dict[str, Any]) -> Trace:
    """A log with the task and a simple second task."""
    known = {"requested_cores": None, "run_time": None} | task
    tasks = [{"id": "t", "submit": 100.0, **known}]
    tasks.append({"id": "plain", "submit": 100.0, "requested_cores": 1.0, "run_time": 1.0})
    columns = {"attempt": 0, "cores": None, "start": None, "end": None}
    rows = [{"task": "t", **columns, **placement} for placement in placements]
    rows.append({"task": "plain", **columns, "start": 100.0, "end": 101.0, "cores": 1.0})
    return Trace(
        tasks=pl.DataFrame(tasks, infer_schema_length=None),
        placements=pl.DataFrame(rows, infer_schema_length=None),
    )


@pytest.mark.parametrize(
    ("task", "placements", "processors", "run_time"),
    [
        ({"requested_cores": 8.0, "run_time": 5.0}, [{"cores": 4.0}], 8, 5),
        ({"requested_cores": 0.0, "run_time": 5.0}, [{"cores": 4.0}], 4, 5),
        ({"requested_cores": NAN, "run_time": 5.0}, [{"cores": 4.0}], 4, 5),
        ({"run_time": 5.0}, [{"cores": 4.0}, {"cores": None}], 4, 5),
        ({"run_time": 5.0}, [{"cores": 4.0}, {"cores": 3.0}], 7, 5),
        ({"run_time": 5.0}, [{"cores": 4.0}, {"cores": 3.0, "attempt": 1}], 3, 5),
        ({"run_time": 5.0}, [{"cores": 4.0}, {"cores": None, "attempt": 1}], 4, 5),
        ({"run_time": 5.0}, [{"cores": 4.0, "attempt": None}, {"cores": 3.0, "attempt": 1}], 3, 5),
        ({"run_time": 5.0}, [{"cores": 0.0}], None, 5),
        ({"run_time": 5.0}, [], None, 5),
        ({"requested_cores": 2.0}, [{"start": 100.0, "end": 110.0}], 2, 10),
        ({"requested_cores": 2.0, "run_time": 0.0}, [], 2, 0),
        ({"requested_cores": 2.0, "run_time": -1.0}, [], 2, None),
        ({"requested_cores": 2.0, "run_time": INF}, [], 2, None),
        ({"requested_cores": 2.0}, [{"start": 110.0, "end": 100.0}], 2, None),
        ({"requested_cores": 2.0}, [{"start": 110.0}], 2, None),
        # On two nodes at once, from the first start to the last end.
        (
            {"requested_cores": 2.0},
            [{"start": 100.0, "end": 108.0}, {"start": 101.0, "end": 110.0}],
            2,
            10,
        ),
        # Restarted: the last complete run, in any row.
        (
            {"requested_cores": 2.0},
            [
                {"start": 120.0, "end": 125.0, "attempt": 1},
                {"start": 100.0, "end": 110.0, "attempt": 0},
                {"start": 130.0, "attempt": 2},
            ],
            2,
            5,
        ),
    ],
)
def test_every_part_of_the_program_has_the_same_values(
    task: dict[str, Any],
    placements: list[dict[str, Any]],
    processors: float | None,
    run_time: float | None,
) -> None:
    trace = one(task, *placements)
    can = processors is not None and run_time is not None
    found = collect_runs(trace).row(0, named=True)
    assert (found["processors"], found["run_time"]) == (processors, run_time)
    assert found["runnable"] == can
    summary = Summary.from_trace(trace)
    assert summary.core_seconds == 1 + (processors or 0) * (run_time or 0)
    audit = check(trace)
    assert audit["runnable"].broken == (0 if can else 1)
    workload = Workload.from_trace(trace)
    assert workload.tasks["id"].to_list() == (["t", "plain"] if can else ["plain"])
    if can:
        assert workload.tasks.select("cores", "run_time").row(0) == (processors, run_time)


def test_a_task_that_was_started_again_waited_for_its_first_start() -> None:
    trace = one(
        {"requested_cores": 1.0},
        {"start": 103.0, "end": 110.0, "attempt": 0},
        {"start": 120.0, "end": 125.0, "attempt": 1},
    )
    found = collect_runs(trace).row(0, named=True)
    assert (found["start"], found["end"], found["wait"]) == (103.0, 125.0, 3.0)
    assert (found["last_start"], found["last_end"]) == (120.0, 125.0)


def test_demand_is_that_of_the_last_whole_run() -> None:
    trace = one(
        {"requested_cores": 1.0},
        {"start": 100.0, "end": 102.0, "attempt": 0},
        {"start": 110.0, "end": 112.0, "attempt": 1},
        {"start": 120.0, "attempt": 2},
    )
    usage = pl.DataFrame(
        {"task": "t", "t": [102.0, 112.0], "dt": 2.0, "cpu": [0.2, 1.6]},
    )
    workload = Workload.from_trace(
        Trace(tasks=trace.tasks, placements=trace.placements, usage=usage)
    )
    assert workload.fragments.select("duration", "rate").rows() == [(2.0, 0.8)]


def test_no_task_is_lost_of_a_log_without_sizes() -> None:
    trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [5.0]}))
    assert check(trace)["runnable"].broken == 0
    assert Workload.from_trace(trace).tasks["cores"].to_list() == [1.0]


TIME = st.none() | st.floats(-1e6, 1e6) | st.just(float("inf"))
EXECUTION = st.tuples(TIME, TIME, st.none() | st.floats(0, 64), st.none() | st.integers(0, 2))


@given(st.lists(EXECUTION, max_size=6), st.randoms(use_true_random=False), st.booleans())
def test_executions_of_other_tasks_and_their_order_change_no_run(
    executions: list[tuple[Any, ...]], random: Any, shuffle: bool
) -> None:
    """Tasks that were started once, in their order, are the fast case; others are aggregated."""
    ids = [f"task {row}" for row in range(len(executions))]
    columns = {"start": pl.Float64, "end": pl.Float64, "cores": pl.Float64, "attempt": pl.Int64}
    placements = pl.DataFrame(executions, schema=columns, orient="row").with_columns(
        task=pl.Series(ids, dtype=pl.String)
    )
    tasks = pl.DataFrame(
        {"id": ids, "submit": [0.0] * len(ids)}, schema_overrides={"id": pl.String}
    )
    once = collect_runs(Trace(tasks=tasks, placements=placements))
    other = pl.DataFrame({"task": ["other"] * 2, "start": [0.0, 1.0], "end": [1.0, 2.0]})
    more = pl.concat([placements, other], how="diagonal")
    if shuffle:
        more = more[random.sample(range(more.height), more.height)]
    assert_frame_equal(once, collect_runs(Trace(tasks=tasks, placements=more)), check_exact=True)
