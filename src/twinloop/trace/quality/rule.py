"""The rules of the quality gate and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.codes import CODES, Severity
from twinloop.trace.quality.prepared_tables import PreparedTables

#: Tolerance of times (s): recorders write whole milliseconds.
TIME_TOLERANCE: Final = 0.001


@dataclass(frozen=True, slots=True)
class Violations:
    """The rows of one table that break a rule, and the number of rows checked.

    `rows` has a column `row`, the index in the table, and the further columns that the template
    `message` uses beside the columns of the table; a column `message` overrides the template.
    """

    table: str
    checked: int
    rows: pl.DataFrame
    message: str
    #: Notes of the manifest on rows that are not in the trace any more.
    notes: tuple[Cleaning, ...] = ()


RuleCheck = Callable[[PreparedTables], Iterable[Violations]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a trace must satisfy: its name in the table of codes, and the check.

    A check that yields nothing does not apply: the trace has no rows that the rule concerns.

    >>> from twinloop.trace.quality import RULES
    >>> rule = next(rule for rule in RULES if rule.name == "lifecycle-order")
    >>> rule.code, rule.severity, rule.law
    ('TL0009', 'error', 'Nothing starts before it is submitted, or ends before it starts.')
    """

    name: str
    check: RuleCheck

    @property
    def code(self) -> str:
        """The code, which `twinloop explain` describes."""
        return CODES[self.name].code

    @property
    def severity(self) -> Severity:
        """`error` closes the gate; `warning` is only reported."""
        return CODES[self.name].severity or "error"

    @property
    def law(self) -> str:
        """The rule in one sentence."""
        return CODES[self.name].text

    @property
    def fix(self) -> str:
        """The fix that `repair` applies; empty if there is none."""
        return CODES[self.name].repair


def select_rows(frame: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Select the rows for which a condition is true; unknown counts as false."""
    return frame.filter(condition.fill_null(False))


def name_conditions(conditions: dict[str, pl.Expr]) -> pl.Expr:
    """Join the names of the conditions that are true."""
    return pl.concat_str(
        [pl.when(condition).then(pl.lit(name)) for name, condition in conditions.items()],
        separator=", ",
        ignore_nulls=True,
    )
