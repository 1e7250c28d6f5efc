"""Control groups of version 2: one hierarchy; a group that gives controllers to others is empty.

A run needs a group in which it can make groups with controllers: a group that it may write and
that has no process. Only the root of the hierarchy may have processes. A run can also use its own
group and move its process out of it, if no other process is there, as in a systemd scope with
`Delegate=yes`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from twinloop.execution.leftovers import EXECUTOR_GROUP, remove_groups
from twinloop.execution.local_machine import Hierarchy
from twinloop.execution.nodes.cgroup_tree import (
    GroupLimits,
    GroupMeter,
    GroupTree,
    UnusableHierarchyError,
    cores_to_quota,
    make_group_path,
    parse_cpu_seconds,
    parse_figure,
    parse_memory,
)

#: Controllers that are used.
CONTROLLERS: Final = ("cpu", "cpuset", "memory")

_DEFAULT_WEIGHT: Final = 100  # weight of a process without a group, in `cpu.weight`
_MIN_WEIGHT, _MAX_WEIGHT = 1, 10_000


class GroupTreeV2(GroupTree):
    """The groups of one run in the hierarchy of version 2."""

    version: ClassVar[int] = 2

    @classmethod
    def open(cls, hierarchy: Hierarchy, run: str) -> GroupTreeV2:
        """Make the group of a run in a group where it can have controllers.

        Raises:
            UnusableHierarchyError: There is no such group.
        """
        base = find_base_group(hierarchy)
        top = make_group_path(base.group, run)
        try:
            top.mkdir()
            if base.leave:
                (top / EXECUTOR_GROUP).mkdir()
                for pid in base.leave:
                    (top / EXECUTOR_GROUP / "cgroup.procs").write_text(str(pid))
            # Controllers stay enabled in a group that others use as well: another process may
            # depend on them when this run ends.
            used = [name for name in base.controllers if _enable(base.group, name)]
            used = [name for name in used if _enable(top, name)]
        except OSError as error:
            remove_groups(str(top))
            where = f"no group can be made in {base.group}"
            raise UnusableHierarchyError(f"{where}: {error.strerror}") from None
        if not used:
            remove_groups(str(top))
            raise UnusableHierarchyError(f"no controller can be enabled in {base.group}")
        return cls(top, used)

    def make_group(self, path: Path, limits: GroupLimits) -> dict[str, str]:
        """Make a group with limits; returns the controllers that failed, with the causes."""
        refused = super().make_group(path, limits)
        if path.parent == self.top:
            # Tasks have the CPUs of their node, so cpuset is not needed below it.
            for controller in set(self.controllers) - {"cpuset"}:
                if not _enable(path, controller):
                    refused.setdefault(controller, f"cannot be enabled in {path}")
        return refused

    def list_settings(
        self, controller: str, group: Path, limits: GroupLimits
    ) -> Iterable[tuple[str, str]]:
        """Yield the files of a group to write, in this order, with their contents."""
        if controller == "cpu":
            if limits.quota is not None:
                quota, period = cores_to_quota(limits.quota)
                yield "cpu.max", f"{quota} {period}"
            if limits.weight is not None:
                yield (
                    "cpu.weight",
                    str(min(max(round(_DEFAULT_WEIGHT * limits.weight), _MIN_WEIGHT), _MAX_WEIGHT)),
                )
        elif controller == "cpuset" and limits.cpus:
            yield "cpuset.cpus", ",".join(map(str, limits.cpus))
        elif controller == "memory" and limits.memory is not None:
            yield "memory.max", str(int(limits.memory))
            if (group / "memory.swap.max").exists():
                yield "memory.swap.max", "0"

    def find_usage_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the CPU time of a group, which every group has."""
        return group / "cpu.stat", parse_cpu_seconds

    def find_memory_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the memory of a group, if there is one."""
        return (
            (group / "memory.stat", _parse_resident_memory)
            if "memory" in self.controllers
            else None
        )

    def read_peak(self, group: Path) -> float | None:
        """Read the peak of the memory of a group, including its share of the page cache."""
        peak = group / "memory.peak"  # since Linux 5.19
        return float(peak.read_text()) if peak.exists() else None

    def count_oom_kills(self, group: Path) -> int:
        """Count the processes of a group that the out-of-memory killer has killed."""
        if "memory" not in self.controllers:
            return 0
        return parse_figure((group / "memory.events").read_bytes(), b"oom_kill") or 0


class BaseGroup(NamedTuple):
    """A group in which groups with controllers can be made."""

    group: Path
    controllers: tuple[str, ...]
    leave: tuple[int, ...]
    """Processes that must leave it first: this process and its descendants."""


def find_base_group(hierarchy: Hierarchy) -> BaseGroup:
    """Find the group with the most controllers among the own group and its ancestors.

    Of equal groups the nearest is taken.

    Raises:
        UnusableHierarchyError: None of them can be used.
    """
    bases = []
    first_refusal = ""
    group = hierarchy.own
    while True:
        try:
            bases.append(_make_base_group(group, group == hierarchy.own))
        except UnusableHierarchyError as refusal:
            first_refusal = first_refusal or str(refusal)
        if group == hierarchy.mount:
            break
        group = group.parent
    if not bases:
        raise UnusableHierarchyError(first_refusal)
    return max(bases, key=lambda base: len(base.controllers))


def _make_base_group(group: Path, is_own: bool) -> BaseGroup:
    if not all(os.access(path, os.W_OK) for path in (group, group / "cgroup.procs")):
        raise UnusableHierarchyError(f"{group} may not be written")
    controllers = _read_words(group / "cgroup.controllers")
    if not os.access(group / "cgroup.subtree_control", os.W_OK):
        controllers &= _read_words(group / "cgroup.subtree_control")
    used = tuple(name for name in CONTROLLERS if name in controllers)
    if not used:
        raise UnusableHierarchyError(f"no usable controller in {group}")
    # The root of the hierarchy has no type.
    kind = _read_words(group / "cgroup.type")
    if not kind:
        return BaseGroup(group, used, ())
    if kind != {"domain"}:
        raise UnusableHierarchyError(f"{group} is a threaded group")
    pids = {int(pid) for pid in _read_words(group / "cgroup.procs")}
    if pids and not (is_own and all(map(_is_own_process, pids))):
        raise UnusableHierarchyError(f"other processes are in {group}")
    return BaseGroup(group, used, tuple(pids))


def _is_own_process(pid: int) -> bool:
    """Whether a process is this one or its descendant."""
    while pid not in (0, os.getpid()):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return False
        pid = int(stat.rpartition(b")")[2].split()[1])
    return pid != 0


def _enable(group: Path, controller: str) -> bool:
    control = group / "cgroup.subtree_control"
    if controller not in _read_words(control):
        with contextlib.suppress(OSError):
            control.write_text(f"+{controller}")
    return controller in _read_words(control)


def _read_words(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except OSError:
        return set()


def _parse_resident_memory(text: bytes) -> float | None:
    return parse_memory(text, b"anon", b"file_mapped")
