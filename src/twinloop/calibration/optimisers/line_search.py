"""Search along a line through the unit cube, as a generator of points."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats

_SHORTEST: Final = 1e-7
_GROWTH: Final = 2.0
_GOLDEN: Final = 0.381966
_PARABOLAS: Final = 4  # at most, on one line
_AT_ONCE: Final = 8


class LineSearch:
    """A line through a point with its evaluated places, which are distances from that point.

    Args:
        here: The point.
        loss: Its loss.
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

    def __init__(self, here: Floats, loss: float, direction: Floats, length: float) -> None:
        self._here, self._direction, self._length = here, direction, length
        self._low, self._high = _reach(here, direction)
        self.known = {0.0: loss}

    def point(self, place: float) -> Floats:
        """The point at this place."""
        return np.asarray(np.clip(self._here + place * self._direction, 0.0, 1.0))

    def best(self) -> float:
        """The place of the lowest loss, the nearest of equal ones."""
        return min(self.known, key=lambda place: (self.known[place], abs(place)))

    def narrow(self) -> Generator[Floats, Floats, float]:
        """Search with one point at a time: bracketing, then parabolas and golden sections."""
        if self._high - self._low < _SHORTEST:
            return 0.0
        yield from self._bracket()
        for turn in range(_PARABOLAS):
            before = self.known[self.best()]
            guess = self._guess(turn)
            if guess is None:
                break
            yield from self._at(guess)
            if turn and before - self.known[self.best()] < 1e-3 * abs(before):
                break
        return self.best()

    def spread(self) -> Generator[Floats, Floats, float]:
        """Search with several points at once around the best place, then a parabola."""
        length = self._length
        for _ in range(3):
            offsets = length * np.geomspace(0.1, 2.0, _AT_ONCE // 2)
            places = self.best() + np.concatenate([-offsets[::-1], offsets])
            yield from self._at(*np.clip(places, self._low, self._high).tolist())
            guess = _vertex(*self._around())
            if guess is not None:
                yield from self._at(guess)
            length *= 0.2
        return self.best()

    def _at(self, *places: float) -> Generator[Floats, Floats, None]:
        new = [place for place in dict.fromkeys(places) if place not in self.known]
        if new:
            losses = yield np.array([self.point(place) for place in new])
            self.known.update(zip(new, losses.tolist(), strict=True))

    def _bracket(self) -> Generator[Floats, Floats, None]:
        """Bracket a minimum with growing steps."""
        first = self._length if self._length <= self._high else -self._length
        step = min(max(first, self._low), self._high)
        yield from self._at(step)
        if self.known[step] >= self.known[0.0]:
            step = min(max(-step, self._low), self._high)
            yield from self._at(step)
            if self.known[step] >= self.known[0.0]:
                return
        before = 0.0
        while True:
            further = min(max(step + _GROWTH * (step - before), self._low), self._high)
            yield from self._at(further)
            if further == step or self.known[further] >= self.known[step]:
                return
            before, step = step, further

    def _around(self) -> tuple[Floats, Floats]:
        """The best place and its neighbours, with their losses."""
        places = sorted(self.known)
        at = places.index(self.best())
        near = places[max(at - 1, 0) : at + 2]
        return np.array(near), np.array([self.known[place] for place in near])

    def _guess(self, turn: int) -> float | None:
        """The next place to evaluate; None if the search has converged."""
        places, losses = self._around()
        best = self.best()
        left, right = float(places[0]), float(places[-1])
        spread = max(self.known.values()) - min(self.known.values())
        if right - left <= 1e-3 * self._length or spread <= 1e-14 * abs(self.known[0.0]):
            return None
        longer = right if right - best > best - left else left
        guess = _vertex(places, losses)
        if guess is None or turn == _PARABOLAS - 1:
            return best + _GOLDEN * (longer - best)
        gap = 0.02 * (right - left)
        if abs(guess - best) >= gap:
            return guess
        return None if turn else best + (gap if longer == right else -gap)


def _reach(here: Floats, direction: Floats) -> tuple[float, float]:
    """The distances from a point to the faces of the cube, backwards and forwards."""
    moving = direction != 0.0
    start, slope = here[moving], direction[moving]
    ends = np.array([-start / slope, (1.0 - start) / slope])
    return min(float(ends.min(axis=0).max()), 0.0), max(float(ends.max(axis=0).min()), 0.0)


def _vertex(places: Floats, losses: Floats) -> float | None:
    """The minimum of the parabola through three points of which the middle is the lowest."""
    if len(places) < 3 or losses.max() > 1e99:
        return None
    (a, b, c), (fa, fb, fc) = places.tolist(), losses.tolist()
    across = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    down = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    if not across < 0:
        return None
    guess = float(b - 0.5 * down / across)
    return guess if a < guess < c else None
