"""Gradient descent by finite differences, from many starts."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_MIN_LENGTH: Final = 1e-9
_ARMIJO_SHARE: Final = 1e-4  # minimum share of the decrease that the gradient predicts (Armijo)


class Gradient(ParallelSearches):
    """Gradient descent with backtracking; on a plateau or at a minimum it restarts elsewhere.

    The gradient is estimated by finite differences in the unit cube, for a discrete coordinate by
    a step of one cell. Steps that leave the cube are projected onto its faces.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> search = Gradient(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> for _ in range(100):
    ...     points = search.ask(1)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-6
    True
    """

    difference = 1e-4

    def first(self) -> Floats:
        """Return a given start, else a random one."""
        return super().first() if self._starts else self.rng.random(self.dimensions)

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """Run one descent."""
        point = np.array(start)
        loss = float((yield point[np.newaxis])[0])
        length = 0.1
        while True:
            moves = np.maximum(self.difference, 1.01 * self.cells.width)
            moves = np.where(point + moves > 1.0, -moves, moves)
            neighbours = np.clip(point + np.diag(moves), 0.0, 1.0)
            losses = yield neighbours
            slope = (losses - loss) / moves
            held = ((point <= 0.0) & (slope > 0)) | ((point >= 1.0) & (slope < 0))
            slope = np.where(held | ~np.isfinite(slope), 0.0, slope)
            steepest = float(np.abs(slope).max())
            if steepest == 0.0:
                return
            direction = -slope / steepest
            predicted = float(-(direction @ slope))
            loss_before = loss
            while length > _MIN_LENGTH:
                candidate = np.clip(point + length * direction, 0.0, 1.0)
                candidate_loss = float((yield candidate[np.newaxis])[0])
                if candidate_loss <= loss - _ARMIJO_SHARE * length * predicted:
                    break
                length *= 0.4
            else:
                return
            if losses.min() < candidate_loss:
                candidate, candidate_loss = neighbours[int(np.argmin(losses))], float(losses.min())
            point, loss = candidate, candidate_loss
            if loss_before - loss <= 1e-12 * abs(loss):
                return
            length = min(length * 3.0, 0.5)
