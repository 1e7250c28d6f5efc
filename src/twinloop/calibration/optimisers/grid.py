"""A grid that is refined in rounds, without repeated points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from twinloop.calibration.optimisers.interface import BaseOptimiser, Discretisation, Floats
from twinloop.calibration.parameters.space import Space

# The golden section in 10^-18: the number of combinations may exceed the precision of a float.
_GOLDEN: Final = 618_033_988_749_894_848
_FINEST: Final = 50  # rounds after which cells are as narrow as the precision of a float


class Grid(BaseOptimiser):
    """The middles of 1, 2, 4, 8, ... equal cells of every coordinate, in all combinations.

    The stride through a round is about the golden section of its length, so that every prefix is
    evenly spread; combinations are generated on demand. Discrete parameters have at most their own
    cells. If all parameters are discrete and all combinations are used, random points follow.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> grid = Grid(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> grid.ask(5).tolist()
    [[0.5, 0.5], [0.25, 0.25], [0.75, 0.75], [0.75, 0.25], [0.25, 0.75]]
    """

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._cells = Discretisation(space)
        self._points = self._generate()

    def ask(self, count: int) -> Floats:
        """Return the next points of the grid."""
        return np.array([next(self._points) for _ in range(count)])

    def _generate(self) -> Iterator[list[float]]:
        middles = self._cells.middles
        known: dict[int, set[float]] = {column: set() for column in middles}
        for turn in range(_FINEST):
            axes = [
                self._middles(column, turn, known[column]) if column in middles else _Halves(turn)
                for column in range(self.dimensions)
            ]
            # Every point of a round with a continuous coordinate is new.
            fresh = len(middles) < self.dimensions
            for point in _combinations(axes):
                if fresh or not all(point[column] in known[column] for column in known):
                    yield point
            for column, seen in known.items():
                seen.update(axes[column])
            if not fresh and all(len(known[column]) == len(middles[column]) for column in known):
                break
        while True:
            yield self._cells.snap_to_centres(self.rng.random((1, self.dimensions)))[0].tolist()

    def _middles(self, column: int, turn: int, known: set[float]) -> Sequence[float]:
        """The middles of cells of this round and the rounds before."""
        middles = self._cells.middles[column]
        if 1 << turn >= len(middles):
            return [float(middle) for middle in middles]
        chosen = self.space.parameters[column].find_cells(np.array(_Halves(turn)))
        return sorted(known.union(middles[chosen].tolist()))


class _Halves(Sequence[float]):
    """The middles of 2^turn equal cells, computed on demand."""

    def __init__(self, turn: int) -> None:
        self._count = 1 << turn

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self._count:
            raise IndexError(place)
        return (place + 0.5) / self._count


def _combinations(axes: Sequence[Sequence[float]]) -> Iterator[list[float]]:
    """Every combination once, in strides."""
    total = math.prod(len(axis) for axis in axes)
    stride = max(total * _GOLDEN // 10**18, 1)
    while math.gcd(stride, total) > 1:
        stride += 1
    place = 0
    for _ in range(total):
        rest, point = place, []
        for axis in reversed(axes):
            rest, digit = divmod(rest, len(axis))
            point.append(axis[digit])
        yield point[::-1]
        place = (place + stride) % total
