"""Distances between sets of points (run time, CPU time): Chamfer, Hausdorff, ddKS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinloop.calibration.losses.mean_absolute import LossTerm, require_positive, split_rows
from twinloop.calibration.losses.tasks_by_machine import MachineTasks
from twinloop.calibration.run_columns import Floats

#: The maximum number of pairs of points in a block: a block fits in the CPU caches.
_BLOCK_PAIRS = 1 << 18
#: From this number of pairs on, a k-d tree is faster than all pairs.
_MIN_TREE_PAIRS = 1 << 20


def chamfer(group: MachineTasks) -> list[LossTerm]:
    """Chamfer distance: the mean distance to the nearest point of the other set, both ways (s)."""
    return [_compute_chamfer(group, 1.0, 1.0)]


def chamfer_relative(group: MachineTasks) -> list[LossTerm]:
    """Compute the Chamfer distance with times relative to the real means."""
    return [_compute_chamfer(group, *_compute_means(group))]


def hausdorff(group: MachineTasks) -> list[LossTerm]:
    """Directed Hausdorff distance: the largest distance of a real point to the twin (s)."""
    return [_compute_hausdorff(group, 1.0, 1.0)]


def hausdorff_relative(group: MachineTasks) -> list[LossTerm]:
    """Compute the Hausdorff distance with times relative to the real means."""
    return [_compute_hausdorff(group, *_compute_means(group))]


def ddks(group: MachineTasks) -> list[LossTerm]:
    """Two-dimensional Kolmogorov-Smirnov statistic: the largest difference of quadrant shares.

    The quadrants about (x, y) hold the points with r <= x or r > x, and c <= y or c > y. In one
    dimension this is the two-sample statistic of Kolmogorov and Smirnov.
    """
    (real_time, real_cpu), (time, cpu) = group.real, group.twin
    real_count, twin_count = real_time.size, time.shape[1]
    count = real_count + twin_count
    # Shares are multiplied by both counts: whole numbers are exact, so that ties are exact.
    exact = np.float32 if real_count * twin_count < 2**24 else np.float64
    weights = np.concatenate(
        [np.full(real_count, twin_count), np.full(twin_count, -real_count)]
    ).astype(exact)
    statistics = np.empty(len(time))
    for rows in split_rows(len(time), count * count, _BLOCK_PAIRS):
        x, y = (
            np.concatenate([np.broadcast_to(real, (len(twin), real_count)), twin], axis=1)
            for real, twin in ((real_time, time[rows]), (real_cpu, cpu[rows]))
        )
        left, below = _sum_weights_up_to(x, weights), _sum_weights_up_to(y, weights)
        largest = np.zeros(len(x))
        for block in split_rows(count, len(x) * count, _BLOCK_PAIRS):
            inside = x[:, np.newaxis, :] <= x[:, block, np.newaxis]
            inside &= y[:, np.newaxis, :] <= y[:, block, np.newaxis]
            corner: np.ndarray = np.matmul(inside.astype(exact), weights)
            west, south = left[:, block] - corner, below[:, block] - corner
            # The weights of both sets sum to 0, so the fourth quadrant follows from three.
            for quadrant in (corner, west, south, corner + west + south):
                np.maximum(largest, np.abs(quadrant).max(axis=1), out=largest)
        statistics[rows] = largest / (real_count * twin_count)
    return [LossTerm(statistics[:, np.newaxis])]


def _sum_weights_up_to(values: Floats, weights: np.ndarray) -> np.ndarray:
    """For each value of a row, sum the weights of the values that are not larger."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    sums = np.cumsum(weights[order], axis=1)
    # Equal values share the sum at the last of them.
    last = np.where(ordered[:, 1:] != ordered[:, :-1], np.arange(ordered.shape[1] - 1), order.size)
    last = np.concatenate([last, np.full((len(last), 1), ordered.shape[1] - 1)], axis=1)
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    sums_up_to = np.empty_like(sums)
    np.put_along_axis(sums_up_to, order, np.take_along_axis(sums, last, axis=1), axis=1)
    return sums_up_to


def _compute_chamfer(group: MachineTasks, time: float, cpu: float) -> LossTerm:
    distances = [
        from_real.mean(axis=1) + from_twin.mean(axis=1)
        for from_real, from_twin in _find_nearest(group, time, cpu)
    ]
    return LossTerm(np.concatenate(distances)[:, np.newaxis])


def _compute_hausdorff(group: MachineTasks, time: float, cpu: float) -> LossTerm:
    distances = [from_real.max(axis=1) for from_real, _ in _find_nearest(group, time, cpu)]
    return LossTerm(np.concatenate(distances)[:, np.newaxis])


def _compute_means(group: MachineTasks) -> tuple[float, float]:
    time, cpu = (float(column.mean()) for column in group.real)
    of_time = require_positive(time, "the mean run time", group.run)
    return of_time, require_positive(cpu, "the mean CPU time", group.run)


def _find_nearest(group: MachineTasks, time: float, cpu: float) -> Iterator[tuple[Floats, Floats]]:
    """Distances of all points to the nearest of the other set, both ways, by blocks of rows."""
    real = np.stack([group.real[0] / time, group.real[1] / cpu], axis=1)
    x, y = group.twin[0] / time, group.twin[1] / cpu
    pairs = len(real) * x.shape[1]
    if pairs >= _MIN_TREE_PAIRS:
        yield from _find_nearest_by_trees(real, np.stack([x, y], axis=2))
        return
    for rows in split_rows(len(x), pairs, _BLOCK_PAIRS):
        squares = (x[rows, np.newaxis, :] - real[:, :1]) ** 2
        squares += (y[rows, np.newaxis, :] - real[:, 1:]) ** 2
        yield np.sqrt(squares.min(axis=2)), np.sqrt(squares.min(axis=1))


def _find_nearest_by_trees(real: Floats, twin: Floats) -> Iterator[tuple[Floats, Floats]]:
    from scipy.spatial import cKDTree

    tree = cKDTree(real)
    for points in twin:
        from_real, _ = cKDTree(points).query(real)
        from_twin, _ = tree.query(points)
        yield from_real[np.newaxis], from_twin[np.newaxis]
