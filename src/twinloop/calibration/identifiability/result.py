"""The result of an analysis of identifiability: tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

_SCHEMA: Final = {
    "parameter": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "share": pl.Float64(),
    "identifiable": pl.Boolean(),
    "why": pl.String(),
    "levels": pl.List(pl.String()),
}


def make_table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make the table of parameters; missing entries are null.

    >>> make_table([{"parameter": "x", "identifiable": False}])["low"].to_list()
    [None]
    """
    return pl.DataFrame(rows, schema=_SCHEMA)


@dataclass(frozen=True, eq=False)
class Identifiability:
    """The identifiability of each parameter.

    Attributes:
        table: A row per parameter: its `value`, the ends `low` and `high` of its confidence
            interval, the `share` of its range, whether it is `identifiable`, and `why`. A
            parameter that is not a number has acceptable `levels` instead of ends. Entries that an
            unfinished analysis lacks are null.
        groups: Names of parameters that compensate each other.
        sentences: Sentences on parameters that are not identifiable; empty if all are.
        profiles: The calibrations along the intervals: the `parameter` that was held constant, the
            `score` of the fit, and the values of all parameters.
        noise: The standard deviation of the outputs; None if the loss was used.
        evaluations: The number of evaluations spent.
        complete: Whether the budget sufficed. If not, the analysis is unfinished.

    >>> Identifiability(pl.DataFrame({"parameter": ["x"], "identifiable": [False]}), (),
    ...     ("x has no effect in this data.",), pl.DataFrame(), None, 10, True)
    x has no effect in this data.
    """

    table: pl.DataFrame
    groups: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]
    profiles: pl.DataFrame = field(repr=False)
    noise: float | None
    evaluations: int
    complete: bool

    @property
    def unidentifiable(self) -> tuple[str, ...]:
        """The parameters that are not identifiable."""
        return tuple(self.table.filter(~pl.col("identifiable"))["parameter"])

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parameters whose identifiability an unfinished analysis did not determine."""
        return tuple(self.table.filter(pl.col("identifiable").is_null())["parameter"])

    @classmethod
    def combine(cls, analyses: Sequence[Identifiability]) -> Identifiability:
        """Combine the analyses of searches for different parameters."""
        if len(analyses) == 1:
            return analyses[0]
        noises = [each.noise for each in analyses if each.noise is not None]
        return cls(
            table=pl.concat([each.table for each in analyses], how="diagonal_relaxed"),
            groups=tuple(group for each in analyses for group in each.groups),
            sentences=tuple(line for each in analyses for line in each.sentences),
            profiles=pl.concat([each.profiles for each in analyses], how="diagonal_relaxed"),
            noise=noises[0] if noises else None,
            evaluations=sum(each.evaluations for each in analyses),
            complete=all(each.complete for each in analyses),
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that `from_dict` reads."""
        return {
            "table": self.table.rows(named=True),
            "groups": [list(group) for group in self.groups],
            "sentences": list(self.sentences),
            "profiles": self.profiles.rows(named=True),
            "noise": self.noise,
            "evaluations": self.evaluations,
            "complete": self.complete,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Identifiability:
        """Read the plain values of `to_dict`.

        >>> found = Identifiability(make_table([{"parameter": "x", "identifiable": True}]), (), (),
        ...     pl.DataFrame({"parameter": ["x"], "score": [0.0]}), 0.01, 10, True)
        >>> again = Identifiability.from_dict(found.to_dict())
        >>> again.table.equals(found.table), again.noise
        (True, 0.01)
        """
        return cls(
            make_table(list(data["table"])),
            tuple(tuple(group) for group in data["groups"]),
            tuple(data["sentences"]),
            pl.DataFrame(list(data["profiles"]), infer_schema_length=None),
            data["noise"],
            int(data["evaluations"]),
            bool(data["complete"]),
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences) or "The data determine every parameter."

    def __repr__(self) -> str:
        return str(self)
