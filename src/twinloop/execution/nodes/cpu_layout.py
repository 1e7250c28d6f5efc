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
    free_cpus = iter(cpus)
    whole_cores = [math.floor(number + CORE_TOLERANCE) for number in cores]
    assigned = [tuple(next(free_cpus) for _ in range(count)) for count in whole_cores]
    shared = tuple(free_cpus)
    fractions = [number - count for number, count in zip(cores, whole_cores, strict=True)]
    bins = _pack(fractions, len(shared))
    for node, fraction in enumerate(fractions):
        if fraction > CORE_TOLERANCE:
            assigned[node] += shared if bins is None else (shared[bins[node]],)
    return assigned


def _pack(fractions: list[float], bins: int) -> dict[int, int] | None:
    """Pack fractions into bins of size 1 by best fit decreasing; None if they do not fit.

    Returns the bin of each node with a fraction.
    """
    free = [1.0] * bins
    bin_by_node = {}
    for node in sorted(range(len(fractions)), key=lambda node: -fractions[node]):
        if fractions[node] <= CORE_TOLERANCE:
            continue
        fitting = [
            index for index in range(bins) if free[index] >= fractions[node] - CORE_TOLERANCE
        ]
        if not fitting:
            return None
        bin_by_node[node] = min(fitting, key=lambda index: free[index])
        free[bin_by_node[node]] -= fractions[node]
    return bin_by_node
