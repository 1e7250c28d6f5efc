"""The loss of a twin, evaluated by processes or by a cluster: for runs that take seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.search.objective import FailureCounts, TwinObjective
from twinloop.campaign import Coordinator

_Floats = NDArray[np.float64]


class DistributedObjective(TwinObjective):
    """The same losses as a `TwinObjective`, each worker simulating a part of the points.

    What becomes of a point does not depend on how many workers there are: the points of a part
    that a worker was lost with are tried one by one, and only those that it is lost with again have
    failed.

    >>> from twinloop.calibration.cases import Case
    >>> from twinloop.calibration.losses import get_loss
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> from twinloop.campaign import coordinator
    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> space = Space([LinearParameter("speed_factor", 1.0, 2.0)])
    >>> case = Case.of([simulate(scenario)], scenario=scenario, names=space.names)
    >>> with coordinator("serial") as workers:
    ...     objective = DistributedObjective(space, [case], get_loss("makespan"), workers=workers)
    ...     objective(np.array([[0.0], [1.0]]))[0]
    np.float64(0.0)
    """

    def __init__(self, *about: Any, workers: Coordinator, **more: Any) -> None:
        super().__init__(*about, **more)
        self._workers = workers
        # A worker is one of many on its machine, and so has one thread.
        self._counted = _Counted(TwinObjective(*about, **{**more, "threads": 1}))

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point; NaN where the simulation failed."""
        parts = np.array_split(points, max(1, min(len(points), self._workers.workers)))
        return np.concatenate(list(self._tried(parts)))

    def _tried(self, parts: Sequence[_Floats]) -> Iterator[_Floats]:
        """The losses of each part."""
        outcomes = list(self._workers.map(self._counted, parts))
        for part, outcome in zip(parts, outcomes, strict=True):
            if outcome.error is None:
                found: tuple[_Floats, Counter[str]] = outcome.value  # type: ignore[assignment]
                self.failures.update(found[1])
                yield found[0]
            elif len(part) > 1:
                yield from self._tried(np.split(part, len(part)))
            else:
                self.failures.add([outcome.error])
                yield np.full(1, np.nan)


class _Counted:
    """Losses together with why some are missing, which nobody else would hear of."""

    def __init__(self, objective: TwinObjective) -> None:
        self.objective = objective

    def __call__(self, points: _Floats) -> tuple[_Floats, Counter[str]]:
        # A count of its own: a worker may have several threads.
        mine = copy(self.objective)
        mine.failures = FailureCounts()
        return mine(points), Counter(mine.failures)
