"""Summary of a trace: hand-computed figures, and the conservation of work in the load."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinloop.trace import Manifest, Trace
from twinloop.trace.summary import Summary, compute_load_over_time


def two_jobs() -> Trace:
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "user": ["u", "v", "u"],
                "submit": [0.0, 10.0, 40.0],
                "requested_cores": [2.0, None, None],
                "run_time": [None, 30.0, None],
                "status": ["completed", None, "failed"],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ["a", "a", "b"],
                "attempt": [0, 1, 0],
                "cores": [2.0, 2.0, 4.0],
                "start": [5.0, 20.0, None],
                "end": [15.0, 25.0, None],
            }
        ),
        manifest=Manifest(epoch_ms=0, facts={"swf": {"max_procs": 10}}),
    )


def test_figures_equal_those_computed_by_hand() -> None:
    summary = Summary.from_trace(two_jobs())
    assert summary.tasks == 3
    assert summary.users == 2
    assert summary.statuses == {"completed": 1, "unknown": 1, "failed": 1}
    assert summary.wait is not None
    assert (summary.wait.known, summary.wait.mean) == (1, 5.0)
    assert summary.run_time is not None
    # a ran twice, for 10 s and then whole for 5 s; b for 30 s as recorded; c never.
    assert (summary.run_time.minimum, summary.run_time.maximum) == (5.0, 30.0)
    assert summary.core_seconds == 2 * 5 + 4 * 30
    assert summary.offered_load == pytest.approx(130 / (10 * 40))
    assert summary.epoch == "1970-01-01T00:00:00+00:00"


def test_cores_in_use_are_allocated_not_requested_cores() -> None:
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "requested_cores": [3.0]}),
        placements=pl.DataFrame({"task": ["a"], "cores": [4.0], "start": [0.0], "end": [10.0]}),
    )
    assert compute_load_over_time(trace, bins=2)["running"].to_list() == [4.0, 4.0]


def test_an_empty_trace_has_an_empty_summary() -> None:
    summary = Summary.from_trace(Trace())
    assert (summary.tasks, summary.cores, summary.offered_load) == (0, None, None)
    assert compute_load_over_time(Trace()).height == 0


SPANS = st.lists(
    st.tuples(st.floats(0, 1e6), st.floats(0, 1e5), st.floats(0, 1e5), st.integers(1, 64)),
    min_size=1,
    max_size=30,
)


@given(jobs=SPANS, bins=st.integers(1, 50))
@example(jobs=[(0.0, 0.0, 2.225073858507e-311, 1)], bins=2)
@example(jobs=[(1e6, 0.0, 3e-10, 1)], bins=50)  # three times the spacing of numbers there
def test_load_conserves_the_work_that_ran(
    jobs: list[tuple[float, float, float, int]], bins: int
) -> None:
    ids = [str(i) for i in range(len(jobs))]
    submit, wait, run, cores = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    trace = Trace(
        tasks=pl.DataFrame(
            {"id": ids, "submit": submit, "requested_cores": cores, "run_time": run}
        ),
        placements=pl.DataFrame({"task": ids, "start": submit + wait, "end": submit + wait + run}),
    )
    load = compute_load_over_time(trace, bins)
    work = float((cores * run).sum())
    seconds = load["dt"].to_numpy()
    assert load["submitted"].sum() == len(jobs)
    assert float((load["offered"].to_numpy() * seconds).sum()) == pytest.approx(work, abs=1e-3)
    assert float((load["running"].to_numpy() * seconds).sum()) == pytest.approx(
        work, rel=1e-6, abs=1e-2
    )
    assert load["running"].max() <= cores.sum() * (1 + 1e-9)
