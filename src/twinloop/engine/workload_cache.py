"""A workload loaded as columns once, for all scenarios that share it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from twinloop.description.cleaning import Cleaning
from twinloop.engine import workload_columns
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.fragments import find_rows


class LoadedWorkload:
    """The workload of a scenario as columns, independent of platform and policy.

    Args:
        scenario: The scenario, which describes how the workload is read.
        workload: The workload, if it has already been read.
        earlier: A workload with the same description and perhaps another seed, whose file is not
            read again.

    >>> scenario = Scenario(platform="2x16", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 100}}})
    >>> ready = LoadedWorkload(scenario)
    >>> len(ready.arrays), ready.is_valid_for(scenario.replace(policy="easy"))
    (100, True)
    >>> ready.is_valid_for(scenario.replace(time_scale=2))
    False
    >>> ready.is_valid_for(scenario.replace(seed=1))
    False
    """

    def __init__(
        self,
        scenario: Scenario,
        workload: Trace | Workload | None = None,
        *,
        earlier: LoadedWorkload | None = None,
    ) -> None:
        self._scenario = scenario
        self._reference = scenario.platform.clock
        self._origin: Trace | Workload | None = None
        if workload is None:
            if scenario.workload.prediction_errors is not None:
                # Only the errors depend on the seed.
                self._origin = (
                    scenario.workload.load_origin(scenario.seed)
                    if earlier is None
                    else earlier._origin
                )
            workload = scenario.workload.resolve(scenario.seed, self._origin)
        #: The replayed trace; None if the scenario has a Workload.
        self.trace = workload if isinstance(workload, Trace) else None
        #: The workload.
        self.workload = (
            workload if isinstance(workload, Workload) else self._replay_workload(workload)
        )
        self.arrays = workload_columns.scale_submissions(
            self.workload.to_arrays(), scenario.time_scale
        )

    def _replay_workload(self, trace: Trace) -> Workload:
        missing = self._scenario.workload.missing
        reference = trace.manifest.reference_mhz or self._reference
        return Workload.from_trace(trace, missing=missing, reference_mhz=reference)

    @property
    def cleaned(self) -> tuple[Cleaning, ...]:
        """Notes on the data cleaning, by the reader of the workload and by its conversion."""
        read = () if self.trace is None else self.trace.manifest.cleaned
        return (*read, *self.workload.cleaned)

    def is_valid_for(self, scenario: Scenario) -> bool:
        """Whether another scenario has the same workload."""
        mine = self._scenario
        spec = scenario.workload
        is_random = spec.is_generated or spec.prediction_errors is not None
        return (
            scenario.workload == mine.workload
            and scenario.time_scale == mine.time_scale
            and (not is_random or scenario.seed == mine.seed)
            and scenario.platform.clock == self._reference
        )

    def has_origin_of(self, scenario: Scenario) -> bool:
        """Whether another scenario has the same file of tasks, with other errors."""
        return self._origin is not None and scenario.workload == self._scenario.workload

    @cached_property
    def requested(self) -> Any:
        """The requested time of each task (s); NaN if none was requested."""
        if self.trace is None:
            return self.workload.tasks["requested_time"].fill_null(np.nan).to_numpy()
        return self._trace_column("requested_time")

    @cached_property
    def planned(self) -> Any:
        """The time (s) that the policy plans for each task; NaN to plan with its run time.

        This is the requested time or, in a replay of a task without one, the recorded plan.
        """
        if self.trace is None:
            return self.requested
        planned = self._trace_column("planned_time")
        return np.where(np.isnan(self.requested), planned, self.requested)

    def _trace_column(self, column: str) -> Any:
        if self.trace is None:
            raise ValueError("the workload is not a replayed trace")
        return self.trace.tasks[column].gather(self._rows).fill_null(np.nan).to_numpy()

    @cached_property
    def _rows(self) -> Any:
        if self.trace is None:
            return None
        return find_rows(self.trace.tasks["id"], self.arrays.ids, unique=True)
