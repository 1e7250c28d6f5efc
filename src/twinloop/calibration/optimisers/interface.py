"""What an optimiser is: it is asked for points of the unit cube and told their losses."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from twinloop.calibration.parameters.space import Space

Floats = npt.NDArray[np.float64]

#: With more values than this a discrete parameter is as good as continuous.
MAX_CELLS: Final = 1000


@runtime_checkable
class Optimiser(Protocol):
    """Anything with these two methods; the same losses always lead to the same points.

    >>> from twinloop.calibration.optimisers import create_optimiser
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> space = Space([LinearParameter("speed", 0, 1)])
    >>> isinstance(create_optimiser("random", space, seed=1), Optimiser)
    True
    """

    def ask(self, count: int) -> Floats:
        """So many points to try, one in each row, every coordinate in 0..1."""

    def tell(self, points: Floats, losses: Floats) -> None:
        """The losses of the points, in the order asked; NaN or infinite where one failed."""


class BaseOptimiser:
    """What the optimisers here share: the space, the randomness, the budget, the best so far.

    Args:
        space: The parameters; their number is the number of coordinates.
        seed: Of all random draws.
        budget: How many points will be asked for in all, if that is known.
        batch: How many are usually asked for at once.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> search = BaseOptimiser(Space([LinearParameter("speed", 0, 1)]), seed=1)
    >>> search.tell(np.array([[0.2], [0.6]]), np.array([np.nan, 3.0]))
    >>> search.best, search.best_loss
    (array([0.6]), 3.0)
    """

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        self.space = space
        self.dimensions = len(space)
        self.rng = np.random.default_rng(seed)
        self.budget = budget
        self.batch = batch
        self.best = np.full(self.dimensions, 0.5)
        self.best_loss = np.inf

    #: Whether it bears noise: it does not hold on to one loss that was low by chance.
    tolerates_noise = False
    #: Whether it bears plateaus: it needs no slope, only to know which of two points is better.
    tolerates_plateaus = False

    def ask(self, count: int) -> Floats:
        """So many points to try."""
        raise NotImplementedError

    def begin(self, points: Floats, losses: Floats) -> None:
        """Start, or start again, from what is known, the best first; by default from nothing."""

    def learn(self, points: Floats, losses: Floats) -> None:
        """Hear of points that somebody else asked for; by default to no effect."""

    def tell(self, points: Floats, losses: Floats) -> None:
        """Note the best."""
        if len(losses) == 0:
            return
        losses = failures_to_infinity(losses)
        first = int(np.argmin(losses))
        if losses[first] < self.best_loss:
            self.best, self.best_loss = np.array(points[first]), float(losses[first])


def failures_to_infinity(losses: Floats) -> Floats:
    """Losses that can be compared: what is no number is as bad as can be.

    >>> failures_to_infinity(np.array([1.0, np.nan, -np.inf])).tolist()
    [1.0, inf, inf]
    """
    return np.where(np.isfinite(losses), losses, np.inf)


class Discretisation:
    """How fine each coordinate is: the cells of discrete parameters, and which are in no order.

    Parameters with very many values count as continuous.

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
    >>> cores = LinearParameter("cores", 1, 4, integer=True)
    >>> mode = CategoricalParameter("mode", ["x", "y"])
    >>> grain = Discretisation(Space([LinearParameter("speed", 0, 1), cores, mode]))
    >>> grain.snap_to_centres(np.array([[0.3, 0.3, 0.3]])).tolist()
    [[0.3, 0.375, 0.25]]
    >>> grain.levels.tolist(), grain.unordered.tolist()
    ([0, 4, 2], [False, False, True])
    """

    def __init__(self, space: Space) -> None:
        self._parameters = space.parameters
        levels = [each.levels or 0 for each in space]
        #: How many cells a coordinate has; 0 where it is continuous.
        self.levels = np.array([n if n <= MAX_CELLS else 0 for n in levels], dtype=np.int64)
        self.discrete = self.levels > 0
        self.unordered = np.array([not each.ordered for each in space])
        #: The middles of the cells, by column.
        self.middles: dict[int, Floats] = {
            column: space.parameters[column].middles()
            for column in np.flatnonzero(self.discrete).tolist()
        }
        #: The width of the narrowest cell; 0 where there are none.
        self.width = np.array(
            [
                np.diff(self.middles[column], prepend=-1.0, append=2.0).min()
                if column in self.middles
                else 0.0
                for column in range(len(space))
            ]
        )

    def snap_to_centres(self, points: Floats) -> Floats:
        """The points with discrete coordinates in the middle of their cells."""
        if not self.middles:
            return points
        points = np.array(points)
        for column, middles in self.middles.items():
            points[:, column] = middles[self._parameters[column].find_cells(points[:, column])]
        return points
