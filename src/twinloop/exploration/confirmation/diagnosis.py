"""Diagnosis of a wrong ranking: the option of the model that gives the measured order.

After section 5.4.3 of Xie's *From Reality to Simulation*: the model is fitted again with each of
its options switched, all candidates are ranked again, and the option with which the ranking is
correct is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop._core import KPI_NAMES
from twinloop.description.errors import InputError
from twinloop.description.safe_text import join_lines
from twinloop.exploration.confirmation.text import format_rows
from twinloop.exploration.model_options import DEFAULT_OPTIONS, ModelOption, OptionFitter
from twinloop.exploration.ranking.comparison import compute_tau
from twinloop.exploration.text_tables import align_columns, make_markdown_table
from twinloop.fidelity.alignment import digest_trace
from twinloop.trace import Trace
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit
    from twinloop.exploration.confirmation.result import Confirmation

#: The name of the row in which no option is switched, in the table of a diagnosis.
SAME: Final = "none: the same model, fitted again"
#: An option is a cause only if its loss is below this fraction of the loss without the switch.
_MAX_LOSS_RATIO: Final = 0.9
_SCHEMA: Final[dict[str, Any]] = {
    "option": pl.String,
    "was": pl.String,
    "tried": pl.String,
    "loss": pl.Float64,
    "right": pl.Int64,
    "pairs": pl.Int64,
    "tau": pl.Float64,
}


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The option of the model with which the candidates are ranked correctly.

    `table` has a row per option: whether it was on, the setting that was tried, the loss of that
    fit, the number of significantly different pairs that it ranks correctly, and Kendall's tau with
    the measured order.

    >>> Diagnosis("makespan_s", "contention", "on", "contention would have.", "2 runs",
    ...           pl.DataFrame(schema=_SCHEMA))
    <Diagnosis: contention on>
    """

    #: The metric whose ranking was wrong.
    metric: str
    #: The option with which the ranking is correct; None: there is none.
    cause: str | None
    #: The correct setting of the option: `on` or `off`.
    turned: str | None
    #: The diagnosis as a sentence.
    sentence: str
    #: A sentence on the runs that the models were fitted to.
    fitted_to: str
    table: pl.DataFrame = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data."""
        return {**vars(self), "table": self.table.to_dicts()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnosis:
        """Make a diagnosis from plain data."""
        return cls(**{**data, "table": pl.DataFrame(data["table"], schema=_SCHEMA)})

    def __str__(self) -> str:
        return join_lines(
            [self.sentence, self.fitted_to, "", *align_columns(format_rows(self.table))]
        )

    def markdown(self) -> str:
        """Format the diagnosis as a part of a Markdown document."""
        lines = [
            self.sentence,
            "",
            self.fitted_to,
            "",
            *make_markdown_table(format_rows(self.table)),
        ]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.cause or 'no option'} {self.turned or ''}".rstrip() + ">"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def diagnose(
    confirmation: Confirmation,
    traces: Sequence[Trace] = (),
    *,
    options: Sequence[ModelOption] = DEFAULT_OPTIONS,
    budget: str | float = 400,
    fit: Fit | None = None,
    with_confirmed: bool = True,
    seed: int = 0,
    allow_code: bool = False,
) -> Diagnosis | None:
    """Find the option of the model with which the configurations are ranked correctly.

    Only pairs whose 90 % confidence interval of the difference excludes zero are considered. The
    result is None if all of these were ranked correctly.

    Args:
        confirmation: The confirmation with the wrong ranking.
        traces: The runs of the calibration.
        options: The options of the model to try.
        budget: The budget of each fit: a number of evaluations, or a time such as `60s`.
        fit: The fit of the predictions; options with fitted values count as on.
        with_confirmed: Whether the models are also fitted to the runs of the confirmation. With
            them, the diagnosis explains these runs; without them, it tests a prediction of them.
        seed: The random seed of the searches.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
    """
    metric = confirmation.by
    if metric not in KPI_NAMES:
        raise InputError(
            f"the simulator does not compute {metric}", kind="missing-data", field="by"
        )
    if not confirmation.reversed:
        return None
    calibration_runs = {digest_trace(trace): trace for trace in traces}
    confirmed = (
        {digest_trace(trace): trace for trace in confirmation.traces} if with_confirmed else {}
    )
    added_runs = {key: trace for key, trace in confirmed.items() if key not in calibration_runs}
    runs = [*calibration_runs.values(), *added_runs.values()]
    if not runs:
        raise InputError("there is no run to fit to", kind="no-runs", field="traces")
    configurations = (*confirmation.candidates, confirmation.baseline)
    model = configurations[0].scenario.model
    fitter = OptionFitter(runs, model, options, budget=budget, seed=seed, allow_code=allow_code)
    applicable = [each for each in options if each.is_applicable(fitter.cases)]
    on = [each for each in applicable if each.is_on(model, () if fit is None else fit.values, runs)]
    measured = _MeasuredOrder.of(confirmation)
    rows = [{"option": SAME, "was": "-", "tried": "-", **measured.evaluate(fitter, on)}]
    for each in applicable:
        was = each in on
        tried = [other for other in on if other is not each] if was else [*on, each]
        rows.append(
            {
                "option": each.name,
                "was": "on" if was else "off",
                "tried": "off" if was else "on",
                **measured.evaluate(fitter, tried),
            }
        )
    table = pl.DataFrame(rows, schema=_SCHEMA)
    cause = _find_cause(table)
    return Diagnosis(
        metric=metric,
        cause=None if cause is None or cause["option"] == SAME else cause["option"],
        turned=None if cause is None or cause["option"] == SAME else cause["tried"],
        sentence=_make_sentence(cause, table, metric),
        fitted_to=_describe_runs(len(calibration_runs), len(added_runs)),
        table=table,
    )


@dataclass(frozen=True)
class _MeasuredOrder:
    """The measured order of the configurations."""

    confirmation: Confirmation
    #: The sign of the measured difference, by significantly different pair of names.
    signs: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, confirmation: Confirmation) -> _MeasuredOrder:
        by = confirmation.pairs.filter(metric=confirmation.by).drop_nulls(["low", "high"])
        return cls(
            confirmation,
            {
                (one, other): 1 if low > 0 else -1
                for one, other, low, high in by["one", "other", "low", "high"].rows()
                if low > 0 or high < 0
            },
        )

    def evaluate(self, fitter: OptionFitter, on: Sequence[ModelOption]) -> dict[str, Any]:
        """Fit a model with these options and compare its ranking with the measured order."""
        fitted = fitter.fit(on)
        confirmation = self.confirmation
        metric = confirmation.by
        predicted = {
            each.name: fitter.compute_kpis(each.scenario, fitted)[metric]
            for each in (*confirmation.candidates, confirmation.baseline)
        }
        means = dict(confirmation.table.filter(metric=metric)["candidate", "real"].rows())
        names = [name for name, value in means.items() if value is not None]
        correct = sum(
            bool(np.sign(predicted[one] - predicted[other]) == sign)
            for (one, other), sign in self.signs.items()
        )
        return {
            "loss": fitted.loss,
            "right": correct,
            "pairs": len(self.signs),
            "tau": compute_tau([predicted[n] for n in names], [means[n] for n in names]),
        }


def _find_cause(table: pl.DataFrame) -> dict[str, Any] | None:
    """Return the row that ranks all pairs correctly with the smallest loss; None if none does.

    If the same model ranks them correctly, an option must reduce the loss clearly to be the cause.
    """
    correct = table.filter(pl.col("right") == pl.col("pairs")).sort("loss").to_dicts()
    if not correct:
        return None
    same = next((row for row in correct if row["option"] == SAME), None)
    # An additional parameter always reduces the loss a little.
    if same is not None and correct[0]["loss"] >= _MAX_LOSS_RATIO * same["loss"]:
        return same
    return correct[0]


def _make_sentence(cause: Mapping[str, Any] | None, table: pl.DataFrame, metric: str) -> str:
    pairs = format_count(
        table["pairs"][0],
        "pair with a significant difference",
        "pairs with significant differences",
    )
    if cause is None:
        best = table.sort("right", descending=True).to_dicts()[0]
        return (
            f"No single option of the model ranks the {pairs} correctly by {metric}: at most "
            f"{best['right']} of them, with {best['option']}"
        ) + ("" if best["option"] == SAME else f" {best['tried']}")
    if cause["option"] == SAME:
        return (
            f"No option of the model is the cause: fitted again, the same model ranks the {pairs} "
            f"correctly by {metric}"
        )
    others = [
        "the same model, fitted again"
        if row["option"] == SAME
        else f"{row['option']} {row['tried']}"
        for row in table.filter(pl.col("right") == pl.col("pairs")).to_dicts()
        if row["option"] != cause["option"]
    ]
    also = f" (so does {', '.join(others)}, with a higher loss)" if others else ""
    lacked = "lacked" if cause["tried"] == "on" else "should not have"
    return (
        f"The model {lacked} {cause['option']}: with it {cause['tried']}, it ranks the {pairs} "
        f"correctly by {metric}{also}"
    )


def _describe_runs(before: int, confirmed: int) -> str:
    parts = []
    if before:
        parts.append(f"{format_count(before, 'run')} of the calibration")
    if confirmed:
        parts.append(f"{format_count(confirmed, 'run')} of the confirmation itself")
    text = f"Each model was fitted to {' and '.join(parts)}."
    if confirmed:
        text += " So the diagnosis explains these runs; it is not a prediction of them."
    return text
