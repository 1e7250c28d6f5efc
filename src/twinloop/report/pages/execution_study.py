"""Page of a study over real executions: errors by set and cell, figures, largest errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.exploration.executions.tables import ALL_CELLS
from twinloop.exploration.executions.text import (
    list_coverage_rows,
    list_error_rows,
    list_noise_rows,
)
from twinloop.report.figures.execution_errors import plot_execution_errors
from twinloop.report.pages.fragments import (
    render_answer,
    render_cards,
    render_details,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_count, format_duration, format_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from twinloop.exploration.executions.study import ExecutionStudy

#: Maximum number of failed runs, and of runs with large errors, that are listed.
MAX_FAILED: Final = 50
MAX_LARGE: Final = 20

_DEFINITIONS: Final = (
    ("absolute error", "|simulated - measured| / measured, of one execution"),
    ("uptime", "sum over the instances of the time from their request to their stop"),
    ("usage", "sum of the wall times of the tasks / uptime"),
    ("schederror", "share of the tasks on another instance than in the execution"),
    ("replay", "a simulation with measured data of the execution: what is injected is named"),
    ("predict", "a simulation without measured data of the execution"),
    ("fit", "models of boots and run times that are fitted to other executions alone"),
    ("delta", "difference of a statistic between two sets, each over all its executions"),
    ("Delta", "statistic of the differences per execution, over the executions in both sets"),
    ("cell", "the executions with the same labels, such as a platform and an application"),
)
_GUIDES: Final = {
    "frequencies": "High bars on the left are small errors.",
    "cells": "Cells with high bars on the left are simulated well.",
    "distributions": "A curve further to the left has smaller errors.",
    "changes": "Executions to the right of zero have a larger error than in the first set.",
    "comparison": "Points on the dotted line are simulated exactly.",
}
_HEIGHTS: Final = {"comparison": 520}


def write_execution_study_page(
    study: ExecutionStudy, path: str | Path, *, title: str | None = None
) -> Path:
    """Write a study over real executions as one HTML file: tables and figures of the errors.

    Args:
        study: A study, which may still be running.
        path: The file to write; an existing file is replaced.
        title: The heading.
    """
    page = Page(
        "Study over real executions" if title is None else title,
        above=f"{format_count(len(study.executions), 'execution')}, each simulated with "
        f"{format_count(len(study.sets), 'set')} of injected data",
    )
    page.add(
        render_answer(describe_errors(study)),
        render_cards(_list_key_figures(study)),
        *map(render_note, study.notes),
    )
    _add_sets(page, study)
    for each in study.sets:
        _add_errors(page, study, each.name)
    _add_baseline(page, study)
    _add_differences(page, study)
    for name, figure in plot_execution_errors(study).items():
        kind = name.partition("-")[0]
        page.add_figure(name, figure, _HEIGHTS.get(kind, 400), guide=_GUIDES[kind])
    _add_large_errors(page, study)
    _add_failed(page, study)
    page.define_terms(_DEFINITIONS)
    return page.write(path)


def describe_errors(study: ExecutionStudy) -> list[str]:
    """Describe the errors of the makespan in each set, with its mode, in a sentence each."""
    sentences = []
    rows = study.statistics.filter((pl.col("cell") == ALL_CELLS) & (pl.col("metric") == "makespan"))
    by_set = {row["set"]: row for row in rows.iter_rows(named=True)}
    for each in study.sets:
        if each.name in by_set:
            row = by_set[each.name]
            sentences.append(
                f"{each.name} ({each.mode}): the absolute error of the makespan is "
                f"{row['mean']:.3f} in the mean, {row['median']:.3f} in the median and at most "
                f"{row['max']:.3f}, over {format_count(row['executions'], 'execution')}."
            )
            sentences += _describe_coverage(study, each.name)
    if not sentences:
        sentences.append("There are no errors, because no execution with a result was measured.")
    if not study.complete:
        sentences.append(
            f"The study is not complete: {study.done:,} of {study.planned:,} runs are done."
        )
    return sentences


def _describe_coverage(study: ExecutionStudy, name: str) -> Iterator[str]:
    """Describe the coverage of the intervals of the makespan in a set that has intervals."""
    rows = study.coverage.filter(
        (pl.col("set") == name) & (pl.col("cell") == ALL_CELLS) & (pl.col("value") == "makespan_s")
    )
    for row in rows.iter_rows(named=True):
        yield (
            f"{100 * row['share']:.0f} % of the measured makespans lie within the 90 % intervals "
            f"of {name}."
        )


def _list_key_figures(study: ExecutionStudy) -> Iterator[tuple[str, str]]:
    yield "executions", f"{len(study.executions):,}"
    yield "sets", f"{len(study.sets):,}"
    yield "runs", f"{study.done:,}" if study.complete else f"{study.done:,} of {study.planned:,}"
    yield "failed runs", f"{study.failed:,}"
    yield "not measured", f"{len(study.unmeasured):,}"
    yield "total run time", format_duration(float(study.runs["seconds"].sum()))


def _add_sets(page: Page, study: ExecutionStudy) -> None:
    runs = study.runs.group_by("set", maintain_order=True).agg(
        pl.len(), pl.col("error").is_not_null().sum().alias("failed")
    )
    counts = {row["set"]: row for row in runs.iter_rows(named=True)}
    rows = [
        (
            each.name, each.mode, ", ".join(each.keys) or "nothing",
            ", ".join(each.fitted) or "nothing",
            f"{counts[each.name]['len']:,}" if each.name in counts else "0",
            f"{counts[each.name]['failed']:,}" if each.name in counts else "0",
        )
        for each in study.sets
    ]  # fmt: skip
    names = ("set", "mode", "injected", "fitted to others", "runs", "failed")
    page.add_section("Sets of simulations", render_table(names, rows, numbers=names[4:]))


def _add_errors(page: Page, study: ExecutionStudy, name: str) -> None:
    """Add the statistics and the frequencies of the errors of a set, by cell."""
    statistics = study.statistics.filter(pl.col("set") == name)
    if not statistics.height:
        return
    each = next(each for each in study.sets if each.name == name)
    frequencies = study.frequencies.filter(pl.col("set") == name)
    page.add_section(
        f"Errors: {name}",
        render_paragraph(f"{each.description[0].upper()}{each.description[1:]}."),
        _render_statistics(study, statistics, more=list_noise_rows(study)),
        *_render_coverage(study, name),
        render_heading("Frequencies"),
        _render_frequencies(frequencies.filter(pl.col("cell") == ALL_CELLS)),
        render_details("by cell", _render_frequencies(frequencies)),
        render_note(
            "in the frequencies each cell has the same weight; numbers of executions in brackets"
        ),
    )  # fmt: skip


def _render_statistics(
    study: ExecutionStudy,
    statistics: pl.DataFrame,
    prefix: str = "",
    more: Sequence[Sequence[str]] = (),
) -> Markup:
    """Render a table with a row per cell: mean, median and maximum of each metric."""
    names = ("cell", "executions", *(f"{each}: mean / median / max" for each in study.metrics))
    rows = [*list_error_rows(statistics, study.metrics, prefix), *more]
    return render_table(names, rows, numbers=names[1:])


def _render_coverage(study: ExecutionStudy, name: str) -> Iterator[Markup]:
    """Render how many measured values lie in their predicted intervals; nothing without these."""
    header, rows = list_coverage_rows(study, name)
    if rows:
        yield render_heading("Measured values within the predicted intervals")
        yield render_paragraph(
            "Each value was predicted with an interval that contains it in 90 % of the cases if "
            "the fitted models are right. A cell has the share of the measured values in their "
            "interval, and the median width of the intervals, relative to the measured values."
        )
        yield render_table(header, rows, numbers=header[1:])


def _render_frequencies(frequencies: pl.DataFrame) -> Markup:
    limits = {"under_0.05": "under 0.05", "under_0.10": "under 0.10", "over_0.30": "over 0.30"}
    rows = [
        (
            row["cell"],
            row["metric"],
            f"{row['executions']:,}",
            *(f"{100 * row[limit]:.1f} % ({row[f'{limit}_count']:,})" for limit in limits),
        )
        for row in frequencies.iter_rows(named=True)
    ]
    names = ("cell", "metric", "executions", *limits.values())
    return render_table(names, rows, numbers=names[2:])


def _add_baseline(page: Page, study: ExecutionStudy) -> None:
    baseline = study.repetitions
    if not baseline.height:
        return
    page.add_section(
        "Baseline: other repetitions",
        render_paragraph(
            "Errors of the mean of the other repetitions of the same configuration as a "
            "prediction. It is the noise between repetitions; no simulation is involved."
        ),
        _render_statistics(study, baseline),
    )


def _add_differences(page: Page, study: ExecutionStudy) -> None:
    """Add the differences of each set to the first one: delta and Delta."""
    first = study.sets[0].name
    parts: list[Markup] = []
    for each in study.sets[1:]:
        rows = study.differences.filter(pl.col("set") == each.name)
        if rows.height:
            parts += [
                render_heading(f"{each.name} ({each.mode})"),
                render_paragraph("delta: differences of the statistics"),
                _render_statistics(study, rows, "delta_"),
                render_paragraph("Delta: statistics of the differences per execution"),
                _render_statistics(study, rows.drop_nulls("paired_mean"), "paired_"),
            ]
    if parts:
        page.add_section(f"Differences of the errors to {first}", *parts)


def _add_large_errors(page: Page, study: ExecutionStudy) -> None:
    """Add the runs with the largest errors of the makespan, for a close analysis."""
    errors = study.list_largest_errors(MAX_LARGE)
    if not errors.height:
        return
    names = ("execution", "set", "mode", "error", "simulated makespan (s)", "measured makespan (s)",
             "instances", "measured instances")  # fmt: skip
    rows = [
        (
            row["execution"], row["set"], row["mode"], f"{row['makespan_error']:.3f}",
            *(
                format_number(row[name])
                for name in ("makespan_s", "measured_makespan_s", "instances",
                             "measured_instances")
            ),
        )
        for row in errors.iter_rows(named=True)
    ]  # fmt: skip
    page.add_section(
        "Largest errors of the makespan",
        render_details(
            f"{format_count(errors.height, 'run')}", render_table(names, rows, numbers=names[3:])
        ),
        render_note("runs.csv in the folder of the study has all runs"),
    )


def _add_failed(page: Page, study: ExecutionStudy) -> None:
    """Add the runs that failed, grouped by their error."""
    if not study.failed:
        return
    failed = (
        study.runs.filter(pl.col("error").is_not_null())
        .group_by("error", maintain_order=True)
        .agg(pl.len(), pl.col("execution").unique(maintain_order=True))
    )
    rows = [
        (f"{row['len']:,}", row["error"], ", ".join(row["execution"][:3]))
        for row in failed[:MAX_FAILED].iter_rows(named=True)
    ]
    more = failed.height - len(rows)
    page.add_section(
        "Failed runs",
        render_paragraph("The errors exclude failed runs."),
        render_table(("runs", "reason", "first executions"), rows, numbers=("runs",)),
        render_list([f"{more:,} further reasons: see runs.csv"]) if more else "",
    )
