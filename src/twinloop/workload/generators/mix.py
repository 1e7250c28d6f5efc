"""Distributions of the number of cores of tasks, written `1:5,2:2,4:1` (cores:weight)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BeforeValidator

from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import RandomStream

_MAX_CORES: Final = 1_000_000_000


def _parse_mix(value: Any) -> tuple[tuple[int, float], ...]:
    if isinstance(value, int):
        value = {value: 1.0}
    if isinstance(value, str):
        value = [part.split(":") if ":" in part else (part, 1.0) for part in value.split(",")]
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        parsed = tuple((_parse_whole(cores), float(weight)) for cores, weight in pairs)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("is not a mix of cores; write it as cores:weight,cores:weight") from None
    if not parsed or not all(1 <= cores <= _MAX_CORES for cores, _ in parsed):
        raise ValueError("a mix needs at least one number of cores, each at least 1")
    if len({cores for cores, _ in parsed}) < len(parsed):
        raise ValueError("a mix must list each number of cores once")
    if not all(0.0 < weight <= 1e9 for _, weight in parsed):
        raise ValueError("the weights of a mix must be positive")
    return parsed


def _parse_whole(value: Any) -> int:
    if float(value) != int(value):
        raise ValueError
    return int(value)


#: Pairs of a number of cores and its weight; also given as a dict, a number or text.
Mix = Annotated[tuple[tuple[int, float], ...], BeforeValidator(_parse_mix)]


def draw(mix: tuple[tuple[int, float], ...], stream: RandomStream, count: int) -> Floats:
    """Draw numbers of cores from a mix.

    >>> draw(((4, 1.0),), RandomStream(1, "cores"), 2).tolist()
    [4.0, 4.0]
    """
    cores = np.array([cores for cores, _ in mix], dtype=np.float64)
    return cores[stream.choice([weight for _, weight in mix], count)]


def mean(mix: tuple[tuple[int, float], ...]) -> float:
    """The mean number of cores of a mix.

    >>> mean(((1, 3.0), (5, 1.0)))
    2.0
    """
    total = 0.0
    weights = 0.0
    for cores, weight in mix:
        total += cores * weight
        weights += weight
    return total / weights
