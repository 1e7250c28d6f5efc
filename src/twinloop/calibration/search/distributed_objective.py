"""The loss of a twin, evaluated by processes or a cluster, for runs that take seconds."""

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
    """The same losses as `TwinObjective`, with the points divided among workers.

    The result does not depend on the number of workers: if a worker dies, its points are
    evaluated one by one, and only a point with which a worker dies again has failed.

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

    def __init__(self, *arguments: Any, workers: Coordinator, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._workers = workers
        # One thread per worker, because a machine may have many workers.
        self._evaluate = _CountingObjective(TwinObjective(*arguments, **{**options, "threads": 1}))

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point; NaN where the simulation failed."""
        parts = np.array_split(points, max(1, min(len(points), self._workers.workers)))
        return np.concatenate(list(self._evaluate_parts(parts)))

    def _evaluate_parts(self, parts: Sequence[_Floats]) -> Iterator[_Floats]:
        """Yield the losses of each part of the points."""
        outcomes = list(self._workers.map(self._evaluate, parts))
        for part, outcome in zip(parts, outcomes, strict=True):
            if outcome.error is None:
                found: tuple[_Floats, Counter[str]] = outcome.value  # type: ignore[assignment]
                self.failures.update(found[1])
                yield found[0]
            elif len(part) > 1:
                yield from self._evaluate_parts(np.split(part, len(part)))
            else:
                self.failures.add([outcome.error])
                yield np.full(1, np.nan)


class _CountingObjective:
    """Losses together with the counts of failures, which happen in another process."""

    def __init__(self, objective: TwinObjective) -> None:
        self.objective = objective

    def __call__(self, points: _Floats) -> tuple[_Floats, Counter[str]]:
        # A separate count for each call: a worker may have several threads.
        objective = copy(self.objective)
        objective.failures = FailureCounts()
        return objective(points), Counter(objective.failures)
