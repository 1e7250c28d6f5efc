"""Powell: one line after another, along directions that learn to be conjugate."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibrate.optimise.interface import Floats
from twinloop.calibrate.optimise.lanes import Lanes, Steps

_SHORTEST: Final = 1e-7
_GROWTH: Final = 2.0
_GOLDEN: Final = 0.381966

Line = Generator[Floats, Floats, tuple[Floats, float, float]]


class Powell(Lanes):
    """Powell's method with bounds: line searches along directions, and along what they gained.

    A line search brackets a minimum with growing steps and then narrows it by parabolas and golden
    sections, only as far as pays at this stage. Along a category every value is tried. With
    batches, several points of a line are tried at once.

    >>> from twinloop.calibrate.parameters import Linear
    >>> from twinloop.calibrate.space import Space
    >>> search = Powell(Space([Linear("a", 0, 1), Linear("b", 0, 1)]), seed=1)
    >>> for _ in range(60):
    ...     points = search.ask(1)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-9
    True
    """

    size = 0.1

    def steps(self, start: Floats, rng: np.random.Generator) -> Steps:
        """Rounds of line searches until they gain nothing."""
        d = self.dimensions
        directions = np.eye(d)
        lengths = np.maximum(np.full(d, self.size), 1.01 * self.grain.width)
        here = np.array(start)
        loss = float((yield here[np.newaxis])[0])
        while True:
            begin, before = here, loss
            largest, widest = 0.0, 0
            for column in rng.permutation(d).tolist():
                unordered = bool(self.grain.unordered[column]) and bool(directions[column, column])
                last = loss
                if unordered:
                    here, loss = yield from self._categories(here, loss, column)
                    continue
                here, loss, step = yield from self._line(
                    here, loss, directions[column], lengths[column]
                )
                floor = 1.01 * self.grain.width[column]
                lengths[column] = max(min(2 * step, 0.25), 0.2 * lengths[column], floor)
                if last - loss > largest:
                    largest, widest = last - loss, column
            moved = here - begin
            norm = float(np.abs(moved).max())
            if norm > 0 and not self.grain.unordered.any():
                ahead = float((yield np.clip(here + moved, 0, 1)[np.newaxis])[0])
                bend = 2 * (before - 2 * loss + ahead) * (before - loss - largest) ** 2
                if ahead < before and bend < largest * (before - ahead) ** 2:
                    here, loss, step = yield from self._line(here, loss, moved / norm, norm)
                    directions[widest], directions[-1] = directions[-1].copy(), moved / norm
                    lengths[widest] = lengths[-1]
                    lengths[-1] = max(min(2 * step, 0.25), 0.2 * norm)
            if before - loss <= 1e-12 * abs(loss):
                still = self.grain.width if self.grain.discrete.any() else 0.0
                if lengths.max() <= max(_SHORTEST, float(np.max(1.02 * still))):
                    return
                lengths = np.maximum(lengths * 0.2, 1.01 * self.grain.width)
                directions = np.eye(d)

    def _categories(self, here: Floats, loss: float, column: int):  # type: ignore[no-untyped-def]
        middles = self.grain.middles.get(column)
        if middles is None:
            return here, loss
        others = np.tile(here, (len(middles), 1))
        others[:, column] = middles
        others = others[np.abs(middles - here[column]) > 0.5 / len(middles)]
        if len(others):
            losses = yield others
            first = int(np.argmin(losses))
            if losses[first] < loss:
                return others[first], float(losses[first])
        return here, loss

    def _line(self, here: Floats, loss: float, direction: Floats, length: float) -> Line:
        """The best point found on a line through here, its loss, and how far it is."""
        low, high = _reach(here, direction)
        if high - low < _SHORTEST:
            return here, loss, 0.0
        if self.batch >= 8:
            place, best = yield from self._spread(here, loss, direction, length, low, high)
        else:
            place, best = yield from self._narrow(here, loss, direction, length, low, high)
        return np.clip(here + place * direction, 0, 1), best, abs(place)

    def _spread(self, here, loss, direction, length, low, high):  # type: ignore[no-untyped-def]
        """Several points at once: far ones first, then close around the best."""
        count = min(self.batch, 8)
        place, best = 0.0, loss
        for _ in range(3):
            offsets = length * np.geomspace(0.1, 2.0, count // 2)
            places = np.clip(place + np.concatenate([-offsets[::-1], offsets]), low, high)
            losses = yield here + np.outer(places, direction)
            places, losses = np.append(places, place), np.append(losses, best)
            first = int(np.argmin(losses))
            guess = _vertex(places, losses, first)
            place, best = float(places[first]), float(losses[first])
            length *= 0.2
            if guess is not None and low < guess < high:
                other = float((yield (here + guess * direction)[np.newaxis])[0])
                if other < best:
                    place, best = guess, other
        return place, best

    def _narrow(self, here, loss, direction, length, low, high):  # type: ignore[no-untyped-def]
        """One point at a time: a bracket, then parabolas and golden sections."""
        known = {0.0: loss}

        def at(place: float):  # type: ignore[no-untyped-def]
            if place not in known:
                known[place] = float((yield (here + place * direction)[np.newaxis])[0])
            return known[place]

        step = length if length <= high else -length
        step = min(max(step, low), high)
        if (yield from at(step)) >= loss:
            back = min(max(-step, low), high)
            if back == 0.0 or (yield from at(back)) >= loss:
                left, middle, right = sorted([step, 0.0, back])
            else:
                step = back
                left = None
        else:
            left = None
        if left is None:
            previous, middle = 0.0, step
            while True:
                further = min(max(middle + _GROWTH * (middle - previous), low), high)
                if further == middle or (yield from at(further)) >= known[middle]:
                    break
                previous, middle = middle, further
            left, right = min(previous, further), max(previous, further)
        for turn in range(4):
            scale = max(known.values()) - min(known.values())
            if right - left <= 1e-3 * length or scale <= 1e-14 * abs(loss):
                break
            places = np.array(sorted(known))
            losses = np.array([known[place] for place in places])
            first = int(np.argmin(losses))
            guess = _vertex(places, losses, first)
            middle = float(places[first])
            left = float(places[first - 1]) if first else middle
            right = float(places[first + 1]) if first + 1 < len(places) else middle
            gap = 0.02 * (right - left)
            if guess is None or not left < guess < right or turn == 3:
                wide = right if right - middle > middle - left else left
                guess = middle + _GOLDEN * (wide - middle)
            elif abs(guess - middle) < gap:
                if turn:
                    break
                guess = middle + (gap if right - middle > middle - left else -gap)
            before = min(known.values())
            yield from at(float(guess))
            if turn and before - min(known.values()) < 1e-3 * abs(before):
                break
        place = min(known, key=lambda each: (known[each], abs(each)))
        return place, known[place]


def _reach(here: Floats, direction: Floats) -> tuple[float, float]:
    """How far the cube goes from a point in this direction, backwards and forwards."""
    with np.errstate(divide="ignore", invalid="ignore"):
        to_low, to_high = -here / direction, (1.0 - here) / direction
    moving = direction != 0.0
    far = np.maximum(to_low, to_high)[moving]
    near = np.minimum(to_low, to_high)[moving]
    return min(float(near.max()), 0.0), max(float(far.min()), 0.0)


def _vertex(places: Floats, losses: Floats, first: int) -> float | None:
    """Where the parabola through the best point and its neighbours has its minimum."""
    order = np.argsort(places)
    places, losses = places[order], losses[order]
    at = int(np.flatnonzero(order == first)[0])
    if at == 0 or at == len(places) - 1:
        return None
    (a, b, c), (fa, fb, fc) = places[at - 1 : at + 2], losses[at - 1 : at + 2]
    with np.errstate(over="ignore", invalid="ignore"):
        across = (b - a) * (fb - fc) - (b - c) * (fb - fa)
        down = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    if not np.isfinite(down) or not across < 0:
        return None
    return float(b - 0.5 * down / across)
