"""Latencies of the execution: from a decision to a start, and from an end to a free core."""

from __future__ import annotations

from typing import Any

import numpy as np


class Latencies:
    """Measured latencies, and their summary for the manifest.

    >>> latency = Latencies()
    >>> for seconds in (0.002, 0.004, 0.003):
    ...     latency.add(seconds)
    >>> latency.facts()["p50_s"], latency.facts()["count"]
    (0.003, 3)
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        """Add a measurement."""
        self._seconds.append(seconds)

    def facts(self) -> dict[str, Any]:
        """Return count, mean, median, 95th percentile and maximum (s).

        All but the count are None if there is no measurement.
        """
        names = ("mean_s", "p50_s", "p95_s", "max_s")
        if not self._seconds:
            return {"count": 0, **dict.fromkeys(names)}
        times = np.array(self._seconds)
        statistics = (times.mean(), *np.quantile(times, (0.5, 0.95)), times.max())
        return {
            "count": len(times),
            **{n: float(v) for n, v in zip(names, statistics, strict=True)},
        }
