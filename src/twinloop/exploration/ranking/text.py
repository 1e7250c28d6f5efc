"""A ranking in words: at the prompt, and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from twinloop.description.safe_text import join_lines
from twinloop.exploration.text_tables import align_columns
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.ranking.candidate import Candidate
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking


def ranking_to_text(ranking: Ranking) -> str:
    """The table and what is to be said about it, for the prompt."""
    rows = [_titles(ranking), *_rows(ranking)]
    lines = align_columns(rows, right=(0, *range(2, len(rows[0]) - 1)))
    remarks = list(_remarks(ranking))
    return join_lines([_heading(ranking), "", *lines, *([""] if remarks else []), *remarks])


def ranking_to_html(ranking: Ranking) -> str:
    """The same as HTML."""

    def row(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row(cells, "td") for cells in _rows(ranking))
    remarks = "".join(f"<p>{escape(line)}</p>" for line in _remarks(ranking))
    return (
        f"<p>{escape(_heading(ranking))}</p><table><thead>{row(_titles(ranking), 'th')}</thead>"
        f"<tbody>{body}</tbody></table>{remarks}"
    )


def _heading(ranking: Ranking) -> str:
    first, baseline = ranking.objectives[0].kpi, ranking.baseline
    value = baseline.predicted.get(first, math.nan)
    than = f"{baseline.name}, {first} {_short(value)}"
    return f"{format_count(len(ranking), 'candidate')} {ranking.how}; the baseline is {than}"


def _titles(ranking: Ranking) -> list[str]:
    units = [f"{each.kpi} ({each.unit})" if each.unit else each.kpi for each in ranking.objectives]
    score = ["score"] if ranking.weighted else []
    doubt = ["beats the next", "is the best"] if _doubted(ranking) else []
    return ["", "candidate", *units, "to baseline", *score, *doubt, "tie", ""]


def _doubted(ranking: Ranking) -> bool:
    """Whether anything is known of how sure the order is."""
    return any(place.probability is not None or place.best is not None for place in ranking.places)


def _rows(ranking: Ranking) -> Iterator[list[str]]:
    for place in ranking.places:
        candidate = place.candidate
        yield [
            str(place.rank),
            candidate.name,
            *(_short(candidate.predicted[each.kpi]) for each in ranking.objectives),
            _to_baseline(ranking, candidate),
            *(["" if place.score is None else f"{place.score:.3f}"] if ranking.weighted else []),
            *([_percent(place.probability), _percent(place.best)] if _doubted(ranking) else []),
            "" if place.tie is None else str(place.tie),
            ", ".join(_marks(place)),
        ]


def _marks(place: RankedCandidate) -> Iterator[str]:
    if place.fewer:
        yield "fewer tasks"
    if place.candidate.unsupported:
        yield "unsupported"


def _to_baseline(ranking: Ranking, candidate: Candidate) -> str:
    kpi = ranking.objectives[0].kpi
    than = ranking.baseline.predicted.get(kpi, math.nan)
    change = candidate.predicted[kpi] / than - 1.0 if than else math.nan
    return f"{100 * change:+.1f} %" if math.isfinite(change) else "-"


def _remarks(ranking: Ranking) -> Iterator[str]:
    yield from ranking.notes
    if left := ranking.left_out:
        named = ", ".join(each.name for each in left[:3])
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        yield f"Left out, as they have no value to be ranked by: {named}{more}."
    leaning: dict[str, list[str]] = {}
    for place in ranking.places:
        for sentence in place.candidate.unsupported:
            leaning.setdefault(sentence, []).append(str(place.rank))
    for sentence, ranks in leaning.items():
        yield f"Unsupported ({', '.join(ranks)}): {sentence}"


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
