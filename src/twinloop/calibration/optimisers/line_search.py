"""Search along a line through the unit cube, as a generator of points."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats

_MIN_LENGTH: Final = 1e-7
_GROWTH: Final = 2.0
_GOLDEN: Final = 0.381966
_MAX_PARABOLAS: Final = 4  # on one line
_BATCH_SIZE: Final = 8


class LineSearch:
    """A search along a line; points of the line are given by their distance from its origin.

    `losses` are the losses of the evaluated points, by distance.

    Args:
        origin: A point of the line.
        loss: The loss of that point.
        direction: The direction of the line.
        length: The length of the first step.

    >>> line = LineSearch(np.array([0.5]), 0.04, np.array([1.0]), 0.1)
    >>> search = line.narrow()
    >>> points = next(search)
    >>> for _ in range(3):
    ...     points = search.send((points[:, 0] - 0.3) ** 2)
    >>> points.round(6)  # after three steps, a parabola
    array([[0.3]])
    """

    def __init__(self, origin: Floats, loss: float, direction: Floats, length: float) -> None:
        self._origin, self._direction, self._length = origin, direction, length
        self._low, self._high = _find_limits(origin, direction)
        self.losses = {0.0: loss}

    def point(self, distance: float) -> Floats:
        """Return the point at this distance."""
        return np.asarray(np.clip(self._origin + distance * self._direction, 0.0, 1.0))

    def best(self) -> float:
        """Return the distance of the lowest loss, the shortest of equal ones."""
        return min(self.losses, key=lambda distance: (self.losses[distance], abs(distance)))

    def narrow(self) -> Generator[Floats, Floats, float]:
        """Search with one point at a time: bracketing, then parabolas and golden sections."""
        if self._high - self._low < _MIN_LENGTH:
            return 0.0
        yield from self._bracket()
        for number in range(_MAX_PARABOLAS):
            before = self.losses[self.best()]
            guess = self._propose(number)
            if guess is None:
                break
            yield from self._evaluate(guess)
            if number and before - self.losses[self.best()] < 1e-3 * abs(before):
                break
        return self.best()

    def spread(self) -> Generator[Floats, Floats, float]:
        """Search with several points at once around the best point, then a parabola."""
        length = self._length
        for _ in range(3):
            offsets = length * np.geomspace(0.1, 2.0, _BATCH_SIZE // 2)
            distances = self.best() + np.concatenate([-offsets[::-1], offsets])
            yield from self._evaluate(*np.clip(distances, self._low, self._high).tolist())
            guess = _find_vertex(*self._select_around_best())
            if guess is not None:
                yield from self._evaluate(guess)
            length *= 0.2
        return self.best()

    def _evaluate(self, *distances: float) -> Generator[Floats, Floats, None]:
        new = [distance for distance in dict.fromkeys(distances) if distance not in self.losses]
        if new:
            losses = yield np.array([self.point(distance) for distance in new])
            self.losses.update(zip(new, losses.tolist(), strict=True))

    def _bracket(self) -> Generator[Floats, Floats, None]:
        """Bracket a minimum with growing steps."""
        first = self._length if self._length <= self._high else -self._length
        step = min(max(first, self._low), self._high)
        yield from self._evaluate(step)
        if self.losses[step] >= self.losses[0.0]:
            step = min(max(-step, self._low), self._high)
            yield from self._evaluate(step)
            if self.losses[step] >= self.losses[0.0]:
                return
        before = 0.0
        while True:
            further = min(max(step + _GROWTH * (step - before), self._low), self._high)
            yield from self._evaluate(further)
            if further == step or self.losses[further] >= self.losses[step]:
                return
            before, step = step, further

    def _select_around_best(self) -> tuple[Floats, Floats]:
        """Return the distances of the best point and its neighbours, with their losses."""
        distances = sorted(self.losses)
        index = distances.index(self.best())
        near = distances[max(index - 1, 0) : index + 2]
        return np.array(near), np.array([self.losses[distance] for distance in near])

    def _propose(self, number: int) -> float | None:
        """Return the next distance to evaluate; None if the search has converged."""
        distances, losses = self._select_around_best()
        best = self.best()
        left, right = float(distances[0]), float(distances[-1])
        spread = max(self.losses.values()) - min(self.losses.values())
        if right - left <= 1e-3 * self._length or spread <= 1e-14 * abs(self.losses[0.0]):
            return None
        longer = right if right - best > best - left else left
        guess = _find_vertex(distances, losses)
        if guess is None or number == _MAX_PARABOLAS - 1:
            return best + _GOLDEN * (longer - best)
        gap = 0.02 * (right - left)
        if abs(guess - best) >= gap:
            return guess
        return None if number else best + (gap if longer == right else -gap)


def _find_limits(origin: Floats, direction: Floats) -> tuple[float, float]:
    """Return the distances from a point to the faces of the cube, backwards and forwards."""
    moving = direction != 0.0
    start, slope = origin[moving], direction[moving]
    ends = np.array([-start / slope, (1.0 - start) / slope])
    return min(float(ends.min(axis=0).max()), 0.0), max(float(ends.max(axis=0).min()), 0.0)


def _find_vertex(distances: Floats, losses: Floats) -> float | None:
    """Return the minimum of the parabola through three points; None if it is not between them."""
    if len(distances) < 3 or losses.max() > 1e99:
        return None
    (a, b, c), (fa, fb, fc) = distances.tolist(), losses.tolist()
    denominator = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    numerator = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    if not denominator < 0:
        return None
    guess = float(b - 0.5 * numerator / denominator)
    return guess if a < guess < c else None
