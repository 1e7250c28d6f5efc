"""Fits with one parameter held constant, by least squares of outputs or by the loss."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.uncertainty.evaluation_count import Evaluations

Floats = NDArray[np.float64]

#: The Levenberg-Marquardt dampings that are tried, relative to the largest curvature.
_DAMPINGS: Final = (1e-9, 1e-3, 1e-1, 10.0)


class ConstrainedFit(Protocol):
    """A fit with a score of points; a lower score is better."""

    def scores(self, points: Floats) -> Floats:
        """Compute the score of each point; infinite where the evaluation failed."""
        ...

    def fit(self, start: Floats, held: int | None, enough: float) -> tuple[Floats, float]:
        """Fit from `start` with coordinate `held` constant; return the point and its score.

        The fit may stop when the score is at most `enough`.
        """
        ...


class LeastSquaresFit:
    """Least squares of the outputs over their noise, by Levenberg-Marquardt within the cube.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Sum:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    ...     def __call__(self, points):
    ...         return abs(self.outputs(points))[:, 0]
    ...     def outputs(self, points):
    ...         return points.sum(axis=1, keepdims=True) - 1
    >>> found = LeastSquaresFit(Evaluations(Sum(), 100), 0.01, np.full(2, 0.01))
    >>> found.fit(np.array([0.8, 0.5]), 0, 0.0)[0].round(2).tolist()
    [0.8, 0.2]
    """

    def __init__(self, evaluations: Evaluations, noise: Floats | float, steps: Floats) -> None:
        self._evaluations = evaluations
        self._noise = noise
        self._steps = steps
        self._unordered = np.array([not each.ordered for each in evaluations.space])

    def scores(self, points: Floats) -> Floats:
        """Compute the sum of squares of the outputs over their noise."""
        return self._sum_squares(self._scale_outputs(points))

    def fit(self, start: Floats, held: int | None, enough: float) -> tuple[Floats, float]:
        """Fit by least squares from `start`."""
        free = np.array([i for i in range(len(start)) if i != held and not self._unordered[i]])
        point = start.copy()
        residuals = self._scale_outputs(point[np.newaxis])[0]
        score = float(self._sum_squares(residuals[np.newaxis])[0])
        for _ in range(8):
            if score <= enough or not len(free) or not np.isfinite(score):
                break
            slopes = self._estimate_slopes(point, residuals, free)
            tried = _propose_steps(slopes, residuals, point, free)
            tried_residuals = self._scale_outputs(tried)
            scores = self._sum_squares(tried_residuals)
            # The most damped of about equal steps, so that parameters without effect do not move.
            chosen = int(np.flatnonzero(scores <= scores.min() + 1e-3)[-1])
            if not scores[chosen] < score - 1e-3:
                break
            point, residuals, score = tried[chosen], tried_residuals[chosen], float(scores[chosen])
        return point, score

    def _estimate_slopes(self, point: Floats, residuals: Floats, free: NDArray[np.intp]) -> Floats:
        steps = np.where(point[free] + self._steps[free] > 1.0, -1.0, 1.0) * self._steps[free]
        near = np.tile(point, (len(free), 1))
        near[np.arange(len(free)), free] += steps
        moved = self._scale_outputs(near)
        slopes: Floats = np.nan_to_num((moved - residuals) / steps[:, np.newaxis]).T
        return slopes

    def _scale_outputs(self, points: Floats) -> Floats:
        outputs = self._evaluations.outputs(points)
        assert outputs is not None
        scaled: Floats = outputs / self._noise
        return scaled

    @staticmethod
    def _sum_squares(scaled: Floats) -> Floats:
        squares = np.einsum("ij,ij->i", scaled, scaled)
        return np.where(np.isnan(squares), np.inf, squares)


class _EnoughError(Exception):
    """The loss is low enough to stop."""


class SimplexFit:
    """Nelder-Mead minimisation of the loss, for objectives without outputs.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Sum:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    ...     def __call__(self, points):
    ...         return abs(points.sum(axis=1) - 1)
    >>> found = SimplexFit(Evaluations(Sum(), 200), np.full(2, 0.1))
    >>> found.fit(np.array([0.8, 0.5]), 0, 1e-6)[0].round(4).tolist()
    [0.8, 0.2]
    """

    def __init__(self, evaluations: Evaluations, widths: Floats) -> None:
        self._evaluations = evaluations
        self._widths = widths
        self._unordered = np.array([not each.ordered for each in evaluations.space])

    def scores(self, points: Floats) -> Floats:
        """Compute the loss."""
        return self._evaluations.losses(points)

    def fit(self, start: Floats, held: int | None, enough: float) -> tuple[Floats, float]:
        """Minimise the loss from `start`."""
        from scipy.optimize import minimize

        free = np.array([i for i in range(len(start)) if i != held and not self._unordered[i]])
        best, lowest = start.copy(), float(self.scores(start[np.newaxis])[0])
        if not len(free) or lowest <= enough:
            return best, lowest

        def loss(coordinates: Floats) -> float:
            nonlocal best, lowest
            point = start.copy()
            point[free] = coordinates
            score = float(self.scores(point[np.newaxis])[0])
            if score < lowest:
                best, lowest = point, score
            if lowest <= enough:
                raise _EnoughError
            return min(score, 1e300)

        edge_lengths = np.clip(2 * self._widths[free], 0.02, 0.3)
        simplex = np.tile(start[free], (len(free) + 1, 1))
        inward = np.where(start[free] + edge_lengths > 1.0, -edge_lengths, edge_lengths)
        simplex[np.arange(1, len(free) + 1), np.arange(len(free))] += inward
        options = {"initial_simplex": simplex, "maxfev": 60 * len(free) + 20}
        options |= {"xatol": 1e-5, "fatol": 1e-9 + 1e-4 * abs(lowest)}
        with suppress(_EnoughError):
            minimize(
                loss,
                start[free],
                method="Nelder-Mead",
                bounds=[(0.0, 1.0)] * len(free),
                options=options,
            )
        return best, lowest


def _propose_steps(
    slopes: Floats, residuals: Floats, point: Floats, free: NDArray[np.intp]
) -> Floats:
    """Propose a least-squares step for each damping, clipped to the cube."""
    values, vectors = np.linalg.eigh(slopes.T @ slopes)
    dampings = np.array(_DAMPINGS)[:, np.newaxis] * max(float(values[-1]), 1e-12)
    along = vectors.T @ (slopes.T @ residuals)
    targets = point[free] - (along / (np.maximum(values, 0.0) + dampings)) @ vectors.T
    moved = np.tile(point, (len(targets), 1))
    moved[:, free] = np.clip(targets, 0.0, 1.0)
    for row in np.flatnonzero((moved[:, free] != targets).any(axis=1)):
        clipped = moved[row, free] != targets[row]
        damping = float(dampings[row, 0])
        moved[row] = _repeat_unclipped(slopes, residuals, point, free, damping, moved[row], clipped)
    return moved


def _repeat_unclipped(
    slopes: Floats,
    residuals: Floats,
    point: Floats,
    free: NDArray[np.intp],
    damping: float,
    moved: Floats,
    clipped: NDArray[np.bool_],
) -> Floats:
    """Repeat the step for the coordinates that were not clipped."""
    for _ in range(2):
        fixed = free[clipped]
        remaining_residuals = residuals + slopes[:, clipped] @ (moved[fixed] - point[fixed])
        free_slopes = slopes[:, ~clipped]
        if not free_slopes.size:
            break
        normal = free_slopes.T @ free_slopes + damping * np.eye(free_slopes.shape[1])
        target = point[free[~clipped]] - np.linalg.solve(
            normal, free_slopes.T @ remaining_residuals
        )
        moved[free[~clipped]] = np.clip(target, 0.0, 1.0)
        out = (target < 0.0) | (target > 1.0)
        if not out.any():
            break
        clipped = clipped.copy()
        clipped[np.flatnonzero(~clipped)[out]] = True
    return moved
