"""Removing what killed runs left on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from twinloop.execution import leftovers
from twinloop.execution.local_machine import LocalMachine


def remove_stale_groups() -> list[str]:
    """End the processes of dead runs and remove their groups; says what it found, a line each.

    A run is dead when the process that executed it is gone and nobody holds its groups. Runs of
    others that may not be touched are left alone, and said.

    >>> all("twinloop-" in line for line in remove_stale_groups())
    True
    """
    runs: dict[str, list[Path]] = {}
    for top in list(_tops()):
        runs.setdefault(top.name[len(leftovers.GROUP) :], []).append(top)
    for run in leftovers.find_marked_processes().values():
        runs.setdefault(run, [])
    # Where this process is a task itself, the process that executes it may be out of sight.
    runs.pop(os.environ.get("TWINLOOP_RUN", ""), None)
    found = []
    for run, tops in runs.items():
        if leftovers.is_run_alive(run) or any(map(_is_held, tops)):
            continue
        if not all(os.access(top, os.W_OK) for top in tops if top.is_dir()):
            found.append(f"{leftovers.GROUP}{run}: of a dead run of somebody else, left alone")
            continue
        ended = leftovers.clear_run(run, map(str, tops))
        left = [str(top) for top in tops if top.is_dir()]
        left += [f"process {pid}" for pid in sorted(leftovers.find_run_processes(run))]
        said = f"{len(tops)} groups removed, {ended} processes ended"
        found.append(
            f"{leftovers.GROUP}{run}: {said}" + (f", not {', '.join(left)}" if left else "")
        )
    return found


def _tops() -> Iterator[Path]:
    """The group of every run, in every hierarchy that can be seen."""
    for hierarchy in LocalMachine.detect().hierarchies:
        for folder, inner, _ in os.walk(hierarchy.mount):
            for name in inner:
                if name.startswith(leftovers.GROUP) and leftovers.is_run_name(
                    name[len(leftovers.GROUP) :]
                ):
                    yield Path(folder, name)


def _is_held(top: Path) -> bool:
    """Whether a run has it locked, maybe one in a container whose numbers mean nothing here."""
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
