"""Control groups of version 1: a hierarchy for every controller, or for a few of them together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from twinloop.execution.local_machine import Hierarchy
from twinloop.execution.nodes.cgroup_tree import (
    GroupLimits,
    GroupMeter,
    GroupTree,
    UnusableHierarchyError,
    cores_to_quota,
    make_group_path,
    parse_figure,
    parse_memory,
)

#: What a hierarchy is used for.
CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", "memory")

_SHARES: Final = 1024  # what a process without a group counts for
_FEWEST, _MOST = 2, 262_144


class GroupTreeV1(GroupTree):
    """The groups of one run in one hierarchy of version 1."""

    version: ClassVar[int] = 1
    # A thread that moves itself alone waits for nobody; a process that moves waits, with all that
    # start or end meanwhile, for tens of milliseconds. Who enters has one thread.
    entry: ClassVar[str] = "tasks"

    @classmethod
    def open(cls, hierarchy: Hierarchy, run: str) -> GroupTreeV1:
        """Make the group of a run in the group that this process is in.

        Raises:
            Refused: It has no controller of use, or may not be written.
        """
        used = [name for name in hierarchy.controllers if name in CONTROLLERS]
        if not used:
            raise UnusableHierarchyError("no controller of use")
        top = make_group_path(hierarchy.own, run)
        try:
            top.mkdir()
        except OSError as error:
            where = f"no group can be made in {hierarchy.own}"
            raise UnusableHierarchyError(f"{where}: {error.strerror}") from None
        return cls(top, used)

    def drop_controllers(self, controllers: Iterable[str]) -> None:
        """Do without some controllers; without CPUs nobody could enter the groups."""
        super().drop_controllers(self.controllers if "cpuset" in controllers else controllers)

    def has_task_groups(self) -> bool:
        """Whether a part gets a group here: not to have the same CPUs as its node."""
        return self.controllers != ["cpuset"]

    def list_settings(
        self, controller: str, group: Path, limits: GroupLimits
    ) -> Iterable[tuple[str, str]]:
        """The files of a group that have to be written, in this order, and what."""
        if controller == "cpu":
            if limits.quota is not None:
                quota, period = cores_to_quota(limits.quota)
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

    def find_usage_meter(self, group: Path) -> GroupMeter | None:
        """Where it says how much CPU time a group has used, if it says."""
        if "cpuacct" not in self.controllers:
            return None
        return group / "cpuacct.usage", lambda text: int(text) / 1e9

    def find_memory_meter(self, group: Path) -> GroupMeter | None:
        """Where it says how much memory a group has in use, if it says."""
        return (group / "memory.stat", _resident) if "memory" in self.controllers else None

    def read_peak(self, group: Path) -> float | None:
        """The most memory that a group ever had, its share of the page cache included."""
        if "memory" not in self.controllers:
            return None
        return float((group / "memory.max_usage_in_bytes").read_text())

    def count_oom_kills(self, group: Path) -> int:
        """How many processes of a group were killed for want of memory."""
        if "memory" not in self.controllers:
            return 0
        return parse_figure((group / "memory.oom_control").read_bytes(), b"oom_kill") or 0


def _resident(text: bytes) -> float | None:
    return parse_memory(text, b"total_rss", b"total_mapped_file")
