"""The simplex method of Nelder and Mead."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_SMALLEST: Final = 1e-9
_TURNS: Final = 3  # simplices around the best point in one search


class NelderMead(ParallelSearches):
    """The simplex of Nelder and Mead with coefficients for many dimensions (Gao and Han 2012).

    A simplex that has become too small is replaced by a new one around its best point, smaller
    each time; then the search restarts elsewhere. With batches, all possible next steps are
    evaluated at once.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> search = NelderMead(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> for _ in range(200):
    ...     points = search.ask(1)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-9
    True
    """

    size = 0.15
    tolerates_plateaus = True

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """A sequence of simplices, each around the best point of the last."""
        best, size = np.array(start), self.size
        for _ in range(_TURNS):
            best = yield from self._simplex(best, size, rng)
            size *= 0.3

    def _simplex(
        self, start: Floats, size: float, rng: np.random.Generator
    ) -> Generator[Floats, Floats, Floats]:
        d = self.dimensions
        expand, contract, shrink = 1 + 2 / d, 0.75 - 1 / (2 * d), 1 - 1 / d
        if d == 1:
            expand, contract, shrink = 2.0, 0.5, 0.5
        edges = np.maximum(size, 1.01 * self.cells.width) * rng.choice([-1.0, 1.0], d)
        corners = np.tile(start, (d + 1, 1))
        for column in range(d):
            far = corners[column + 1, column] + edges[column]
            if not 0.0 <= far <= 1.0:
                far = corners[column + 1, column] - edges[column]
            corners[column + 1, column] = min(max(far, 0.0), 1.0)
        losses = yield corners
        still = 0
        while True:
            order = np.argsort(losses, kind="stable")
            corners, losses = corners[order], losses[order]
            extent = float(np.abs(corners[1:] - corners[0]).max())
            still = still + 1 if losses[-1] <= losses[0] else 0
            if extent < _SMALLEST or still > d:
                return np.array(corners[0])
            middle = corners[:-1].mean(axis=0)
            outward = middle - corners[-1]
            tries = np.clip(
                middle + np.outer([1.0, expand, contract, -contract], outward), 0.0, 1.0
            )
            if self.batch >= 4:
                known = yield tries
            else:
                known = np.full(4, np.nan)
                known[:1] = yield tries[:1]
            # The second point of the method depends on the loss of the reflected one.
            if known[0] < losses[0]:
                second = 1
            elif known[0] < losses[-2]:
                second = 0
            else:
                second = 2 if known[0] < losses[-1] else 3
            if np.isnan(known[second]):
                known[second] = (yield tries[second : second + 1])[0]
            if second == 0 or known[second] < (losses[-1] if second == 3 else known[0]):
                corners[-1], losses[-1] = tries[second], known[second]
            elif second == 1:
                corners[-1], losses[-1] = tries[0], known[0]
            else:
                corners[1:] = corners[0] + shrink * (corners[1:] - corners[0])
                losses[1:] = yield corners[1:]
