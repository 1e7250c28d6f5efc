"""What many runs at once gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop._core import KPI_NAMES


class Many(Mapping[str, NDArray[np.float64]]):
    """Outputs of many runs by name: a row per run; times of tasks in order of size, NaN last.

    >>> import numpy as np
    >>> from twinloop.engine import Many
    >>> Many({"makespan_s": np.array([120.0, 60.0])})["makespan_s"].tolist()
    [120.0, 60.0]
    """

    def __init__(self, outputs: dict[str, NDArray[np.float64]]) -> None:
        self._outputs = outputs

    @classmethod
    def of(cls, outputs: Sequence[str], runs: int, found: tuple[Any, Any, Any]) -> Many:
        """From what the core gives: figures, starts and ends, run by run."""
        figures, starts, ends = (np.asarray(part).reshape(runs, -1) for part in found)
        times = {"starts": starts, "ends": ends}
        return cls(
            {
                name: np.sort(times[name], axis=1)
                if name in times
                else figures[:, KPI_NAMES.index(name)].copy()
                for name in outputs
            }
        )

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)
