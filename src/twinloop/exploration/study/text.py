"""The summary of a study as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from twinloop.description.safe_text import join_lines
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.study.effects import INACTIVE
from twinloop.exploration.study.intervals import PREDICTION_LEVEL
from twinloop.exploration.text_tables import align_columns, format_figure
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.study.study import Study

#: Maximum number of configurations in a table.
MAX_SHOWN = 10


def study_to_text(study: Study, top: int = MAX_SHOWN) -> str:
    """Format the progress, the ranking, the Pareto front and the effects of a study."""
    lines, by = [_describe_progress(study)], study.by
    if study.failed:
        lines += [f"  failed: {error}" for error in study.errors[:3]]
    lines += [f"  note: {note}" for note in study.notes]
    kpi = Objective.of(by).kpi
    if kpi in study.kpis and study.failed < study.done:
        lines += ["", *str(study.rank(by)[:top]).split("\n")]
        front = study.pareto()
        first, second = (Objective.of(each).kpi for each in study.objectives)
        if front.height > 1:
            lines += ["", f"Pareto front of {first} and {second}:"]
            lines += _list_front(study, front.head(MAX_SHOWN), (first, second))
        lines += _list_effects(study, kpi)
    return join_lines(lines)


def _list_front(study: Study, front: pl.DataFrame, kpis: Sequence[str]) -> list[str]:
    """List the means of a front, with the prediction intervals if there are enough runs."""
    intervals = study.intervals(*kpis).drop_nulls("low")
    limits = {
        (row["configuration"], row["kpi"]): (
            f"{format_figure(row['low'])} to {format_figure(row['high'])}"
        )
        for row in intervals.iter_rows(named=True)
    }
    titles = ["configuration"]
    for kpi in kpis:
        titles += [kpi, *([f"{100 * PREDICTION_LEVEL:g} % of runs"] if limits else [])]
    rows = []
    for row in front.iter_rows(named=True):
        cells = [row["name"]]
        for kpi in kpis:
            limit = limits.get((row["configuration"], kpi), "-")
            cells += [format_figure(row[kpi]), *([limit] if limits else [])]
        rows.append(cells)
    return format_table(titles, rows)


def _describe_progress(study: Study) -> str:
    text = (
        f"{format_count(len(study.planned_configurations), 'configuration')} of "
        f"{', '.join(study.factors)}: {study.done:,} of {study.planned:,} runs done"
    )
    if study.failed:
        text += f", {study.failed:,} of them failed"
    if study.repeated:
        text += f"; {study.repeated:,} are identical to others and were simulated once"
    return text


def _list_effects(study: Study, by: str) -> list[str]:
    """List the share of the variance of each factor, and its lowest and highest level.

    A level with fewer completed tasks is neither: less work improves most figures.
    """
    effects = study.effects(by)
    if effects.is_empty():
        return []
    rows, fewer = [], []
    for (factor,), levels in effects.group_by("factor", maintain_order=True):
        ordered = levels.filter(~pl.col("fewer_tasks")).sort("mean")
        ends = [_format_level(*ordered.select("level", "mean").row(at)) for at in (0, -1)]
        fewer += [
            f"{factor} {_format_level(*row)}"
            for row in levels.filter("fewer_tasks").select("level", "mean").rows()
        ]
        share = ordered["share"][0]
        rows.append((str(factor), "-" if share is None else f"{share:.0%}", *ends))
    head = f"Effects of the factors on {by} (share of the variance):"
    table = format_table(("factor", "share", "lowest at", "highest at"), rows)
    return ["", head, *table, *([f"  fewer tasks: {', '.join(fewer)}"] if fewer else [])]


def _format_level(level: str, mean: float) -> str:
    name = "not active" if level == INACTIVE else level
    return f"{name} ({format_figure(mean)})"


def format_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table as lines, the first column left-aligned and the others right-aligned.

    >>> format_table(("policy", "wait"), [("easy", "12"), ("fifo", "3")])
    ['  policy  wait', '  easy      12', '  fifo       3']
    """
    return [f"  {line}" for line in align_columns((names, *rows), right=range(1, len(names)))]
