"""Powell's method: line searches along directions that become conjugate."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.line_search import LineSearch
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_SHORTEST: Final = 1e-7
_LONGEST: Final = 0.25
_SEVERAL: Final = 8  # batch size from which on a line is searched in parallel


class Powell(ParallelSearches):
    """Powell's method with bounds (Powell 1964), line searches as in Brent 1973.

    A line search ends when further points gain little. For a category every value is evaluated.
    With batches, several points of a line are evaluated at once.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> search = Powell(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> for _ in range(60):
    ...     points = search.ask(1)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-9
    True
    """

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """Rounds of line searches until they do not lower the loss."""
        floor = 1.01 * self.cells.width
        lengths = np.maximum(self.size, floor)
        directions = np.eye(self.dimensions)
        here = np.array(start)
        loss = float((yield here[np.newaxis])[0])
        while True:
            begin, before = here, loss
            largest, widest = 0.0, 0
            for row in rng.permutation(self.dimensions).tolist():
                last = loss
                if self.cells.unordered[row]:
                    here, loss = yield from self._categories(here, loss, row)
                    continue
                here, loss, step = yield from self._line(here, loss, directions[row], lengths[row])
                lengths[row] = max(min(2 * step, _LONGEST), 0.2 * lengths[row], floor[row])
                if last - loss > largest:
                    largest, widest = last - loss, row
            moved = here - begin
            norm = float(np.abs(moved).max())
            if norm > 0 and not self.cells.unordered.any():
                ahead = float((yield np.clip(here + moved, 0.0, 1.0)[np.newaxis])[0])
                bend = 2 * (before - 2 * loss + ahead) * (before - loss - largest) ** 2
                if ahead < before and bend < largest * (before - ahead) ** 2:
                    here, loss, step = yield from self._line(here, loss, moved / norm, norm)
                    directions[widest], directions[-1] = directions[-1].copy(), moved / norm
                    lengths[widest] = lengths[-1]
                    lengths[-1] = max(min(2 * step, _LONGEST), 0.2 * norm)
            if before - loss <= 1e-12 * abs(loss):
                if (lengths <= np.maximum(_SHORTEST, 1.02 * self.cells.width)).all():
                    return
                lengths = np.maximum(lengths * 0.2, floor)
                directions = np.eye(self.dimensions)

    def _categories(
        self, here: Floats, loss: float, column: int
    ) -> Generator[Floats, Floats, tuple[Floats, float]]:
        """The best value of a category."""
        middles = self.cells.middles.get(column)
        if middles is None or len(middles) == 1:
            return here, loss
        others = np.tile(here, (len(middles), 1))
        others[:, column] = middles
        others = others[np.abs(middles - here[column]) > 0.5 / len(middles)]
        losses = yield others
        first = int(np.argmin(losses))
        if losses[first] < loss:
            return others[first], float(losses[first])
        return here, loss

    def _line(
        self, here: Floats, loss: float, direction: Floats, length: float
    ) -> Generator[Floats, Floats, tuple[Floats, float, float]]:
        """The best point on a line, its loss, and its distance."""
        line = LineSearch(here, loss, direction, length)
        place = yield from line.spread() if self.batch >= _SEVERAL else line.narrow()
        return line.point(place), line.known[place], abs(place)
