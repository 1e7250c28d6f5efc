"""Hold-out: training and validation are disjoint and complete."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.calibration.lossmap import (
    Lossmap,
    Sample,
    compute_lossmap,
    hold_out_large,
    make_rectangular_sets,
    make_single_sets,
    sum_costs,
)
from twinloop.calibration.splits import check_overfitting, count_nodes, hold_out
from twinloop.description.errors import InputError
from twinloop.trace import Trace
from twinloop.trace.manifest import Manifest
from twinloop.trace.tables import make_empty_table


def trace(tasks: int, nodes: int = 1, epoch_ms: int | None = None) -> Trace:
    ids = [f"t{place}" for place in range(tasks)]
    submit = [float(place) for place in range(tasks)]
    return Trace(
        manifest=Manifest(epoch_ms=epoch_ms),
        tasks=pl.DataFrame({"id": ids, "submit": submit}),
        nodes=pl.DataFrame({"node": [f"n{place}" for place in range(nodes)]}),
        placements=pl.DataFrame(
            {"task": ids, "machine": ["n0"] * tasks, "start": submit, "end": [9.0] * tasks},
        ),
    )


@examples(20)
@given(st.integers(2, 12), st.floats(0.01, 0.99), st.integers(0, 5))
def test_runs_are_divided_and_the_same_seed_divides_alike(n: int, part: float, seed: int) -> None:
    runs = [Trace() for _ in range(n)]
    split = hold_out(runs, by="run", fraction=part, seed=seed)
    again = hold_out(runs, by="run", fraction=part, seed=seed)
    assert {id(t) for t in split.train} | {id(t) for t in split.validation} == {id(t) for t in runs}
    assert len(split.train) + len(split.validation) == n
    assert [id(t) for t in split.train] == [id(t) for t in again.train]
    assert split.train
    assert split.validation


def test_the_largest_by_tasks_times_nodes() -> None:
    runs = [trace(5, 4), trace(9, 2), trace(7, 3)]
    split = hold_out(runs, by="size")
    assert [t.tasks.height for t in split.validation] == [7]
    assert [t.tasks.height for t in hold_out(runs, by="size", fraction=0.6).validation] == [5, 7]


def test_the_latest_by_time() -> None:
    runs = [trace(1, epoch_ms=300), trace(2, epoch_ms=100), trace(3, epoch_ms=200)]
    assert [t.tasks.height for t in hold_out(runs, by="time").validation] == [1, 3]
    with pytest.raises(InputError, match="trace 1 has no epoch"):
        hold_out([runs[0], trace(2)], by="time")


@pytest.mark.parametrize(("tasks", "part"), [(2, 0.01), (2, 0.99), (9, 0.01), (9, 0.5), (9, 0.99)])
def test_one_trace_is_cut_in_time(tasks: int, part: float) -> None:
    split = hold_out([trace(tasks)], by="time", fraction=part)
    (early,), (late,) = split.train, split.validation
    ids = early.tasks["id"].to_list() + late.tasks["id"].to_list()
    assert ids == [f"t{place}" for place in range(tasks)]
    assert early.tasks.height
    assert late.tasks.height
    assert late.manifest.edits[-1].operation == "only"
    # Times are not moved: both parts are compared with the same twin.
    whole = trace(tasks).tasks["submit"].to_list()
    assert early.tasks["submit"].to_list() + late.tasks["submit"].to_list() == whole


def test_traces_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(InputError, match="1 trace cannot be divided"):
        hold_out([trace(3)])
    with pytest.raises(InputError, match="were submitted at the same time"):
        hold_out([trace(1)], by="time")
    with pytest.raises(InputError, match="runs cannot be divided by 'day'"):
        hold_out([trace(3)] * 2, by="day")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="between 0 and 1"):
        hold_out([trace(3)] * 2, fraction=1.0)
    with pytest.raises(InputError, match=r"there is no trace 5 \(the 2 traces are"):
        hold_out([trace(3)] * 2, which=[5])
    with pytest.raises(InputError, match="selects 2 of 2"):
        hold_out([trace(3)] * 2, which=[0, 1])


def test_overfitting_is_reported_beyond_the_noise() -> None:
    assert check_overfitting(0.1, 0.15) is None
    assert "the fit does not generalise" in (check_overfitting(0.1, 0.151) or "")
    assert check_overfitting(0.0, 0.02, floor=0.02) is None
    assert check_overfitting(float("nan"), 0.1) is None


# Chapter 5.4 of the study that the schemes come from: executions of a workflow on 1, 2, 4 and 6
# workers with five numbers of tasks, of which 27 training sets are made.
GRID = [Sample(n, m, m / n) for n in (1, 2, 4, 6) for m in (103, 154, 206, 309, 515)]


def test_the_published_grid_has_27_training_sets() -> None:
    train, large = hold_out_large(GRID)
    assert {(s.workers, s.tasks) for s in large} == {
        *((6, m) for m in (154, 206, 309, 515)),
        *((n, 515) for n in (2, 4, 6)),
    }
    assert len(make_single_sets(train)) == 14
    found = compute_lossmap(GRID, lambda train: lambda some: float(len(some)))
    assert found.frame.height == 27
    assert set(found.frame["validation_loss"]) == {6.0}
    chosen = next(s for s in make_rectangular_sets(train) if (s.workers, s.tasks) == (2, 206))
    assert {(s.workers, s.tasks) for s in chosen.samples} == {
        (n, m) for n in (1, 2) for m in (103, 154, 206)
    }
    assert chosen.cost == sum_costs(chosen.samples) == 2 * (103 + 154 + 206)


def test_a_fit_that_fails_is_a_row() -> None:
    def fit(train):  # type: ignore[no-untyped-def]
        if len(train) > 3:
            raise InputError("too many")
        return lambda some: sum(s.tasks for s in train) / len(some)

    seen: list[object] = []
    found = compute_lossmap(GRID, fit, progress=seen.append)
    assert len(seen) == 27
    failed = found.frame.filter(pl.col("error").is_not_null())
    assert set(failed["error"]) == {"too many [TL0200]"}
    assert failed["validation_loss"].null_count() == failed.height > 0
    assert found.best["validation_loss"] == pytest.approx(103 / 6)
    assert "rectangular" in str(found)


def test_the_front_of_cost_and_loss() -> None:
    rows = pl.DataFrame(
        {"cost": [4.0, 1.0, 2.0, 3.0, 5.0], "validation_loss": [0.5, 0.9, 1.0, 0.6, None]}
    )
    assert Lossmap(rows).front["cost"].to_list() == [1.0, 3.0, 4.0]


def test_samples_of_traces() -> None:
    sample = Sample.of(trace(4, nodes=3))
    assert (sample.workers, sample.tasks, sample.makespan, sample.cost) == (3, 4, 9.0, 27.0)
    assert count_nodes(trace(2, nodes=5).replace(nodes=make_empty_table("nodes"))) == 1
    with pytest.raises(InputError, match="no run is larger"):
        hold_out_large([Sample(1, 2, 1.0), Sample(1, 3, 1.0)])
    with pytest.raises(InputError, match="training or validation is empty"):
        compute_lossmap([], lambda train: lambda some: 0.0, validation=[sample])
