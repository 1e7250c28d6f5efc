"""The summary of a study over real executions as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.safe_text import join_lines
from twinloop.exploration.executions.observations import MEASURED_PREFIX
from twinloop.exploration.executions.tables import ALL_CELLS
from twinloop.exploration.text_tables import align_columns
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.executions.study import ExecutionStudy


#: The values whose intervals are listed, with their titles. At one price the bill is proportional
#: to the begun units.
_COVERED: Final = {
    "makespan_s": "makespan",
    "units": "begun units",
    "bill": "bill",
    "uptime_s": "uptime",
    "usage": "usage",
}


def execution_study_to_text(study: ExecutionStudy, top: int = 3) -> str:
    """Format the progress of a study, the errors of each set by cell, and the largest errors."""
    lines = [_describe_progress(study)]
    lines += [f"  failed: {error}" for error in study.errors[:3]]
    lines += [f"  note: {note}" for note in study.notes]
    for each in study.sets:
        rows = list_error_rows(study.statistics.filter(pl.col("set") == each.name), study.metrics)
        if rows:
            lines += ["", f"{each.name} ({each.description}): mean / median / largest error"]
            header = ["cell", "executions", *study.metrics]
            rows += list_noise_rows(study)
            lines += align_columns([header, *rows], right=range(1, len(header)))
            lines += _list_coverage(study, each.name)
    return join_lines([*lines, *_list_largest(study, top)])


def list_error_rows(
    statistics: pl.DataFrame, metrics: tuple[str, ...], prefix: str = ""
) -> list[list[str]]:
    """List a row per cell: the executions, and the mean, median and maximum of each metric.

    Args:
        statistics: Rows of one set, with a column for each statistic.
        metrics: The metrics, a column for each.
        prefix: The prefix of these columns; with one, the values are differences, with their sign.
    """
    rows = []
    for (cell,), group in statistics.group_by("cell", maintain_order=True):
        values = {row["metric"]: row for row in group.iter_rows(named=True)}
        count = max(row["executions"] or 0 for row in values.values())
        cells = (_format_statistics(values.get(metric), prefix) for metric in metrics)
        rows.append([str(cell), f"{count:,}", *cells])
    return rows


def list_noise_rows(study: ExecutionStudy) -> list[list[str]]:
    """List the row of the errors between repetitions, beside which errors of simulations stand."""
    baseline = study.repetitions.filter(pl.col("cell") == ALL_CELLS)
    rows = list_error_rows(baseline, study.metrics)
    return [["noise of repetitions", *row[1:]] for row in rows]


def _list_coverage(study: ExecutionStudy, name: str) -> list[str]:
    """List the lines of the coverage of the intervals of a set; none without intervals."""
    header, rows = list_coverage_rows(study, name)
    if not rows:
        return []
    table = align_columns([header, *rows], right=range(1, len(header)))
    return ["measured values within the predicted 90 % intervals, median relative width:", *table]


def list_coverage_rows(study: ExecutionStudy, name: str) -> tuple[list[str], list[list[str]]]:
    """List the header and a row per cell: the intervals of the values of a set.

    A cell has the share of the measured values in their interval, and the relative width.
    """
    coverage = study.coverage.filter(pl.col("set") == name)
    known = [value for value in _COVERED if value in set(coverage["value"])]
    rows = []
    for (cell,), group in coverage.group_by("cell", maintain_order=True):
        values = {row["value"]: row for row in group.iter_rows(named=True)}
        count = max(row["executions"] for row in values.values())
        rows.append([str(cell), f"{count:,}", *(_format_coverage(values.get(v)) for v in known)])
    return ["cell", "executions", *(_COVERED[value] for value in known)], rows


def _format_coverage(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{100 * row['share']:.0f} %, {row['width']:.2f}"


def _format_statistics(row: Mapping[str, Any] | None, prefix: str) -> str:
    if row is None or row[f"{prefix}mean"] is None:
        return "-"
    form = "+.3f" if prefix else ".3f"
    return " / ".join(format(row[f"{prefix}{name}"], form) for name in ("mean", "median", "max"))


def _list_largest(study: ExecutionStudy, top: int) -> list[str]:
    largest = study.list_largest_errors(top)
    if not largest.height:
        return []
    values = ("makespan_s", f"{MEASURED_PREFIX}makespan_s")
    rows = [
        [row["execution"], row["set"], row["mode"], f"{row['makespan_error']:.3f}",
         *(f"{row[name]:,.0f}" for name in values)]
        for row in largest.iter_rows(named=True)
    ]  # fmt: skip
    header = ["execution", "set", "mode", "error", "simulated (s)", "measured (s)"]
    table = align_columns([header, *rows], right=range(3, len(header)))
    return ["", "largest errors of the makespan", *table]


def _describe_progress(study: ExecutionStudy) -> str:
    text = (
        f"{format_count(len(study.executions), 'execution')} with "
        f"{format_count(len(study.sets), 'set')} of injected data: {study.done:,} of "
        f"{study.planned:,} runs done"
    )
    return text + (f", {study.failed:,} of them failed" if study.failed else "")
