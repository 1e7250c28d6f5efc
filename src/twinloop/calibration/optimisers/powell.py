"""Powell's method: line searches along directions that become conjugate."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats
from twinloop.calibration.optimisers.line_search import LineSearch
from twinloop.calibration.optimisers.parallel_searches import ParallelSearches, SearchSteps

_MIN_LENGTH: Final = 1e-7
_MAX_LENGTH: Final = 0.25
_MIN_PARALLEL_BATCH: Final = 8  # batch size from which a line is searched in parallel


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
        """Run rounds of line searches until they do not lower the loss."""
        floor = 1.01 * self.cells.width
        lengths = np.maximum(self.size, floor)
        directions = np.eye(self.dimensions)
        point = np.array(start)
        loss = float((yield point[np.newaxis])[0])
        while True:
            start_point, before = point, loss
            largest_decrease, steepest_row = 0.0, 0
            for row in rng.permutation(self.dimensions).tolist():
                last = loss
                if self.cells.unordered[row]:
                    point, loss = yield from self._search_categories(point, loss, row)
                    continue
                point, loss, step = yield from self._search_line(
                    point, loss, directions[row], lengths[row]
                )
                lengths[row] = max(min(2 * step, _MAX_LENGTH), 0.2 * lengths[row], floor[row])
                if last - loss > largest_decrease:
                    largest_decrease, steepest_row = last - loss, row
            moved = point - start_point
            norm = float(np.abs(moved).max())
            if norm > 0 and not self.cells.unordered.any():
                ahead = float((yield np.clip(point + moved, 0.0, 1.0)[np.newaxis])[0])
                bend = 2 * (before - 2 * loss + ahead) * (before - loss - largest_decrease) ** 2
                if ahead < before and bend < largest_decrease * (before - ahead) ** 2:
                    point, loss, step = yield from self._search_line(
                        point, loss, moved / norm, norm
                    )
                    directions[steepest_row], directions[-1] = directions[-1].copy(), moved / norm
                    lengths[steepest_row] = lengths[-1]
                    lengths[-1] = max(min(2 * step, _MAX_LENGTH), 0.2 * norm)
            if before - loss <= 1e-12 * abs(loss):
                if (lengths <= np.maximum(_MIN_LENGTH, 1.02 * self.cells.width)).all():
                    return
                lengths = np.maximum(lengths * 0.2, floor)
                directions = np.eye(self.dimensions)

    def _search_categories(
        self, point: Floats, loss: float, column: int
    ) -> Generator[Floats, Floats, tuple[Floats, float]]:
        """Find the best value of a category."""
        middles = self.cells.middles.get(column)
        if middles is None or len(middles) == 1:
            return point, loss
        others = np.tile(point, (len(middles), 1))
        others[:, column] = middles
        others = others[np.abs(middles - point[column]) > 0.5 / len(middles)]
        losses = yield others
        first = int(np.argmin(losses))
        if losses[first] < loss:
            return others[first], float(losses[first])
        return point, loss

    def _search_line(
        self, point: Floats, loss: float, direction: Floats, length: float
    ) -> Generator[Floats, Floats, tuple[Floats, float, float]]:
        """Find the best point on a line, its loss, and its distance."""
        line = LineSearch(point, loss, direction, length)
        distance = yield from line.spread() if self.batch >= _MIN_PARALLEL_BATCH else line.narrow()
        return line.point(distance), line.losses[distance], abs(distance)
