"""Rankings as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from twinloop.description.safe_text import join_lines
from twinloop.exploration.text_tables import align_columns, format_figure
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.ranking.candidate import Candidate
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking


def ranking_to_text(ranking: Ranking) -> str:
    """Format a ranking as a text table with remarks."""
    rows = [_list_titles(ranking), *_list_rows(ranking)]
    lines = align_columns(rows, right=(0, *range(2, len(rows[0]) - 1)))
    remarks = list(_list_remarks(ranking))
    return join_lines([_make_heading(ranking), "", *lines, *([""] if remarks else []), *remarks])


def ranking_to_html(ranking: Ranking) -> str:
    """Format a ranking as an HTML table with remarks."""

    def row(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    head = row(_list_titles(ranking), "th")
    body = "".join(row(cells, "td") for cells in _list_rows(ranking))
    remarks = "".join(f"<p>{escape(line)}</p>" for line in _list_remarks(ranking))
    return (
        f"<p>{escape(_make_heading(ranking))}</p><table><thead>{head}</thead>"
        f"<tbody>{body}</tbody></table>{remarks}"
    )


def _make_heading(ranking: Ranking) -> str:
    first, baseline = ranking.objectives[0].kpi, ranking.baseline
    value = baseline.predicted.get(first, math.nan)
    baseline_text = f"{baseline.name}, {first} {format_figure(value)}"
    return (
        f"{format_count(len(ranking), 'candidate')} {ranking.how}; the baseline is {baseline_text}"
    )


def _list_titles(ranking: Ranking) -> list[str]:
    units = [f"{each.kpi} ({each.unit})" if each.unit else each.kpi for each in ranking.objectives]
    score = ["score"] if ranking.weighted else []
    probabilities = ["P(beats next)", "P(best)"] if _has_probabilities(ranking) else []
    return ["", "candidate", *units, "to baseline", *score, *probabilities, "tie", ""]


def _has_probabilities(ranking: Ranking) -> bool:
    """Whether a probability of the order is known."""
    return any(place.probability is not None or place.best is not None for place in ranking.places)


def _list_rows(ranking: Ranking) -> Iterator[list[str]]:
    for place in ranking.places:
        candidate = place.candidate
        yield [
            str(place.rank),
            candidate.name,
            *(format_figure(candidate.predicted[each.kpi]) for each in ranking.objectives),
            _format_change(ranking, candidate),
            *(["" if place.score is None else f"{place.score:.3f}"] if ranking.weighted else []),
            *(
                [_format_percent(place.probability), _format_percent(place.best)]
                if _has_probabilities(ranking)
                else []
            ),
            "" if place.tie is None else str(place.tie),
            ", ".join(_list_marks(place)),
        ]


def _list_marks(place: RankedCandidate) -> Iterator[str]:
    if place.fewer:
        yield "fewer tasks"
    if place.candidate.unsupported:
        yield "unsupported"


def _format_change(ranking: Ranking, candidate: Candidate) -> str:
    kpi = ranking.objectives[0].kpi
    baseline_value = ranking.baseline.predicted.get(kpi, math.nan)
    change = candidate.predicted[kpi] / baseline_value - 1.0 if baseline_value else math.nan
    return f"{100 * change:+.1f} %" if math.isfinite(change) else "-"


def _list_remarks(ranking: Ranking) -> Iterator[str]:
    yield from ranking.notes
    if left_out := ranking.left_out:
        named = ", ".join(each.name for each in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        yield f"Not ranked, because a value is missing: {named}{more}."
    ranks_by_sentence: dict[str, list[str]] = {}
    for place in ranking.places:
        for sentence in place.candidate.unsupported:
            ranks_by_sentence.setdefault(sentence, []).append(str(place.rank))
    for sentence, ranks in ranks_by_sentence.items():
        yield f"Unsupported ({', '.join(ranks)}): {sentence}"


def _format_percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
