"""The simplex method of Nelder and Mead."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_MIN_EXTENT: Final = 1e-9
_SIMPLEX_COUNT: Final = 3  # simplices around the best point in one search


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
        """Run a sequence of simplices, each around the best point of the last."""
        best, size = np.array(start), self.size
        for _ in range(_SIMPLEX_COUNT):
            best = yield from self._run_simplex(best, size, rng)
            size *= 0.3

    def _run_simplex(
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
        flat_rounds = 0
        while True:
            order = np.argsort(losses, kind="stable")
            corners, losses = corners[order], losses[order]
            extent = float(np.abs(corners[1:] - corners[0]).max())
            flat_rounds = flat_rounds + 1 if losses[-1] <= losses[0] else 0
            if extent < _MIN_EXTENT or flat_rounds > d:
                return np.array(corners[0])
            middle = corners[:-1].mean(axis=0)
            outward = middle - corners[-1]
            tried = np.clip(
                middle + np.outer([1.0, expand, contract, -contract], outward), 0.0, 1.0
            )
            if self.batch >= 4:
                tried_losses = yield tried
            else:
                tried_losses = np.full(4, np.nan)
                tried_losses[:1] = yield tried[:1]
            # The second point (expanded, or contracted) depends on the loss of the reflected one.
            if tried_losses[0] < losses[0]:
                second = 1
            elif tried_losses[0] < losses[-2]:
                second = 0
            else:
                second = 2 if tried_losses[0] < losses[-1] else 3
            if np.isnan(tried_losses[second]):
                tried_losses[second] = (yield tried[second : second + 1])[0]
            if second == 0 or tried_losses[second] < (
                losses[-1] if second == 3 else tried_losses[0]
            ):
                corners[-1], losses[-1] = tried[second], tried_losses[second]
            elif second == 1:
                corners[-1], losses[-1] = tried[0], tried_losses[0]
            else:
                corners[1:] = corners[0] + shrink * (corners[1:] - corners[0])
                losses[1:] = yield corners[1:]
