"""Laws of step functions, and of the packing of tasks onto cores."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.metrics.weighted_intervals import WeightedIntervals
from twinloop.report.figures.packing import pack_boxes
from twinloop.report.figures.steps import Steps, average_by_row

boxes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 40), st.integers(0, 8)), min_size=1, max_size=60
)
cores = st.one_of(st.integers(1, 4).map(float), st.sampled_from([0.5, 1.5, 0.25]))


def make_arrays(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, length, height = np.array(rows, dtype=float).T
    return start, start + length, height


@given(boxes, st.integers(1, 30))
def test_the_means_in_bins_have_the_area_of_the_boxes(
    rows: list[tuple[int, int, int]], bins: int
) -> None:
    start, end, height = make_arrays(rows)
    edges = np.linspace(start.min(), end.max() + 1.0, bins + 1)
    area = sum(length * high for _, length, high in rows)
    means = Steps.of(WeightedIntervals.of(start, end, height)).means(edges)
    assert means @ np.diff(edges) == pytest.approx(area, abs=1e-9)


@given(boxes, st.integers(1, 30), st.integers(1, 4))
def test_the_heat_map_has_the_means_of_each_row(
    rows: list[tuple[int, int, int]], bins: int, many: int
) -> None:
    start, end, height = make_arrays(rows)
    row = np.arange(start.size) % many
    edges = np.linspace(start.min() + 3.0, max(end.max() - 3.0, start.min() + 4.0), bins + 1)
    found = average_by_row(row, start, end, height, many, edges)
    for number in range(many):
        mine = row == number
        for at, (left, right) in enumerate(pairwise(edges)):
            inside = np.maximum(np.minimum(end[mine], right) - np.maximum(start[mine], left), 0.0)
            expected = float(inside @ height[mine]) / (right - left)
            assert found[number, at] == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=400), st.integers(1, 20))
def test_a_thinned_curve_keeps_the_extremes_of_every_bin(levels: list[int], bins: int) -> None:
    steps = Steps(np.arange(len(levels), dtype=float), np.array(levels, dtype=float))
    thin = steps.thin(bins)
    assert thin.t.size <= max(4 * bins, 1)
    points = dict(zip(steps.t, steps.level, strict=True))
    assert all(points[t] == level for t, level in zip(thin.t, thin.level, strict=True))
    assert np.all(np.diff(thin.t) > 0)
    assert (thin.t[0], thin.t[-1]) == (steps.t[0], steps.t[-1])
    width = (steps.t[-1] - steps.t[0]) / bins or 1.0
    for number in range(bins):
        # The last bin has its right end as well.
        in_bin = [
            np.minimum((curve.t - steps.t[0]) // width, bins - 1) == number
            for curve in (steps, thin)
        ]
        if in_bin[0].sum() > 1 and in_bin[1].any():
            whole, kept = steps.level[in_bin[0]], thin.level[in_bin[1]]
            assert (whole.min(), whole.max()) == (kept.min(), kept.max())


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), cores), min_size=1, max_size=40),
    st.sampled_from([1.0, 4.0, 6.0, 64.0]),
)
def test_packed_tasks_do_not_overlap_and_have_all_their_cores(
    rows: list[tuple[int, int, float]], capacity: float
) -> None:
    tasks = [(float(start), float(start + length), size) for start, length, size in rows]
    found = dict(pack_boxes(tasks, capacity))
    assert sorted(found) == list(range(len(tasks)))
    for number, spans in found.items():
        assert sum(high - low for low, high in spans) == pytest.approx(tasks[number][2])
    for one in found:
        for other in range(one):
            (a, b, _), (c, d, _) = tasks[one], tasks[other]
            if max(a, c) < min(b, d):
                for low, high in found[one]:
                    assert all(high <= x or y <= low for x, y in found[other])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 4)), max_size=40))
def test_nothing_is_packed_above_the_capacity_that_is_needed(
    rows: list[tuple[int, int, int]],
) -> None:
    tasks = [(float(start), float(start + length), float(size)) for start, length, size in rows]
    peak = max(
        (sum(c for a, b, c in tasks if a <= t < b) for t, _, _ in tasks), default=0.0
    )  # fmt: skip
    assert all(high <= peak for _, spans in pack_boxes(tasks, peak) for _, high in spans)
