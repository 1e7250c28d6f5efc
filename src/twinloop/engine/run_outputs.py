"""What many runs at once gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop._core import KPI_NAMES

#: What is told of each task: in order of size, or task by task.
SORTED_OUTPUTS: Final = ("starts", "ends")
TASK_OUTPUTS: Final = (
    *("task_submit", "task_ready", "task_start", "task_end"),
    *("task_run_time", "task_cpu", "task_machine"),
)


class RunOutputs(Mapping[str, NDArray[Any]]):
    """Outputs of many runs by name: a row per run.

    `starts` and `ends` are times of tasks in order of size, NaN last. What begins with `task_` is
    in the order of the tasks, NaN (of machines -1) for those that did not complete.

    >>> import numpy as np
    >>> from twinloop.engine import RunOutputs
    >>> RunOutputs({"makespan_s": np.array([120.0, 60.0])})["makespan_s"].tolist()
    [120.0, 60.0]
    """

    def __init__(self, outputs: dict[str, NDArray[Any]]) -> None:
        self._outputs = outputs

    @classmethod
    def from_native(
        cls,
        outputs: Sequence[str],
        figures: NDArray[np.float64],
        columns: Mapping[str, NDArray[np.float64]],
    ) -> RunOutputs:
        """From what the core gives: figures run by run, and columns of runs and tasks."""
        made: dict[str, NDArray[Any]] = {}
        for name in outputs:
            if name not in columns:
                made[name] = figures[:, KPI_NAMES.index(name)].copy()
                continue
            made[name] = columns[name]
            if name in SORTED_OUTPUTS:
                made[name].sort(axis=1)
            elif name == "task_machine":
                made[name] = np.nan_to_num(made[name], nan=-1.0).astype(np.int64)
        return cls(made)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)
