"""Tasks that fit on no machine, by the effective capacity of the machines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Admission:
    """The tasks that are too large, for any effective capacity; asks only where it must.

    A task that fits on machines of some capacity fits on larger ones, so between two capacities
    with the same tasks too large there is nothing to ask.

    >>> sizes, asked = np.array([1.0, 3.0]), []
    >>> def too_large(capacity):
    ...     asked.append(capacity)
    ...     return sizes > 2 * capacity
    >>> known = Admission(too_large)
    >>> [known.find_too_large(c).tolist() for c in (1.0, 2.0, 9.0, 1.2, 1.1)]
    [[False, True], [False, False], [False, False], [False, True], [False, True]]
    >>> asked
    [1.0, 2.0, 1.2]
    """

    def __init__(self, ask: Callable[[float], Mask]) -> None:
        self._ask = ask
        self._capacities: list[float] = []
        self._masks: list[Mask] = []

    def find_too_large(self, capacity: float) -> Mask:
        """Whether each task fits on no machine of this capacity."""
        place = bisect_left(self._capacities, capacity)
        above = self._masks[place] if place < len(self._masks) else None
        if above is not None and self._capacities[place] == capacity:
            return above
        below = self._masks[place - 1] if place else None
        if below is not None and not below.any():
            return below
        if above is not None and (above.all() or (below is not None and (below == above).all())):
            return above
        found = self._ask(capacity)
        self._capacities.insert(place, capacity)
        self._masks.insert(place, found)
        return found
