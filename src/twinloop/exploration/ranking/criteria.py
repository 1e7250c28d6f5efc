"""By what candidates are put in order: one KPI, several one after the other, or a weighted sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.objectives import Objective

Floats = NDArray[np.float64]
By = str | Objective | Sequence[str | Objective] | Mapping[str, float]


@dataclass(frozen=True)
class RankingRule:
    """A rule that puts candidates in order.

    >>> print(RankingRule.of("makespan_s"))
    by makespan_s
    >>> print(RankingRule.of(["makespan_s", "energy_j"], tolerance=0.05))
    lexicographic by makespan_s (equal within 5 %), then energy_j
    >>> print(RankingRule.of({"makespan_s": 2, "max:utilisation": 1}))
    weighted by 2 makespan_s + 1 utilisation
    """

    objectives: tuple[Objective, ...]
    #: Of the objectives, in a weighted sum; else none.
    weights: tuple[float, ...] = ()
    #: Values so near to the lowest of their group, relative to it, count as equal.
    tolerance: float = 0.0
    #: The best of each objective, and how far the worst lies from it.
    scale: Floats = field(default_factory=lambda: np.empty((2, 0)), compare=False)

    @classmethod
    def of(cls, by: By, tolerance: float = 0.0) -> RankingRule:
        """Read what a user gives."""
        named = (by,) if isinstance(by, str | Objective) else tuple(by)
        objectives = tuple(Objective.of(each) for each in named)
        if not objectives:
            raise InputError("names no KPI", field="by")
        if len({each.kpi for each in objectives}) < len(objectives):
            raise InputError("names a KPI twice", field="by", remedy="name each once")
        if not tolerance >= 0:
            raise InputError(f"must not be negative, not {tolerance}", field="tolerance")
        if tolerance and (len(objectives) == 1 or isinstance(by, Mapping)):
            raise InputError(
                "says something of several KPIs one after the other only",
                field="tolerance",
                remedy="name a second KPI, that decides among equals",
            )
        if not isinstance(by, Mapping):
            return cls(objectives, tolerance=tolerance)
        weights = tuple(float(weight) for weight in by.values())
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise InputError(
                f"the weights must not be negative, and not all 0, but are {weights}",
                field="by",
                remedy="max: before the name of a KPI says that more of it is better",
            )
        return cls(objectives, weights)

    def __str__(self) -> str:
        names = [str(objective) for objective in self.objectives]
        if self.weights:
            parts = (f"{w:g} {name}" for w, name in zip(self.weights, names, strict=True))
            return f"weighted by {' + '.join(parts)}"
        if len(names) == 1:
            return f"by {names[0]}"
        near = f" (equal within {100 * self.tolerance:g} %)" if self.tolerance else ""
        return f"lexicographic by {f'{near}, then '.join(names)}"

    @property
    def deciding(self) -> tuple[Objective, ...]:
        """Those whose doubt is that of the order."""
        return self.objectives if self.weights else self.objectives[:1]

    def knows(self, candidate: Candidate) -> bool:
        """Whether a candidate has all that it is put in order by."""
        return all(
            math.isfinite(candidate.predicted.get(each.kpi, math.nan)) for each in self.objectives
        )

    def scaled(self, candidates: Sequence[Candidate]) -> RankingRule:
        """The rule that scales what it weighs by the values of these candidates."""
        values = np.array([self._signed(each) for each in candidates])
        return replace(self, scale=np.array([values.min(axis=0), np.ptp(values, axis=0)]))

    def values(self, candidate: Candidate) -> Floats:
        """What decides about a candidate, one after the other; less is better."""
        return self.weighed(self._signed(candidate))

    def weighed(self, values: Floats) -> Floats:
        """Values as they are, or the score that they make, in the last dimension."""
        if not self.weights:
            return values
        low, wide = self.scale
        parts = np.where(wide > 0, (values - low) / np.where(wide > 0, wide, 1.0), 0.0)
        found: Floats = parts @ (np.array(self.weights) / sum(self.weights))
        return found[..., np.newaxis]

    def rows(self, values: Floats) -> list[int]:
        """The rows of a table of such values, best first; equal ones stay as they were."""
        return _in_order(values, np.arange(len(values)), 0, self.tolerance)

    def _signed(self, candidate: Candidate) -> Floats:
        return np.array(
            [
                candidate.predicted[each.kpi] * (1.0 if each.lower else -1.0)
                for each in self.objectives
            ]
        )


def _in_order(values: Floats, rows: NDArray[np.intp], column: int, tolerance: float) -> list[int]:
    """Rows by a column, and those that are equal in it by the next ones."""
    rows = rows[np.argsort(values[rows, column], kind="stable")]
    if column + 1 == values.shape[1] or len(rows) == 1:
        return [int(row) for row in rows]
    found: list[int] = []
    while len(rows):
        here = values[rows, column]
        equal = int(np.searchsorted(here, here[0] + tolerance * abs(here[0]), side="right"))
        found += _in_order(values, rows[:equal], column + 1, tolerance)
        rows = rows[equal:]
    return found
