"""The summary of a study as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinloop.description.safe_text import join_lines
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.text_tables import align_columns
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
            lines += format_table(
                ("configuration", first, second),
                [
                    (row["name"], f"{row[first]:.4g}", f"{row[second]:.4g}")
                    for row in front.head(MAX_SHOWN).iter_rows(named=True)
                ],
            )
        lines += _list_effects(study, kpi)
    return join_lines(lines)


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
    """List the share of the variance of each factor, and its lowest and highest level."""
    effects = study.effects(by)
    if effects.is_empty():
        return []
    rows = []
    for (factor,), levels in effects.group_by("factor", maintain_order=True):
        ordered = levels.sort("mean")
        ends = [f"{ordered['level'][at]} ({ordered['mean'][at]:.4g})" for at in (0, -1)]
        share = ordered["share"][0]
        rows.append((str(factor), "-" if share is None else f"{share:.0%}", *ends))
    head = f"Effects of the factors on {by} (share of the variance):"
    return ["", head, *format_table(("factor", "share", "lowest at", "highest at"), rows)]


def format_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table as lines, the first column left-aligned and the others right-aligned.

    >>> format_table(("policy", "wait"), [("easy", "12"), ("fifo", "3")])
    ['  policy  wait', '  easy      12', '  fifo       3']
    """
    return [f"  {line}" for line in align_columns((names, *rows), right=range(1, len(names)))]
