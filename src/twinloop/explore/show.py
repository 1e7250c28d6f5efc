"""A study in words, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinloop.metrics import FIGURES
from twinloop.trace.trace import counted

if TYPE_CHECKING:
    from twinloop.explore.study import Study

#: How many of the best are shown.
SHOWN = 10


def study_text(study: Study, by: str = "makespan_s", top: int = SHOWN) -> str:
    """What was run, what came out best, and what cannot be told apart."""
    lines = [_state(study)]
    if study.failed:
        failed = study.runs.filter(study.runs["error"].is_not_null())
        lines += [f"  failed: {said}" for said in failed["error"].unique(maintain_order=True)[:3]]
    if by in study.kpis:
        lines += ["", str(study.rank(by)[:top])]
        front = study.pareto()
        first, second = study.objectives
        if front.height > 1:
            lines += ["", f"Neither beaten in {_name(first)} and {_name(second)} at once:"]
            lines += table(
                ("configuration", _name(first), _name(second)),
                [
                    (row["name"], f"{row[first]:.4g}", f"{row[second]:.4g}")
                    for row in front.head(SHOWN).iter_rows(named=True)
                ],
            )
        lines += _factors(study, by)
    return "\n".join(lines)


def _state(study: Study) -> str:
    said = (
        f"{counted(len(study.planned_configurations), 'configuration')} of "
        f"{', '.join(study.factors)}: {study.done:,} of {study.planned:,} runs done"
    )
    if study.failed:
        said += f", {study.failed:,} of them failed"
    if study.repeated:
        said += f"; {study.repeated:,} are the same as others and were made once"
    return said


def _factors(study: Study, by: str) -> list[str]:
    """How much of the differences each factor makes."""
    effects = study.effects(by)
    if effects.is_empty() or study.done < 3:
        return []
    shares = effects.group_by("factor", maintain_order=True).agg(share=effects["share"].first())
    return []if shares.is_empty() else ["", f"What makes the difference in {_name(by)}:"] + table(
        ("factor", "share", "best level", "worst level"),
        [
            (row["factor"], "-" if row["share"] is None else f"{row['share']:.0%}", *_ends(study, row["factor"], by))
            for row in shares.iter_rows(named=True)
        ],
    )


def _ends(study: Study, factor: str, by: str) -> tuple[str, str]:
    ordered = study.effects(by).filter(factor=factor).sort("mean")
    ends = [f"{ordered['level'][at]} ({ordered['mean'][at]:.4g})" for at in (0, -1)]
    return ends[0], ends[1]


def _name(kpi: str) -> str:
    return FIGURES[kpi].meaning


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with its columns below each other, the first to the left.

    >>> table(("policy", "wait"), [("easy", "12"), ("fifo", "3")])
    ['  policy  wait', '  easy      12', '  fifo       3']
    """
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (names, *rows)
    ]
