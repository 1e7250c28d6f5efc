"""Differences of the losses of versions, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

#: The confidence level of all comparisons of a family together.
LEVEL: Final = 0.95
#: Differences of losses below this do not count, whatever their intervals: 0.1 points.
SMALLEST: Final = 1e-3


@dataclass(frozen=True)
class LossDifference:
    """A difference of losses with its confidence interval.

    The ends are None if the data do not determine the variance.
    """

    estimate: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """`worse`, `better`, `equal` or `unknown`; a larger loss is worse.

        >>> LossDifference(0.2, 0.1, 0.3).verdict, LossDifference(0.2, -0.1, 0.5).verdict
        ('worse', 'equal')
        """
        if self.low is None or self.high is None:
            return "unknown"
        if abs(self.estimate) < SMALLEST or self.low <= 0.0 <= self.high:
            return "equal"
        return "worse" if self.estimate > 0 else "better"

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            "difference": self.estimate,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
        }


def compare_losses(
    losses: Mapping[int, _Floats], weights: Mapping[int, float], comparisons: int = 1
) -> LossDifference:
    """Estimate a weighted sum of the losses of versions, and its confidence interval.

    The losses of a version are a row per search and a column per run. Runs are the same in all
    versions, so that their differences are paired; searches are independent of each other. The
    variance of the sum is that of its mean over the runs, plus that of the mean over the searches
    of each version; the degrees of freedom are those of Welch and Satterthwaite. With several
    comparisons the level is corrected after Bonferroni.

    Args:
        losses: The losses of each version.
        weights: The weight of each version; they add up to 0.
        comparisons: The number of comparisons in the family.

    >>> losses = {1: np.array([[0.3, 0.5, 0.4]]), 2: np.array([[0.1, 0.28, 0.2]])}
    >>> found = compare_losses(losses, {1: 1.0, 2: -1.0})
    >>> round(found.estimate, 3), found.verdict
    (0.207, 'worse')
    """
    rows = {version: losses[version] for version, weight in weights.items() if weight}
    by_run = sum(weights[version] * each.mean(axis=0) for version, each in rows.items())
    assert isinstance(by_run, np.ndarray)
    estimate = float(by_run.mean())
    parts: list[tuple[float, int]] = []
    if len(by_run) > 1:
        parts.append((float(by_run.var(ddof=1)) / len(by_run), len(by_run) - 1))
    for version, each in rows.items():
        if len(each) > 1:
            spread = float(each.mean(axis=1).var(ddof=1)) / len(each)
            parts.append((weights[version] ** 2 * spread, len(each) - 1))
    if not parts:
        return LossDifference(estimate, None, None)
    variance = sum(part for part, _ in parts)
    if variance <= 0.0:
        return LossDifference(estimate, estimate, estimate)
    freedom = variance**2 / sum(part**2 / count for part, count in parts)
    half = _quantile(freedom, 1 - (1 - LEVEL) / (2 * comparisons)) * float(np.sqrt(variance))
    return LossDifference(estimate, estimate - half, estimate + half)


def _quantile(freedom: float, probability: float) -> float:
    # scipy.stats is not used because its import takes a second.
    from scipy import special

    return float(special.stdtrit(freedom, probability))
