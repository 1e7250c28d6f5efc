"""What a dead run left: found, ended and removed.

This file is a program as well as a module. As a program it is the guard of a run, which outlives
it: `python -I -S guard.py RUN GROUP...` with a pipe on its stdin waits until the pipe closes or
the process of the run is gone, and then ends whatever the run left. The byte `q` dismisses it. It
takes nothing but the standard library, so that it starts at once and costs next to no memory.
"""

# pathlib would take longer to load than all the rest.
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

#: How the groups of a run are called, after the process that executes it and when that started.
GROUP: Final = "twinloop-"
#: The group that a run moves itself into where its own group must be empty (cgroup v2).
EXECUTING: Final = "executing"
#: What does not reach the guard of a run.
IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_RUN = re.compile(r"([0-9]+)-([0-9]+)-[0-9a-f]{4}")
_PATIENCE: Final = 10.0


def is_run_name(name: str) -> bool:
    """Whether a text is the name of a run.

    >>> is_run_name("4711-902834-1f0a"), is_run_name("slice")
    (True, False)
    """
    return _RUN.fullmatch(name) is not None


def read_start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since the start of the machine; None if it is gone.

    >>> read_start_ticks(os.getpid()) > 0
    True
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def is_run_alive(run: str) -> bool:
    """Whether the process that executes a run is there; its number alone proves nothing.

    >>> is_run_alive(f"{os.getpid()}-{read_start_ticks(os.getpid())}-0000")
    True
    >>> is_run_alive(f"{os.getpid()}-1-0000")
    False
    """
    match = _RUN.fullmatch(run)
    return match is not None and read_start_ticks(int(match[1])) == int(match[2])


def list_groups(top: str) -> list[str]:
    """A group and all groups in it, the deepest first.

    >>> list_groups("/nowhere")
    []
    """
    return [folder for folder, _, _ in os.walk(top, topdown=False)]


def find_members(groups: Iterable[str]) -> set[int]:
    """Who is in any of these groups; a group that is not there has nobody in it.

    >>> find_members(["/nowhere"])
    set()
    """
    found: set[int] = set()
    for group in groups:
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", "rb") as stream:
            found.update(map(int, stream.read().split()))
    # 0 stands for a process of another PID namespace, which cannot be named from here.
    return found - {0}


def find_run_processes(run: str) -> set[int]:
    """The processes that have the name of a run in their environment.

    >>> find_run_processes("1-1-0000")
    set()
    """
    return {pid for pid, name in find_marked_processes().items() if name == run}


def find_marked_processes() -> dict[int, str]:
    """Every process of this PID namespace that was started for a run, and for which.

    >>> all(is_run_name(run) for run in find_marked_processes().values())
    True
    """
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            for word in read_words(int(entry), "environ"):
                name = word[13:].decode("ascii", "replace")
                if word.startswith(b"TWINLOOP_RUN=") and is_run_name(name) and _is_near(entry):
                    found[int(entry)] = name
    return found


def read_words(pid: int, file: str) -> list[bytes]:
    """The words in `environ` or `cmdline` of a process, and the nothing that is after the last one.

    While another program is being loaded into it a process seems to have none, and could be taken
    for a stranger: it is waited for.

    >>> read_words(os.getpid(), "cmdline")[-1]
    b''
    """
    until, is_settled = time.monotonic() + _PATIENCE, False
    while True:
        with open(f"/proc/{pid}/{file}", "rb") as stream:
            found = stream.read().split(b"\0")
        if found != [b""] or is_settled:
            return found
        # If it is no longer beginning, its words can be there now.
        is_settled = not is_in_exec(pid) or time.monotonic() > until
        time.sleep(0.0 if is_settled else 0.001)


def is_in_exec(pid: int) -> bool:
    """Whether a process is becoming another program, whose words the system does not show yet.

    >>> is_in_exec(os.getpid())
    False
    """
    fields = _stat(pid)
    # It has memory, and in that no place yet where its environment ends.
    return (
        fields is not None
        and fields[0] not in (b"Z", b"X")
        and (int(fields[20]) > 0 and int(fields[48]) == 0)
    )


def signal_processes(find: Callable[[], set[int]], number: int) -> set[int]:
    """Send a signal to everybody who is found, and to those they start meanwhile.

    Who is struck was found both before and after the hold on its process was taken: a number that
    went to a stranger in between does the stranger no harm. Neither this process nor those it
    descends from are struck. Parents come before their children: with these gone, one that waits
    for them might end by itself, as if it had not been struck.

    >>> signal_processes(set, 15)
    set()
    """
    struck: set[int] = set()
    spared = _line()
    for _ in range(10):
        holds = {}
        for pid in _parents_first(find() - struck - spared):
            with contextlib.suppress(OSError):
                holds[pid] = os.pidfd_open(pid)
        if not holds:
            break
        still = find()
        for pid, hold in holds.items():
            if pid in still:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(hold, number)
                    struck.add(pid)
            os.close(hold)
    return struck


def kill_processes(find: Callable[[], set[int]], patience: float = _PATIENCE) -> int:
    """Kill everybody who is found until nobody is; how many there were.

    >>> kill_processes(set)
    0
    """
    ended: set[int] = set()
    spared = _line()
    until, pause = time.monotonic() + patience, 0.001
    while find() - spared and time.monotonic() < until:
        ended |= signal_processes(find, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return len(ended)


def remove_groups(top: str, patience: float = _PATIENCE) -> bool:
    """Remove a group and all groups in it, which nobody may be in; whether it is gone.

    The kernel lets go of a group a moment after the last process in it, so this tries again.

    >>> remove_groups("/nowhere")
    True
    """
    until, pause = time.monotonic() + patience, 0.001
    while True:
        for group in list_groups(top):
            with contextlib.suppress(OSError):
                os.rmdir(group)
        if not os.path.isdir(top):
            return True
        if time.monotonic() >= until:
            return False
        _come_back(top)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def clear_run(run: str, groups: Iterable[str]) -> int:
    """End all processes of a dead run and remove its groups; how many processes there were.

    >>> clear_run("1-1-0000", [])
    0
    """
    tops = list(groups)

    def there() -> set[int]:
        return find_run_processes(run) | find_members(
            inner for top in tops for inner in list_groups(top)
        )

    ended = kill_processes(there)
    for top in tops:
        remove_groups(top)
    return ended


def _come_back(top: str) -> None:
    """Whoever a run moved out of its own group goes back there, now that nothing is below it."""
    inner = f"{top}/{EXECUTING}"
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


def _stat(pid: int) -> list[bytes] | None:
    """The fields of a process after its name, which may hold anything: state, parent, ..."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _parents_first(pids: set[int]) -> list[int]:
    parents = {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}

    def ancestors(pid: int) -> int:
        count = 0
        while (pid := parents.get(pid, 0)) in parents and count < len(parents):
            count += 1
        return count

    return sorted(pids, key=ancestors)


def _line() -> set[int]:
    """This process and those it descends from."""
    line, pid = set(), os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return line


def _is_near(pid: str) -> bool:
    """Whether the numbers that a process knows are the numbers of this PID namespace."""
    return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")


def _is_dismissed(run: str) -> bool:
    """Wait for the end of a run; whether it ended well.

    The pipe alone does not tell: a child of the run may hold it open as well.
    """
    watch = select.poll()
    watch.register(0, select.POLLIN)
    with contextlib.suppress(OSError):
        watch.register(os.pidfd_open(int(run.partition("-")[0])), select.POLLIN)
    is_over = not is_run_alive(run)
    while True:
        ready = dict(watch.poll(0 if is_over else None))
        if 0 in ready:
            said = os.read(0, 1)
            if said in (b"q", b""):
                return said == b"q"
        elif ready or is_over:
            return False


def _main(run: str, *groups: str) -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
    if not _is_dismissed(run):
        clear_run(run, groups)


if __name__ == "__main__":
    _main(*sys.argv[1:])
