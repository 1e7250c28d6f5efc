"""What a run looks like at a moment, for whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class RunProgress(NamedTuple):
    """A run at one moment.

    >>> RunProgress(t=3.0, tasks=10, ended={"completed": 4}, waiting=5, running={"n1": ("a",)}).over
    4
    """

    t: float
    tasks: int
    #: How many tasks ended, by status.
    ended: Mapping[str, int]
    waiting: int
    #: The tasks on each node.
    running: Mapping[str, tuple[str, ...]]

    @property
    def over(self) -> int:
        """How many tasks are over."""
        return sum(self.ended.values())


ProgressCallback = Callable[[RunProgress], None]
