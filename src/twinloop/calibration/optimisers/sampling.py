"""Sampling without feedback: random points, Latin hypercubes, Sobol's sequence."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import BaseOptimiser, Floats
from twinloop.calibration.parameters.space import Space

_MAX_CUBE_SIZE: Final = 4096
_BLOCK_SIZE: Final = 64  # points drawn from a sequence at once: a power of 2


class RandomSampling(BaseOptimiser):
    """Independent uniform points.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> RandomSampling(Space([LinearParameter("a", 0, 1)]), seed=1).ask(2).round(3).tolist()
    [[0.512], [0.95]]
    """

    def ask(self, count: int) -> Floats:
        """Return random points."""
        return self.rng.random((count, self.dimensions))


class _BlockSampler(BaseOptimiser):
    """A sampler that draws points in blocks."""

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._rest = np.empty((0, self.dimensions))

    def ask(self, count: int) -> Floats:
        """Return the next points."""
        while len(self._rest) < count:
            self._rest = np.concatenate([self._rest, self._draw_block()])
        points, self._rest = self._rest[:count], self._rest[count:]
        return np.array(points)

    def _draw_block(self) -> Floats:
        raise NotImplementedError


class LatinHypercube(_BlockSampler):
    """A Latin hypercube: each of n equal parts of every coordinate contains one of n points.

    A hypercube has as many points as the budget, at most 4096, or 64 if there is no budget; further
    points start another hypercube.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> cube = LatinHypercube(Space([LinearParameter("a", 0, 1)]), seed=1, budget=4)
    >>> np.sort(np.floor(cube.ask(4)[:, 0] * 4)).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def _draw_block(self) -> Floats:
        size = min(max(self.budget or 64, self.batch), _MAX_CUBE_SIZE)
        order = np.argsort(self.rng.random((size, self.dimensions)), axis=0)
        return (order + self.rng.random((size, self.dimensions))) / size


class Sobol(_BlockSampler):
    """Sobol's low-discrepancy sequence, scrambled (Owen 1998).

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> points = Sobol(Space([LinearParameter("a", 0, 1)]), seed=1).ask(8)
    >>> np.sort(np.floor(points[:, 0] * 8)).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        from scipy.stats import qmc

        self._sequence = qmc.Sobol(self.dimensions, scramble=True, seed=self.rng)

    def _draw_block(self) -> Floats:
        return np.asarray(self._sequence.random(_BLOCK_SIZE))
