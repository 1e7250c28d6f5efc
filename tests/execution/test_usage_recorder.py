"""Laws of recording: the recorded usage of a task is that of the kernel."""

import json
import math
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.execution.child_processes import BURN, PATIENCE, TICK, Start, ended, python, start, until
from twinloop import InputError
from twinloop.execution import leftovers
from twinloop.execution.clock import RunClock
from twinloop.execution.process_trees import ProcessTrees
from twinloop.execution.usage_recorder import COUNTERS, ExecutionKey, UsageRecorder, check_period

pytestmark = pytest.mark.real

__all__ = ["start"]  # a fixture

KEY = (3, 0, 1)


class Lines:
    """A journal in memory: lines as JSON, and the time of each."""

    def __init__(self, clock: RunClock) -> None:
        self.lines: list[str] = []
        self.times: list[float] = []
        self._clock = clock

    def write(self, **fields: Any) -> None:
        self.lines.append(json.dumps(fields))
        self.times.append(self._clock.now())

    def rows(self) -> list[tuple[float, list[float]]]:
        lines = [json.loads(line) for line in self.lines]
        assert all(line["e"] == "use" for line in lines)
        return [(line["t"], row) for line in lines for row in line["rows"]]


class Unconfined:
    """A part without a group."""

    is_accounted = False

    def read(self) -> tuple[float, float | None]:
        raise AssertionError("a part that does not account is not read")

    def peak(self) -> float | None:
        return None


class Group:
    """A part with its own control group of version 1."""

    is_accounted = True

    def __init__(self) -> None:
        self.path = Path(f"/sys/fs/cgroup/cpuacct/twinloop-test-{os.getpid()}-{time.time_ns()}")
        self._before = mmap.mmap(-1, 8)
        try:
            self.path.mkdir()
        except OSError as error:
            pytest.skip(f"no group that counts CPU time can be made here: {error}")

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text("0")
        struct.pack_into("d", self._before, 0, time.process_time())

    @property
    def before(self) -> float:
        """The CPU time of the process when it joined the group."""
        return float(struct.unpack_from("d", self._before)[0])

    def read(self) -> tuple[float, float | None]:
        return int((self.path / "cpuacct.usage").read_text()) / 1e9, 4096.0

    def peak(self) -> float | None:
        return 8192.0

    def close(self) -> None:
        until(lambda: not leftovers.find_members([str(self.path)]))
        assert leftovers.remove_groups(str(self.path))


@pytest.fixture
def group(start: Start) -> Iterator[Group]:
    made = Group()
    yield made
    leftovers.kill_processes(lambda: leftovers.find_members([str(made.path)]))
    made.close()


class Recording:
    """A recorder and all that it writes."""

    def __init__(self, period: float = 0.05) -> None:
        self.clock = RunClock()
        self.lines = Lines(self.clock)
        self.trees: ProcessTrees[ExecutionKey] = ProcessTrees()
        self.recorder = UsageRecorder(self.clock, self.lines, period=period, trees=self.trees)  # type: ignore[arg-type]

    def until_end(
        self, key: ExecutionKey, pid: int, go: Path | None = None
    ) -> tuple[dict[str, Any], Any]:
        """Sample until the process has ended; return the final figures and rusage.

        The file `go` is made after some samples, so that the process ends.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            done, _, usage = os.wait4(pid, os.WNOHANG)
            now = self.clock.now()
            if done:
                return self.recorder.close(key, usage, now), usage
            if now >= self.recorder.due:
                self.recorder.sample(now)
            if go is not None and len(self.lines.lines) >= 3:
                go.touch()
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        raise AssertionError("it never ended")


def cpu_of(usage: Any) -> float:
    return float(usage.ru_utime + usage.ru_stime)


def check_samples(lines: Lines, key: ExecutionKey, closing: dict[str, Any], cores: int) -> None:
    """Check that cumulative values never decrease and never exceed the capacity of all cores."""
    rows = [(t, row[3]) for t, row in lines.rows() if tuple(row[:3]) == key]
    values = [cpu for _, cpu in rows] + [closing["cpu"]]
    assert values == sorted(values)
    assert [t for t, _ in rows] == sorted({t for t, _ in rows})
    windows = [after - before for before, after in zip([0.0, *values], values, strict=False)]
    assert sum(windows) == pytest.approx(closing["cpu"], abs=1e-9)
    assert all(
        row[3] <= written * cores + TICK
        for line, written in zip(lines.lines, lines.times, strict=True)
        for row in json.loads(line)["rows"]
    )


#: Uses CPU time until a file exists.
BUSY = "say(sys.argv[1])\nwhile not os.path.exists(sys.argv[2]): burn(time.process_time() + 0.01)"


def test_the_recorded_usage_equals_getrusage(start: Start, tmp_path: Path) -> None:
    recording = Recording()
    child = python(start, BUSY, tmp_path / "up", tmp_path / "go")
    until((tmp_path / "up").exists)  # before, it may have no memory
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    closing, usage = recording.until_end(KEY, child.pid, tmp_path / "go")
    child.returncode = 0
    assert closing["cpu"] == cpu_of(usage)
    assert closing["peak"] == max(row[4] for _, row in recording.lines.rows())
    assert closing["switches"] == [usage.ru_nvcsw, usage.ru_nivcsw]
    assert closing["faults"] == [usage.ru_minflt, usage.ru_majflt]
    assert len(recording.lines.lines) >= 3
    check_samples(recording.lines, KEY, closing, os.cpu_count() or 1)
    assert all(row[4] > 0 for _, row in recording.lines.rows()[:-1])


def test_memory_of_this_process_is_not_attributed_to_its_children(start: Start) -> None:
    recording = Recording(period=3600.0)  # no pass in time
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    child = start("true")
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    small, _ = recording.until_end(KEY, child.pid)
    child.returncode = 0
    assert small["peak"] is None  # the figure of the kernel is that of this process
    size = own + (64 << 20)
    child = python(start, f"bytes([1]) * {size}")
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    large, usage = recording.until_end(KEY, child.pid)
    child.returncode = 0
    assert large["peak"] >= usage.ru_maxrss * 1024 >= size


def test_the_memory_of_a_process_that_has_just_ended_is_unknown(start: Start) -> None:
    recording = Recording()
    child = start("true")
    until(lambda: ended(child.pid))  # and is not waited for, as if a pass came then
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    recording.recorder.sample(recording.recorder.due)
    ((_, row),) = recording.lines.rows()
    assert row[4] is None
    closing, usage = recording.until_end(KEY, child.pid)
    child.returncode = 0
    assert closing["peak"] is None
    assert closing["cpu"] == cpu_of(usage)


def test_the_usage_of_an_unobserved_process_is_unknown(start: Start) -> None:
    recording = Recording()
    child = start("true")
    child.wait(PATIENCE)
    recording.recorder.follow(KEY, Unconfined(), child.pid, fresh=False)
    recording.recorder.sample(recording.recorder.due)
    assert recording.lines.rows() == []
    closing = recording.recorder.close(KEY, None, recording.clock.now())
    assert (closing["cpu"], closing["peak"]) == (None, None)


def test_the_usage_of_a_group_equals_getrusage(start: Start, group: Group, tmp_path: Path) -> None:
    recording = Recording()
    child = python(start, BUSY, tmp_path / "up", tmp_path / "go", preexec_fn=group.join)
    recording.recorder.follow(KEY, group, child.pid)
    closing, usage = recording.until_end(KEY, child.pid, tmp_path / "go")
    child.returncode = 0
    # The child of pytest uses some CPU time before it joins.
    assert -TICK <= cpu_of(usage) - closing["cpu"] <= group.before + TICK
    assert closing["peak"] == 8192.0
    check_samples(recording.lines, KEY, closing, os.cpu_count() or 1)


def test_a_task_that_forks_and_exits_keeps_the_usage_of_its_orphan(start: Start) -> None:
    recording = Recording()
    code = "if os.fork() == 0:\n burn(0.3); print(flush=True); time.sleep(60)\nos.read(0, 1)"
    child = python(start, code, stdin=-1, stdout=-1)
    assert child.stdin is not None
    assert child.stdout is not None
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    child.stdout.readline()
    child.stdin.write(b"x")
    child.stdin.close()
    child.stdout.close()
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    orphan = recording.trees.pids(KEY)
    assert len(orphan) == 1
    closing = recording.recorder.close(KEY, usage, recording.clock.now())
    os.kill(orphan[0], signal.SIGKILL)
    assert closing["cpu"] >= cpu_of(usage) + 0.3 - 2 * TICK
    check_samples(recording.lines, KEY, closing, os.cpu_count() or 1)


def test_short_tasks_in_sequence_have_final_figures(start: Start) -> None:
    recording = Recording(period=1.0)
    total, accounted = 0.0, 0.0
    for number in range(20):
        key = (number, 0, 0)
        child = start("true")
        recording.recorder.follow(key, Unconfined(), child.pid)
        closing, usage = recording.until_end(key, child.pid)
        child.returncode = 0
        total += closing["cpu"]
        accounted += cpu_of(usage)
    assert total == accounted
    assert recording.recorder.due == math.inf
    assert recording.trees.scan() == {}


def test_a_removed_group_loses_only_its_samples(start: Start, group: Group) -> None:
    recording = Recording()
    child = python(start, "burn(0.2); time.sleep(60)", preexec_fn=group.join)
    recording.recorder.follow(KEY, group, child.pid)
    until(lambda: group.read()[0] >= 0.1)
    recording.recorder.sample(recording.clock.now())
    seen = recording.lines.rows()[-1][1][3]
    child.kill()
    group.close()
    recording.recorder.sample(recording.clock.now())
    assert json.loads(recording.lines.lines[-1])["rows"] == []
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = -9
    closing = recording.recorder.close(KEY, usage, recording.clock.now())
    assert closing["cpu"] == max(seen, cpu_of(usage))
    assert recording.recorder.facts()["unread"] == 2


def test_passes_are_on_the_grid_and_missed_passes_are_not_repeated(start: Start) -> None:
    recording = Recording(period=0.25)
    recorder = recording.recorder
    assert recorder.due == math.inf
    recorder.sample(1.0)  # without a task there is no line
    assert recording.lines.lines == []
    child = start("sleep", "60")
    recorder.follow(KEY, Unconfined(), child.pid)
    assert 0 < recorder.due <= recording.clock.now() + 0.25
    recorder.due = 0.25
    for now, due in ((0.25, 0.5), (0.6, 0.75), (1.9, 2.0)):
        recorder.sample(now)
        assert recorder.due == due
    facts = recorder.facts()
    assert facts["passes"] == facts["samples"] == 3
    assert facts["missed_passes"] == 4  # the passes at 1, 1.25, 1.5 and 1.75 s
    assert facts["late_max_s"] == pytest.approx(1.15)
    assert facts["late_mean_s"] == pytest.approx((0.0 + 0.1 + 1.15) / 3)
    assert sorted(facts["counters"] + facts["counters_absent"]) == sorted(COUNTERS)
    assert 0 < facts["cpu_s"] < 10


def test_available_hardware_counters_count_the_work(start: Start) -> None:
    recording = Recording()
    child = start(sys.executable, "-S", "-c", BURN + "os.read(0, 1); burn(0.2)", stdin=-1)
    recording.recorder.follow(KEY, Unconfined(), child.pid)
    assert child.stdin is not None
    child.stdin.write(b"x")
    child.stdin.close()
    closing, _ = recording.until_end(KEY, child.pid)
    child.returncode = 0
    facts = recording.recorder.facts()
    if not facts["counters"]:
        assert closing["counters"] == {}
        pytest.skip("the kernel or the machine has no counters of the processor for us")
    assert set(closing["counters"]) <= set(facts["counters"])
    assert closing["counters"].get("instructions", math.inf) > 1e6


@given(st.floats(0.05, 60.0), st.floats(0.0, 1e7))
def test_the_next_pass_is_on_the_grid_and_later(period: float, now: float) -> None:
    clock = RunClock()
    recorder = UsageRecorder(clock, Lines(clock), period=period, trees=ProcessTrees())  # type: ignore[arg-type]
    due = recorder._next_time(now)
    assert now < due <= (now + period) * (1 + 1e-9)
    assert due / period == pytest.approx(round(due / period), abs=1e-6)


@pytest.mark.parametrize("period", [0.049, 0.0, -1.0, math.inf, math.nan])
def test_a_period_that_cannot_be_kept_is_refused(period: float) -> None:
    with pytest.raises(InputError, match="period"):
        check_period(period)
