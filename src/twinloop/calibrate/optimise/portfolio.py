"""Several optimisers at once, and the budget goes to those that make progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from twinloop.calibrate.optimise.interface import Floats, Grain, Search, usable
from twinloop.calibrate.optimise.sampling import Sobol
from twinloop.calibrate.space import Space

_START: Final = 40  # of the budget, at most, is spread out first
_TURN: Final = 4  # times the dimensions: points of a turn
_ENOUGH: Final = 10  # times the dimensions: points that a member needs to be worth beginning
_VISIT: Final = 4  # every so many turns it is the turn of who has waited longest
_PATIENCE: Final = 12  # times the dimensions: own points without progress before a new start


class Portfolio(Search):
    """Optimisers that share a budget and what they find.

    A few spread points come first; the best of them is where all begin. It is tried twice: if the
    two losses differ there is noise, and only members go on that bear it. Points are shared
    out by progress: how far a member has lowered the logarithm of the best loss, for each point that
    it was given, lately. One that has not for a while, and lags behind the best, begins again there.

    Args:
        space: The parameters.
        seed: Of all random draws.
        budget: How many points will be asked for in all, if that is known.
        batch: How many are usually asked for at once.
        members: The classes of the optimisers.

    >>> from twinloop.calibrate.optimise.cma_es import Cma
    >>> from twinloop.calibrate.optimise.powell import Powell
    >>> from twinloop.calibrate.parameters import Linear
    >>> search = Portfolio(Space([Linear("a", 0, 1)]), seed=1, members=[Cma, Powell])
    >>> for _ in range(60):
    ...     points = search.ask(1)
    ...     search.tell(points, (points[:, 0] - 0.3) ** 2)
    >>> search.best_loss < 1e-9
    True
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        budget: int | None = None,
        batch: int = 1,
        members: Sequence[type[Search]],
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        d = self.dimensions
        self._grain = Grain(space)
        self._spread = Sobol(space, seed=int(self.rng.integers(1 << 31)))
        first = 2 * d if budget is None else min(max(budget // _START, 3), 2 * d)
        self._first = max(first, batch)
        self._twice: float | None = None  # the loss of the point that is tried twice
        self._begun = False
        self._points, self._losses = np.empty((0, d)), np.empty(0)
        share = max(batch // len(members), 1)
        self._take_on(
            [
                kind(space, seed=int(self.rng.integers(1 << 31)), budget=budget, batch=share)
                for kind in members
            ]
        )

    def _take_on(self, members: list[Search]) -> None:
        self._members = members
        self._rates = np.full(len(members), np.inf)  # progress for each point, in the last turn
        self._idle = np.zeros(len(members), dtype=np.int64)
        self._last = np.zeros(len(members), dtype=np.int64)  # turn in which each was last on
        self._turn = 0
        self._on = 0
        self._spent, self._gain = 0, 0.0
        self._parts: list[tuple[int, int]] = []

    def ask(self, count: int) -> Floats:
        """Spread points, then what the members want to know."""
        if not self._begun:
            return self._spread_out(count)
        self._parts = self._shared(count)
        return np.concatenate([self._members[place].ask(part) for place, part in self._parts])

    def _spread_out(self, count: int) -> Floats:
        points = self._grain.centred(self._spread.ask(count))
        if not len(self._losses):
            points[0] = self._grain.centred(np.full((1, self.dimensions), 0.5))[0]
        elif len(self._losses) >= self._first:
            points[0], self._twice = self.best, self.best_loss
        return points

    def _shared(self, count: int) -> list[tuple[int, int]]:
        """How many points each member may ask for now: the one that is on, or in a batch all."""
        number = len(self._members)
        if count < 2 * number:
            return [(self._on, count)]
        each = count // (2 * number)
        parts = [each] * number
        parts[self._on] += count - sum(parts)
        return list(enumerate(parts))

    def tell(self, points: Floats, losses: Floats) -> None:
        """Pass the losses on, and note who made progress."""
        if not self._begun:
            self._start(points, losses)
            return
        before, told = self.best_loss, []
        begin = 0
        for place, part in self._parts:
            rows, own = points[begin : begin + part], losses[begin : begin + part]
            begin += part
            if len(own):
                told.append((place, rows, own))
                self._members[place].tell(rows, own)
                gain = progress(before, float(usable(own).min()))
                self._idle[place] = 0 if gain else self._idle[place] + len(own)
                if place == self._on:
                    self._spent += len(own)
                    self._gain += gain
                elif len(self._parts)>1:
                    fade=0.5**(len(own)/(_TURN*self.dimensions))
                    r = self._rates[place] if np.isfinite(self._rates[place]) else 0.0
                    self._rates[place] = fade*r + (1-fade)*gain/len(own)
        super().tell(points, losses)
        for at, member in enumerate(self._members):
            for place, rows, own in told:
                if place != at:
                    member.learn(rows, own)
            if len(self._parts) > 1 and at != self._on:
                self._catch_up(at)
        if self._spent >= _TURN * self.dimensions:
            self._next()

    def _next(self) -> None:
        """Who is on next: who has not been yet, who made most progress, at times who waits longest."""
        self._rates[self._on] = self._gain / self._spent
        self._spent, self._gain = 0, 0.0
        self._turn += 1
        self._last[self._on] = self._turn
        if not self._rates.any() or self._turn % _VISIT == 0:
            self._on = int(np.argmin(self._last))
        else:
            self._on = int(np.argmax(self._rates))
        self._catch_up(self._on)

    def _catch_up(self, place: int) -> None:
        """A member that lags behind begins again at the best; one that bears noise is left alone."""
        member = self._members[place]
        patience = _PATIENCE * self.dimensions if member.robust else 0
        if member.best_loss > self.best_loss and self._idle[place] >= patience:
            member.begin(self.best[None], np.array([self.best_loss]))
            self._idle[place] = 0

    def _start(self, points: Floats, losses: Floats) -> None:
        super().tell(points, losses)
        losses = usable(losses)
        self._points = np.concatenate([self._points, points])
        self._losses = np.concatenate([self._losses, losses])
        if self._twice is None:
            return
        if losses[0] != self._twice and any(member.robust for member in self._members):
            self._take_on([member for member in self._members if member.robust])
        elif self.budget is not None:
            most = max(self.budget // (_ENOUGH * self.dimensions), 1)
            self._take_on(self._members[: int(most)])
        order = np.argsort(self._losses, kind="stable")
        for member in self._members:
            member.begin(self._points[order], self._losses[order])
        self._begun = True


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
