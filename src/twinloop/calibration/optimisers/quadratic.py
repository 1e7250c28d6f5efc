"""A local quadratic model of the loss in a trust region."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.parameters.space import Space

_INITIAL_SIZE: Final = 0.15
_MAX_SIZE: Final = 0.4
_MIN_SIZE: Final = 1e-7
_RIDGE: Final = 1e-9  # regularises curvature that the points do not determine
_MAX_POINTS: Final = 2000
_MAX_SWEEPS: Final = 12
_MAX_DISTANCE: Final = 8.0  # points farther away than this many half widths of the box are ignored


class Quadratic(BaseOptimiser):
    """Trust-region search: steps to the minimum of a quadratic model in a box.

    The model is fitted by least squares to the nearest points; if they do not determine it, the
    change from the last model is minimal (after Powell's NEWUOA, 2006). A step with the predicted
    decrease widens the box, a step without it narrows the box. Batches are filled with points of
    the largest prediction variance. Categories stay as they are at the best point.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> search = Quadratic(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> for _ in range(20):
    ...     points = search.ask(1)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-12
    True
    """

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._cells = Discretisation(space)
        self._columns = np.flatnonzero(~self._cells.unordered)
        d = len(self._columns)
        self._pairs = np.triu_indices(d, 1)
        self._terms = 1 + d + d + len(self._pairs[0])
        self._points = np.empty((0, self.dimensions))
        self._losses = np.empty(0)
        self._start_at(np.full(self.dimensions, 0.5), _INITIAL_SIZE)

    def begin(self, points: Floats, losses: Floats) -> None:
        """Start around the best of these points."""
        self._start_at(points[0], _INITIAL_SIZE)
        self.learn(points, losses)
        self._queued.pop(0)

    def _start_at(self, centre: Floats, size: float) -> None:
        self._centre, self._loss = self._cells.snap_to_centres(np.array(centre)[None])[0], np.inf
        self._size = size
        self._curvature = np.zeros((len(self._columns), len(self._columns)))
        self._queued = [self._centre, *self._make_star()]
        #: The predicted decrease at each point that was asked; NaN: a point for the model.
        self._predicted: list[float] = []

    def _make_star(self) -> list[Floats]:
        """Make one point beside the centre along each axis."""
        points = []
        reach = self._get_half_widths()
        for index, column in enumerate(self._columns.tolist()):
            beside = np.array(self._centre)
            step = reach[index] * (1.0 if self.rng.random() < 0.5 else -1.0)
            inside = 0.0 <= beside[column] + step <= 1.0
            beside[column] += step if inside else -step
            points.append(np.clip(beside, 0.0, 1.0))
        return points

    def _get_half_widths(self) -> Floats:
        """Return half the width of the box along each column, at least a cell."""
        return np.maximum(self._size, 1.01 * self._cells.width[self._columns])

    def ask(self, count: int) -> Floats:
        """Return the minimum of the model, and points that improve the model."""
        points: list[Floats] = []
        self._predicted = []
        while self._queued and len(points) < count:
            points.append(self._queued.pop(0))
            self._predicted.append(np.nan)
        if len(points) < count and len(self._columns):
            points += self._propose(count - len(points))
        while len(points) < count:
            points.append(self.rng.random(self.dimensions))
            self._predicted.append(np.nan)
        return self._cells.snap_to_centres(np.array(points))

    def _propose(self, count: int) -> list[Floats]:
        near = self._find_nearest()
        if near is None:
            return []
        rows, values = near
        reach = self._get_half_widths()
        centre = self._centre[self._columns]
        features = self._make_features((rows - centre) / reach)
        slope, bend, spread = self._fit_model(features, values, reach)
        low = np.maximum(-1.0, -centre / reach)
        high = np.minimum(1.0, (1.0 - centre) / reach)
        proposals: list[Floats] = []
        for scale in (1.0, 0.3, 2.5)[: max(count // 3, 1)]:
            step = minimise_quadratic(
                slope,
                bend,
                np.maximum(low * scale, -centre / reach),
                np.minimum(high * scale, (1 - centre) / reach),
            )
            gain = -float(slope @ step + 0.5 * step @ bend @ step)
            known = np.abs((rows - centre) / reach - step).max(axis=1).min() < 1e-3
            if gain > 0 and not (known and len(proposals) == 0 and count == 1):
                proposals.append(step)
                self._predicted.append(gain)
        while len(proposals) < min(count, 2 * len(centre)):
            drawn = self.rng.uniform(low, high, (32, len(centre)))
            terms = self._make_features(drawn)
            # The prediction variance, up to the factor of the noise.
            variance = (terms @ spread * terms).sum(axis=1)
            first = int(np.argmax(variance))
            proposals.append(drawn[first])
            self._predicted.append(np.nan)
            seen = spread @ terms[first]
            spread = spread - np.outer(seen, seen) / (1.0 + float(terms[first] @ seen))
        rest = self.rng.uniform(low, high, (count - len(proposals), len(centre)))
        self._predicted += [np.nan] * len(rest)
        points = []
        for step in [*proposals, *rest]:
            point = np.array(self._centre)
            point[self._columns] = np.clip(centre + step * reach, 0.0, 1.0)
            points.append(point)
        return points

    def _find_nearest(self) -> tuple[Floats, Floats] | None:
        """Find the evaluated points nearest to the centre, with the same categories.

        None if there are fewer than two.
        """
        others = np.flatnonzero(self._cells.unordered)
        alike = np.isfinite(self._losses)
        alike &= (self._points[:, others] == self._centre[others]).all(axis=1)
        rows, values = self._points[alike][:, self._columns], self._losses[alike]
        if len(values) < 2:
            return None
        away = np.abs((rows - self._centre[self._columns]) / self._get_half_widths()).max(axis=1)
        order = np.argsort(away, kind="stable")[: 2 * self._terms]
        order = order[
            (away[order] <= _MAX_DISTANCE) | (np.arange(len(order)) <= len(self._columns))
        ]
        return rows[order], values[order]

    def _make_features(self, steps: Floats) -> Floats:
        ones = np.ones((len(steps), 1))
        cross = steps[:, self._pairs[0]] * steps[:, self._pairs[1]]
        return np.concatenate([ones, steps, 0.5 * steps**2, cross], axis=1)

    def _fit_model(
        self, features: Floats, values: Floats, reach: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Fit slope and curvature in steps of the box; return them and the covariance of terms."""
        d = len(reach)
        scale = np.outer(reach, reach)
        prior = self._curvature * scale
        flat = np.concatenate([np.diag(prior), prior[self._pairs]])
        rest = values - values.min() - features[:, 1 + d :] @ flat
        away = np.abs(features[:, 1 : 1 + d]).max(axis=1)
        weights = 1.0 / np.maximum(away, 1.0) ** 2
        weighted = features * weights[:, None]
        normal = weighted.T @ weighted
        ridge = np.full(self._terms, _RIDGE)
        ridge[: 1 + d] *= 1e-3
        normal[np.diag_indices(self._terms)] += ridge * len(values)
        inverse = np.linalg.inv(normal)
        terms = inverse @ (weighted.T @ (weights * rest))
        # One step of refinement, because the normal equations square the condition.
        again = rest - features @ terms
        terms = terms + inverse @ (weighted.T @ (weights * again) - ridge * len(values) * terms)
        curve = terms[1 + d :] + flat
        bend = np.diag(curve[:d])
        bend[self._pairs] = curve[d:]
        bend = bend + np.triu(bend, 1).T
        self._curvature = bend / scale
        return terms[1 : 1 + d], bend, inverse

    def tell(self, points: Floats, losses: Floats) -> None:
        """Compare predicted with actual decreases, and move or resize the box."""
        before = self._loss
        self.learn(points, losses)
        for predicted, loss in zip(
            self._predicted, failures_to_infinity(losses).tolist(), strict=False
        ):
            if np.isfinite(predicted) and np.isfinite(before):
                ratio = (before - loss) / max(predicted, 1e-300)
                if ratio > 0.7:
                    self._size = min(2.0 * self._size, _MAX_SIZE)
                elif ratio < 0.1:
                    self._size *= 0.5
                break
        if self._size < _MIN_SIZE:
            self._start_at(self.rng.random(self.dimensions), _INITIAL_SIZE)

    def learn(self, points: Floats, losses: Floats) -> None:
        """Add points of other optimisers."""
        super().tell(points, losses)
        losses = failures_to_infinity(losses)
        self._points = np.concatenate([self._points, points])[-_MAX_POINTS:]
        self._losses = np.concatenate([self._losses, losses])[-_MAX_POINTS:]
        first = int(np.argmin(losses)) if len(losses) else 0
        if len(losses) and losses[first] < self._loss:
            self._centre, self._loss = np.array(points[first]), float(losses[first])


def minimise_quadratic(slope: Floats, bend: Floats, low: Floats, high: Floats) -> Floats:
    """Minimise a quadratic in a box: a clipped Newton step, then coordinate descent.

    >>> low, high = np.full(2, -2.0), np.full(2, 2.0)
    >>> minimise_quadratic(np.array([-1.0, 4.0]), np.eye(2), low, high).tolist()
    [1.0, -2.0]
    """
    squares, axes = np.linalg.eigh(bend)
    squares = np.maximum(np.abs(squares), 1e-12 * max(float(np.abs(squares).max()), 1e-300))
    step: Floats = np.clip(-(axes @ ((axes.T @ slope) / squares)), low, high)
    gradient = slope + bend @ step
    bounds = list(zip(low.tolist(), high.tolist(), np.diag(bend).tolist(), strict=True))
    for _ in range(_MAX_SWEEPS):
        furthest = 0.0
        for column, (lower, upper, own_curvature) in enumerate(bounds):
            position = float(step[column])
            other_slope = float(gradient[column]) - own_curvature * position
            if own_curvature > 0:
                moved = min(max(-other_slope / own_curvature, lower), upper)
            else:
                moved = min(
                    lower,
                    upper,
                    key=lambda end: other_slope * end + 0.5 * own_curvature * end * end,
                )
            if moved != position:
                gradient += bend[column] * (moved - position)
                step[column] = moved
                furthest = max(furthest, abs(moved - position))
        if furthest < 1e-6:
            break
    return step
