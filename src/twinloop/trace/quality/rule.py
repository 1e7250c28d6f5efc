"""What a rule of the quality gate is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.trace.quality.prepared_tables import PreparedTables

Severity = Literal["error", "warning"]

#: Times closer than this are equal: recorders write whole milliseconds.
TIME_TOLERANCE: Final = 0.001


@dataclass(frozen=True, slots=True)
class Violations:
    """What a rule found in one table: how many rows it looked at, and those that break it.

    `rows` has a column `row`, the index in the table, and whatever else the sentence `says`
    mentions beside the columns of that table; a column `says` has a sentence for each row.
    """

    table: str
    looked_at: int
    rows: pl.DataFrame
    says: str
    #: Rows that are not in the trace any more, as the manifest counts them.
    noted: tuple[Cleaning, ...] = ()


RuleCheck = Callable[[PreparedTables], Iterable[Violations]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One law that a trace keeps: its name, how bad it is to break it, and the check.

    A check that yields nothing does not apply: the trace has no rows that the law speaks of.

    >>> from twinloop.trace.quality import RULES
    >>> rule = next(rule for rule in RULES if rule.name == "lifecycle-order")
    >>> rule.severity, rule.law
    ('error', 'Nothing starts before it is submitted, or ends before it starts.')
    """

    name: str
    severity: Severity
    check: RuleCheck
    #: What `repair` does about it; empty: nothing.
    fix: str = ""

    @property
    def law(self) -> str:
        """The law in one sentence, which is the documentation of its check."""
        return self.check.__doc__ or self.name


def select_rows(frame: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """The rows that break a law; where the condition is not known, nothing is broken."""
    return frame.filter(condition.fill_null(False))


def name_conditions(conditions: dict[str, pl.Expr]) -> pl.Expr:
    """The names of the conditions that hold, as a text."""
    return pl.concat_str(
        [pl.when(condition).then(pl.lit(name)) for name, condition in conditions.items()],
        separator=", ",
        ignore_nulls=True,
    )
