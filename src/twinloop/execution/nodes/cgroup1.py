"""Control groups of version 1: a hierarchy for each controller or for several together."""

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

#: Controllers that are used.
CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", "memory")

_DEFAULT_SHARES: Final = 1024  # weight of a process without a group, in `cpu.shares`
_MIN_SHARES, _MAX_SHARES = 2, 262_144


class GroupTreeV1(GroupTree):
    """The groups of one run in one hierarchy of version 1."""

    version: ClassVar[int] = 1
    # Moving one thread does not block; moving a process blocks all starts and ends of processes for
    # tens of milliseconds. A process has one thread when it enters.
    entry: ClassVar[str] = "tasks"

    @classmethod
    def open(cls, hierarchy: Hierarchy, run: str) -> GroupTreeV1:
        """Make the group of a run in the group of this process.

        Raises:
            UnusableHierarchyError: It has no controller that is used, or may not be written.
        """
        used = [name for name in hierarchy.controllers if name in CONTROLLERS]
        if not used:
            raise UnusableHierarchyError("no usable controller")
        top = make_group_path(hierarchy.own, run)
        try:
            top.mkdir()
        except OSError as error:
            where = f"no group can be made in {hierarchy.own}"
            raise UnusableHierarchyError(f"{where}: {error.strerror}") from None
        return cls(top, used)

    def drop_controllers(self, controllers: Iterable[str]) -> None:
        """Stop using controllers; if cpuset is among them, stop using all.

        No process can enter a group of the cpuset controller that has no CPUs.
        """
        super().drop_controllers(self.controllers if "cpuset" in controllers else controllers)

    def has_task_groups(self) -> bool:
        """Whether tasks have groups here: not if cpuset is the only controller.

        The tasks of a node share its CPUs, so they need no group of that controller.
        """
        return self.controllers != ["cpuset"]

    def list_settings(
        self, controller: str, group: Path, limits: GroupLimits
    ) -> Iterable[tuple[str, str]]:
        """Yield the files of a group to write, in this order, with their contents."""
        if controller == "cpu":
            if limits.quota is not None:
                quota, period = cores_to_quota(limits.quota)
                yield "cpu.cfs_period_us", str(period)
                yield "cpu.cfs_quota_us", str(quota)
            if limits.weight is not None:
                yield (
                    "cpu.shares",
                    str(min(max(round(_DEFAULT_SHARES * limits.weight), _MIN_SHARES), _MAX_SHARES)),
                )
        elif controller == "cpuset":
            # A new group has neither CPUs nor memory nodes, and no process can enter it.
            yield "cpuset.mems", (group.parent / "cpuset.mems").read_text().strip()
            above = (group.parent / "cpuset.cpus").read_text().strip()
            yield "cpuset.cpus", ",".join(map(str, limits.cpus)) or above
        elif controller == "memory" and limits.memory is not None:
            yield "memory.limit_in_bytes", str(int(limits.memory))
            if (group / "memory.memsw.limit_in_bytes").exists():
                yield "memory.memsw.limit_in_bytes", str(int(limits.memory))

    def find_usage_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the CPU time of a group, if there is one."""
        if "cpuacct" not in self.controllers:
            return None
        return group / "cpuacct.usage", lambda text: int(text) / 1e9

    def find_memory_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the memory of a group, if there is one."""
        return (
            (group / "memory.stat", _parse_resident_memory)
            if "memory" in self.controllers
            else None
        )

    def read_peak(self, group: Path) -> float | None:
        """Read the peak of the memory of a group, including its share of the page cache."""
        if "memory" not in self.controllers:
            return None
        return float((group / "memory.max_usage_in_bytes").read_text())

    def count_oom_kills(self, group: Path) -> int:
        """Count the processes of a group that the out-of-memory killer has killed."""
        if "memory" not in self.controllers:
            return 0
        return parse_figure((group / "memory.oom_control").read_bytes(), b"oom_kill") or 0


def _parse_resident_memory(text: bytes) -> float | None:
    return parse_memory(text, b"total_rss", b"total_mapped_file")
