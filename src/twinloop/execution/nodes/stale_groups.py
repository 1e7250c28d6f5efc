"""Removal of processes and control groups of killed runs on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from twinloop.execution import leftovers
from twinloop.execution.local_machine import LocalMachine


def remove_stale_groups() -> list[str]:
    """Kill the processes of dead runs and remove their groups; returns a line for each run.

    A run is dead when the process that executed it has ended and no process has locked its groups.
    Dead runs of other users, which may not be changed, are listed and left alone.

    >>> all("twinloop-" in line for line in remove_stale_groups())
    True
    """
    runs: dict[str, list[Path]] = {}
    for top in list(_tops()):
        runs.setdefault(top.name[len(leftovers.GROUP) :], []).append(top)
    for run in leftovers.find_marked_processes().values():
        runs.setdefault(run, [])
    # If this process is a task itself, the process that executes it may be invisible here.
    runs.pop(os.environ.get("TWINLOOP_RUN", ""), None)
    found = []
    for run, tops in runs.items():
        if leftovers.is_run_alive(run) or any(map(_is_held, tops)):
            continue
        if not all(os.access(top, os.W_OK) for top in tops if top.is_dir()):
            found.append(f"{leftovers.GROUP}{run}: of a dead run of another user, left alone")
            continue
        ended = leftovers.clear_run(run, map(str, tops))
        left = [str(top) for top in tops if top.is_dir()]
        left += [f"process {pid}" for pid in sorted(leftovers.find_run_processes(run))]
        text = f"{len(tops)} groups removed, {ended} processes ended"
        found.append(
            f"{leftovers.GROUP}{run}: {text}" + (f", not {', '.join(left)}" if left else "")
        )
    return found


def _tops() -> Iterator[Path]:
    """Yield the group of every run in every visible hierarchy."""
    for hierarchy in LocalMachine.detect().hierarchies:
        for folder, inner, _ in os.walk(hierarchy.mount):
            for name in inner:
                if name.startswith(leftovers.GROUP) and leftovers.is_run_name(
                    name[len(leftovers.GROUP) :]
                ):
                    yield Path(folder, name)


def _is_held(top: Path) -> bool:
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
