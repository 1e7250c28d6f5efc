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

#: Words for more, for less and for the quantity, by the first part of the name of the metric.
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
    baseline_predicted: float | None,
    real: PairedDifference | None,
    baseline_real: float | None,
    verdict: DifferenceVerdict,
) -> str:
    """Describe the verdict on a recommendation in a sentence.

    `predicted` and `real` are differences; `baseline_predicted` and `baseline_real` are the
    values of the baseline to which they are relative; None: they are not known.

    >>> print(describe_recommendation("pack-ic", "fifo", Objective.of("makespan_s"), predicted=-1.4,
    ...     baseline_predicted=10.0, real=PairedDifference(-1.2, -1.5, -0.8, 5),
    ...     baseline_real=10.0, verdict="holds"))
    pack-ic is 12 % faster than fifo (8 to 15 %), as predicted (14 %): holds
    """
    formats = _DifferenceFormat(objective)
    predicted_text = formats.format_difference(predicted, baseline_predicted)
    start = f"{name} against {baseline}, {objective.kpi}"
    if real is None:
        join = "and" if predicted is None else "but"
        return f"{start}: {predicted_text} was predicted, {join} nothing was measured: not measured"
    measured_text = formats.format_difference(real.mean, baseline_real)
    if verdict == "not assessable" and real.low is None:
        reason = f"{measured_text} ({predicted_text} was predicted); one repetition has no interval"
        return f"{start}: {reason}: not assessable"
    interval = formats.format_interval(real, baseline_real)
    if verdict == "not assessable":
        reason = f"{measured_text} ({interval}); {predicted_text} was predicted"
        return f"{start}: {reason}: not assessable"
    if verdict == "tie":
        return f"{start}: {interval}, not significant ({predicted_text} was predicted): tie"
    measured = f"{name} {formats.verb} {measured_text} than {baseline} ({interval})"
    if verdict == "holds":
        size = formats.format_size(predicted, baseline_predicted)
        return f"{measured}, as predicted ({size}): holds"
    return f"{measured}, but {predicted_text} was predicted: reversed"


class _DifferenceFormat:
    """The format of differences of one metric."""

    def __init__(self, objective: Objective) -> None:
        family = objective.kpi.split("_")[0]
        self.unit = objective.unit
        self.more, self.less, self.noun = _WORDS.get(family, ("higher", "lower", objective.meaning))
        #: The verb before the difference.
        self.verb = "has" if self.noun else "is"

    def format_size(self, difference: float | None, baseline: float | None) -> str:
        """Format the magnitude of a difference, in % of the baseline if that is known."""
        if difference is None:
            return "nothing"
        if baseline:
            return f"{_format_digits(abs(100 * difference / baseline))} %"
        return f"{_format_digits(abs(difference))} {self.unit}".rstrip()

    def format_difference(self, difference: float | None, baseline: float | None) -> str:
        """Format a difference with its direction; `nothing` if it is not known."""
        if difference is None:
            return "nothing"
        if not difference:
            return "no difference"
        words = (
            self.format_size(difference, baseline),
            self.more if difference > 0 else self.less,
            self.noun,
        )
        return " ".join(word for word in words if word)

    def format_interval(self, real: PairedDifference, baseline: float | None) -> str:
        """Format the interval, with the directions of both limits if they differ."""
        if real.low is None or real.high is None:
            return "no interval"
        if real.low * real.high < 0:
            low, high = (self.format_difference(each, baseline) for each in (real.low, real.high))
            return f"between {low} and {high}"
        near, far = sorted((real.low, real.high), key=abs)
        unit = " %" if baseline else f" {self.unit}".rstrip()
        nearest = self.format_size(near, baseline).removesuffix(unit)
        return f"{nearest} to {self.format_size(far, baseline)}"


def _format_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.5 else f"{value:.2g}"


def confirmation_to_text(confirmation: Confirmation) -> str:
    """Format the verdicts and the figures as text."""
    return join_lines(_make_lines(confirmation))


def _make_lines(confirmation: Confirmation) -> Iterator[str]:
    runs = format_count(confirmation.runs.height, "run")
    yield f"{runs} in {format_count(confirmation.repetitions, 'repetition')}, by {confirmation.by}"
    for each in confirmation.recommendations:
        yield each.sentence
        yield from (f"  unsupported: {text}" for text in each.unsupported)
    yield ""
    yield from align_columns(_list_figures(confirmation))
    yield ""
    yield from align_columns(_list_orders(confirmation))
    if confirmation.notes:
        yield ""
        yield from confirmation.notes
    if confirmation.diagnosis is not None:
        yield ""
        yield from str(confirmation.diagnosis).split("\n")


def confirmation_to_markdown(confirmation: Confirmation) -> str:
    """Format the verdicts, all tables and the notes as a Markdown document."""
    parts = ["# Confirmation", ""]
    parts += [f"- **{each.verdict}**: {each.sentence}" for each in confirmation.recommendations]
    parts += [
        f"- unsupported: {text}" for r in confirmation.recommendations for text in r.unsupported
    ]
    parts += [
        "",
        "## Predicted and measured",
        "",
        *make_markdown_table(_list_figures(confirmation)),
    ]
    parts += ["", "## Order", "", *make_markdown_table(_list_orders(confirmation))]
    parts += ["", "## All pairs", "", *make_markdown_table(_list_pairs(confirmation))]
    parts += ["", "## Runs", "", *make_markdown_table(_list_runs(confirmation))]
    if confirmation.notes:
        parts += ["", "## Notes", "", *(f"- {note}" for note in confirmation.notes)]
    if confirmation.diagnosis is not None:
        parts += ["", "## Diagnosis", "", *confirmation.diagnosis.markdown().splitlines()]
    return "\n".join(parts) + "\n"


def _list_figures(confirmation: Confirmation) -> list[list[str]]:
    names = ("metric", "configuration", "predicted", "real", "sd", "rank", "real rank")
    rows = [list(names)]
    for row in confirmation.table.to_dicts():
        base = " (baseline)" if row["baseline"] else ""
        values = [format_cell(row[name]) for name in ("predicted", "real", "real_sd")]
        ranks = [format_cell(row[name]) for name in ("predicted_rank", "real_rank")]
        rows.append([row["metric"], f"{row['candidate']}{base}", *values, *ranks])
    return rows


def _list_orders(confirmation: Confirmation) -> list[list[str]]:
    rows = [["metric", "same ranks", "tau", "pairs", "right", "wrong", "not significant"]]
    for row in confirmation.ranks.to_dicts():
        same = {True: "yes", False: "no", None: "-"}[row["same"]]
        counts = [str(row[name]) for name in ("pairs", "agree", "disagree", "ties")]
        rows.append([row["metric"], same, format_cell(row["tau"]), *counts])
    return rows


def _list_pairs(confirmation: Confirmation) -> list[list[str]]:
    return format_rows(confirmation.pairs)


def _list_runs(confirmation: Confirmation) -> list[list[str]]:
    shown = confirmation.runs.drop("baseline", "trace")
    shown = shown if shown["error"].count() else shown.drop("error")
    shown = shown if shown["seconds"].count() else shown.drop("seconds")
    return format_rows(shown)


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
