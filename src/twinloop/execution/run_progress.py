"""Progress of a run, for the callback of `execute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class RunProgress(NamedTuple):
    """The state of a run at one time.

    >>> RunProgress(t=3.0, tasks=10, ended={"completed": 4}, waiting=5, running={"n1": ("a",)}).over
    4
    """

    t: float
    tasks: int
    #: Number of tasks that have ended, by status.
    ended: Mapping[str, int]
    waiting: int
    #: The tasks on each node.
    running: Mapping[str, tuple[str, ...]]

    @property
    def over(self) -> int:
        """Number of tasks that have ended."""
        return sum(self.ended.values())


ProgressCallback = Callable[[RunProgress], None]
