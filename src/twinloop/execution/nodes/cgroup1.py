"""Control groups of version 1: a hierarchy for every controller, or for a few of them together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from twinloop.execution.local_machine import Hierarchy
from twinloop.execution.nodes.cgroup_tree import (
    Limits,
    Meter,
    Refused,
    Tree,
    bandwidth,
    figure,
    held,
    top_of,
)

#: What a hierarchy is used for.
USED: Final = ("cpu", "cpuacct", "cpuset", "memory")

_SHARES: Final = 1024  # what a process without a group counts for
_FEWEST, _MOST = 2, 262_144


class Tree1(Tree):
    """The groups of one run in one hierarchy of version 1."""

    version: ClassVar[int] = 1
    # A thread that moves itself alone waits for nobody; a process that moves waits, with all that
    # start or end meanwhile, for tens of milliseconds. Who enters has one thread.
    entry: ClassVar[str] = "tasks"

    @classmethod
    def open(cls, hierarchy: Hierarchy, run: str) -> Tree1:
        """Make the group of a run in the group that this process is in.

        Raises:
            Refused: It has no controller of use, or may not be written.
        """
        used = [name for name in hierarchy.controllers if name in USED]
        if not used:
            raise Refused("no controller of use")
        top = top_of(hierarchy.own, run)
        try:
            top.mkdir()
        except OSError as error:
            where = f"no group can be made in {hierarchy.own}"
            raise Refused(f"{where}: {error.strerror}") from None
        return cls(top, used)

    def give_up(self, controllers: Iterable[str]) -> None:
        """Do without some controllers; without CPUs nobody could enter the groups."""
        super().give_up(self.controllers if "cpuset" in controllers else controllers)

    def holds_parts(self) -> bool:
        """Whether a part gets a group here: not to have the same CPUs as its node."""
        return self.controllers != ["cpuset"]

    def settings(self, controller: str, group: Path, limits: Limits) -> Iterable[tuple[str, str]]:
        """The files of a group that have to be written, in this order, and what."""
        if controller == "cpu":
            if limits.quota is not None:
                quota, period = bandwidth(limits.quota)
                yield "cpu.cfs_period_us", str(period)
                yield "cpu.cfs_quota_us", str(quota)
            if limits.weight is not None:
                yield "cpu.shares", str(min(max(round(_SHARES * limits.weight), _FEWEST), _MOST))
        elif controller == "cpuset":
            # A new group has neither CPUs nor memory, and nobody can enter it.
            yield "cpuset.mems", (group.parent / "cpuset.mems").read_text().strip()
            above = (group.parent / "cpuset.cpus").read_text().strip()
            yield "cpuset.cpus", ",".join(map(str, limits.cpus)) or above
        elif controller == "memory" and limits.memory is not None:
            yield "memory.limit_in_bytes", str(int(limits.memory))
            if (group / "memory.memsw.limit_in_bytes").exists():
                yield "memory.memsw.limit_in_bytes", str(int(limits.memory))

    def usage(self, group: Path) -> Meter | None:
        """Where it says how much CPU time a group has used, if it says."""
        if "cpuacct" not in self.controllers:
            return None
        return group / "cpuacct.usage", lambda text: int(text) / 1e9

    def resident(self, group: Path) -> Meter | None:
        """Where it says how much memory a group has in use, if it says."""
        return (group / "memory.stat", _resident) if "memory" in self.controllers else None

    def peak(self, group: Path) -> float | None:
        """The most memory that a group ever had, its share of the page cache included."""
        if "memory" not in self.controllers:
            return None
        return float((group / "memory.max_usage_in_bytes").read_text())

    def oom_kills(self, group: Path) -> int:
        """How many processes of a group were killed for want of memory."""
        if "memory" not in self.controllers:
            return 0
        return figure((group / "memory.oom_control").read_bytes(), b"oom_kill") or 0


def _resident(text: bytes) -> float | None:
    return held(text, b"total_rss", b"total_mapped_file")
