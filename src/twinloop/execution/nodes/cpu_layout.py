"""Assignment of CPUs to the nodes of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

#: Numbers of cores that differ by less are equal.
CORE_TOLERANCE: Final = 1e-9


def assign_cpus(cores: Sequence[float], cpus: Sequence[int]) -> list[tuple[int, ...]]:
    """Assign CPUs to every node.

    Whole cores get CPUs of their own. Fractions are packed onto the remaining CPUs (best fit
    decreasing); if they do not fit, each may use all remaining CPUs. A quota must limit fractions.

    Args:
        cores: Cores of each node; in sum not more than the number of CPUs.
        cpus: CPUs that can be assigned.

    >>> assign_cpus([1, 1], [4, 6])
    [(4,), (6,)]
    >>> assign_cpus([0.5, 1.5, 0.5, 0.5], [0, 1, 2])
    [(1,), (0, 1), (2,), (2,)]
    >>> assign_cpus([0.6, 0.6, 0.6], [0, 1])
    [(0, 1), (0, 1), (0, 1)]
    """
    left = iter(cpus)
    whole = [math.floor(number + CORE_TOLERANCE) for number in cores]
    own = [tuple(next(left) for _ in range(count)) for count in whole]
    shared = tuple(left)
    parts = [number - count for number, count in zip(cores, whole, strict=True)]
    places = _pack(parts, len(shared))
    for node, part in enumerate(parts):
        if part > CORE_TOLERANCE:
            own[node] += shared if places is None else (shared[places[node]],)
    return own


def _pack(parts: list[float], bins: int) -> dict[int, int] | None:
    """Pack parts into bins of size 1 by best fit decreasing; None: they do not fit."""
    room = [1.0] * bins
    places = {}
    for node in sorted(range(len(parts)), key=lambda node: -parts[node]):
        if parts[node] <= CORE_TOLERANCE:
            continue
        fits = [one for one in range(bins) if room[one] >= parts[node] - CORE_TOLERANCE]
        if not fits:
            return None
        places[node] = min(fits, key=lambda one: room[one])
        room[places[node]] -= parts[node]
    return places
