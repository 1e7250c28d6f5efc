"""Columns of a run equal its trace, in the order of the tasks of a scenario."""

from math import nan

import numpy as np
import polars as pl
import pytest

from twinloop.calibration.power_windows import average_power
from twinloop.calibration.run_columns import RunBatch, RunColumns, refuse_different_scenarios
from twinloop.description.errors import InputError
from twinloop.metrics import figures
from twinloop.trace import Manifest, Trace

TRACE = Trace(
    tasks=pl.DataFrame(
        {
            "id": ["a", "b", "c", "d"],
            "submit": [1.0, 2.0, 3.0, 4.0],
            "status": ["completed", "failed", None, "rejected"],
            "cpu_time": [None, 1.0, 2.0, None],
        }
    ),
    placements=pl.DataFrame(
        {
            "task": ["a", "a", "a", "b", "c"],
            "attempt": [0, 1, 1, 0, 0],
            "machine": ["n1", "n2", "n1", "n1", "other"],
            "start": [2.0, 5.0, 5.0, 3.0, 4.0],
            "end": [4.0, 9.0, 8.0, 30.0, 7.0],
        }
    ),
    usage=pl.DataFrame({"task": ["a", "a", None], "t": [1.0, 2.0, 3.0], "cpu": [0.5, 2.0, 9.0]}),
    power=pl.DataFrame({"t": [10.0], "dt": [10.0], "watts": [3.0]}),
)


def test_a_run_of_a_trace() -> None:
    run = RunColumns.of(TRACE, ["d", "c", "b", "a", "z"], ["n1", "n2"], power_step=5.0, name="real")
    same = {"submit": [4.0, 3.0, 2.0, 1.0, nan], "start": [nan, 4.0, nan, 2.0, nan],
            "end": [nan, 7.0, nan, 9.0, nan], "run_time": [nan, 3.0, nan, 7.0, nan],
            "wait": [nan, 1.0, nan, 1.0, nan], "cpu_time": [nan, 2.0, nan, 2.5, nan],
            "power": [3.0, 3.0]}  # fmt: skip
    for name, expected in same.items():
        np.testing.assert_array_equal(getattr(run, name), expected, err_msg=name)
    assert run.machine.tolist() == [-1, -1, -1, 1, -1]
    assert run.unknown_machines == ("other",)
    # The failed task ran, so it is in the makespan.
    assert run.makespan == figures(TRACE).makespan == 29.0
    assert run.energy == figures(TRACE).energy == 30.0
    assert run.label == "the run 'real'"


def test_a_task_that_the_scenario_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match=r"task 'b' of the trace is not a task of .*, nor are 2"):
        RunColumns.of(TRACE, ["a"], ["n1"])


def test_a_task_that_still_runs_has_no_end() -> None:
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}),
        placements=pl.DataFrame({"task": ["a"], "start": [9.0]}),
    )
    run = RunColumns.of(trace, ["a"], [])
    assert np.isnan([run.start[0], run.end[0], run.makespan, run.energy]).all()


def test_a_log_without_starts_has_run_times_and_a_makespan() -> None:
    trace = Trace(
        manifest=Manifest(facts={"makespan": 12.5}),
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "submit": [0.0, 0.0, 0.0],
                "run_time": [4.0, None, 6.0],
                "cpu_time": [3.0, 2.0, 1.0],
                "status": [None, "completed", "failed"],
            }
        ),
        placements=pl.DataFrame({"task": ["a"], "machine": ["n1"]}),
    )
    run = RunColumns.of(trace, ["a", "b", "c"], ["n1"])
    assert run.makespan == 12.5
    np.testing.assert_equal(run.run_time, [4.0, nan, nan])
    np.testing.assert_equal(run.cpu_time, [3.0, nan, nan])
    np.testing.assert_equal(run.end, [nan, nan, nan])
    assert run.machine.tolist() == [0, -1, -1]
    unknown = RunColumns.of(trace.with_manifest(facts={}), ["a", "b", "c"], ["n1"])
    assert np.isnan(unknown.makespan)


def test_rows_are_runs() -> None:
    run = RunColumns.of(TRACE, ["a", "b", "c", "d"], ["n1", "n2"], power_step=5.0)
    twice = RunBatch.of_runs([run, run])
    for name in ("submit", "start", "end", "run_time", "wait", "cpu_time", "machine", "power"):
        np.testing.assert_array_equal(getattr(twice[1], name), getattr(run, name))
    assert (twice[0].makespan, twice[0].energy) == (run.makespan, run.energy)
    assert len(RunBatch.concatenate([twice, twice])) == 4
    both = RunBatch.concatenate([twice, RunBatch.of({"makespan_s": [1.0]}, "abcd", ["n1", "n2"])])
    assert both.makespan.tolist() == [29.0, 29.0, 1.0]  # type: ignore[union-attr]
    assert both.end is None


def test_outputs_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(InputError, match=r"end: must have shape \(1, 2\), not \(1, 3\)"):
        RunBatch.of({"task_end": [[1.0, 2.0, 3.0]]}, ["a", "b"], [])
    with pytest.raises(InputError, match="no output that a loss compares"):
        RunBatch.of({"wait_mean_s": [1.0]}, [], [])
    for make in (RunBatch.of_runs, RunBatch.concatenate):
        with pytest.raises(InputError, match="at least one run"):
            make([])
    with pytest.raises(InputError, match="same machines"):
        refuse_different_scenarios(
            RunColumns.of(Trace(), [], ["n1"]), RunColumns.of(Trace(), [], ["n2"])
        )


def test_power_in_windows() -> None:
    def powered(**columns: list[float] | list[str]) -> Trace:
        return Trace(power=pl.DataFrame(columns))

    # Two nodes, of which one is not measured from 10 s on.
    two = powered(
        node=["a", "a", "b"], t=[10.0, 20.0, 10.0], dt=[10.0, 10.0, 10.0], watts=[5.0, 7.0, 1.0]
    )
    # In the second half one of two nodes is measured, and its mean is used for both.
    np.testing.assert_allclose(average_power(two, 10.0), [6.0, 14.0])
    # A gap, and an end within a window.
    gap = powered(t=[10.0, 31.0], dt=[10.0, 8.0], watts=[5.0, 9.0])
    np.testing.assert_allclose(average_power(gap, 10.0), [5.0, nan, 9.0, 9.0])
    assert average_power(Trace(), 1.0).size == 0
    with pytest.raises(InputError, match="power_step"):
        average_power(gap, 0.0)
