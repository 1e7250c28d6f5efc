"""Gradient descent by finite differences, from many starts."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_SHORTEST: Final = 1e-9
_ENOUGH: Final = 1e-4  # of the decrease predicted by the gradient (Armijo)


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
        """A random start."""
        return super().first() if self._starts else self.rng.random(self.dimensions)

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """One descent."""
        here = np.array(start)
        loss = float((yield here[np.newaxis])[0])
        length = 0.1
        while True:
            moves = np.maximum(self.difference, 1.01 * self.cells.width)
            moves = np.where(here + moves > 1.0, -moves, moves)
            beside = np.clip(here + np.diag(moves), 0.0, 1.0)
            losses = yield beside
            slope = (losses - loss) / moves
            held = ((here <= 0.0) & (slope > 0)) | ((here >= 1.0) & (slope < 0))
            slope = np.where(held | ~np.isfinite(slope), 0.0, slope)
            steepest = float(np.abs(slope).max())
            if steepest == 0.0:
                return
            direction = -slope / steepest
            predicted = float(-(direction @ slope))
            begin = loss
            while length > _SHORTEST:
                there = np.clip(here + length * direction, 0.0, 1.0)
                found = float((yield there[np.newaxis])[0])
                if found <= loss - _ENOUGH * length * predicted:
                    break
                length *= 0.4
            else:
                return
            if losses.min() < found:
                there, found = beside[int(np.argmin(losses))], float(losses.min())
            here, loss = there, found
            if begin - loss <= 1e-12 * abs(loss):
                return
            length = min(length * 3.0, 0.5)
