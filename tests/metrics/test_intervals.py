"""Laws of intervals of placements: each fast path equals the obvious way, bit by bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from twinloop.engine import simulate
from twinloop.metrics import figures
from twinloop.metrics.tasks import finite_column, reduce_groups, remove_infinite
from twinloop.metrics.weighted_intervals import (
    WeightedIntervals,
    cut_overlaps,
    find_machine_intervals,
    number_by_appearance,
    sort_by_machine,
    unite_overlaps,
)
from twinloop.scenario import Scenario
from twinloop.trace import Trace

TIMES = st.floats(0.0, 10.0) | st.integers(0, 5).map(float)
ROWS = st.lists(st.tuples(st.integers(0, 3), TIMES, TIMES), min_size=1, max_size=30)


def split(rows: list[tuple[int, float, float]]) -> tuple[Any, Any, Any]:
    machine, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return machine.astype(np.uint16), start, end


def as_lists(intervals: WeightedIntervals) -> list[list[float]]:
    return [part.tolist() for part in (intervals.start, intervals.end, intervals.weight)]


@given(ROWS, st.integers(1, 3))
def test_intervals_are_sorted_by_machine_and_start(
    rows: list[tuple[int, float, float]], copies: int
) -> None:
    machine, start, end = split([(row[0] + i, *row[1:]) for row in rows for i in range(copies)])
    order = np.lexsort((start, machine))
    found = sort_by_machine(machine, start, end)
    assert [part.tolist() for part in found] == [start[order].tolist(), end[order].tolist()]


@given(ROWS, st.booleans())
def test_overlaps_are_cut_only_where_there_are_some(
    rows: list[tuple[int, float, float]], apart: bool
) -> None:
    machine, start, end = split(rows)
    if apart:  # one second each, at different times
        start = np.arange(start.size, dtype=np.float64)
        end = start + 1.0
    start, end = sort_by_machine(machine, start, end)
    counts = np.bincount(machine)
    limits = np.cumsum(counts[counts > 0])
    assert as_lists(unite_overlaps(start, end, limits)) == as_lists(
        cut_overlaps(start, end, limits)
    )


@given(ROWS, TIMES, TIMES)
def test_an_area_is_clipped_only_where_it_must_be(
    rows: list[tuple[int, float, float]], begin: float, until: float
) -> None:
    weight, start, end = split(rows)
    intervals = WeightedIntervals.of(start, end, weight.astype(np.float64))
    for low, high in ((begin, until), (-math.inf, math.inf), (0.0, 10.0)):
        inside = np.minimum(intervals.end, high) - np.maximum(intervals.start, low)
        expected = float((np.maximum(inside, 0.0) * intervals.weight).sum())
        assert intervals.area(low, high) == expected


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.sampled_from([1, 1500]))
def test_machines_are_numbered_as_categories(values: list[int], repetitions: int) -> None:
    rows = np.repeat(np.array(values, dtype=np.uint16), repetitions)
    names = pl.Series([f"node-{row}" for row in rows])
    first = {name: number for number, name in enumerate(dict.fromkeys(names))}
    assert number_by_appearance(rows, 41).tolist() == [first[name] for name in names]


@given(st.lists(st.tuples(st.booleans(), TIMES), min_size=1, max_size=40), st.booleans())
def test_groups_are_reduced_as_by_numpy(rows: list[tuple[bool, float]], same: bool) -> None:
    first_rows = np.array([0, *(i for i, (new, _) in enumerate(rows) if new and i)])
    values = np.array([value for _, value in rows])
    if same:
        values = np.repeat(values[first_rows], np.diff(first_rows, append=len(rows)))
    for operation in (np.minimum, np.maximum):
        expected = operation.reduceat(values, first_rows).tolist()
        assert reduce_groups(operation, values, first_rows).tolist() == expected


@given(st.lists(st.none() | st.floats()))
def test_infinite_values_are_unknown(values: list[float | None]) -> None:
    column = pl.Series("x", values, dtype=pl.Float64)
    expected = column.to_frame().select(finite_column("x")).to_series()
    assert_series_equal(remove_infinite(column), expected, check_exact=True)


def simulate_tasks() -> Trace:
    """Simulate tasks of several machines, some of which share one."""
    parameters = {"tasks": 200, "machine": 24}
    return simulate(
        Scenario(
            platform="6x4",
            policy="easy",
            workload={"generate": {"name": "lublin", "parameters": parameters}},
        )
    )


def test_machines_are_found_by_row_as_by_name() -> None:
    trace = simulate_tasks()
    rows = trace.machine_rows
    assert rows is not None
    assert trace.nodes["node"].gather(rows.astype(np.int64)).equals(trace.placements["machine"])
    by_name = trace.replace(placements=trace.placements)
    assert by_name.machine_rows is None
    expected, found = find_machine_intervals(by_name), find_machine_intervals(trace)
    assert expected is not None
    assert found is not None
    assert as_lists(found) == as_lists(expected)
    assert figures(trace).to_dict() == figures(by_name).to_dict()


def test_rows_of_machines_are_kept_until_their_tables_change() -> None:
    trace = simulate_tasks()
    assert trace.replace(tasks=trace.tasks).machine_rows is trace.machine_rows
    assert trace.with_manifest(facts={}).machine_rows is trace.machine_rows
    assert trace.replace(nodes=trace.nodes).machine_rows is None
