"""The study that is made of the results of its tasks: tables, noise floor, baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from twinloop.calibration.detail.crude_baseline import SCHEDULED, MeanRunTimes, simulate_baseline
from twinloop.calibration.detail.ideal_simulator import compute_ideal_error
from twinloop.calibration.detail.plan import DetailPlan, PlannedVersion
from twinloop.calibration.detail.study import DetailStudy
from twinloop.calibration.detail.study_execution import Result, SearchId, StudyResults
from twinloop.calibration.detail.study_tables import BASELINE, make_tables
from twinloop.calibration.detail.version_runs import TRAINING, VALIDATION, compare_runs

_Rows = list[dict[str, Any]]
#: The largest number of failed searches in the notes.
_MAX_NOTED: Final = 3


def make_study(
    plan: DetailPlan,
    versions: Mapping[int, PlannedVersion],
    results: StudyResults,
    folder: Path | None = None,
) -> DetailStudy:
    """Make the study of these results; its folder is only noted."""
    first = versions[min(versions)]
    tables = _list_rows(versions, results)
    baseline = _add_baseline(plan, first, tables["losses"])
    training, validation = first.runs.training, first.runs.validation
    ideal = (
        compute_ideal_error(plan.loss, training.cases)
        if validation is None
        else compute_ideal_error(plan.loss, validation.cases, training.cases)
    )
    return DetailStudy(
        factors=plan.levels.factors,
        versions=plan.levels.versions,
        parameters={number: each.space.names for number, each in versions.items()},
        skipped={number: each.skipped for number, each in versions.items()},
        **make_tables(tables),
        sentences={
            number: tuple(row.get("identifiability", {}).get("sentences", ()))
            for number, row in results.analyses.items()
        },
        settings={
            "loss": training.loss.name,
            "aggregation": training.aggregation,
            "optimiser": plan.optimiser,
            "budget": plan.budget.evaluations,
            "seeds": list(plan.seeds),
            "analysis": plan.analysis,
            "warm_start": plan.warm_start,
            "except": [dict(each) for each in plan.levels.exceptions],
            "parameters": _list_ranges(versions),
        },
        runs=tuple(_describe_runs(first)),
        ideal=None if ideal is None else ideal.to_dict(),
        baseline=baseline,
        notes=tuple(_list_notes(versions, results, tables["searches"])),
        folder=folder,
    )


def _list_rows(versions: Mapping[int, PlannedVersion], results: StudyResults) -> dict[str, _Rows]:
    """List the rows of all tables."""
    rows: dict[str, _Rows] = {
        name: [] for name in ("searches", "losses", "values", "identifiability", "history", "times")
    }
    for values, found in results.searches.items():
        for key, row in found.items():
            losses = results.evaluations[values].get(key, {})
            common = _describe_search(versions, values, key)
            rows["searches"].append(_make_search_row(common, row, losses))
            rows["values"] += _list_values(common, row)
            rows["history"] += _list_history(common, row)
            if row.get("error") is None:
                seconds = versions[key[0]].runs.measure_seconds(row["values"])
                rows["times"].append(common | {"search_s": row["seconds"], "run_s": seconds})
    for values, evaluations in results.evaluations.items():
        for key, losses in evaluations.items():
            common = _describe_search(versions, values, key)
            rows["losses"] += [common | each for each in losses.get("runs", ())]
    for number, row in results.analyses.items():
        rows["identifiability"] += _list_parameters(versions[number], row)
    return rows


def _describe_search(
    versions: Mapping[int, PlannedVersion], values: str, key: SearchId
) -> dict[str, Any]:
    number, seed = key
    name = versions[number].version.name
    return {"version": number, "name": name, "values": values, "seed": seed}


def _make_search_row(common: dict[str, Any], row: Result, losses: Result) -> dict[str, Any]:
    return common | {
        "optimiser": row.get("optimiser"),
        "evaluations": row.get("evaluations"),
        "failed": row.get("failed"),
        "training_loss": losses.get(TRAINING),
        "validation_loss": losses.get(VALIDATION),
        "error": row.get("error") or losses.get("error"),
    }


def _list_values(common: dict[str, Any], row: Result) -> Iterator[dict[str, Any]]:
    for name, value in (row.get("values") or {}).items():
        number = float(value) if isinstance(value, int | float) else None
        yield common | {"parameter": name, "value": str(value), "number": number}


def _list_history(common: dict[str, Any], row: Result) -> Iterator[dict[str, Any]]:
    losses = np.array(row.get("losses", ()), dtype=np.float64)
    if not len(losses):
        return
    best = np.fmin.accumulate(np.where(np.isfinite(losses), losses, np.nan))
    for place, each in enumerate(zip(losses.tolist(), best.tolist(), strict=True), start=1):
        loss, smallest = (known if np.isfinite(known) else None for known in each)
        yield common | {"evaluation": place, "loss": loss, "best": smallest}


def _list_parameters(version: PlannedVersion, row: Result) -> Iterator[dict[str, Any]]:
    """List the rows of the identifiability of a version."""
    found = {each["parameter"]: each for each in row.get("identifiability", {}).get("table", ())}
    without = row.get("no_effect")
    for name in version.space.names:
        yield {
            "version": version.version.number,
            "name": version.version.name,
            "parameter": name,
            "effect": None if without is None else name not in without,
            **found.get(name, {}),
        }


def _list_notes(
    versions: Mapping[int, PlannedVersion], results: StudyResults, searches: _Rows
) -> Iterator[str]:
    failed = [row for row in searches if row["error"] is not None]
    for row in failed[:_MAX_NOTED]:
        yield f"{row['name']}, seed {row['seed']}: {row['error']}"
    if len(failed) > _MAX_NOTED:
        yield f"{len(failed) - _MAX_NOTED:,} further searches failed: see searches.csv"
    for number, result in results.analyses.items():
        if result.get("error") is not None:
            yield f"{versions[number].version.name}: not analysed: {result['error']}"


def _list_ranges(versions: Mapping[int, PlannedVersion]) -> dict[str, Any]:
    ranges: dict[str, Any] = {}
    for each in versions.values():
        ranges = each.space.to_dict()["parameters"] | ranges
    return ranges


def _list_cases(version: PlannedVersion) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """List the cases of a version: how their runs are used, the case, and the names of its runs."""
    for used, objective in (
        (TRAINING, version.runs.training),
        (VALIDATION, version.runs.validation),
    ):
        if objective is not None:
            for case, names in zip(objective.cases, version.runs.names[used], strict=True):
                yield used, case, names


def _describe_runs(version: PlannedVersion) -> Iterator[dict[str, Any]]:
    for used, case, names in _list_cases(version):
        for name in names:
            yield {
                "name": name,
                "used": used,
                "workload": case.name,
                "mode": case.mode,
                "tasks": len(case.compiled.arrays),
                "injected": list(case.compiled.injected),
            }


def _add_baseline(plan: DetailPlan, version: PlannedVersion, rows: _Rows) -> dict[str, Any] | None:
    """Add the losses of the crude baseline; return its mean loss and what its run times are of.

    None if the loss compares what a schedule does not have, or no run time is known.
    """
    means = MeanRunTimes.of(version.runs.training.cases)
    if not plan.loss.needs <= SCHEDULED or not np.isfinite(means.overall):
        return None
    losses: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for used, case, names in _list_cases(version):
        times, sources = means.predict(case)
        for source, count in sources.items():
            counts[source] = counts.get(source, 0) + count
        twin = simulate_baseline(case, times, plan.count_cores(case))
        for run, workload, loss in compare_runs(plan.loss, case, names, twin):
            losses.setdefault(used, []).append(loss)
            common = {"values": BASELINE, "run": run, "workload": workload, "used": used}
            rows.append(common | {"loss": loss})
    compared = losses.get(VALIDATION) or losses[TRAINING]
    return {"loss": float(np.mean(compared)), "run_times_by": counts}
