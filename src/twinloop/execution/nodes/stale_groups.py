"""Removal of processes and control groups of killed runs on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from twinloop.execution import leftovers
from twinloop.execution.local_machine import LocalMachine
from twinloop.trace.trace import format_count


def remove_stale_groups() -> list[str]:
    """Kill the processes of dead runs and remove their groups; returns a text for each run.

    A run is dead when the process that executed it has ended and no process has locked its groups.
    Dead runs of other users are listed, but not removed, because this user may not change them.

    >>> all("twinloop-" in line for line in remove_stale_groups())
    True
    """
    runs: dict[str, list[Path]] = {}
    for top in list(_find_run_groups()):
        runs.setdefault(top.name[len(leftovers.GROUP_PREFIX) :], []).append(top)
    for run in leftovers.find_marked_processes().values():
        runs.setdefault(run, [])
    # If this process is a task itself, the process that executes it may be invisible here.
    runs.pop(os.environ.get("TWINLOOP_RUN", ""), None)
    lines = []
    for run, tops in runs.items():
        if leftovers.is_run_alive(run) or any(map(_is_locked, tops)):
            continue
        if not all(os.access(top, os.W_OK) for top in tops if top.is_dir()):
            lines.append(f"{leftovers.GROUP_PREFIX}{run}: belongs to another user, not removed")
            continue
        killed = leftovers.clear_run(run, map(str, tops))
        remaining = [str(top) for top in tops if top.is_dir()]
        groups = format_count(len(tops) - len(remaining), "group")
        processes = format_count(killed, "process", "processes")
        remaining += [f"process {pid}" for pid in sorted(leftovers.find_run_processes(run))]
        lines.append(
            f"{leftovers.GROUP_PREFIX}{run}: {groups} removed, {processes} killed"
            + (f"; not removed: {', '.join(remaining)}" if remaining else "")
        )
    return lines


def _find_run_groups() -> Iterator[Path]:
    """Yield the group of every run in every visible hierarchy."""
    for hierarchy in LocalMachine.detect().hierarchies:
        for folder, inner, _ in os.walk(hierarchy.mount):
            for name in inner:
                if name.startswith(leftovers.GROUP_PREFIX) and leftovers.is_run_name(
                    name[len(leftovers.GROUP_PREFIX) :]
                ):
                    yield Path(folder, name)


def _is_locked(top: Path) -> bool:
    """Whether a process has locked a group, which may be in another PID namespace."""
    try:
        file = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
