"""Runs for tests: started by command, observed from outside, and ended with the test."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.execution.child_processes import PATIENCE, ended, until
from twinloop.campaign import process_groups
from twinloop.execution.leftovers import clear_run, find_marked_processes
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.run_journal import read_entries

EXECUTE = [sys.executable, "-m", "twinloop", "execute"]
#: Isolation of tasks: the best that is available, and the one that needs no privileges.
BOTH = pytest.mark.parametrize("isolation", ["auto", "affinity"])
#: The same, with the second one in `make verify` only, if another test of `make test` has both.
FIRST = pytest.mark.parametrize(
    "isolation", ["auto", pytest.param("affinity", marks=pytest.mark.long)]
)

#: A task that ignores SIGTERM, with two children, one of them in another session. It prints a line
#: when they run.
STUBBORN = ["sh", "-c", 'trap "" TERM; sleep 300 & setsid sleep 300 & echo there; wait']


def task(name: str, *command: object, **more: Any) -> dict[str, Any]:
    return {"id": name, "command": list(command), "run_time": 0.1, **more}


def scenario(*tasks: dict[str, Any], **more: Any) -> tl.Scenario:
    workload = {"tasks": list(tasks), **more.pop("workload", {})}
    return tl.Scenario(
        **{"platform": "2x1", "policy": "fifo", "workload": workload, **more}  # type: ignore[arg-type]
    )


def statuses(trace: tl.Trace) -> dict[str, str]:
    """Return the status of each task; every task must occur once and have a status."""
    assert trace.tasks["id"].n_unique() == trace.tasks.height
    assert trace.tasks["status"].null_count() == 0
    return dict(trace.tasks.select("id", "status").iter_rows())


def read_output(folder: Path, name: str, rank: int = 0, kind: str = "out") -> str:
    """Read the output of a task."""
    return (folder / "output" / name / f"{rank}.{kind}").read_text()


def left(pid: int) -> list[str]:
    """List what remains of the runs of a process: processes, guards and control groups."""
    name = f"{pid}-"
    found = [
        f"process {each}" for each, run in find_marked_processes().items()
        if run.startswith(name) and not ended(each)
    ]  # fmt: skip
    found += [f"guard {each}" for each in guards(pid)]
    for hierarchy in LocalMachine.detect().hierarchies:
        for folder, inner, _ in os.walk(hierarchy.mount):
            found += [f"{folder}/{one}" for one in inner if one.startswith(f"twinloop-{name}")]
    return found


def guards(pid: int) -> list[int]:
    """List the guards of the runs of a process, except that of its black boxes."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(
            one.endswith(b"/execution/leftovers.py")
            and two.startswith(b"%d-" % pid)
            and two.decode() not in process_groups.run_names
            for one, two in pairwise(words)
        ) and not ended(int(entry.name)):
            found.append(int(entry.name))
    return found


class Run:
    """A running `twinloop execute`."""

    def __init__(self, folder: Path, words: list[str], **options: Any) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*EXECUTE, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def journal(self, kind: str) -> list[dict[str, Any]]:
        """Read the entries of the journal so far."""
        path = self.folder / "recording" / "journal.jsonl"
        if not path.exists():
            return []
        return [entry for entry in read_entries(path) if entry["e"] == kind]

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition; fail at once if the run has ended."""

        def met() -> bool:
            over = self.process.poll() is not None
            if condition():
                return True
            assert not over, self.process.communicate()
            return False

        until(met)

    def until_there(self, *names: str) -> None:
        """Wait until tasks have printed a line and the journal has their starts.

        Either may come first, because a task runs before its start is written to the journal.
        """
        files = [self.folder / "output" / name / "0.out" for name in names]
        self.until(lambda: all(file.exists() and file.stat().st_size for file in files))
        self.until(lambda: set(names) <= self.started().keys())

    def started(self) -> dict[str, int]:
        """The first processes of tasks in its journal."""
        ids = tl.Trace.load(self.folder / "recording" / "plan").tasks["id"].to_list()
        return {ids[entry["task"]]: int(entry["pid"]) for entry in self.journal("start")}

    def main(self, name: str) -> int:
        """The first process of a task."""
        return self.started()[name]

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def ends(self, code: int) -> tuple[str, str]:
        """Wait for its end and check that nothing is left; returns its output."""
        printed = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == code, printed
        until(lambda: not left(self.pid))
        return printed


Launch = Callable[..., Run]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start runs of a scenario, which end with the test."""
    runs: list[Run] = []

    def started(given: tl.Scenario, *words: object, **options: Any) -> Run:
        folder = options.pop("folder", tmp_path / f"run-{len(runs)}")
        file = given.save(tmp_path / f"scenario-{len(runs)}.yaml")
        run = Run(folder, [str(file), "-o", str(folder), *map(str, words)], **options)
        runs.append(run)
        return run

    yield started
    for run in runs:
        if run.process.poll() is None:
            run.kill()
            run.process.communicate(timeout=PATIENCE)
        for stream in (run.process.stdout, run.process.stderr):
            if stream is not None:
                stream.close()
        end = time.monotonic() + PATIENCE / 2
        while left(run.pid) and time.monotonic() < end:
            time.sleep(0.01)
        still = left(run.pid)
        for name in {
            each for each in find_marked_processes().values() if each.startswith(f"{run.pid}-")
        }:
            clear_run(name, [])
        assert not still
