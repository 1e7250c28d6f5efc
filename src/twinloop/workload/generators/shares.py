"""Apportionment: division of a whole number in proportion to shares."""

from __future__ import annotations

import numpy as np

from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import Integers


def apportion(whole: int, shares: Floats) -> Integers:
    """Divide a whole number by the largest remainder method; the first share wins a tie.

    >>> apportion(10, np.array([3.0, 3.0, 2.0, 2.0])).tolist()
    [3, 3, 2, 2]
    >>> apportion(10, np.array([1.0, 1.0, 1.0])).tolist()
    [4, 3, 3]
    """
    ideal = whole * shares / np.cumsum(shares)[-1]
    parts: Integers = np.floor(ideal).astype(np.int64)
    remainder = whole - int(parts.sum())
    order = np.argsort(parts - ideal, kind="stable")
    parts[order[:remainder]] += 1
    return parts
