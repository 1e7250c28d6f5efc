"""Tables of a study over executions: errors, weights, differences; by hand and by a slow twin."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.exploration import ExecutionDesign, ExecutionStudy
from twinloop.exploration.executions.measurements import MeasuredResults
from twinloop.exploration.executions.plan import ExecutionRun, RecordedExecution

#: A value of each metric, simulated or measured.
Values = Mapping[str, float]
SETS = ("best", "predictions")
CELL = {"platform": "p", "application": "a"}


def make_study(
    executions: Mapping[str, Mapping[str, str]],
    measured: Mapping[str, Values],
    simulated: Mapping[tuple[str, str], Values],
    factors: Mapping[str, Any] | None = None,
) -> ExecutionStudy:
    """Make a study with these results, without any simulation.

    Args:
        executions: The labels of each execution.
        measured: The measured values of each execution.
        simulated: The simulated values of executions and sets; the other runs have not ended.
        factors: The factors; by default both sets.
    """
    design = ExecutionDesign.from_dict(dict(factors or {"run": "executions", "inject": list(SETS)}))
    recorded = tuple(RecordedExecution(name, name, labels) for name, labels in executions.items())
    runs = tuple(
        ExecutionRun(number, index, f"{each.name} {chosen.name}")
        for number, each in enumerate(recorded)
        for index, chosen in enumerate(design.sets())
    )
    results: dict[str, dict[str, Any]] = {
        f"{name} {chosen}": {"kpis": dict(values), "seconds": 0.0, "error": None}
        for (name, chosen), values in simulated.items()
    }
    given_values = {name: dict(values) for name, values in measured.items()}
    return ExecutionStudy(
        design, recorded, design.sets(), runs, results, MeasuredResults(given_values)
    )


def get(table: pl.DataFrame, column: str, **where: str) -> Any:
    """Return the value of one row."""
    (value,) = table.filter(**where)[column]
    return value


# --- by hand ---------------------------------------------------------------------------------


def make_small_study() -> ExecutionStudy:
    """Three executions in two cells: the errors of the makespan are 0.5, 0, 0.04; 0.25, 0.1, -."""
    cells = {"x": CELL, "y": CELL, "z": {"platform": "q", "application": "a"}}
    makespans = {
        ("x", "best"): 150.0, ("y", "best"): 200.0, ("z", "best"): 48.0,
        ("x", "predictions"): 75.0, ("y", "predictions"): 220.0,
    }  # fmt: skip
    return make_study(
        cells,
        {name: {"makespan_s": value} for name, value in (("x", 100.0), ("y", 200.0), ("z", 50.0))},
        {key: {"makespan_s": value, "schederror": 0.5} for key, value in makespans.items()},
    )


def test_errors_and_unweighted_statistics_by_hand() -> None:
    study = make_small_study()
    assert study.runs["makespan_error"].to_list() == pytest.approx([0.5, 0.25, 0.0, 0.1, 0.04])
    assert study.runs["mode"].to_list() == ["replay", "predict", "replay", "predict", "replay"]
    names = ["executions", "min", "mean", "median", "max"]
    rows = study.statistics.filter(set="best", metric="makespan").select("cell", *names).rows()
    assert [row[0] for row in rows] == ["all", "p / a", "q / a"]
    assert rows[0][1:] == pytest.approx((3, 0.0, 0.18, 0.04, 0.5))
    assert rows[1][1:] == pytest.approx((2, 0.0, 0.25, 0.25, 0.5))
    assert rows[2][1:] == pytest.approx((1, 0.04, 0.04, 0.04, 0.04))
    assert study.metrics == ("makespan", "schederror")


def test_frequencies_give_each_cell_the_same_weight() -> None:
    frequencies = make_small_study().frequencies
    where = {"set": "best", "metric": "makespan"}
    # y weighs 1/4 and z weighs 1/2, although they are two of three executions.
    assert get(frequencies, "under_0.05", cell="all", **where) == 0.75
    assert get(frequencies, "over_0.30", cell="all", **where) == 0.25
    assert get(frequencies, "under_0.05_count", cell="all", **where) == 2
    assert get(frequencies, "under_0.05", cell="p / a", **where) == 0.5


@pytest.mark.parametrize(
    ("error", "low"),
    [(0.0, 0.0), (0.0499, 0.0), (0.05, 0.05), (0.15, 0.15), (0.3, 0.3), (1.0, 1.0), (7.5, 1.0)],
)
def test_intervals_of_the_histogram_are_closed_on_the_left(error: float, low: float) -> None:
    study = make_study({"x": {}}, {}, {("x", "best"): {"schederror": error}})
    found = study.histogram.filter(pl.col("executions") > 0)
    assert found["from"].to_list() == [low]
    assert found["share"].to_list() == [1.0]
    assert study.histogram["to"].null_count() == 1


def test_delta_and_paired_differences_by_hand() -> None:
    """z was not predicted: it counts in delta, the difference of the statistics, not in pairs."""
    table = make_small_study().differences.filter(metric="makespan")
    assert get(table, "delta_mean", cell="all") == pytest.approx(0.175 - 0.18)
    assert get(table, "delta_median", cell="all") == pytest.approx(0.175 - 0.04)
    assert get(table, "delta_max", cell="all") == pytest.approx(0.25 - 0.5)
    # Per execution: 0.25 - 0.5 and 0.1 - 0.
    assert get(table, "executions", cell="all") == 2
    assert get(table, "paired_mean", cell="all") == pytest.approx(-0.075)
    assert get(table, "paired_min", cell="all") == pytest.approx(-0.25)
    assert get(table, "paired_max", cell="all") == pytest.approx(0.1)
    assert set(table["set"]) == {"predictions"}
    assert set(table["mode"]) == {"predict"}


def test_the_noise_is_the_error_of_the_mean_of_the_other_repetitions() -> None:
    labels = {str(index): {**CELL, "repetition": str(index)} for index in range(3)}
    labels["alone"] = {**CELL, "strategy": "asap", "repetition": "0"}
    measured = {"0": 100.0, "1": 110.0, "2": 150.0, "alone": 10.0}
    study = make_study(
        labels,
        {name: {"makespan_s": value} for name, value in measured.items()},
        {(name, "best"): {"makespan_s": 1.0} for name in labels},
    )
    table = study.repetitions.filter(metric="makespan", cell="all")
    errors = [30 / 100, 15 / 110, 45 / 150]
    assert get(table, "executions") == 3
    assert get(table, "mean") == pytest.approx(sum(errors) / 3)
    assert get(table, "max") == pytest.approx(0.3)


def test_executions_without_labels_are_one_cell() -> None:
    study = make_study({"x": {}}, {"x": {"usage": 0.5}}, {("x", "best"): {"usage": 0.6}})
    assert study.statistics["cell"].to_list() == ["all"]
    assert study.repetitions.is_empty()
    assert study.cells == ()


def test_a_value_that_was_not_measured_has_no_error() -> None:
    study = make_study({"x": CELL}, {}, {("x", "best"): {"makespan_s": 9.0}})
    assert study.statistics.is_empty()
    assert study.differences.is_empty()
    assert study.histogram.is_empty()
    assert study.metrics == ()
    assert study.unmeasured == ("x",)
    assert "no execution" not in str(study)


def test_measured_values_of_the_table_take_precedence_over_the_trace() -> None:
    values = {"makespan_s": 90.0, "measured_makespan_s": 80.0, "measured_usage": 0.5, "usage": 0.5}
    study = make_study({"x": CELL}, {"x": {"makespan_s": 100.0}}, {("x", "best"): values})
    assert study.runs["makespan_error"].to_list() == pytest.approx([0.1])
    assert study.runs["usage_error"].to_list() == [0.0]


def test_a_factor_with_the_name_of_a_label_has_a_column_of_its_own() -> None:
    design = ExecutionDesign.from_dict(
        {"run": "executions", "inject": "best", "platform": ["2x4", "1x8"]}
    )
    runs = tuple(ExecutionRun(0, index, str(index)) for index in range(2))
    result = {"kpis": {}, "seconds": 0.0, "error": None}
    study = ExecutionStudy(
        design,
        (RecordedExecution("x", "x", CELL),),
        design.sets(),
        runs,
        {"0": result, "1": result},
    )
    assert study.runs["platform"].to_list() == ["p", "p"]
    assert study.runs["platform (factor)"].to_list() == ["2x4", "1x8"]
    assert study.runs["set"].to_list() == ["best, 2x4", "best, 1x8"]


def test_the_largest_errors_come_first() -> None:
    study = make_small_study()
    found = study.list_largest_errors(2)
    assert found.select("execution", "set").rows() == [("x", "best"), ("x", "predictions")]
    with pytest.raises(InputError, match="unknown metric 'cost'"):
        study.list_largest_errors(2, "cost")


# --- a slow twin -----------------------------------------------------------------------------


@st.composite
def draw_studies(draw: st.DrawFn) -> ExecutionStudy:
    names = [f"e{index}" for index in range(draw(st.integers(1, 8)))]
    labels = {
        name: {
            "platform": draw(st.sampled_from("pq")),
            "application": draw(st.sampled_from("ab")),
            "repetition": name,
        }
        for name in names
    }
    values = st.sampled_from([1.0, 2.0, 3.0, 19.0, 20.0, 21.0])
    measured = {name: {"makespan_s": draw(values)} for name in names if draw(st.booleans())}
    simulated = {
        (name, each): {"makespan_s": draw(values), "schederror": draw(st.floats(0, 1))}
        for name in names
        for each in SETS
        if draw(st.integers(0, 4))
    }
    return make_study(labels, measured, simulated)


def list_errors(study: ExecutionStudy, metric: str) -> dict[tuple[str, str], float]:
    """List the errors of a metric by execution and set, from the results alone."""
    errors = {}
    for run in study.planned_runs:
        if run.key in study.results:
            name, values = study.executions[run.execution].name, study.results[run.key]["kpis"]
            real = study.measured.values.get(name, {}).get("makespan_s")
            if metric == "schederror":
                errors[name, study.sets[run.set].name] = values[metric]
            elif real is not None:
                errors[name, study.sets[run.set].name] = abs(values["makespan_s"] - real) / real
    return errors


def list_cells(study: ExecutionStudy) -> dict[str, str]:
    return {
        each.name: f"{each.labels['platform']} / {each.labels['application']}"
        for each in study.executions
    }


@examples(100)
@given(draw_studies(), st.sampled_from(["makespan", "schederror"]))
def test_tables_equal_those_of_a_loop(study: ExecutionStudy, metric: str) -> None:
    errors, cells = list_errors(study, metric), list_cells(study)
    for each in SETS:
        mine = {name: error for (name, chosen), error in errors.items() if chosen == each}
        others = {name: error for (name, chosen), error in errors.items() if chosen == SETS[0]}
        used = {cells[name] for name in mine}
        where = {"set": each, "metric": metric}
        assert set(study.statistics.filter(**where)["cell"]) == used | ({"all"} if used else set())
        for cell in used | ({"all"} if used else set()):
            group = [name for name in mine if cell in ("all", cells[name])]
            values = [mine[name] for name in group]
            row = study.statistics.filter(cell=cell, **where).row(0, named=True)
            assert row["executions"] == len(values)
            assert row["min"] == min(values)
            assert row["max"] == max(values)
            assert row["mean"] == pytest.approx(statistics.fmean(values))
            assert row["median"] == pytest.approx(statistics.median(values))
            # The formula of the article: 1 / (cells x executions of the cell).
            share = 0.0
            for name in group:
                same = [other for other in group if cells[other] == cells[name]]
                share += (mine[name] < 0.05) / len(same) / len({cells[other] for other in group})
            row = study.frequencies.filter(cell=cell, **where).row(0, named=True)
            assert row["under_0.05"] == pytest.approx(share)
            bins = study.histogram.filter(cell=cell, **where)
            assert bins["executions"].sum() == len(values)
            assert bins["share"].sum() == pytest.approx(1.0)
            assert bins["share"][0] == pytest.approx(share)
            base = [others[name] for name in others if cell in ("all", cells[name])]
            if each != SETS[0] and base:
                row = study.differences.filter(cell=cell, **where).row(0, named=True)
                assert row["delta_mean"] == pytest.approx(
                    statistics.fmean(values) - statistics.fmean(base), abs=1e-12
                )
                pairs = [mine[name] - others[name] for name in group if name in others]
                assert row["executions"] == len(pairs)
                if pairs:
                    assert row["paired_median"] == pytest.approx(
                        statistics.median(pairs), abs=1e-12
                    )
