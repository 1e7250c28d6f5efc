"""Columns in, finish times out: the same bits as the object API, and errors that name the row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import ColumnRun, Environment, StalledError, run_columns

from .programs import KINDS, WEIGHTS, WORKS, instants

TABLES = [None, {0: [1.0, 0.5]}, {0: [1.0, 1.0, 0.75], 1: [0.9, 0.8, 0.7, 0.25], 2: [1.25]}]


@dataclass(frozen=True)
class Columns:
    rows: list[tuple[float, float, list[int], float, float, int]]
    capacity: list[float]
    efficiency: dict[int, list[float]] | None
    given: frozenset[str]  # which of the optional columns are passed at all

    def run(self) -> ColumnRun:
        start, work, paths, limit, weight, kind = zip(*self.rows, strict=True)
        width = max(map(len, paths))
        resource: Any = np.array([p + [-1] * (width - len(p)) for p in paths])
        optional = {
            "limit": np.array(limit),
            "weight": np.array(weight),
            "kind": np.array(kind),
        }
        return run_columns(
            np.array(start),
            np.array(work),
            capacity=np.array(self.capacity),
            resource=resource if width > 1 else resource[:, 0],
            efficiency=self.efficiency,
            **{name: column for name, column in optional.items() if name in self.given},
        )

    def run_as_objects(self) -> tuple[list[float | None], int]:
        env = Environment()
        resources = [env.resource(c, efficiency=self.efficiency) for c in self.capacity]
        activities = []
        for start, work, path, limit, weight, kind in self.rows:
            values = {"limit": limit, "weight": weight, "kind": kind}
            options = {name: value for name, value in values.items() if name in self.given}
            if len(path) == 1:
                activity = resources[path[0]].execute(work, at=start, **options)
            else:
                activity = env.start(work, [resources[i] for i in path], at=start, **options)
            activities.append(activity)
        env.run()
        return [a.finished for a in activities], env.events


@st.composite
def columns(draw: st.DrawFn, longest_path: int = 3) -> Columns:
    capacity = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 10.0]), min_size=1, max_size=6))
    path = st.lists(
        st.integers(0, len(capacity) - 1), min_size=1, max_size=longest_path, unique=True
    )
    row = st.tuples(
        st.one_of(instants(0, 40), st.floats(0, 20)),
        st.one_of(st.sampled_from(WORKS), st.floats(0, 50)),
        path,
        st.sampled_from([inf, inf, 0.1, 0.5, 1.0, 1.0, 2.0]),
        st.sampled_from(WEIGHTS),
        st.integers(0, KINDS - 1),
    )
    size = draw(st.sampled_from([1, 10, 40]))
    rows = draw(st.lists(row, min_size=size, max_size=60))
    optional = st.frozensets(st.sampled_from(["limit", "weight", "kind"]))
    return Columns(rows, capacity, draw(st.sampled_from(TABLES)), draw(optional))


@given(columns(longest_path=1))
def test_results_and_event_count_equal_those_of_activities(case: Columns) -> None:
    run = case.run()
    assert (run.finish.tolist(), run.events) == case.run_as_objects()


@given(columns())
def test_results_and_event_count_equal_those_of_flows(case: Columns) -> None:
    run = case.run()
    assert (run.finish.tolist(), run.events) == case.run_as_objects()


def test_a_column_of_resources_may_have_one_flow_wide_rows() -> None:
    flat = run_columns([0.0, 0.0], [1.0, 2.0], capacity=[1.0, 2.0], resource=[0, 1])
    wide = run_columns([0.0, 0.0], [1.0, 2.0], capacity=[1.0, 2.0], resource=[[0], [1]])
    padded = run_columns([0.0, 0.0], [1.0, 2.0], capacity=[1.0, 2.0], resource=[[0, -1], [1, -1]])
    assert flat.finish.tolist() == wide.finish.tolist() == padded.finish.tolist() == [1.0, 1.0]


def test_one_resource_is_the_default() -> None:
    assert run_columns([0.0, 0.0], [10.0, 20.0]).finish.tolist() == [20.0, 30.0]
    assert run_columns([0.0, 0.0], [10.0, 20.0], capacity=10.0).finish.tolist() == [2.0, 3.0]


def test_no_rows_no_events() -> None:
    run = run_columns([], [])
    assert (len(run.finish), run.events) == (0, 0)


def many(seed: int, rows: int = 3000, resources: int = 20) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "start": rng.uniform(0, 10, rows),
        "work": rng.uniform(1, 9, rows),
        "capacity": rng.uniform(1, 4, resources),
        "resource": rng.integers(0, resources, rows),
        "limit": rng.choice([inf, 0.1, 0.2, 0.5], rows),
        "weight": rng.choice([0.5, 1.0, 2.0], rows),
        "kind": rng.integers(0, KINDS, rows),
        "efficiency": TABLES[2],
    }


def test_two_threads_at_once_give_the_bits_of_one() -> None:
    cases = [many(seed) for seed in (1, 2, 1, 2)]
    alone = [run_columns(**case) for case in cases[:2]] * 2
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda case: run_columns(**case), cases))
    for one, other in zip(alone, together, strict=True):
        assert one.finish.tobytes() == other.finish.tobytes()
        assert one.events == other.events


def test_a_recording_does_not_change_results_and_adds_up_to_the_work() -> None:
    case = many(3, rows=300, resources=3) | {"efficiency": None}
    plain, recorded = run_columns(**case), run_columns(**case, record=True)
    assert plain.finish.tobytes() == recorded.finish.tobytes()
    assert plain.events == recorded.events
    columns = recorded.rates
    for resource in range(3):
        mine = columns["resource"] == resource
        times, rates = columns["t"][mine], columns["rate"][mine]
        assert np.all(np.diff(times) >= 0)
        assert rates[-1] == pytest.approx(0, abs=1e-9)
        work = case["work"][case["resource"] == resource].sum()
        assert np.sum(rates[:-1] * np.diff(times)) == pytest.approx(work, rel=1e-9)


# Errors

ROWS = 13
BAD_ROW = 11


def good() -> dict[str, Any]:
    return {
        "start": np.zeros(ROWS),
        "work": np.ones(ROWS),
        "limit": np.ones(ROWS),
        "weight": np.ones(ROWS),
        "kind": np.zeros(ROWS, dtype=np.int64),
        "resource": np.zeros(ROWS, dtype=np.int64),
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[(c, v) for c in ("start", "work") for v in (nan, inf, -inf, -1.0)],
        *[("limit", v) for v in (nan, -1.0)],
        *[("weight", v) for v in (nan, inf, -1.0, 0.0)],
        *[("resource", v) for v in (1, -1, -2, 2**40)],
    ],
)
def test_a_bad_value_is_named_by_column_and_row(column: str, value: float) -> None:
    case = good()
    case[column][BAD_ROW] = value
    with pytest.raises(ValueError, match=rf"{column}.*\b{BAD_ROW}\b"):
        run_columns(**case)


@pytest.mark.parametrize("bad", [[1, 0], [-1, -1], [0, -2]])
def test_a_bad_resource_of_a_flow_is_named_by_its_row(bad: list[int]) -> None:
    case = good()
    case["resource"] = np.tile([0, -1], (ROWS, 1))
    case["resource"][BAD_ROW] = bad
    with pytest.raises(ValueError, match=rf"resource.*\b{BAD_ROW}\b"):
        run_columns(**case)


@pytest.mark.parametrize("value", [nan, inf, -1.0])
def test_a_bad_capacity_is_named_by_its_index(value: float) -> None:
    with pytest.raises(ValueError, match=r"capacity.*\b1\b"):
        run_columns([0.0], [1.0], capacity=[1.0, value], resource=[0])
    with pytest.raises(ValueError, match="capacity"):
        run_columns([0.0], [1.0], capacity=value)


@pytest.mark.parametrize("column", ["work", "limit", "weight", "kind", "resource"])
def test_a_column_of_the_wrong_length_is_named(column: str) -> None:
    case = good()
    case[column] = case[column][:-1]
    with pytest.raises(ValueError, match=column):
        run_columns(**case)


def test_rows_that_can_never_end_are_named() -> None:
    with pytest.raises(StalledError, match=r"\b1\b"):
        run_columns([0.0, 0.0], [1.0, 1.0], capacity=[1.0, 0.0], resource=[0, 1])
    with pytest.raises(StalledError, match=r"\b1\b"):
        run_columns([0.0, 0.0], [1.0, 1.0], limit=[1.0, 0.0])
