"""A portfolio of optimisers that take turns; the budget goes to those with progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.optimisers.sampling import Sobol
from twinloop.calibration.parameters.space import Space

_START: Final = 40  # the budget divided by this is the number of initial points
_TURN: Final = 4  # points of a turn, times the dimensions
_VISIT: Final = 4  # every such turn goes to the member that has waited longest
_ENOUGH: Final = 10  # least budget of a member, times the dimensions
_BROAD: Final = 100  # least budget of a broad search beside the others, times the dimensions
_TIED: Final = 0.1  # the share of equal losses at different points that indicates plateaus
_REMEMBERED: Final = 1000  # losses that are compared for equality


class OptimiserPortfolio(BaseOptimiser):
    """Optimisers that take turns, each from the best point of all.

    The middle of the cube and a few quasi-random points come first. The middle is evaluated twice:
    if the losses differ there is noise, and only members that tolerate noise continue. The same
    holds for plateaus once many losses are equal. A turn goes to the member with the most progress
    in its last turn: the decrease of the logarithm of the best loss per point. Members without a
    turn come first, and every fourth turn goes to the member that has waited longest. Without any
    progress, every other turn goes to members that tolerate noise, which search more widely. Half
    of a batch belongs to the member of the turn, the others share the rest. If the budget is at
    least 100 points per parameter, members that tolerate noise get half of every batch in advance:
    losses of simulations have many local minima, in which the other members stop.

    Args:
        space: The parameters.
        seed: The random seed.
        budget: The total number of points, if known; a small one is for the first members only.
        batch: The usual number of points per `ask`.
        members: The classes of the optimisers.

    >>> from twinloop.calibration.optimisers.cma_es import Cma
    >>> from twinloop.calibration.optimisers.powell import Powell
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> space = Space([LinearParameter("a", 0, 1)])
    >>> search = OptimiserPortfolio(space, seed=1, members=[Powell, Cma])
    >>> for _ in range(100):
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
        members: Sequence[type[BaseOptimiser]],
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        d = self.dimensions
        self._cells = Discretisation(space)
        self._spread = Sobol(space, seed=int(self.rng.integers(1 << 31)))
        self._first = 2 * d if budget is None else min(max(budget // _START, 3), 2 * d)
        self._points, self._losses = np.empty((0, d)), np.empty(0)
        self._given = np.empty((0, d)), np.empty(0)
        self._at: dict[float, bytes] = {}  # the first point with each loss
        self._tied = 0
        share = max(batch // len(members), 1)
        self._all = [
            kind(space, seed=int(self.rng.integers(1 << 31)), budget=budget, batch=share)
            for kind in members
        ]
        self._members: list[BaseOptimiser] = []
        self._parts: list[tuple[int, int]] = []

    def begin(self, points: Floats, losses: Floats) -> None:
        """Add evaluated points, from the best of which the members start."""
        super().tell(points, losses)
        self._given = points, failures_to_infinity(losses)

    def _activate(self, members: list[BaseOptimiser]) -> None:
        """Replace the members, and start the new ones at the best points."""
        points = np.concatenate([self._points, self._given[0]])
        losses = np.concatenate([self._losses, self._given[1]])
        order = np.argsort(losses, kind="stable")
        for member in members:
            member.begin(points[order], losses[order])
        self._members = members
        self._steady = [place for place, member in enumerate(members) if member.tolerates_noise]
        self._rates = np.full(len(members), np.inf)  # progress per point in the last turn
        self._last = np.zeros(len(members), dtype=np.int64)  # the last turn of each
        self._turn, self._on = 0, 0
        self._spent, self._gain = 0, 0.0
        self._parts = []

    def ask(self, count: int) -> Floats:
        """Initial points, then the points of the members."""
        if self._members:
            self._parts = self._shared(count)
            return np.concatenate([self._members[place].ask(part) for place, part in self._parts])
        points = self._cells.snap_to_centres(self._spread.ask(count))
        middle = self._cells.snap_to_centres(np.full((1, self.dimensions), 0.5))
        points[: max(2 - len(self._losses), 0)] = middle
        return points

    def _shared(self, count: int) -> list[tuple[int, int]]:
        number = len(self._members)
        if count < 2 * number:
            return [(self._on, count)]
        broad = count // 2 if self._is_broad else 0
        parts = [(count - broad) // (2 * number)] * number
        parts[self._on] += count - broad - sum(parts)
        for place in range(broad):
            parts[self._steady[place % len(self._steady)]] += 1
        return [(place, part) for place, part in enumerate(parts) if part]

    @property
    def _is_broad(self) -> bool:
        """Whether members that tolerate noise get half of every batch."""
        enough = self.budget is None or self.budget >= _BROAD * self.dimensions
        return enough and 0 < len(self._steady) < len(self._members)

    def tell(self, points: Floats, losses: Floats) -> None:
        """Pass the losses to the members, and update their progress."""
        before = self.best_loss
        super().tell(points, losses)
        self._note(points, failures_to_infinity(losses))
        if not self._members:
            self._start(points, failures_to_infinity(losses))
            return
        results, begin = [], 0
        for place, part in self._parts:
            rows, own = points[begin : begin + part], losses[begin : begin + part]
            begin += part
            if len(own):
                results.append((place, rows, own))
                self._members[place].tell(rows, own)
                self._credit(
                    place,
                    len(own),
                    measure_progress(before, float(failures_to_infinity(own).min())),
                )
        for at, member in enumerate(self._members):
            for place, rows, own in results:
                if place != at:
                    member.learn(rows, own)
            if len(results) > 1 and at != self._on:
                self._catch_up(at)
        if self._spent >= _TURN * self.dimensions:
            self._next()

    def _start(self, points: Floats, losses: Floats) -> None:
        self._points = np.concatenate([self._points, points])
        self._losses = np.concatenate([self._losses, losses])
        if len(self._losses) < max(self._first, 2):
            return
        members = self._all
        if self._losses[0] != self._losses[1]:
            members = [each for each in members if each.tolerates_noise] or members
        elif self.budget is not None:
            members = members[: max(self.budget // (_ENOUGH * self.dimensions), 2)]
        self._activate(members)

    def _note(self, points: Floats, losses: Floats) -> None:
        """Count losses that are equal at different points."""
        if len(self._at) + self._tied >= _REMEMBERED:
            return
        for point, loss in zip(points, losses.tolist(), strict=True):
            if math.isfinite(loss):
                self._tied += self._at.setdefault(loss, point.tobytes()) != point.tobytes()

    def _credit(self, place: int, count: int, gain: float) -> None:
        if place == self._on:
            self._spent += count
            self._gain += gain
        elif np.isfinite(self._rates[place]):
            share = min(count / (_TURN * self.dimensions), 1.0)
            self._rates[place] += share * (gain / count - self._rates[place])

    def _next(self) -> None:
        """Choose the member of the next turn."""
        tolerant = [each for each in self._all if each.tolerates_plateaus]
        flat = self._tied > _TIED * (len(self._at) + self._tied)
        if flat and tolerant and not all(each.tolerates_plateaus for each in self._members):
            self._points, self._losses = self.best[None], np.array([self.best_loss])
            self._activate(tolerant)
            return
        self._rates[self._on] = self._gain / self._spent
        self._spent, self._gain = 0, 0.0
        self._turn += 1
        self._last[self._on] = self._turn
        if self._rates.any() and self._turn % _VISIT:
            self._on = int(np.argmax(self._rates))
        elif self._rates.any() or self._turn % 2 or not self._steady:
            self._on = int(np.argmin(self._last))
        else:
            self._on = self._steady[self._turn // 2 % len(self._steady)]
        self._catch_up(self._on)

    def _catch_up(self, place: int) -> None:
        """Restart a member behind the best point there, unless it tolerates noise."""
        member = self._members[place]
        if member.best_loss > self.best_loss and not member.tolerates_noise:
            member.begin(self.best[None], np.array([self.best_loss]))


def measure_progress(before: float, after: float) -> float:
    """Measure the decrease of the logarithm of a loss, at most 1.

    >>> measure_progress(2.0, 2.0), measure_progress(2.0, 0.0), round(measure_progress(2.0, 1.0), 3)
    (0.0, 1.0, 0.693)
    """
    if not after < before:
        return 0.0
    if after <= 0.0 or not math.isfinite(before):
        return 1.0
    return min(math.log(before / after), 1.0)
