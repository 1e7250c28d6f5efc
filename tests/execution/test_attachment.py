"""Laws of attaching: running processes are recorded without loss."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import twinloop as tl
from tests.execution.child_processes import (
    PATIENCE,
    TICK,
    Start,
    ended,
    python,
    start,
    until,
    waited,
)
from twinloop import InputError, Trace
from twinloop.execution import leftovers
from twinloop.execution.attachment import attach
from twinloop.execution.observed_processes import ObservedGroup, ObservedTree

pytestmark = pytest.mark.real

__all__ = ["start"]  # a fixture

#: Uses CPU time until the journal has several samples of it.
BUSY = """
def recorded(journal):
    return os.path.exists(journal) and open(journal).read().count('"use"') >= 12
say(sys.argv[1])
while not recorded(sys.argv[2]):
    burn(time.process_time() + 0.02)
"""
JOURNAL = Path("recording", "journal.jsonl")


@pytest.fixture
def group() -> Iterator[Path]:
    path = Path(f"/sys/fs/cgroup/cpuacct/twinloop-test-{os.getpid()}-{time.time_ns()}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no group of version 1 that counts CPU time can be made here: {error}")
    yield path
    leftovers.kill_processes(lambda: leftovers.find_members([str(path)]))
    assert leftovers.remove_groups(str(path))


def check_recorded(trace: Trace) -> None:
    """Check a record: it passes the gate, windows are contiguous, and CPU time adds up."""
    audit = tl.check(trace)
    assert audit.errors == (), str(audit)
    for (task,), rows in trace.usage.group_by("task"):
        total = trace.tasks.filter(pl.col("id") == task)["cpu_time"].item()
        assert rows["cpu"].sum() == pytest.approx(total, abs=1e-6)
        assert rows["cpu"].min() >= 0
        span = trace.placements.filter(pl.col("task") == task)
        assert rows["dt"].sum() == pytest.approx((span["end"] - span["start"]).item(), abs=1e-6)
        most = (os.cpu_count() or 1) * rows["dt"] * 1.05 + 2 * TICK
        assert (rows["cpu"] <= most).all()
    assert trace.placements["start"].min() == pytest.approx(0.0, abs=1e-6)
    assert trace.tasks["submit"].to_list() == trace.placements["start"].to_list()
    assert trace.manifest.kind == "recorded"


def notes(trace: Trace) -> str:
    return "\n".join(map(str, trace.manifest.cleaned))


def test_a_busy_process_is_recorded_to_its_end(start: Start, tmp_path: Path) -> None:
    before = time.time()
    child = python(start, BUSY, tmp_path / "up", tmp_path / "run" / JOURNAL)
    until((tmp_path / "up").exists)
    trace = attach([child.pid], folder=tmp_path / "run", period=0.05)
    check_recorded(trace)
    used = waited(child)
    # This process is its parent and has not waited for it, so its final CPU time was readable.
    assert trace.tasks["cpu_time"].item() == pytest.approx(used, abs=2 * TICK)
    assert trace.tasks["cpu_time"].item() <= used
    assert trace.usage.height >= 3
    row = trace.tasks.row(0, named=True)
    assert row["pid"] == child.pid
    assert row["command"][:2] == [sys.executable, "-S"]
    assert row["folder"] == os.getcwd()  # noqa: PTH109
    assert (row["status"], row["exit_code"], row["environment"]) == (None, None, None)
    assert trace.manifest.epoch_ms is not None
    # The start of a process is rounded down to ticks, the epoch to milliseconds.
    assert before - TICK - 0.0005 <= trace.manifest.epoch_ms / 1000 <= time.time() + 0.0005
    assert "before it was recorded" in notes(trace)
    assert Trace.load(tmp_path / "run") == trace


def test_the_cpu_time_before_attaching_is_one_sample(start: Start, tmp_path: Path) -> None:
    child = python(start, "burn(0.3); say(sys.argv[1]); time.sleep(60)", tmp_path / "up")
    until((tmp_path / "up").exists)
    trace = attach([child.pid], folder=tmp_path / "run", period=0.05, until=0.3)
    check_recorded(trace)
    first = trace.usage.row(0, named=True)
    assert first["cpu"] >= 0.3 - 2 * TICK
    assert first["t"] == pytest.approx(first["dt"], abs=1e-6)
    assert trace.usage["cpu"][1:].sum() <= 0.1  # it sleeps
    assert "was still running when the recording ended" in notes(trace)
    assert child.poll() is None


def test_two_trees_are_two_tasks(start: Start, tmp_path: Path) -> None:
    shell = start("sh", "-c", "sleep 60 & sleep 60 & wait")
    other = start("sleep", "60")
    trace = attach([shell.pid, other.pid], folder=tmp_path / "run", period=0.1, until=0.25)
    check_recorded(trace)
    assert trace.tasks["id"].to_list() == [f"sh-{shell.pid}", f"sleep-{other.pid}"]
    for pid in subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(shell.pid)], capture_output=True, text=True, check=True
    ).stdout.split():
        os.kill(int(pid), signal.SIGKILL)


def test_a_group_is_one_task_until_it_is_empty(start: Start, tmp_path: Path, group: Path) -> None:
    def enter() -> None:
        (group / "cgroup.procs").write_text("0")
        (tmp_path / "before").write_text(repr(time.process_time()))

    burner = f"if os.fork() == 0: burn(0.3); os._exit(0)\n{BUSY}os.wait()"
    journal = tmp_path / "run" / JOURNAL
    child = python(start, burner, tmp_path / "up", journal, preexec_fn=enter)
    until((tmp_path / "up").exists)
    trace = attach(cgroup=str(group), folder=tmp_path / "run", period=0.05)
    check_recorded(trace)
    assert trace.tasks["id"].to_list() == [group.name]
    counted = int((group / "cpuacct.usage").read_text()) / 1e9
    assert trace.tasks["cpu_time"].item() == pytest.approx(counted, abs=1e-3)
    # CPU time before it entered the group is not counted there.
    before = float((tmp_path / "before").read_text())
    assert counted - TICK <= waited(child) <= counted + before + TICK
    assert trace.usage["rss"].max() > 1e6
    with pytest.raises(InputError, match="the group has no process"):
        attach(cgroup=str(group), folder=tmp_path / "again")


def test_a_group_can_be_named_by_its_path(start: Start, group: Path) -> None:
    child = start("sleep", "60")
    (group / "cgroup.procs").write_text(str(child.pid))
    watched = ObservedGroup(f"/{group.name}")
    try:
        assert watched.task_columns()["id"] == group.name
        assert not watched.is_empty()
    finally:
        watched.close()


@pytest.mark.long
def test_cpu_time_from_before_the_oldest_process_is_left_out(
    start: Start, tmp_path: Path, group: Path
) -> None:
    def enter() -> None:
        (group / "cgroup.procs").write_text("0")

    waited(python(start, "burn(1.0)", preexec_fn=enter))
    child = start("sleep", "60", preexec_fn=enter)
    trace = attach(cgroup=str(group), folder=tmp_path / "run", period=0.05, until=0.2)
    check_recorded(trace)
    # If it took a busy machine so long to look that the second could have been used since, nobody
    # can say that it was not.
    if trace.usage["dt"][0] * (os.cpu_count() or 1) < 1.0:
        assert "CPU seconds are left out" in notes(trace)
    child.kill()


SCRIPT = """
import sys
from twinloop.execution.attachment import attach
trace = attach([int(sys.argv[1])], folder=sys.argv[2], period=0.05)
print(trace.usage.height)
"""


def test_an_interrupt_ends_the_record_and_not_the_process(start: Start, tmp_path: Path) -> None:
    child = start("sleep", "60")
    journal = tmp_path / "run" / "recording" / "journal.jsonl"
    recorder = start(
        sys.executable, "-c", SCRIPT, child.pid, tmp_path / "run", stdout=subprocess.PIPE
    )
    # A late sample is merged with the next; so are samples close to the start or the end.
    until(lambda: journal.exists() and journal.read_text().count('"use"') >= 12)
    recorder.send_signal(signal.SIGINT)
    out, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0
    trace = Trace.load(tmp_path / "run")
    check_recorded(trace)
    assert trace.usage.height == int(out) >= 3
    assert not ended(child.pid)


def test_a_killed_recorder_leaves_its_record(start: Start, tmp_path: Path) -> None:
    child = start("sleep", "60")
    journal = tmp_path / "run" / "recording" / "journal.jsonl"
    recorder = start(sys.executable, "-c", SCRIPT, child.pid, tmp_path / "run")
    until(lambda: journal.exists() and journal.read_text().count('"use"') >= 12)
    recorder.kill()
    recorder.wait(PATIENCE)
    trace = tl.read(tmp_path / "run")
    assert trace.placements["reason"].to_list() == ["lost"]
    assert trace.usage.height >= 2
    assert trace.manifest.epoch_ms is not None


def test_a_recorded_process_can_be_simulated(start: Start, tmp_path: Path) -> None:
    child = python(start, BUSY, tmp_path / "up", tmp_path / "run" / JOURNAL)
    until((tmp_path / "up").exists)
    trace = attach([child.pid], folder=tmp_path / "run", period=0.05)
    waited(child)
    twin = tl.simulate(
        tl.Scenario(platform="1x4", workload=str(tmp_path / "run"), policy="fcfs", seed=1)
    )
    assert twin.tasks["status"].to_list() == ["completed"]
    assert twin.tasks["run_time"].item() == pytest.approx(trace.tasks["run_time"].item(), abs=0.1)


def test_a_process_that_was_just_started_has_its_arguments() -> None:
    """The kernel shows a new program before its arguments: the recorder waits for them."""
    for _ in range(100):
        with subprocess.Popen(["sleep", "30"]) as one:
            try:
                watched = ObservedTree(one.pid)
                assert watched.task_columns()["command"] == ["sleep", "30"]
                watched.close()
            finally:
                one.kill()


def test_processes_and_groups_that_cannot_be_recorded_are_refused(
    start: Start, tmp_path: Path
) -> None:
    gone = start("true")
    gone.wait(PATIENCE)
    child = start("sleep", "60")
    run = tmp_path / "run"
    for arguments, problem in (
        ({"pids": [gone.pid]}, f"there is no process {gone.pid}"),
        ({"pids": [-3]}, "there is no process -3"),
        ({"pids": [2**70]}, "there is no process"),
        ({"pids": []}, "either processes or a control group"),
        ({"pids": [child.pid], "cgroup": "a"}, "either processes or a control group"),
        ({"pids": [child.pid, child.pid]}, "is given twice"),
        ({"pids": [child.pid, os.getpid()]}, f"was started by process {os.getpid()}"),
        ({"pids": [child.pid], "period": 0.01}, "too short"),
        ({"pids": [child.pid], "until": 0}, "must be positive"),
        ({"cgroup": "/no/such/group"}, "there is no control group"),
        ({"cgroup": "../.."}, "there is no control group"),
    ):
        with pytest.raises(InputError, match=problem):
            attach(folder=run, **arguments)  # type: ignore[arg-type]
        assert not run.exists()
    run.mkdir()
    (run / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a run"):
        attach([child.pid], folder=run, overwrite=True)
    assert (run / "mine.txt").read_text() == "mine"
