"""Admission control: the tasks that fit on no machine at a given effective capacity."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Admission:
    """Cache of the tasks that are too large, by effective capacity.

    A task that fits at some capacity fits at every larger one. Between two capacities with the same
    result, the result is therefore known without an evaluation.

    >>> sizes, evaluated = np.array([1.0, 3.0]), []
    >>> def evaluate(capacity):
    ...     evaluated.append(capacity)
    ...     return sizes > 2 * capacity
    >>> admission = Admission(evaluate)
    >>> [admission.find_too_large(c).tolist() for c in (1.0, 2.0, 9.0, 1.2, 1.1)]
    [[False, True], [False, False], [False, False], [False, True], [False, True]]
    >>> evaluated
    [1.0, 2.0, 1.2]
    """

    def __init__(self, evaluate: Callable[[float], Mask]) -> None:
        self._evaluate = evaluate
        self._capacities: list[float] = []
        self._masks: list[Mask] = []

    def find_too_large(self, capacity: float) -> Mask:
        """Return the mask of the tasks that fit on no machine at this effective capacity."""
        index = bisect_left(self._capacities, capacity)
        above = self._masks[index] if index < len(self._masks) else None
        if above is not None and self._capacities[index] == capacity:
            return above
        below = self._masks[index - 1] if index else None
        if below is not None and not below.any():
            return below
        if above is not None and (above.all() or (below is not None and (below == above).all())):
            return above
        mask = self._evaluate(capacity)
        self._capacities.insert(index, capacity)
        self._masks.insert(index, mask)
        return mask
