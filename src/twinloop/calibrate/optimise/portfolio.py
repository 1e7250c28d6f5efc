"""Several optimisers at once, and the budget goes to those that make progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from twinloop.calibrate.optimise.interface import Floats, Grain, Search, usable
from twinloop.calibrate.optimise.sampling import Sobol
from twinloop.calibrate.space import Space

_FLOOR: Final = 0.25  # of all points is shared equally, whoever makes progress
_MEMORY: Final = 8  # times the dimensions: points after which progress counts half
_PATIENCE: Final = 12  # times the dimensions: own points without progress before a new start


NOISY=('cma','de')
class Portfolio(Search):
    """Optimisers that share a budget and what they find.

    A few spread points come first; the best of them is where all begin. Then points are shared out
    by progress: how much an optimiser has lowered the logarithm of the best loss, for each point it
    was given, lately. One that has not for a while, and lags behind the best, begins again there.

    Args:
        space: The parameters.
        seed: Of all random draws.
        budget: How many points will be asked for in all, if that is known.
        batch: How many are usually asked for at once.
        members: Makes the members, each from a space, a seed, a budget, a batch and the best
            points so far.

    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        budget: int | None = None,
        batch: int = 1,
        members: Sequence[Callable[..., Any]] = (),
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._grain = Grain(space)
        self._makers = members
        self._spread = Sobol(space, seed=int(self.rng.integers(1 << 31)))
        d = self.dimensions
        first = 2 * d if budget is None else min(max(budget // 20, 3), 2 * d)
        self._first = max(first, batch)
        self._known: list[tuple[Floats, Floats]] = []
        self._asked = 0
        self._members: list[Any] = []
        count = len(members)
        self._gain = np.zeros(count)
        self._spent = np.zeros(count)
        self._due = np.zeros(count)
        self._idle = np.zeros(count, dtype=np.int64)
        self._order: list[tuple[int, int]] = []
        self._again: float | None = None  # the loss of a point that is tried twice

    def ask(self, count: int) -> Floats:
        """Spread points, then what the members want to know."""
        if self._asked < self._first:
            points = self._grain.centred(self._spread.ask(count))
            if not self._asked:
                points[0] = self._grain.centred(np.full((1, self.dimensions), 0.5))[0]
            self._asked += count
            self._order = []
            return points
        self._asked += count
        if not self._members:
            if self._again is None:
                self._again = self.best_loss
                points = self._grain.centred(self._spread.ask(count))
                points[0] = self.best
                self._order = []
                return points
            self._members = [self._made(place) for place in range(len(self._makers))]
        self._order = self._shared(count)
        return np.concatenate([self._members[place].ask(part) for place, part in self._order])

    def _made(self, place: int) -> Any:
        points = np.concatenate([points for points, _ in self._known])
        losses = np.concatenate([losses for _, losses in self._known])
        top = np.argsort(losses, kind="stable")
        return self._makers[place](
            self.space,
            seed=int(self.rng.integers(1 << 31)),
            budget=self.budget,
            batch=max(self.batch // len(self._makers), 1),
            points=points[top],
            losses=losses[top],
        )

    def _shared(self, count: int) -> list[tuple[int, int]]:
        """How many points each member may ask for now."""
        number = len(self._members)
        rate = self._gain / np.maximum(self._spent, 1.0)
        shares = np.full(number, 1.0 / number)
        if rate.sum() > 0:
            shares = _FLOOR / number + (1 - _FLOOR) * rate / rate.sum()
        parts = np.zeros(number, dtype=np.int64)
        for _ in range(count):
            self._due += shares
            place = int(np.argmax(self._due))
            self._due[place] -= 1.0
            parts[place] += 1
        return [(place, part) for place, part in enumerate(parts.tolist()) if part]

    def tell(self, points: Floats, losses: Floats) -> None:
        """Pass the losses on, and note who made progress."""
        values = usable(losses)
        if not self._order:
            if self._again is not None and len(values) and values[0] != self._again:
                keep = [place for place, maker in enumerate(self._makers) if maker.__name__ in NOISY]
                self._makers = [self._makers[place] for place in keep]
                for name in ("_gain", "_spent", "_due", "_idle"):
                    setattr(self, name, getattr(self, name)[keep])
            self._known.append((np.asarray(points), values))
            super().tell(points, losses)
            return
        best = self.best_loss
        begin = 0
        parts = []
        for place, part in self._order:
            rows, own = points[begin : begin + part], losses[begin : begin + part]
            begin += part
            if len(own) == 0:
                continue
            parts.append((place, rows, own))
            self._members[place].tell(rows, own)
            lowest = float(usable(own).min())
            self._credit(place, len(own), best, lowest)
        super().tell(points, losses)
        for place, member in enumerate(self._members):
            if hasattr(member, "learn"):
                for other, rows, own in parts:
                    if other != place:
                        member.learn(rows, own)
        self._renew()

    def _credit(self, place: int, count: int, best: float, lowest: float) -> None:
        fade = 0.5 ** (count / (_MEMORY * self.dimensions))
        self._gain[place] = fade * self._gain[place] + progress(best, lowest)
        self._spent[place] = fade * self._spent[place] + count
        self._idle[place] = 0 if lowest < best else self._idle[place] + count

    def _renew(self) -> None:
        for place, member in enumerate(self._members):
            patience = _PATIENCE * self.dimensions
            if self._idle[place] > patience and member.best_loss > self.best_loss:
                self._known = [(self.best[None], np.array([self.best_loss]))]
                self._members[place] = self._made(place)
                self._idle[place] = 0


def progress(before: float, after: float) -> float:
    """How far a loss has fallen, in powers of e; at most one at once.

    >>> progress(2.0, 2.0), progress(2.0, 0.0), round(progress(2.0, 1.0), 3)
    (0.0, 1.0, 0.693)
    """
    if not after < before:
        return 0.0
    if after <= 0.0 or not math.isfinite(before):
        return 1.0
    return min(math.log(before / after), 1.0)
