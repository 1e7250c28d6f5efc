"""A study in words, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinloop.description.safe_text import join_lines
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.text_tables import align_columns
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.study.study import Study

#: How many of the best are shown.
SHOWN = 10


def study_to_text(study: Study, top: int = SHOWN) -> str:
    """What was run, what came out best, and what cannot be told apart."""
    lines, by = [_state(study)], study.by
    if study.failed:
        lines += [f"  failed: {said}" for said in study.errors[:3]]
    lines += [f"  note: {said}" for said in study.notes]
    kpi = Objective.of(by).kpi
    if kpi in study.kpis and study.failed < study.done:
        lines += ["", *str(study.rank(by)[:top]).split("\n")]
        front = study.pareto()
        first, second = (Objective.of(each).kpi for each in study.objectives)
        if front.height > 1:
            lines += ["", f"Not beaten in {first} and {second} at once:"]
            lines += format_table(
                ("configuration", first, second),
                [
                    (row["name"], f"{row[first]:.4g}", f"{row[second]:.4g}")
                    for row in front.head(SHOWN).iter_rows(named=True)
                ],
            )
        lines += _factors(study, kpi)
    return join_lines(lines)


def _state(study: Study) -> str:
    said = (
        f"{format_count(len(study.planned_configurations), 'configuration')} of "
        f"{', '.join(study.factors)}: {study.done:,} of {study.planned:,} runs done"
    )
    if study.failed:
        said += f", {study.failed:,} of them failed"
    if study.repeated:
        said += f"; {study.repeated:,} are the same as others and were made once"
    return said


def _factors(study: Study, by: str) -> list[str]:
    """How much of the differences each factor makes, and between which ends."""
    effects = study.effects(by)
    if effects.is_empty():
        return []
    rows = []
    for (factor,), levels in effects.group_by("factor", maintain_order=True):
        ordered = levels.sort("mean")
        ends = [f"{ordered['level'][at]} ({ordered['mean'][at]:.4g})" for at in (0, -1)]
        share = ordered["share"][0]
        rows.append((str(factor), "-" if share is None else f"{share:.0%}", *ends))
    head = f"What makes the difference in {by}:"
    return ["", head, *format_table(("factor", "share", "lowest at", "highest at"), rows)]


def format_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the first column to the left and all others to the right.

    >>> format_table(("policy", "wait"), [("easy", "12"), ("fifo", "3")])
    ['  policy  wait', '  easy      12', '  fifo       3']
    """
    return [f"  {line}" for line in align_columns((names, *rows), right=range(1, len(names)))]
