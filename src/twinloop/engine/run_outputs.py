"""Outputs of many runs of a compiled scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop._core import KPI_NAMES

#: Outputs per task: sorted by value, or in the order of the tasks.
SORTED_OUTPUTS: Final = ("starts", "ends")
TASK_OUTPUTS: Final = (
    *("task_submit", "task_ready", "task_start", "task_end"),
    *("task_run_time", "task_cpu", "task_machine"),
)


class RunOutputs(Mapping[str, NDArray[Any]]):
    """Outputs of many runs by name, with a row per run.

    `starts` and `ends` are sorted times of tasks, NaN last. Outputs that begin with `task_` are in
    the order of the tasks, with NaN (machines: -1) for tasks that did not complete.

    >>> import numpy as np
    >>> from twinloop.engine import RunOutputs
    >>> RunOutputs({"makespan_s": np.array([120.0, 60.0])})["makespan_s"].tolist()
    [120.0, 60.0]
    """

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(self, outputs: dict[str, NDArray[Any]]) -> None:
        self._outputs = outputs

    @classmethod
    def from_native(
        cls,
        outputs: Sequence[str],
        figures: NDArray[np.float64],
        columns: Mapping[str, NDArray[np.float64]],
    ) -> RunOutputs:
        """Create the outputs from native results: KPIs by run, and columns by run and task."""
        by_name: dict[str, NDArray[Any]] = {}
        for name in outputs:
            if name not in columns:
                by_name[name] = figures[:, KPI_NAMES.index(name)].copy()
                continue
            by_name[name] = columns[name]
            if name in SORTED_OUTPUTS:
                by_name[name].sort(axis=1)
            elif name == "task_machine":
                by_name[name] = np.nan_to_num(by_name[name], nan=-1.0).astype(np.int64)
        return cls(by_name)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)
