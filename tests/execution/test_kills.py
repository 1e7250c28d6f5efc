"""Laws of killed runs: no process or group is left, and the record can be read."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.cli.test_commands import run as twinloop
from tests.execution.child_processes import BURN, PATIENCE, ended, until
from tests.execution.runs import (
    BOTH,
    FIRST,
    STUBBORN,
    Launch,
    Run,
    guards,
    launch,
    left,
    read_output,
    scenario,
    statuses,
    task,
)
from twinloop.description.errors import InputError
from twinloop.execution import execute
from twinloop.execution.nodes import local_nodes
from twinloop.execution.nodes.cgroup_versions import open_trees

pytestmark = pytest.mark.real

__all__ = ["launch"]  # a fixture

#: One task that ends immediately, two that occupy all cores, and two that never start.
FIVE = scenario(
    task("done", "true"),
    task("stubborn", *STUBBORN),
    task("plain", "sh", "-c", "echo there; exec sleep 300"),
    task("waits", "sleep", 300),
    task("child", "true", parents=["plain"]),
)
CUT = {
    "done": "completed",
    "stubborn": "lost",
    "plain": "lost",
    "waits": "cancelled",
    "child": "cancelled",
}
INTERRUPTED = {name: status.replace("lost", "cancelled") for name, status in CUT.items()}


def launch_run(launch: Launch, *words: object, given: tl.Scenario = FIVE, **options: object) -> Run:
    """A run whose tasks have started."""
    run = launch(given, *words, **options)
    run.until_there("stubborn", "plain")
    return run


def is_readable(folder: Path, expected: dict[str, str]) -> tl.Trace:
    trace = tl.read(folder)
    assert statuses(trace) == expected
    assert tl.check(trace).errors == ()
    assert f"{len(expected)} task" in twinloop("inspect", folder).stdout
    return trace


# --- the executing process ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isolation", "kill"),
    [
        ("auto", os.kill),
        ("affinity", os.kill),
        pytest.param("auto", os.killpg, marks=pytest.mark.long),
    ],
)
def test_a_killed_run_leaves_only_its_record(
    launch: Launch, isolation: str, kill: Callable[[int, int], None]
) -> None:
    run = launch_run(launch, "--isolation", isolation)
    running = [run.main("stubborn"), run.main("plain")]
    kill(run.pid, signal.SIGKILL)
    run.ends(-signal.SIGKILL)
    assert all(map(ended, running))
    assert not (run.folder / "manifest.json").exists()
    trace = is_readable(run.folder, CUT)
    placements = dict(trace.placements.select("task", "reason").iter_rows())
    assert placements == {name: status for name, status in CUT.items() if status != "cancelled"}
    assert trace.manifest.facts["run"]["complete"] is False
    counted = {note.what: note.count for note in trace.manifest.cleaned}
    assert counted["tasks that were running when the record ended or their node failed"] == 2
    assert counted["tasks that had not started when the run ended"] == 2
    # An interrupted run is not overwritten without the option.
    with pytest.raises(InputError, match="exists already"):
        execute(FIVE, run.folder)


@FIRST
def test_the_next_run_removes_the_rest_of_a_run_with_a_killed_guard(
    launch: Launch, isolation: str
) -> None:
    run = launch_run(launch, "--isolation", isolation)
    for guard in guards(run.pid):
        os.kill(guard, signal.SIGKILL)
        until(partial(ended, guard))
    run.kill()
    run.process.communicate(timeout=PATIENCE)
    execute(scenario(task("a", "true")), isolation=isolation)
    assert left(run.pid) == []
    is_readable(run.folder, CUT)


# --- the user -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isolation", "kill", "number"),
    [
        ("auto", os.killpg, signal.SIGINT),  # as a terminal does
        pytest.param("affinity", os.kill, signal.SIGINT, marks=pytest.mark.long),
        ("auto", os.kill, signal.SIGTERM),
    ],
)
def test_an_interrupted_run_is_stored_completely(
    launch: Launch, isolation: str, kill: Callable[[int, int], None], number: int
) -> None:
    run = launch_run(launch, "--isolation", isolation, "--grace", "100ms")
    kill(run.pid, number)
    _, errors = run.ends(130)
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not (run.folder / "recording").exists()
    trace = is_readable(run.folder, INTERRUPTED)
    assert trace.manifest.facts["run"]["interrupted"] is True
    codes = dict(trace.tasks.select("id", "exit_code").iter_rows())
    # One task ended after SIGTERM, the other was killed.
    assert codes["plain"] == -signal.SIGTERM
    assert codes["stubborn"] == -signal.SIGKILL
    assert codes["waits"] is None


def test_a_second_interrupt_ends_the_run_without_waiting(launch: Launch) -> None:
    asked = 'trap "echo asked" TERM; echo there; while :; do sleep 0.05; done'
    given = scenario(task("stubborn", "sh", "-c", asked), task("plain", *STUBBORN))
    run = launch_run(launch, "--grace", "1h", given=given)
    run.kill(signal.SIGINT)
    output = run.folder / "output" / "stubborn" / "0.out"
    run.until(lambda: "asked" in output.read_text())
    run.kill(signal.SIGINT)
    run.ends(130)
    is_readable(run.folder, {"stubborn": "cancelled", "plain": "cancelled"})


@pytest.mark.long
def test_signals_that_the_user_ignores_are_ignored(launch: Launch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    given = scenario(task("a", "sh", "-c", f"echo there; until test -e {go}; do sleep 0.02; done"))
    run = launch(given, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    run.until_there("a")
    run.kill(signal.SIGHUP)
    go.touch()
    run.ends(0)
    is_readable(run.folder, {"a": "completed"})


@pytest.mark.parametrize(
    "group", [False, pytest.param(True, marks=pytest.mark.long)], ids=["process", "group"]
)
def test_an_interrupted_preparation_leaves_nothing(
    launch: Launch, tmp_path: Path, group: bool
) -> None:
    script = STUBBORN[2].replace("echo there", f"touch {tmp_path}/here")
    step = {"command": ["sh", "-c", script]}
    run = launch(scenario(task("a", "true"), workload={"prepare": [step]}))
    run.until((tmp_path / "here").exists)
    (os.killpg if group else os.kill)(run.pid, signal.SIGINT)
    _, errors = run.ends(130)
    assert "Traceback" not in errors
    assert not run.folder.exists()


def test_an_interrupt_during_the_creation_of_nodes_leaves_no_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups exist already, and the guard that would remove them does not."""

    def interrupted(*given: Any) -> Any:
        opened = open_trees(*given)
        os.kill(os.getpid(), signal.SIGINT)
        return opened

    monkeypatch.setattr(local_nodes, "open_trees", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(FIVE, tmp_path / "run")
    assert left(os.getpid()) == []
    assert not (tmp_path / "run").exists()


def test_a_signal_at_any_time_leaves_nothing(launch: Launch) -> None:
    # Before its beginning, when its folder exists, and when it has begun to write.
    signs: dict[Callable[[Run], object], int] = {
        lambda run: guards(run.pid): signal.SIGTERM,
        lambda run: run.folder.exists(): signal.SIGINT,
        lambda run: run.journal("begin"): signal.SIGKILL,
    }
    runs = [launch(FIVE, "--grace", "100ms") for _ in signs]
    for run, (sign, number) in zip(runs, signs.items(), strict=True):
        run.until(partial(sign, run))
        run.kill(number)
    for run in runs:
        run.process.communicate(timeout=PATIENCE)
        until(lambda run=run: not left(run.pid))
        if (run.folder / "recording" / "journal.jsonl").exists():
            assert set(statuses(tl.read(run.folder))) == set(CUT)


# --- tasks ----------------------------------------------------------------------------------------


@BOTH
def test_a_killed_task_is_reported_as_killed(tmp_path: Path, isolation: str) -> None:
    file = tmp_path / "pid"
    script = f'trap "" TERM; sleep 300 & setsid sleep 300 & echo $$ > {file}; wait'
    kills = f"until test -s {file}; do sleep 0.01; done; kill -9 $(cat {file})"
    given = scenario(
        task("victim", "sh", "-c", script),
        task("kills", "sh", "-c", kills),
        task("child", "true", parents=["victim"]),
        task("other", "true"),
    )
    trace = execute(given, tmp_path / "run", isolation=isolation)
    assert left(os.getpid()) == []
    expected = {"victim": "killed", "kills": "completed", "child": "failed", "other": "completed"}
    is_readable(tmp_path / "run", expected)
    assert trace.tasks["exit_code"].to_list() == [-signal.SIGKILL, 0, None, 0]


#: Uses CPU time in a child without waiting for it, and ends before it.
LEAVES = """
import os, sys
if os.fork() == 0:
    if sys.argv[1] == "daemon":
        os.setsid()
        if os.fork():
            os._exit(0)
    burn(0.2)
    os.close(pipe[1])
    time.sleep(300)
os.close(pipe[1])
os.read(pipe[0], 1)
"""


@FIRST
@pytest.mark.parametrize("how", ["child", "daemon"])
def test_processes_that_a_task_leaves_are_ended_and_counted(
    tmp_path: Path, isolation: str, how: str
) -> None:
    code = f"{BURN}\nimport os\npipe = os.pipe()\n{LEAVES}"
    trace = execute(
        scenario(task("leaves", sys.executable, "-S", "-c", _escape_braces(code), how)),
        isolation=isolation,
    )
    assert left(os.getpid()) == []
    assert statuses(trace) == {"leaves": "completed"}
    (note,) = [note for note in trace.manifest.cleaned if "left processes behind" in note.what]
    assert (note.count, note.examples) == (1, ("leaves",))
    assert trace.tasks["cpu_time"][0] >= 0.2
    assert trace.usage["cpu"].sum() == pytest.approx(trace.tasks["cpu_time"][0])


@FIRST
@pytest.mark.parametrize("how", ["limit", "requested"])
def test_a_task_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, isolation: str, how: str
) -> None:
    given = scenario(
        task("stubborn", *STUBBORN, requested_time=0.3),
        task("quick", "true", requested_time=60),
        model={"kill_at_requested_time": how == "requested"},
    )
    limit = 0.3 if how == "limit" else None
    trace = execute(given, tmp_path / "run", task_limit=limit, grace=0.1, isolation=isolation)
    assert left(os.getpid()) == []
    check_completed_or_over_limit(trace, limit or 60.0, "quick")
    assert statuses(trace)["stubborn"] == "killed"
    code, length = trace.tasks.select("exit_code", "run_time").row(0)
    # On a very busy machine, SIGTERM came before it was ignored.
    assert code == -signal.SIGKILL or not read_output(tmp_path / "run", "stubborn")
    assert code in (-signal.SIGKILL, -signal.SIGTERM)
    # It had its time limit, and the grace period.
    assert length >= (0.3 + 0.1 if code == -signal.SIGKILL else 0.3)


def check_completed_or_over_limit(trace: tl.Trace, limit: float, name: str) -> None:
    """Check that a task completed, or exceeded its limit on a very busy machine."""
    status, length = trace.tasks.filter(id=name).select("status", "run_time").row(0)
    assert status == "completed" or (status == "killed" and length >= limit)


BOMB = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(300)
        os._exit(0)
"""


@FIRST
@pytest.mark.parametrize("ends", [True, False], ids=["ends", "goes-on"])
def test_a_fork_bomb_is_ended(tmp_path: Path, isolation: str, ends: bool) -> None:
    code = BOMB + ("" if ends else "print('there', flush=True)\ntime.sleep(300)")
    trace = execute(
        scenario(task("bomb", sys.executable, "-S", "-c", code), task("after", "true")),
        tmp_path / "run",
        isolation=isolation,
        task_limit=30 if ends else 0.5,
        grace=0.1,
    )
    assert left(os.getpid()) == []
    assert statuses(trace)["bomb"] == ("completed" if ends else "killed")
    check_completed_or_over_limit(trace, 30 if ends else 0.5, "after")


@FIRST
def test_many_short_tasks_are_all_recorded(isolation: str) -> None:
    count = 200
    trace = execute(
        scenario(*(task(f"{number}", "true") for number in range(count))), isolation=isolation
    )
    assert left(os.getpid()) == []
    assert list(statuses(trace).values()) == ["completed"] * count
    assert trace.placements.height == count
    assert tl.check(trace).errors == ()
    one_at_a_time(trace)


def one_at_a_time(trace: tl.Trace) -> None:
    """Check that no two tasks occupy the core of a node at the same time."""
    for _, rows in trace.placements.sort("start").group_by("machine"):
        assert (rows["start"][1:] >= rows["end"][:-1]).all()


# --- the disk -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    there = tmp_path / "disk"
    there.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(there)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    yield there
    subprocess.run(["umount", "--lazy", str(there)], check=True)


def test_a_full_disk_ends_the_run_and_keeps_its_record(launch: Launch, small_disk: Path) -> None:
    given = scenario(
        task("done", "true"),
        task("stubborn", *STUBBORN),
        task("fills", "dd", "if=/dev/zero", f"of={small_disk}/much", "bs=4k"),
        *(task(f"{number}", "true") for number in range(50)),
    )
    run = launch(given, folder=small_disk / "run")
    _, errors = run.ends(2)
    assert "cannot be written: No space left on device" in errors
    assert "Traceback" not in errors
    trace = tl.read(run.folder)
    found = statuses(trace)
    assert len(found) == 53
    assert found["done"] == "completed"
    assert found["stubborn"] == "lost"
    assert found["49"] == "cancelled"
    assert set(found.values()) <= {"completed", "failed", "lost", "cancelled"}
    twinloop("inspect", run.folder)


def test_a_disk_that_is_full_at_the_beginning_is_reported(small_disk: Path) -> None:
    with (small_disk / "much").open("wb") as stream, suppress(OSError):
        while True:
            os.write(stream.fileno(), bytes(4096))
    with pytest.raises(InputError, match="cannot be written: "):
        execute(FIVE, small_disk / "run")
    assert left(os.getpid()) == []
    assert not (small_disk / "run").exists()


def test_a_file_size_limit_ends_the_run(launch: Launch, tmp_path: Path) -> None:
    # The first of many tasks never ends, so that a task runs when the limit is reached.
    script = f'mkdir "$1" || exit 0; {STUBBORN[2]}'
    given = tl.Scenario(
        platform="2x1",
        policy="fifo",
        time_scale=1e-6,
        workload={
            "generate": {"name": "poisson", "parameters": {"tasks": 200, "cores": "1:1"}},
            "command": ["sh", "-c", script, "sh", f"{tmp_path}/first"],
        },
    )
    most = 30_000
    run = launch(given, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most)))
    _, errors = run.ends(2)
    assert "cannot be written: File too large" in errors
    assert (run.folder / "recording" / "journal.jsonl").read_bytes().endswith(b"\n")
    found = list(statuses(tl.read(run.folder)).values())
    assert len(found) == 200
    assert found.count("lost") in (1, 2)
    assert found.count("completed") >= 10
    assert found[-1] == "cancelled"


def _escape_braces(code: str) -> str:
    """Double the braces of code, so that they are no names of columns."""
    return code.replace("{", "{{").replace("}", "}}")
