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
_MAX_ROUNDS: Final = 50  # rounds after which cells are as narrow as the precision of a float


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
        used: dict[int, set[float]] = {column: set() for column in middles}
        for number in range(_MAX_ROUNDS):
            axes = [
                self._list_middles(column, number, used[column])
                if column in middles
                else _CellMiddles(number)
                for column in range(self.dimensions)
            ]
            # With a continuous coordinate, every point of a round is new.
            has_continuous = len(middles) < self.dimensions
            for point in _list_combinations(axes):
                if has_continuous or not all(point[column] in used[column] for column in used):
                    yield point
            for column, used_values in used.items():
                used_values.update(axes[column])
            if not has_continuous and all(
                len(used[column]) == len(middles[column]) for column in used
            ):
                break
        while True:
            yield self._cells.snap_to_centres(self.rng.random((1, self.dimensions)))[0].tolist()

    def _list_middles(self, column: int, number: int, used: set[float]) -> Sequence[float]:
        """List the middles of cells of this round and the rounds before."""
        middles = self._cells.middles[column]
        if 1 << number >= len(middles):
            return [float(middle) for middle in middles]
        chosen = self.space.parameters[column].find_cells(np.array(_CellMiddles(number)))
        return sorted(used.union(middles[chosen].tolist()))


class _CellMiddles(Sequence[float]):
    """The middles of 2^number equal cells, computed on demand."""

    def __init__(self, number: int) -> None:
        self._count = 1 << number

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return (index + 0.5) / self._count


def _list_combinations(axes: Sequence[Sequence[float]]) -> Iterator[list[float]]:
    """Yield every combination once, in strides."""
    total = math.prod(len(axis) for axis in axes)
    stride = max(total * _GOLDEN // 10**18, 1)
    while math.gcd(stride, total) > 1:
        stride += 1
    index = 0
    for _ in range(total):
        rest, point = index, []
        for axis in reversed(axes):
            rest, digit = divmod(rest, len(axis))
            point.append(axis[digit])
        yield point[::-1]
        index = (index + stride) % total
