"""Resources of this machine, as far as this process may use them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from twinloop.description.errors import InputError


class Hierarchy(NamedTuple):
    """A hierarchy of control groups, and the group of this process in it."""

    version: int
    """1 or 2."""
    controllers: tuple[str, ...]
    """Its controllers (v1). Groups of v2 list theirs in `cgroup.controllers`."""
    mount: Path
    """The highest visible group."""
    own: Path
    """The group of this process."""


class LocalMachine(NamedTuple):
    """The resources of this machine, as far as this process may use them.

    >>> machine = LocalMachine.detect()
    >>> 0 < machine.cores <= len(machine.cpus)
    True
    """

    cpus: tuple[int, ...]
    """The CPUs that this process may run on, by number."""
    cores: float
    """Number of cores; less than the number of CPUs where the quota of a group limits it."""
    memory: int
    """Memory of the machine, or the smallest limit of a group of this process (bytes)."""
    model: str | None
    """Model of the processor."""
    mhz: float | None
    """Highest clock rate of the processor if the kernel shows it, else the current rate."""
    hierarchies: tuple[Hierarchy, ...]
    """The hierarchies of control groups."""

    @classmethod
    def detect(cls) -> LocalMachine:
        """Detect the resources of this machine.

        Raises:
            InputError: The system is not Linux.
        """
        if sys.platform != "linux":
            raise InputError(
                f"real runs need Linux, not {sys.platform}",
                kind="unsupported-system",
                remedy="simulate here, and execute in a virtual machine with Linux",
            )
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        hierarchies = parse_hierarchies(
            _read_text("/proc/self/mountinfo"), _read_text("/proc/self/cgroup")
        )
        return cls(
            cpus=cpus,
            cores=min([float(len(cpus)), *_list_limits(hierarchies, _read_core_limit)]),
            memory=int(min([_read_total_memory(), *_list_limits(hierarchies, _read_memory_limit)])),
            model=_find_field(_read_text("/proc/cpuinfo"), "model name"),
            mhz=_read_mhz(cpus[0]),
            hierarchies=hierarchies,
        )

    def suggest_platforms(self) -> tuple[str, ...]:
        """Suggest platforms that fit onto this machine, in shorthand.

        >>> LocalMachine(cpus=(0, 1), cores=2.0, memory=2**30, model=None, mhz=None,
        ...         hierarchies=()).suggest_platforms()
        ('2x1', '4x0.5', '1x2')
        """
        whole = int(self.cores)
        if not whole:
            return (f"1x{self.cores:g}", f"2x{self.cores / 2:g}")
        return (f"{whole}x1", f"{2 * whole}x0.5", *([f"1x{whole}"] if whole > 1 else []))


def parse_hierarchies(mountinfo: str, membership: str) -> tuple[Hierarchy, ...]:
    """Parse the hierarchies of control groups of a process.

    Args:
        mountinfo: Text of its `/proc/PID/mountinfo`.
        membership: Text of its `/proc/PID/cgroup`.

    >>> parse_hierarchies(
    ...     "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\\n",
    ...     "0::/user.slice/run-7.scope\\n",
    ... )[0].own.as_posix()
    '/sys/fs/cgroup/user.slice/run-7.scope'
    """
    groups: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    hierarchies: dict[tuple[str, ...], Hierarchy] = {}
    for root, mount, kind, options in _parse_mounts(mountinfo):
        controllers_of_mount = tuple(name for name in options.split(",") if name in groups)
        version = 2 if kind == "cgroup2" else 1
        # In /proc/PID/cgroup the hierarchy of version 2 has no controller.
        own = (
            groups.get("")
            if version == 2
            else groups[controllers_of_mount[0]]
            if controllers_of_mount
            else None
        )
        if own is None or own.startswith("/..") or controllers_of_mount in hierarchies:
            continue
        relative_path = os.path.relpath(own, root)
        if not relative_path.startswith(".."):
            group = Path(os.path.normpath(f"{mount}/{relative_path}"))
            hierarchies[controllers_of_mount] = Hierarchy(
                version, controllers_of_mount, Path(mount), group
            )
    return tuple(hierarchies.values())


def _parse_mounts(mountinfo: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield root, path, kind and options of every mount of control groups."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, mount = (
                re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), word)
                for word in before.split()[3:5]
            )
            yield root, mount, kind, options


def _list_limits(
    hierarchies: tuple[Hierarchy, ...], read: Callable[[int, Path], float | None]
) -> Iterator[float]:
    """Yield every limit of one kind from the group of this process up to the highest group."""
    for hierarchy in hierarchies:
        group = hierarchy.own
        while True:
            limit = read(hierarchy.version, group)
            if limit is not None:
                yield limit
            if group == hierarchy.mount:
                break
            group = group.parent


def _read_core_limit(version: int, group: Path) -> float | None:
    if version == 2:
        quota, _, period = _read_text(group / "cpu.max").strip().partition(" ")
    else:
        quota = _read_text(group / "cpu.cfs_quota_us").strip()
        period = _read_text(group / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read_memory_limit(version: int, group: Path) -> float | None:
    limit = _read_text(group / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
    return float(limit) if limit.isdigit() else None


def _read_total_memory() -> int:
    kibibytes = _find_field(_read_text("/proc/meminfo"), "MemTotal")
    if kibibytes is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(kibibytes.split()[0]) * 1024


def _read_mhz(cpu: int) -> float | None:
    kilohertz = _read_text(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq").strip()
    if kilohertz.isdigit():
        return int(kilohertz) / 1000
    current_mhz = _find_field(_read_text("/proc/cpuinfo"), "cpu MHz")
    return None if current_mhz is None else float(current_mhz)


def _find_field(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() or None if match else None


def _read_text(path: str | Path) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
