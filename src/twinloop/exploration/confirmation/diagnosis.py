"""Why a ranking was wrong: the option of the model that would have ranked it right.

After section 5.4.3 of Xie's *From Reality to Simulation*: the model is fitted again with each of
its options turned on where it was off and off where it was on, all candidates are ranked again, and
what would have ranked them right is named.
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
from twinloop.exploration.model_options import DEFAULTS, ModelOption, Refit
from twinloop.exploration.ranking.comparison import compute_tau
from twinloop.exploration.text_tables import align_columns, make_markdown_table
from twinloop.fidelity.alignment import digest_trace
from twinloop.trace import Trace
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit
    from twinloop.exploration.confirmation.result import Confirmation

#: What the row is called in which nothing is turned.
SAME: Final = "none: the same model, fitted again"
#: An option is to blame only if its loss is below this share of the one without.
_BETTER: Final = 0.9
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
    """Which option of the model would have ranked the candidates right.

    `table` has a row per option: whether it was on, what was tried, the loss of that fit, how many
    of the pairs that really differ it ranks right, and Kendall's tau to the real order.

    >>> Diagnosis("makespan_s", "contention", "on", "contention would have.", "2 runs",
    ...           pl.DataFrame(schema=_SCHEMA))
    <Diagnosis: contention on>
    """

    #: The metric whose ranking was wrong.
    metric: str
    #: The option that would have ranked right; None: none of them, or no option is to blame.
    cause: str | None
    #: What it should have been: `on` or `off`.
    turned: str | None
    #: The answer in plain words.
    sentence: str
    #: What it was fitted to, in plain words.
    fitted_to: str
    table: pl.DataFrame = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**vars(self), "table": self.table.to_dicts()}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Diagnosis:
        """One from plain data."""
        return cls(**{**kept, "table": pl.DataFrame(kept["table"], schema=_SCHEMA)})

    def __str__(self) -> str:
        return join_lines(
            [self.sentence, self.fitted_to, "", *align_columns(format_rows(self.table))]
        )

    def markdown(self) -> str:
        """The diagnosis as a part of a Markdown document."""
        said = [
            self.sentence,
            "",
            self.fitted_to,
            "",
            *make_markdown_table(format_rows(self.table)),
        ]
        return "\n".join(said) + "\n"

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.cause or 'no option'} {self.turned or ''}".rstrip() + ">"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def diagnose(
    confirmation: Confirmation,
    traces: Sequence[Trace] = (),
    *,
    options: Sequence[ModelOption] = DEFAULTS,
    budget: str | float = 400,
    fit: Fit | None = None,
    with_confirmed: bool = True,
    seed: int = 0,
    allow_code: bool = False,
) -> Diagnosis | None:
    """Find the option of the model that would have ranked the configurations right.

    Pairs that really differ are those whose 90 % interval of the difference excludes zero. None:
    all of these were ranked right.

    Args:
        confirmation: What was predicted, and what came of it.
        traces: The runs that the fit was made on.
        options: The options of the model to try.
        budget: Of each fit: a number of evaluations, or a time such as `60s`.
        fit: The fit that the predictions were made with, which says what was free in it.
        with_confirmed: Whether the runs of the confirmation are fitted to as well. With them it is
            said what explains the runs that are there; without, what would have foretold them.
        seed: Where the randomness of the searches starts.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
    """
    metric = confirmation.by
    if metric not in KPI_NAMES:
        raise InputError(f"the simulator does not say {metric} by itself", field="by")
    if not confirmation.reversed:
        return None
    known = {digest_trace(trace): trace for trace in traces}
    confirmed = (
        {digest_trace(trace): trace for trace in confirmation.traces} if with_confirmed else {}
    )
    more = {key: trace for key, trace in confirmed.items() if key not in known}
    runs = [*known.values(), *more.values()]
    if not runs:
        raise InputError("there is no run to fit to", field="traces")
    every = (*confirmation.candidates, confirmation.baseline)
    model = every[0].scenario.model
    refit = Refit(runs, model, options, budget=budget, seed=seed, allow_code=allow_code)
    usable = [each for each in options if each.serves(refit.cases)]
    on = [each for each in usable if each.is_on(model, () if fit is None else fit.values, runs)]
    real = _Real.of(confirmation)
    rows = [{"option": SAME, "was": "-", "tried": "-", **real.ranked(refit, on)}]
    for each in usable:
        was = each in on
        tried = [one for one in on if one is not each] if was else [*on, each]
        rows.append(
            {
                "option": each.name,
                "was": "on" if was else "off",
                "tried": "off" if was else "on",
                **real.ranked(refit, tried),
            }
        )
    table = pl.DataFrame(rows, schema=_SCHEMA)
    cause = _cause(table)
    return Diagnosis(
        metric=metric,
        cause=None if cause is None or cause["option"] == SAME else cause["option"],
        turned=None if cause is None or cause["option"] == SAME else cause["tried"],
        sentence=_sentence(cause, table, metric),
        fitted_to=_fitted_to(len(known), len(more)),
        table=table,
    )


@dataclass(frozen=True)
class _Real:
    """What the configurations really did."""

    confirmation: Confirmation
    #: By pair that really differs: the sign of its difference.
    signs: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, confirmation: Confirmation) -> _Real:
        by = confirmation.pairs.filter(metric=confirmation.by).drop_nulls(["low", "high"])
        return cls(
            confirmation,
            {
                (one, other): 1 if low > 0 else -1
                for one, other, low, high in by["one", "other", "low", "high"].rows()
                if low > 0 or high < 0
            },
        )

    def ranked(self, refit: Refit, on: Sequence[ModelOption]) -> dict[str, Any]:
        """What a model with these options makes of the configurations."""
        found = refit.fitted(on)
        confirmation = self.confirmation
        metric = confirmation.by
        predicted = {
            each.name: refit.kpis(each.scenario, found)[metric]
            for each in (*confirmation.candidates, confirmation.baseline)
        }
        means = dict(confirmation.table.filter(metric=metric)["candidate", "real"].rows())
        names = [name for name, value in means.items() if value is not None]
        right = sum(
            bool(np.sign(predicted[one] - predicted[other]) == sign)
            for (one, other), sign in self.signs.items()
        )
        return {
            "loss": found.loss,
            "right": right,
            "pairs": len(self.signs),
            "tau": compute_tau([predicted[n] for n in names], [means[n] for n in names]),
        }


def _cause(table: pl.DataFrame) -> dict[str, Any] | None:
    """The row that ranks all pairs right with the smallest loss; None: no row does."""
    right = table.filter(pl.col("right") == pl.col("pairs")).sort("loss").to_dicts()
    if not right:
        return None
    same = next((row for row in right if row["option"] == SAME), None)
    # A value more always fits a little better.
    if same is not None and right[0]["loss"] >= _BETTER * same["loss"]:
        return same
    return right[0]


def _sentence(cause: Mapping[str, Any] | None, table: pl.DataFrame, metric: str) -> str:
    pairs = format_count(table["pairs"][0], "pair that really differs", "pairs that really differ")
    if cause is None:
        best = table.sort("right", descending=True).to_dicts()[0]
        return (
            f"No single option of the model would have ranked the {pairs} right by {metric}: at "
            f"most {best['right']} of them, with {best['option']}"
        ) + ("" if best["option"] == SAME else f" {best['tried']}")
    if cause["option"] == SAME:
        return (
            f"No option of the model is to blame: fitted again, the same model ranks the {pairs} "
            f"right by {metric}"
        )
    others = [
        "the same model, fitted again"
        if row["option"] == SAME
        else f"{row['option']} {row['tried']}"
        for row in table.filter(pl.col("right") == pl.col("pairs")).to_dicts()
        if row["option"] != cause["option"]
    ]
    beside = f" ({', '.join(others)} would too, and fit the runs less well)" if others else ""
    lacked = "lacked" if cause["tried"] == "on" else "should not have"
    return (
        f"The model {lacked} {cause['option']}: with it {cause['tried']}, it ranks the {pairs} "
        f"right by {metric}{beside}"
    )


def _fitted_to(before: int, confirmed: int) -> str:
    parts = []
    if before:
        parts.append(f"{format_count(before, 'run')} that the fit was made on")
    if confirmed:
        parts.append(f"{format_count(confirmed, 'run')} of the confirmation itself")
    said = f"Each was fitted to {' and '.join(parts)}."
    if confirmed:
        said += " So it says what explains these runs, not that it would have foretold them."
    return said
