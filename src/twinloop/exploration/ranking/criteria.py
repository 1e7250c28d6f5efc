"""Criteria of a ranking: one KPI, several KPIs in lexicographic order, or a weighted sum."""

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
    """A rule that orders candidates.

    >>> print(RankingRule.of("makespan_s"))
    by makespan_s
    >>> print(RankingRule.of(["makespan_s", "energy_j"], tolerance=0.05))
    lexicographic by makespan_s (equal within 5 %), then energy_j
    >>> print(RankingRule.of({"makespan_s": 2, "max:utilisation": 1}))
    weighted by 2 makespan_s + 1 utilisation
    """

    objectives: tuple[Objective, ...]
    #: The weights of the objectives in a weighted sum; else empty.
    weights: tuple[float, ...] = ()
    #: Relative distance from the best value of a group up to which values count as equal.
    tolerance: float = 0.0
    #: The best value and the range of each objective, by which a weighted sum is scaled.
    scale: Floats = field(default_factory=lambda: np.empty((2, 0)), compare=False)

    @classmethod
    def of(cls, by: By, tolerance: float = 0.0) -> RankingRule:
        """Make a rule from a KPI, several KPIs, or weights of KPIs."""
        named = (by,) if isinstance(by, str | Objective) else tuple(by)
        objectives = tuple(Objective.of(each) for each in named)
        if not objectives:
            raise InputError("names no KPI", kind="missing-field", field="by")
        if len({each.kpi for each in objectives}) < len(objectives):
            raise InputError(
                "names a KPI twice", kind="duplicate-name", field="by", remedy="name each once"
            )
        if not tolerance >= 0:
            raise InputError(
                f"must be 0 or more, not {tolerance}", kind="out-of-range", field="tolerance"
            )
        if tolerance and (len(objectives) == 1 or isinstance(by, Mapping)):
            raise InputError(
                "applies only to several KPIs in lexicographic order",
                kind="no-effect",
                field="tolerance",
                remedy="name a second KPI, which decides between equal values",
            )
        if not isinstance(by, Mapping):
            return cls(objectives, tolerance=tolerance)
        weights = tuple(float(weight) for weight in by.values())
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise InputError(
                f"the weights must not be negative, and not all 0, but are {weights}",
                kind="out-of-range",
                field="by",
                remedy="write max: before the name of a KPI to maximise it",
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
    def deciding_objectives(self) -> tuple[Objective, ...]:
        """The objectives whose uncertainty determines that of the order."""
        return self.objectives if self.weights else self.objectives[:1]

    def can_rank(self, candidate: Candidate) -> bool:
        """Whether a candidate has values of all objectives."""
        return all(
            math.isfinite(candidate.predicted.get(each.kpi, math.nan)) for each in self.objectives
        )

    def with_scale(self, candidates: Sequence[Candidate]) -> RankingRule:
        """Return the rule with the scale of the values of these candidates."""
        values = np.array([self._get_signed_values(each) for each in candidates])
        return replace(self, scale=np.array([values.min(axis=0), np.ptp(values, axis=0)]))

    def values(self, candidate: Candidate) -> Floats:
        """Return the values by which a candidate is ordered; lower is better."""
        return self.weigh(self._get_signed_values(candidate))

    def weigh(self, values: Floats) -> Floats:
        """Replace values in the last dimension by their weighted score, if there are weights."""
        if not self.weights:
            return values
        low, span = self.scale
        scaled = np.where(span > 0, (values - low) / np.where(span > 0, span, 1.0), 0.0)
        scores: Floats = scaled @ (np.array(self.weights) / sum(self.weights))
        return scores[..., np.newaxis]

    def sort_rows(self, values: Floats) -> list[int]:
        """Return the indices of rows of values, best first; equal rows keep their order."""
        return _sort_rows(values, np.arange(len(values)), 0, self.tolerance)

    def _get_signed_values(self, candidate: Candidate) -> Floats:
        return np.array(
            [
                candidate.predicted[each.kpi] * (1.0 if each.lower else -1.0)
                for each in self.objectives
            ]
        )


def _sort_rows(values: Floats, rows: NDArray[np.intp], column: int, tolerance: float) -> list[int]:
    """Sort rows by a column, and rows that are equal in it by the next columns."""
    rows = rows[np.argsort(values[rows, column], kind="stable")]
    if column + 1 == values.shape[1] or len(rows) == 1:
        return [int(row) for row in rows]
    ordered: list[int] = []
    while len(rows):
        current = values[rows, column]
        equal = int(
            np.searchsorted(current, current[0] + tolerance * abs(current[0]), side="right")
        )
        ordered += _sort_rows(values, rows[:equal], column + 1, tolerance)
        rows = rows[equal:]
    return ordered
