"""Laws of the guard: a run leaves nothing, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.execution.child_processes import PATIENCE
from twinloop.execution import leftovers
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes import Guard, make_run_name, remove_stale_groups, stale_groups

pytestmark = pytest.mark.real

# A run: nodes, an optional guard, and a task whose children do not end with their parent. It prints
# its name, and then the PIDs of the children when they run.
RUN = """
import os, sys, time
from twinloop import _core
from twinloop.execution.nodes import Guard, LocalNodes, NodeSpec, make_run_name
isolation, guarded, forks = sys.argv[1], sys.argv[2] == "guarded", sys.argv[3] == "forks"
run = make_run_name()
nodes = LocalNodes.create([NodeSpec("a", 0.5, None)], run=run, isolation=isolation)
guard = Guard.start(run, nodes.groups) if guarded else None
if forks and os.fork() == 0:  # holds every file of the run open, and never looks at them
    os.setsid()
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(300)
part = nodes.add_task(0, "task", 0.5, None)
script = "trap '' TERM HUP; sleep 300 & a=$!; setsid sleep 300 & echo $$ $a $!; wait"
null = os.open(os.devnull, os.O_RDWR)
_core.spawn("/bin/sh", ["sh", "-c", script], ["PATH=" + os.environ["PATH"], "TWINLOOP_RUN=" + run],
            "/", stdin=null, stdout=1, stderr=2, join=list(part.join), cpus=list(part.cpus))
os.write(1, f"{run} {guard.pid if guard else 0}\\n".encode())
if sys.stdin.readline():
    nodes.close()
    if guard:
        guard.dismiss()
"""


class Run:
    def __init__(self, isolation: str, *, guarded: bool, forks: bool) -> None:
        words = [isolation, "guarded" if guarded else "alone", "forks" if forks else "plain"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.name, self.guard = "never begun", 0
        self.bystander: list[int] = []
        self.task: list[int] = []

    def begin(self, forks: bool) -> None:
        assert self.process.stdout
        lines = [self.process.stdout.readline().split() for _ in range(3 if forks else 2)]
        first = next((line for line in lines if leftovers.is_run_name(line[0])), None)
        assert first, lines
        self.name, self.guard = first[0], int(first[1])
        others = [list(map(int, line)) for line in lines if line is not first]
        self.bystander = [pid for line in others if len(line) == 1 for pid in line]
        self.task = [pid for line in others if len(line) > 1 for pid in line]
        assert len(set(self.task)) == 3

    def kill(self, how: Callable[[int, int], None] = os.kill) -> None:
        how(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def traces(self) -> list[str]:
        groups = [
            path
            for hierarchy in LocalMachine.detect().hierarchies
            for path, _, _ in os.walk(hierarchy.mount)
            if path.endswith(self.name)
        ]
        return groups + [f"process {pid}" for pid in self.task if not is_gone(pid)]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()
        for pid in self.bystander:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        soon(lambda: remove_stale_groups() == [] and is_gone(self.guard))


def is_gone(pid: int) -> bool:
    return pid == 0 or leftovers.read_start_ticks(pid) is None


def soon(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(params=["auto", "affinity"])
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(guarded: bool, forks: bool = False) -> Run:
        runs.append(Run(request.param, guarded=guarded, forks=forks))
        runs[-1].begin(forks)
        return runs[-1]

    yield begin
    for run in runs:
        run.close()
        assert run.traces() == []


@pytest.mark.parametrize("how", [os.kill, os.killpg])
def test_the_guard_cleans_up_after_a_killed_run(
    start: Callable[..., Run], how: Callable[[int, int], None]
) -> None:
    run = start(guarded=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(run.guard, number)
    run.kill(how)
    assert soon(lambda: run.traces() == [])
    assert soon(lambda: is_gone(run.guard))


def test_the_guard_detects_the_end_of_a_run_whose_files_are_open_elsewhere(
    start: Callable[..., Run],
) -> None:
    run = start(guarded=True, forks=True)
    run.kill()
    assert soon(lambda: run.traces() == [])
    assert not is_gone(run.bystander[0])


def test_a_run_that_ends_well_dismisses_its_guard(start: Callable[..., Run]) -> None:
    run = start(guarded=True)
    assert run.process.stdin
    run.process.stdin.write("\n")
    run.process.stdin.flush()
    assert run.process.wait(60) == 0
    assert is_gone(run.guard)
    # Without a group, the children end only by this, or with their parent.
    remove_stale_groups()
    assert soon(lambda: run.traces() == [])


def test_a_sweep_cleans_up_after_a_killed_run_and_not_before(
    start: Callable[..., Run],
) -> None:
    run = start(guarded=False)
    assert not any(run.name in line for line in remove_stale_groups())
    assert len([pid for pid in run.task if not is_gone(pid)]) == 3
    run.kill()
    remove_stale_groups()  # unless another run on this machine did it before
    assert soon(lambda: run.traces() == [])
    assert not any(run.name in line for line in remove_stale_groups())


def test_a_locked_group_of_an_ended_process_is_not_swept() -> None:
    """A run in another PID namespace locks its group."""
    machine = LocalMachine.detect()
    places = [one.own for one in machine.hierarchies if os.access(one.own, os.W_OK)]
    if not places:
        pytest.skip("no group can be made here")
    import fcntl

    top = places[0] / f"{leftovers.GROUP_PREFIX}1-1-{os.urandom(2).hex()}"
    while True:  # until it is locked, another run on this machine may remove it
        top.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            file = os.open(top, os.O_RDONLY)
            fcntl.flock(file, fcntl.LOCK_SH)
            if top.is_dir():
                break
            os.close(file)
    try:
        assert not any(top.name in line for line in remove_stale_groups())
        assert top.is_dir()
    finally:
        os.close(file)
    remove_stale_groups()
    assert soon(lambda: not top.is_dir())


def test_groups_that_remain_are_not_reported_as_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, removed = (tmp_path / part / f"{leftovers.GROUP_PREFIX}1-1-0000" for part in "ab")
    kept.mkdir(parents=True)
    monkeypatch.setattr(stale_groups, "_find_run_groups", lambda: iter([kept, removed]))
    monkeypatch.setattr(leftovers, "clear_run", lambda run, groups: 1)
    monkeypatch.setattr(leftovers, "find_marked_processes", dict)
    expected = f"{kept.name}: 1 group removed, 1 process killed; not removed: {kept}"
    assert remove_stale_groups() == [expected]


def test_a_reused_pid_does_not_keep_a_run_alive() -> None:
    pid = os.getpid()
    ticks = leftovers.read_start_ticks(pid)
    assert leftovers.is_run_alive(make_run_name())
    assert ticks is not None
    assert not leftovers.is_run_alive(f"{pid}-{ticks + 1}-0000")
    assert not leftovers.is_run_alive("no run at all")
    with subprocess.Popen(["/bin/true"]) as child:
        # A zombie counts as ended.
        assert soon(lambda: leftovers.read_start_ticks(child.pid) is None)
    assert leftovers.read_start_ticks(child.pid) is None


def test_a_process_never_kills_itself_or_its_ancestors() -> None:
    assert leftovers.signal_processes(lambda: {os.getpid(), os.getppid()}, signal.SIGKILL) == set()


def test_the_guard_imports_only_a_few_modules_of_the_standard_library() -> None:
    script = "import sys; sys.argv = ['guard', '1-1-0000']; import runpy; " + (
        f"runpy.run_path({leftovers.__file__!r}); "
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "{'twinloop', 'numpy', 'polars', 'pathlib', 'asyncio'}])"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    # In some versions of Python, runpy imports pathlib.
    assert "twinloop" not in done.stdout
    assert "numpy" not in done.stdout


def test_a_dismissed_guard_changes_nothing() -> None:
    run = make_run_name()
    sleeper = subprocess.Popen(["/bin/sleep", "300"], env={"TWINLOOP_RUN": run})
    try:
        keeper = Guard.start(run, [Path("/nowhere")])
        assert os.getsid(keeper.pid) == keeper.pid
        keeper.dismiss()
        keeper.dismiss()
        assert is_gone(keeper.pid)
        assert sleeper.poll() is None
        assert soon(lambda: leftovers.find_run_processes(run) == {sleeper.pid})
    finally:
        sleeper.kill()
        sleeper.wait()
