"""Confirmations as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.safe_text import join_lines
from twinloop.exploration.ranking.comparison import DifferenceVerdict, PairedDifference
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.text_tables import align_columns, make_markdown_table
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.confirmation.result import Confirmation

#: Words for more, for less and for the quantity, by the prefix of the metric.
_WORDS: Final = {
    "makespan": ("slower", "faster", ""),
    "wait": ("longer", "shorter", "waits"),
    "turnaround": ("longer", "shorter", "turnarounds"),
    "energy": ("more", "less", "energy"),
    "carbon": ("more", "less", "carbon"),
    "cost": ("more expensive", "cheaper", ""),
}


def describe_recommendation(
    name: str,
    baseline: str,
    objective: Objective,
    *,
    predicted: float | None,
    of_predicted: float | None,
    real: PairedDifference | None,
    of_real: float | None,
    verdict: DifferenceVerdict,
) -> str:
    """Describe the verdict on a recommendation in a sentence.

    `predicted` and `real` are differences; `of_predicted` and `of_real` are the values of the
    baseline to which they are relative.

    >>> print(describe_recommendation("pack-ic", "fifo", Objective.of("makespan_s"), predicted=-1.4,
    ...                of_predicted=10.0, real=PairedDifference(-1.2, -1.5, -0.8, 5), of_real=10.0,
    ...                verdict="holds"))
    pack-ic is 12 % faster than fifo (8 to 15 %), as predicted (14 %): holds
    """
    texts = _DifferenceFormat(objective)
    predicted_text = texts.one(predicted, of_predicted)
    start = f"{name} against {baseline}, {objective.kpi}"
    if real is None:
        return f"{start}: {predicted_text} was predicted, but nothing was measured: not measured"
    found = texts.one(real.mean, of_real)
    if verdict == "not assessable" and real.low is None:
        reason = f"{found} ({predicted_text} was predicted); one repetition has no interval"
        return f"{start}: {reason}: not assessable"
    span = texts.span(real, of_real)
    if verdict == "not assessable":
        return f"{start}: {found} ({span}); no difference was predicted: not assessable"
    if verdict == "tie":
        return f"{start}: {span}, not significant ({predicted_text} was predicted): tie"
    verb = texts.verb
    if verdict == "holds":
        size = texts.size(predicted, of_predicted)
        return f"{name} {verb} {found} than {baseline} ({span}), as predicted ({size}): holds"
    measured = f"{name} {verb} {found} than {baseline} ({span})"
    return f"{measured}, but {predicted_text} was predicted: reversed"


class _DifferenceFormat:
    """The format of differences of one metric."""

    def __init__(self, objective: Objective) -> None:
        family = objective.kpi.split("_")[0]
        self.unit = objective.unit
        self.more, self.less, self.noun = _WORDS.get(family, ("higher", "lower", objective.meaning))
        #: The verb before the difference.
        self.verb = "has" if self.noun else "is"

    def size(self, difference: float | None, of: float | None) -> str:
        """Format the magnitude of a difference, relative to `of` if it is given."""
        if difference is None:
            return "nothing"
        if of:
            return f"{_format_digits(abs(100 * difference / of))} %"
        return f"{_format_digits(abs(difference))} {self.unit}".rstrip()

    def one(self, difference: float | None, of: float | None) -> str:
        """Format a difference with its direction."""
        if not difference:
            return "no difference"
        words = (self.size(difference, of), self.more if difference > 0 else self.less, self.noun)
        return " ".join(word for word in words if word)

    def span(self, real: PairedDifference, of: float | None) -> str:
        """Format the interval, with the directions of both limits if they differ."""
        if real.low is None or real.high is None:
            return "no interval"
        if real.low * real.high < 0:
            return f"between {self.one(real.low, of)} and {self.one(real.high, of)}"
        near, far = sorted((real.low, real.high), key=abs)
        unit = " %" if of else f" {self.unit}".rstrip()
        return f"{self.size(near, of).removesuffix(unit)} to {self.size(far, of)}"


def _format_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.5 else f"{value:.2g}"


def confirmation_to_text(found: Confirmation) -> str:
    """Format the verdicts and the figures as text."""
    return join_lines(_lines(found))


def _lines(found: Confirmation) -> Iterator[str]:
    many = format_count(found.runs.height, "run")
    yield f"{many} in {format_count(found.repetitions, 'repetition')}, by {found.by}"
    for each in found.recommendations:
        yield each.sentence
        yield from (f"  unsupported: {text}" for text in each.unsupported)
    yield ""
    yield from align_columns(_list_figures(found))
    yield ""
    yield from align_columns(_list_orders(found))
    if found.notes:
        yield ""
        yield from found.notes
    if found.diagnosis is not None:
        yield ""
        yield from str(found.diagnosis).split("\n")


def confirmation_to_markdown(found: Confirmation) -> str:
    """Format the verdicts, all tables and the notes as a Markdown document."""
    parts = ["# Confirmation", ""]
    parts += [f"- **{each.verdict}**: {each.sentence}" for each in found.recommendations]
    parts += [f"- unsupported: {text}" for r in found.recommendations for text in r.unsupported]
    parts += ["", "## Predicted and measured", "", *make_markdown_table(_list_figures(found))]
    parts += ["", "## Order", "", *make_markdown_table(_list_orders(found))]
    parts += ["", "## All pairs", "", *make_markdown_table(_list_pairs(found))]
    parts += ["", "## Runs", "", *make_markdown_table(_list_runs(found))]
    if found.notes:
        parts += ["", "## Notes", "", *(f"- {note}" for note in found.notes)]
    if found.diagnosis is not None:
        parts += ["", "## Diagnosis", "", *found.diagnosis.markdown().splitlines()]
    return "\n".join(parts) + "\n"


def _list_figures(found: Confirmation) -> list[list[str]]:
    names = ("metric", "configuration", "predicted", "real", "sd", "rank", "real rank")
    rows = [list(names)]
    for row in found.table.to_dicts():
        base = " (baseline)" if row["baseline"] else ""
        shown = [format_cell(row[name]) for name in ("predicted", "real", "real_sd")]
        places = [format_cell(row[name]) for name in ("predicted_rank", "real_rank")]
        rows.append([row["metric"], f"{row['candidate']}{base}", *shown, *places])
    return rows


def _list_orders(found: Confirmation) -> list[list[str]]:
    rows = [["metric", "same ranks", "tau", "pairs", "right", "wrong", "not significant"]]
    for row in found.ranks.to_dicts():
        same = {True: "yes", False: "no", None: "-"}[row["same"]]
        counts = [str(row[name]) for name in ("pairs", "agree", "disagree", "ties")]
        rows.append([row["metric"], same, format_cell(row["tau"]), *counts])
    return rows


def _list_pairs(found: Confirmation) -> list[list[str]]:
    return format_rows(found.pairs)


def _list_runs(found: Confirmation) -> list[list[str]]:
    known = found.runs.drop("baseline", "trace")
    known = known if known["error"].count() else known.drop("error")
    known = known if known["seconds"].count() else known.drop("seconds")
    return format_rows(known)


def format_cell(value: Any) -> str:
    """Format a value of a table.

    >>> format_cell(None), format_cell(0.123456), format_cell("a")
    ('-', '0.1235', 'a')
    """
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def format_rows(frame: pl.DataFrame) -> list[list[str]]:
    """Format a table as rows of text, with the names of the columns first.

    >>> format_rows(pl.DataFrame({"a": [1.0, None]}))
    [['a'], ['1'], ['-']]
    """
    return [frame.columns, *([format_cell(value) for value in row] for row in frame.iter_rows())]
