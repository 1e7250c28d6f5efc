"""Requests of users: overestimated run times, and memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twinloop.workload.generators.description import Generator, parameter
from twinloop.workload.generators.elementary import Floats

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 86400.0

#: Run times that users usually request; longer ones are whole days.
USUAL_TIMES: Final = (
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(hours * _HOUR for hours in (1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24, 36, 48, 72)),
)


def round_up_to_usual(times: Floats) -> Floats:
    """Round times up to usual requested times.

    >>> round_up_to_usual(np.array([59.0, 60.0, 61.0, 300000.0])).tolist()  # the last: four days
    [60.0, 60.0, 120.0, 345600.0]
    """
    usual = np.array(USUAL_TIMES)
    index = np.searchsorted(usual, times, side="left")
    days = np.ceil(times / _DAY) * _DAY
    return np.where(index < usual.size, usual[np.minimum(index, usual.size - 1)], days)


class RequestGenerator(Generator):
    """Base class of the generators with requested run times and, optionally, memory."""

    overestimate: float = parameter(
        2.0,
        "maximum overestimation f: requested time = run time x U(1, 1 + f) (the f-model)",
        ge=0.0,
        le=1e6,
    )
    usual_times: bool = parameter(
        True, "requested times are rounded up to usual ones: 1, 2, 5, 10 min ... 1, 2, 3 h ... 1 d"
    )
    memory_per_core: float | None = parameter(
        None, "requested memory per core; none: no request", unit="bytes", gt=0.0, le=1e18
    )

    def _requests(self, seed: int, run_time: Floats, cores: Floats) -> dict[str, Any]:
        """Return the columns of the requests (cores, time and memory) and of the run time."""
        factor = 1.0 + self.overestimate * self._stream(seed, "requests").uniform(run_time.size)
        requested = self._round_up(run_time * factor)
        memory = None if self.memory_per_core is None else self.memory_per_core * cores
        return {
            "requested_cores": cores,
            "requested_time": round_up_to_usual(requested) if self.usual_times else requested,
            "requested_memory": memory,
            "run_time": run_time,
        }
