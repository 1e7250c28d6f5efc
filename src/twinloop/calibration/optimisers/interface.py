"""The interface of optimisers: ask for points of the unit cube, tell their losses."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from twinloop.calibration.parameters.space import Space

Floats = npt.NDArray[np.float64]

#: A discrete parameter with more values is treated as continuous.
MAX_CELLS: Final = 1000


@runtime_checkable
class Optimiser(Protocol):
    """The ask-and-tell interface; equal seeds and losses lead to equal points.

    >>> from twinloop.calibration.optimisers import create_optimiser
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> space = Space([LinearParameter("speed", 0, 1)])
    >>> isinstance(create_optimiser("random", space, seed=1), Optimiser)
    True
    """

    def ask(self, count: int) -> Floats:
        """Return `count` points to evaluate, a row each, with coordinates in 0..1."""

    def tell(self, points: Floats, losses: Floats) -> None:
        """Take the losses of the points, in the order of `ask`; NaN or infinite for a failure."""


class BaseOptimiser:
    """The base of the optimisers: space, random numbers, budget, and best point.

    Args:
        space: The parameters; their number is the number of coordinates.
        seed: The random seed.
        budget: The total number of points, if known.
        batch: The usual number of points per `ask`.

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

    #: Whether it converges in spite of noise: a single loss may be low by chance.
    tolerates_noise = False
    #: Whether it converges in spite of plateaus: it uses the order of losses, not slopes.
    tolerates_plateaus = False

    def ask(self, count: int) -> Floats:
        """Return `count` points to evaluate."""
        raise NotImplementedError

    def begin(self, points: Floats, losses: Floats) -> None:
        """Start, or restart, from evaluated points, the best first; by default without effect."""

    def learn(self, points: Floats, losses: Floats) -> None:
        """Take points that another optimiser requested; by default without effect."""

    def tell(self, points: Floats, losses: Floats) -> None:
        """Update the best point."""
        if len(losses) == 0:
            return
        losses = failures_to_infinity(losses)
        first = int(np.argmin(losses))
        if losses[first] < self.best_loss:
            self.best, self.best_loss = np.array(points[first]), float(losses[first])


def failures_to_infinity(losses: Floats) -> Floats:
    """Replace losses that are not finite by infinity, so that they compare as the worst.

    >>> failures_to_infinity(np.array([1.0, np.nan, -np.inf])).tolist()
    [1.0, inf, inf]
    """
    return np.where(np.isfinite(losses), losses, np.inf)


class Discretisation:
    """The cells of discrete parameters, by coordinate.

    Parameters with more than `MAX_CELLS` values are treated as continuous.

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
    >>> cores = LinearParameter("cores", 1, 4, integer=True)
    >>> mode = CategoricalParameter("mode", ["x", "y"])
    >>> cells = Discretisation(Space([LinearParameter("speed", 0, 1), cores, mode]))
    >>> cells.snap_to_centres(np.array([[0.3, 0.3, 0.3]])).tolist()
    [[0.3, 0.375, 0.25]]
    >>> cells.levels.tolist(), cells.unordered.tolist()
    ([0, 4, 2], [False, False, True])
    """

    def __init__(self, space: Space) -> None:
        self._parameters = space.parameters
        levels = [each.levels or 0 for each in space]
        #: The number of cells of each coordinate; 0 if it is continuous.
        self.levels = np.array([n if n <= MAX_CELLS else 0 for n in levels], dtype=np.int64)
        self.discrete = self.levels > 0
        self.unordered = np.array([not each.ordered for each in space])
        #: The middles of the cells, by column.
        self.middles: dict[int, Floats] = {
            column: space.parameters[column].middles()
            for column in np.flatnonzero(self.discrete).tolist()
        }
        #: The width of the narrowest cell; 0 if the coordinate is continuous.
        self.width = np.array(
            [
                np.diff(self.middles[column], prepend=-1.0, append=2.0).min()
                if column in self.middles
                else 0.0
                for column in range(len(space))
            ]
        )

    def snap_to_centres(self, points: Floats) -> Floats:
        """Move discrete coordinates to the middle of their cells."""
        if not self.middles:
            return points
        points = np.array(points)
        for column, middles in self.middles.items():
            points[:, column] = middles[self._parameters[column].find_cells(points[:, column])]
        return points
