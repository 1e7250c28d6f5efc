"""What an analysis of identifiability found, as tables and in plain words."""

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
    """The table of what is known of each parameter; what a row does not have is null.

    >>> make_table([{"parameter": "x", "identifiable": False}])["low"].to_list()
    [None]
    """
    return pl.DataFrame(rows, schema=_SCHEMA)


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which parameters the data tells, and which not.

    Attributes:
        table: A row per parameter: its `value`, the ends `low` and `high` of its acceptable
            values, the `share` of its range that they are, whether it is `identifiable`, and
            `why`. One that is no number has the acceptable `levels` in place of ends. What an
            unfinished analysis does not know is null.
        groups: Names of parameters that compensate each other.
        sentences: The same in plain words; none if there is nothing to say.
        profiles: The calibrations behind the intervals: the `parameter` that was held, how well
            it still fits (`score`), and the values of all.
        noise: What the outputs were taken to scatter by; None if only the loss was to be seen.
        evaluations: How many were spent.
        complete: Whether the budget was enough. If not, the analysis is unfinished.

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
        """The parameters of which an unfinished analysis cannot say whether they are."""
        return tuple(self.table.filter(pl.col("identifiable").is_null())["parameter"])

    @classmethod
    def joined(cls, found: Sequence[Identifiability]) -> Identifiability:
        """The analyses of searches for different parameters as one."""
        if len(found) == 1:
            return found[0]
        noises = [each.noise for each in found if each.noise is not None]
        return cls(
            table=pl.concat([each.table for each in found], how="diagonal_relaxed"),
            groups=tuple(group for each in found for group in each.groups),
            sentences=tuple(line for each in found for line in each.sentences),
            profiles=pl.concat([each.profiles for each in found], how="diagonal_relaxed"),
            noise=noises[0] if noises else None,
            evaluations=sum(each.evaluations for each in found),
            complete=all(each.complete for each in found),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back."""
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
        """What `to_dict` wrote.

        >>> told = Identifiability(make_table([{"parameter": "x", "identifiable": True}]), (), (),
        ...     pl.DataFrame({"parameter": ["x"], "score": [0.0]}), 0.01, 10, True)
        >>> again = Identifiability.from_dict(told.to_dict())
        >>> again.table.equals(told.table), again.noise
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
        return "\n".join(self.sentences) or "The data tells every parameter."

    def __repr__(self) -> str:
        return str(self)
