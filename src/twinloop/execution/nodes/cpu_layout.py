"""Which CPUs the nodes of a run get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

#: Cores that differ by less are the same.
CORE_TOLERANCE: Final = 1e-9


def assign_cpus(cores: Sequence[float], cpus: Sequence[int]) -> list[tuple[int, ...]]:
    """The CPUs of every node.

    Whole cores get CPUs of their own. Fractions are packed onto those that are left; where they
    cannot be packed, each may use all that are left. A quota has to keep them to their share.

    Args:
        cores: Of each node; together not more than there are CPUs.
        cpus: Those that can be given away.

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
    places = _packed(parts, len(shared))
    for node, part in enumerate(parts):
        if part > CORE_TOLERANCE:
            own[node] += shared if places is None else (shared[places[node]],)
    return own


def _packed(parts: list[float], bins: int) -> dict[int, int] | None:
    """A bin for every part, the largest first, each where it leaves the least room."""
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
