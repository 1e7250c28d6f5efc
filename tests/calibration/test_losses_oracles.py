"""Losses against independent implementations, and batches against single rows."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, directed_hausdorff
from scipy.stats import ks_2samp, wasserstein_distance

from tests.calibration.simulated_runs import make_runs
from tests.examples import examples
from twinloop.calibration.losses import LOSSES, evaluate
from twinloop.calibration.losses.point_sets import chamfer, ddks, hausdorff
from twinloop.calibration.losses.sorted_times import sort_pairs
from twinloop.calibration.losses.tasks_by_machine import MachineTasks
from twinloop.calibration.run_columns import RunBatch

NAMES = [name for name in LOSSES if not name.startswith("explained")]


def slow_ddks(real: np.ndarray, twin: np.ndarray) -> float:
    """The definition: around every point of both sets, in every quadrant."""
    largest = 0.0
    for x, y in np.concatenate([real, twin]):
        for right, above in product([False, True], repeat=2):
            share = [
                np.mean(((points[:, 0] > x) == right) & ((points[:, 1] > y) == above))
                for points in (real, twin)
            ]
            largest = max(largest, abs(share[0] - share[1]))
    return largest


def group(real: np.ndarray, twin: np.ndarray) -> MachineTasks:
    """Points as a group of tasks: (tasks, 2) and (rows, tasks, 2)."""
    run = make_runs([1.0])[0]
    return MachineTasks((real[:, 0], real[:, 1]), (twin[..., 0], twin[..., 1]), 1.0, run)


@st.composite
def point_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    here, there, rows = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Whole numbers up to a few: many ties.
    if draw(st.booleans()):
        most = draw(st.integers(1, 6))
        return (
            rng.integers(0, most, (here, 2)).astype(float),
            rng.integers(0, most, (rows, there, 2)).astype(float),
        )
    return rng.random((here, 2)), rng.random((rows, there, 2))


@examples(50)
@given(point_sets())
def test_distances_of_sets_agree_with_scipy_and_the_definition(
    sets: tuple[np.ndarray, np.ndarray],
) -> None:
    real, twin = sets
    (near,), (far,), (ks,) = (measure(group(real, twin)) for measure in (chamfer, hausdorff, ddks))
    for row, points in enumerate(twin):
        between = cdist(real, points)
        both_ways = between.min(axis=1).mean() + between.min(axis=0).mean()
        assert near.values[row, 0] == pytest.approx(both_ways, abs=1e-12)
        assert far.values[row, 0] == pytest.approx(directed_hausdorff(real, points)[0], abs=1e-12)
        assert ks.values[row, 0] == pytest.approx(slow_ddks(real, points), abs=1e-12)


@pytest.mark.filterwarnings("ignore:ks_2samp:RuntimeWarning")  # about the p-value, not used here
@examples(50)
@given(point_sets())
def test_in_one_dimension_ddks_is_the_statistic_of_kolmogorov_and_smirnov(
    sets: tuple[np.ndarray, np.ndarray],
) -> None:
    real, twin = sets
    real[:, 1], twin[..., 1] = 7.0, 7.0
    (found,) = ddks(group(real, twin))
    for row, points in enumerate(twin):
        expected = ks_2samp(real[:, 0], points[:, 0], method="exact").statistic
        assert found.values[row, 0] == pytest.approx(expected, abs=1e-12)


def test_blocks_of_large_sets_give_the_same_distance() -> None:
    rng = np.random.default_rng(3)
    real, twin = rng.random((1100, 2)), rng.random((2, 1000, 2))
    (near,), (far,), (ks,) = (measure(group(real, twin)) for measure in (chamfer, hausdorff, ddks))
    between = cdist(real, twin[1])
    assert near.values[1, 0] == pytest.approx(
        between.min(axis=1).mean() + between.min(axis=0).mean()
    )
    assert far.values[1, 0] == pytest.approx(between.min(axis=1).max())
    # Around one point at a time, without blocks.
    everyone, weights = (
        np.concatenate([real, twin[1]]),
        np.repeat([1 / 1100, -1 / 1000], [1100, 1000]),
    )
    right, above = (everyone[:, k, None] > everyone[None, :, k] for k in (0, 1))
    shares = [abs(weights @ (a & b)).max() for a in (right, ~right) for b in (above, ~above)]
    assert ks.values[1, 0] == pytest.approx(max(shares))


@st.composite
def runs(draw: st.DrawFn, rows: int = 4) -> RunBatch:
    """The real run, then runs of the twin, all with equally many tasks on each machine."""
    tasks = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    whole = draw(st.booleans())
    times = rng.integers(1, 5, (3, rows, tasks)) if whole else rng.random((3, rows, tasks)) + 0.1
    machine = np.sort(rng.integers(0, draw(st.integers(1, 3)), tasks))
    shuffle = draw(st.booleans())
    return make_runs(
        times[0].astype(float),
        times[1].astype(float),
        rng.permuted(np.tile(machine, (rows, 1)), axis=1) if shuffle else machine,
        start=times[2] - 0.1,
        energy=rng.random(rows) + 1,
        power=rng.random((rows, 5)) + 1,
    )


@given(runs(), st.data())
def test_losses_are_not_negative_and_zero_for_equal_runs(
    every: RunBatch, data: st.DataObject
) -> None:
    loss = LOSSES[data.draw(st.sampled_from(NAMES))]
    found = loss([every[0]], every)
    assert (found >= 0).all()
    assert found[0] == 0


@given(runs(), st.data())
def test_all_rows_at_once_are_each_row_alone(every: RunBatch, data: st.DataObject) -> None:
    loss = LOSSES[data.draw(st.sampled_from(list(LOSSES)))]
    reals = [every[0], every[1]]
    if "variance" in loss.name:  # of repetitions that differ
        assume(np.all(reals[0].run_time != reals[1].run_time))
        assume(reals[0].makespan != reals[1].makespan)
    together = loss(reals, every)
    alone = [loss(reals, every.select_rows(slice(row, row + 1)))[0] for row in range(len(every))]
    assert together.tolist() == alone


@pytest.mark.parametrize("name", list(LOSSES))
def test_many_rows_at_once_are_each_row_alone(name: str) -> None:
    rng = np.random.default_rng(5)
    machine = rng.permuted(np.tile(np.arange(100) % 4, (400, 1)), axis=1)
    power = rng.random((400, 20)) + 1
    every = make_runs(
        rng.random((400, 100)) + 1,
        rng.random((400, 100)) + 1,
        machine,
        start=rng.random((400, 100)),
        energy=rng.random(400) + 1,
        power=power,
        machines=["n1", "n2", "n3", "n4"],
    )
    reals = [every[0], every[1]]
    together = LOSSES[name](reals, every)
    assert not np.isnan(together).any()
    for row in (0, 17, 399):
        assert LOSSES[name](reals, every.select_rows(slice(row, row + 1))).tolist() == [
            together[row]
        ]


@given(runs(), st.data())
def test_sizes_of_residuals_add_up_to_the_loss(every: RunBatch, data: st.DataObject) -> None:
    loss = LOSSES[data.draw(st.sampled_from(NAMES))]
    reals = [every[0], every[1]]
    found = loss.residuals(reals, every)
    if found is None:
        assert loss.name.partition("-")[0] in ("chamfer", "hausdorff", "ddks")
    elif loss.name not in ("max-task", "makespan+max-task", "L5", "L6"):
        assert np.abs(found).sum(axis=1) == pytest.approx(loss(reals, every), abs=1e-12)


@given(runs(), st.data())
def test_losses_of_sets_do_not_depend_on_the_order_of_tasks(
    every: RunBatch, data: st.DataObject
) -> None:
    grouped = [name for name in LOSSES if hasattr(LOSSES[name], "measure")]
    names = [*grouped, "ends-sorted", "sorted-times", "waits"]
    loss = LOSSES[data.draw(st.sampled_from(names))]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    order = rng.permuted(np.tile(np.arange(len(every.tasks)), (len(every), 1)), axis=1)
    order[0] = np.arange(len(every.tasks))
    columns = {
        output: np.take_along_axis(getattr(every, name), order, axis=1)
        for name, output in (
            ("submit", "task_submit"), ("start", "task_start"), ("end", "task_end"),
            ("cpu_time", "task_cpu"), ("machine", "task_machine"),
        )
    }  # fmt: skip
    other = RunBatch.of(columns, every.tasks, every.machines)
    expected = loss([every[0]], every)
    assert loss([every[0]], other) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@examples(40)
@given(runs())
def test_sorted_times_are_transport_distances(every: RunBatch) -> None:
    assert every.end is not None
    for name, column in (("ends-sorted", every.end), ("double-sorted-all", every.run_time)):
        found = LOSSES[name]([every[0]], every)
        for row in range(len(every)):
            moved = wasserstein_distance(column[0], column[row])
            if name == "ends-sorted":
                moved /= every[0].makespan
            else:
                moved += wasserstein_distance(every.cpu_time[0], every.cpu_time[row])  # type: ignore[index]
            assert found[row] == pytest.approx(moved, abs=1e-9)


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([0.0, 1e-16, 1e-13, 1.0]))
def test_pairs_are_sorted_as_lexsort_sorts_them(seed: int, size: int, apart: float) -> None:
    rng = np.random.default_rng(seed)
    # Times so close that they differ only in their last bits.
    first = 1.0 + apart * rng.integers(0, 50, (5, size))
    second = rng.integers(0, 3, (5, size)).astype(float)
    order = np.lexsort((second, first), axis=1)
    ordered, along = sort_pairs(first, second)
    assert np.array_equal(ordered, np.take_along_axis(first, order, axis=1))
    assert np.array_equal(along, np.take_along_axis(second, order, axis=1))


@examples(70)
@given(runs(rows=6), st.data())
def test_rows_with_other_counts_fail_alone(every: RunBatch, data: st.DataObject) -> None:
    loss = LOSSES[data.draw(st.sampled_from([n for n in LOSSES if hasattr(LOSSES[n], "measure")]))]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    assert every.machine is not None
    machine = np.array(every.machine)
    machine[3:] = rng.integers(0, 3, machine[3:].shape)
    every = replace(every, machine=machine)
    found, reasons = evaluate(loss, [every[0]], every)
    assert set(reasons) == set(np.flatnonzero(np.isnan(found)).tolist()) <= {3, 4, 5}
    counts = [np.bincount(row, minlength=3) for row in machine]
    for row in range(6):
        fits = (counts[row] == counts[0]).all()
        if not getattr(loss, "paired", False):
            fits = ((counts[row] > 0) == (counts[0] > 0)).all()
        assert (row not in reasons) == (fits or loss.name.endswith("-all"))
