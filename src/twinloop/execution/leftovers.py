"""Removal of the processes and control groups that a dead run left.

This file is a program as well as a module. As a program it is the guard of a run:
`python -I -S leftovers.py RUN GROUP...` with a pipe on its stdin waits until the pipe closes or the
process of the run has ended, and then removes what the run left. The byte `q` dismisses it. It
imports only the standard library, to start fast and to use little memory.
"""

# pathlib would take longer to load than all other modules together.
# ruff: noqa: PTH106, PTH112, PTH115, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

#: Prefix of the name of a control group of a run; the name of the run follows.
GROUP_PREFIX: Final = "twinloop-"
#: Name of the group to which a run moves its own process if the parent group must be empty, as
#: cgroup v2 may require.
EXECUTOR_GROUP: Final = "executing"
#: Signals that the guard of a run ignores.
IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_RUN_NAME = re.compile(r"([0-9]+)-([0-9]+)-[0-9a-f]{4}")
_TIMEOUT: Final = 10.0


def is_run_name(name: str) -> bool:
    """Whether a text is the name of a run.

    >>> is_run_name("4711-902834-1f0a"), is_run_name("slice")
    (True, False)
    """
    return _RUN_NAME.fullmatch(name) is not None


def read_start_ticks(pid: int) -> int | None:
    """Read the start time of a process in ticks since boot; None if it has ended.

    >>> read_start_ticks(os.getpid()) > 0
    True
    """
    fields = _read_stat(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def is_run_alive(run: str) -> bool:
    """Whether the process that executes a run is alive, by its process ID and its start time.

    >>> is_run_alive(f"{os.getpid()}-{read_start_ticks(os.getpid())}-0000")
    True
    >>> is_run_alive(f"{os.getpid()}-1-0000")
    False
    """
    match = _RUN_NAME.fullmatch(run)
    return match is not None and read_start_ticks(int(match[1])) == int(match[2])


def list_groups(top: str) -> list[str]:
    """List a group and all groups in it, the deepest first.

    >>> list_groups("/nowhere")
    []
    """
    return [folder for folder, _, _ in os.walk(top, topdown=False)]


def find_members(groups: Iterable[str]) -> set[int]:
    """Find the processes in any of these groups; a group that does not exist has none.

    >>> find_members(["/nowhere"])
    set()
    """
    pids: set[int] = set()
    for group in groups:
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", "rb") as stream:
            pids.update(map(int, stream.read().split()))
    # 0 is a process of another PID namespace, which has no process ID here.
    return pids - {0}


def find_run_processes(run: str) -> set[int]:
    """Find the processes with the name of a run in their environment.

    >>> find_run_processes("1-1-0000")
    set()
    """
    return {pid for pid, name in find_marked_processes().items() if name == run}


def find_marked_processes() -> dict[int, str]:
    """Map every process of this PID namespace that belongs to a run to the name of the run.

    >>> all(is_run_name(run) for run in find_marked_processes().values())
    True
    """
    run_names = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            for word in read_words(int(entry), "environ"):
                name = word[13:].decode("ascii", "replace")
                if (
                    word.startswith(b"TWINLOOP_RUN=")
                    and is_run_name(name)
                    and _is_in_namespace(entry)
                ):
                    run_names[int(entry)] = name
    return run_names


def read_words(pid: int, file: str) -> list[bytes]:
    """Read `environ` or `cmdline` of a process; the last word is empty.

    During `exec` both are empty, so that the process could not be attributed to a run. This
    function therefore waits for the end of an `exec`.

    >>> read_words(os.getpid(), "cmdline")[-1]
    b''
    """
    deadline, is_settled = time.monotonic() + _TIMEOUT, False
    while True:
        with open(f"/proc/{pid}/{file}", "rb") as stream:
            words = stream.read().split(b"\0")
        if words != [b""] or is_settled:
            return words
        # After the exec the words may have appeared: read once more.
        is_settled = not is_in_exec(pid) or time.monotonic() > deadline
        time.sleep(0.0 if is_settled else 0.001)


def is_in_exec(pid: int) -> bool:
    """Whether a process is in `exec`, when the kernel does not show its environment yet.

    >>> is_in_exec(os.getpid())
    False
    """
    fields = _read_stat(pid)
    # It has memory, but the end address of its environment (env_end) is not set yet.
    return (
        fields is not None
        and fields[0] not in (b"Z", b"X")
        and (int(fields[20]) > 0 and int(fields[48]) == 0)
    )


def signal_processes(find: Callable[[], set[int]], number: int) -> set[int]:
    """Send a signal to all processes that `find` returns, and to their new children.

    A process must be found both before and after its pidfd was opened, so that a process that got
    a reused process ID receives no signal. This process and its ancestors are spared. Parents come
    before their children: a parent that waits for a killed child might end by itself first.

    Returns the processes that received the signal.

    >>> signal_processes(set, 15)
    set()
    """
    signalled: set[int] = set()
    spared = _find_ancestors()
    for _ in range(10):
        pidfds = {}
        for pid in _sort_parents_first(find() - signalled - spared):
            with contextlib.suppress(OSError):
                pidfds[pid] = os.pidfd_open(pid)
        if not pidfds:
            break
        still_there = find()
        for pid, pidfd in pidfds.items():
            if pid in still_there:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(pidfd, number)
                    signalled.add(pid)
            os.close(pidfd)
    return signalled


def kill_processes(find: Callable[[], set[int]], patience: float = _TIMEOUT) -> int:
    """Kill all processes that `find` returns until it returns none; returns their number.

    >>> kill_processes(set)
    0
    """
    killed: set[int] = set()
    spared = _find_ancestors()
    deadline, pause = time.monotonic() + patience, 0.001
    while find() - spared and time.monotonic() < deadline:
        killed |= signal_processes(find, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return len(killed)


def remove_groups(top: str, patience: float = _TIMEOUT) -> bool:
    """Remove a group and all groups in it, which must be empty; returns whether it is gone.

    The kernel releases a group shortly after its last process has ended, so this is repeated.

    >>> remove_groups("/nowhere")
    True
    """
    deadline, pause = time.monotonic() + patience, 0.001
    while True:
        for group in list_groups(top):
            with contextlib.suppress(OSError):
                os.rmdir(group)
        if not os.path.isdir(top):
            return True
        if time.monotonic() >= deadline:
            return False
        _move_processes_back(top)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def clear_run(run: str, groups: Iterable[str]) -> int:
    """Kill all processes of a dead run and remove its groups; returns the number of processes.

    >>> clear_run("1-1-0000", [])
    0
    """
    tops = list(groups)

    def find() -> set[int]:
        return find_run_processes(run) | find_members(
            inner for top in tops for inner in list_groups(top)
        )

    ended = kill_processes(find)
    for top in tops:
        remove_groups(top)
    return ended


def _move_processes_back(top: str) -> None:
    """Move the processes that a run moved out of its own group back to that group."""
    inner = f"{top}/{EXECUTOR_GROUP}"
    if not os.path.isdir(inner):
        return
    above = os.path.dirname(top)
    with contextlib.suppress(OSError):
        for group in (top, above):
            control = f"{group}/cgroup.subtree_control"
            with open(control) as stream:
                enabled = stream.read().split()
            with open(control, "w") as stream:
                stream.write(" ".join(f"-{name}" for name in enabled))
        for pid in find_members([inner]):
            with open(f"{above}/cgroup.procs", "w") as stream:
                stream.write(str(pid))


def _read_stat(pid: int) -> list[bytes] | None:
    """Read the fields of `/proc/PID/stat` after the name, which may contain any byte.

    None if the process does not exist.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _sort_parents_first(pids: set[int]) -> list[int]:
    parents = {pid: int(fields[1]) for pid in pids if (fields := _read_stat(pid))}

    def count_ancestors(pid: int) -> int:
        count = 0
        while (pid := parents.get(pid, 0)) in parents and count < len(parents):
            count += 1
        return count

    return sorted(pids, key=count_ancestors)


def _find_ancestors() -> set[int]:
    """Return this process and its ancestors."""
    ancestors, pid = set(), os.getpid()
    while pid > 0 and pid not in ancestors:
        ancestors.add(pid)
        fields = _read_stat(pid)
        pid = int(fields[1]) if fields else 0
    return ancestors


def _is_in_namespace(pid: str) -> bool:
    """Whether a process is in the PID namespace of this process."""
    return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")


def _wait_for_dismissal(run: str) -> bool:
    """Wait for the end of a run or a dismissal; returns whether the run dismissed the guard.

    The process of the run is watched in addition to the pipe, because a child of the run may have
    inherited the pipe and keep it open.
    """
    watch = select.poll()
    watch.register(0, select.POLLIN)
    with contextlib.suppress(OSError):
        watch.register(os.pidfd_open(int(run.partition("-")[0])), select.POLLIN)
    is_over = not is_run_alive(run)
    while True:
        ready = dict(watch.poll(0 if is_over else None))
        if 0 in ready:
            message = os.read(0, 1)
            if message in (b"q", b""):
                return message == b"q"
        elif ready or is_over:
            return False


def _main(run: str, *groups: str) -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
    if not _wait_for_dismissal(run):
        clear_run(run, groups)


if __name__ == "__main__":
    _main(*sys.argv[1:])
