"""Laws of process trees: they are complete, and no CPU time is lost or counted twice."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.child_processes import (
    BURN,
    PATIENCE,
    TICK,
    Start,
    ended,
    python,
    start,
    until,
    waited,
)
from twinloop import _core
from twinloop.execution.process_trees import ProcessStat, ProcessTrees, require_start_ticks

pytestmark = pytest.mark.real

__all__ = ["start"]  # a fixture


def test_a_name_may_contain_spaces_and_parentheses(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    child = start(program, "60")
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    stat = ProcessStat.read(child.pid)
    assert stat is not None
    assert (stat.parent, stat.session, stat.dead) == (os.getpid(), os.getsid(child.pid), False)
    assert before - TICK <= require_start_ticks(child.pid) * TICK <= after + TICK


def test_a_missing_process_has_no_start() -> None:
    child = subprocess.Popen(["true"])
    child.wait(PATIENCE)
    with pytest.raises(ProcessLookupError):
        require_start_ticks(child.pid)


def test_the_tree_of_a_shell_that_forks(start: Start, tmp_path: Path) -> None:
    output, go = tmp_path / "output", tmp_path / "go"
    code = f"{BURN}\nburn(0.2); say(sys.argv[1])\nwhile not os.path.exists(sys.argv[2]): burn(0)"
    burner = f"{sys.executable} -S -c '{code}' {output} {go}"
    child = start("sh", "-c", f"{burner} & {burner} & wait; {burner}; exit 0")
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("shell", child.pid)
    seen = [0.0]
    until(lambda: output.exists() and len(output.read_text().splitlines()) == 2)
    seen.append(trees.scan()["shell"].cpu)
    assert len(trees.pids("shell")) == 3  # the shell and its two concurrent children
    go.touch()
    while not ended(child.pid):
        seen.append(trees.scan()["shell"].cpu)
        time.sleep(0.01)
    exact = waited(child)
    trees.scan()
    assert seen == sorted(seen)
    assert seen[-1] <= exact
    assert trees.total_cpu_time("shell", exact) == exact
    own = [float(line.split()[1]) for line in output.read_text().splitlines()]
    assert len(own) == 3
    assert exact >= sum(own)


SHAPES = """
import ast
shape, log = ast.literal_eval(sys.argv[1]), sys.argv[2]
def live(shape):
    # (CPU seconds, whether it waits for its children, children)
    seconds, waits, children = shape
    begin = time.process_time()
    if not waits:
        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    made = []
    for child in children:
        pid = os.fork()
        if pid == 0:
            live(child)
            os._exit(0)
        made.append(pid)
    while time.process_time() < seconds:
        pass
    say(log)
    # All stay until they have been looked at with all they used.
    while not os.path.exists(log + ".go"):
        time.sleep(0.005)
    if waits:
        for pid in made:
            os.waitpid(pid, 0)
    else:
        # Processes without a waiting parent end first.
        for pid in made:
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.005)
        time.sleep(0.1)
    say(log + ".end")
live(shape)
"""


@pytest.mark.parametrize("seed", range(2))
def test_every_tick_of_a_tree_is_counted_once(start: Start, tmp_path: Path, seed: int) -> None:
    """The tree has the sum of the CPU times of its processes, for any order of waiting."""
    draw = random.Random(seed)

    def shape(depth: int) -> tuple[float, bool, list[object]]:
        children = [shape(depth - 1) for _ in range(draw.randint(0 if depth < 3 else 2, 2))]
        return (round(draw.uniform(0.02, 0.1), 3), draw.random() < 0.5, children if depth else [])

    made = shape(3)
    log = tmp_path / "log"
    child = python(start, SHAPES, made, log)
    trees: ProcessTrees[int] = ProcessTrees()
    trees.add(1, child.pid)

    def count(part: tuple[float, bool, list[object]]) -> int:
        return 1 + sum(count(one) for one in part[2])  # type: ignore[arg-type]

    processes = count(made)
    until(lambda: log.exists() and len(log.read_text().splitlines()) == processes)
    own = sum(float(line.split()[1]) for line in log.read_text().splitlines())
    seen = [trees.scan()[1].cpu]
    assert len(trees.pids(1)) == processes
    (tmp_path / "log.go").touch()
    while not ended(child.pid):
        seen.append(trees.scan()[1].cpu)
    exact = waited(child)
    seen.append(trees.scan()[1].cpu)
    total = trees.total_cpu_time(1, exact)
    seen.append(total)
    assert seen == sorted(seen)
    assert trees.pids(1) == []
    # For each process without a waiting parent, the kernel rounds down to ticks twice.
    assert total >= own - 2 * TICK * processes
    # Their last report lacks only their own end.
    most = sum(float(line.split()[1]) for line in (tmp_path / "log.end").read_text().splitlines())
    assert total <= most + 2 * TICK * processes
    assert total >= exact


def only_line(path: Path) -> tuple[int, float]:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    pid, cpu = path.read_text().split()
    return int(pid), float(cpu)


def test_a_child_without_a_waiting_parent_stays_counted(start: Start, tmp_path: Path) -> None:
    code = (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n burn(0.3); say(sys.argv[1]); time.sleep(60)\n"
        "os.read(0, 1); burn(0.3); say(sys.argv[2]); time.sleep(60)"
    )
    parent = python(start, code, tmp_path / "child", tmp_path / "parent", stdin=subprocess.PIPE)
    assert parent.stdin is not None
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("task", parent.pid)
    child, first = only_line(tmp_path / "child")
    trees.scan()
    os.kill(child, signal.SIGKILL)
    until(lambda: ProcessStat.read(child) is None)
    parent.stdin.write(b"x")
    parent.stdin.close()
    _, second = only_line(tmp_path / "parent")
    assert trees.scan()["task"].cpu >= first + second - 4 * TICK


DAEMON = """
while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):
    time.sleep(0.005)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn(0.15)
        say(sys.argv[1])
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[2]))
"""


def test_an_orphan_in_a_session_of_its_own_is_known_by_its_environment(
    start: Start, tmp_path: Path
) -> None:
    run, go = f"{os.getpid()}-x", tmp_path / "go"
    trees: ProcessTrees[str] = ProcessTrees(run)
    children = {}
    for task, rank in (("a", "0"), ("a", "1"), ("b", "0")):
        name = task + rank
        marks = {"TWINLOOP_RUN": run, "TWINLOOP_TASK": task, "TWINLOOP_RANK": rank}
        children[name] = python(start, DAEMON, tmp_path / name, 0, go, env={**os.environ, **marks})
        trees.add(name, children[name].pid, (task, rank))
    go.touch()
    for name, child in children.items():
        orphan, used = only_line(tmp_path / name)
        exact = waited(child)
        assert trees.pids(name) == [orphan]
        assert trees.total_cpu_time(name, exact) >= exact + used - 2 * TICK
    for name in children:
        assert trees.kill(name, signal.SIGKILL) == 1
        until(lambda name=name: trees.pids(name) == [])


def test_an_orphan_that_was_observed_before_stays_in_the_tree(start: Start, tmp_path: Path) -> None:
    child = python(start, DAEMON.replace("os._exit(0)", "time.sleep(60)"), tmp_path / "o", 60)
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("daemon", child.pid)
    orphan, used = only_line(tmp_path / "o")
    family = trees.pids("daemon")
    assert child.pid in family
    assert orphan in family
    between = next(pid for pid in family if pid not in (child.pid, orphan))
    os.kill(between, signal.SIGKILL)
    child.kill()
    exact = waited(child)
    until(lambda: trees.pids("daemon") == [orphan])
    assert trees.total_cpu_time("daemon", exact) >= exact + used - 2 * TICK
    # At its end, without a final CPU time, the last observed one is kept.
    seen = trees.scan()["daemon"].cpu
    assert trees.kill("daemon", signal.SIGKILL) == 1
    until(lambda: ended(orphan))
    assert trees.scan()["daemon"].cpu >= seen


def test_an_orphan_of_the_session_is_in_the_tree(start: Start, tmp_path: Path) -> None:
    code = DAEMON.replace("    os.setsid()\n", "")
    child = python(start, code, tmp_path / "o", 0)
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("task", child.pid)
    orphan, _ = only_line(tmp_path / "o")
    waited(child)
    assert trees.pids("task") == [orphan]
    assert trees.owner(orphan) == "task"
    assert trees.kill("task", signal.SIGKILL) == 1
    until(lambda: trees.pids("task") == [])


def test_an_orphan_that_was_waited_for_is_counted_to_the_microsecond(
    start: Start, tmp_path: Path
) -> None:
    before = _core.set_subreaper(True)
    try:
        code = DAEMON.replace("    os.setsid()\n", "").replace("time.sleep(60)", "os._exit(0)")
        child = python(start, code, tmp_path / "o", 0)
        trees: ProcessTrees[str] = ProcessTrees()
        trees.add("task", child.pid)
        orphan, _ = only_line(tmp_path / "o")
        exact = waited(child)
        assert trees.owner(orphan) == "task"
        _, _, usage = os.wait4(orphan, 0)
        own = usage.ru_utime + usage.ru_stime
        assert trees.record_reaped(orphan, own) == "task"
        assert trees.record_reaped(orphan, own) is None
        trees.scan()
        assert trees.total_cpu_time("task", exact) == pytest.approx(exact + own, abs=1e-9)
    finally:
        _core.set_subreaper(before)


@pytest.fixture
def adopt_orphans_of_test() -> Iterator[None]:
    """Make orphans of started processes children of this process."""
    before = _core.set_subreaper(True)
    yield
    _core.set_subreaper(before)


#: Forks twice; the grandchild ends in its own session before it is observed.
HASTY = """
while not os.path.exists(sys.argv[2]):
    time.sleep(0.005)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn(0.2)
        say(sys.argv[1])
    os._exit(0)
os.wait()
time.sleep(60)
"""


@pytest.mark.usefixtures("adopt_orphans_of_test")
@pytest.mark.parametrize("others", [0, 1])
def test_an_unobserved_orphan_belongs_to_the_only_possible_tree(
    start: Start, tmp_path: Path, others: int
) -> None:
    output, go = tmp_path / "orphan", tmp_path / "go"
    trees: ProcessTrees[str] = ProcessTrees("run")
    child = python(start, HASTY, output, go)
    trees.add("task", child.pid)
    for number in range(others):
        trees.add(f"other {number}", start("sleep", "60").pid)
    before = trees.scan()["task"].cpu
    go.touch()
    orphan, used = only_line(output)
    try:
        until(lambda: ended(orphan))
        # A later tree cannot contain it.
        begun = require_start_ticks(orphan)
        until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > (begun + 2) * TICK)
        trees.add("later", start("sleep", "60").pid)
        after = trees.scan()["task"].cpu
        if others:
            assert trees.unassigned_orphans == 1
            assert trees.owner(orphan) is None
        else:
            assert trees.unassigned_orphans == 0
            assert trees.owner(orphan) == "task"
            assert after >= before + used - 4 * TICK
            trees.forget("other 0")
        # It is assigned once, and otherwise left to its possible parents.
        trees.scan()
        assert trees.unassigned_orphans == others
        assert orphan not in trees.list_dead()
    finally:
        os.wait4(orphan, 0)
    assert trees.scan()["task"].cpu >= after
    assert trees.owner(orphan) is None


@pytest.mark.usefixtures("adopt_orphans_of_test")
@pytest.mark.parametrize("how", ["child", "session", "run", "no run"])
def test_children_of_this_process_that_are_no_orphans_are_in_no_tree(
    start: Start, how: str
) -> None:
    trees: ProcessTrees[str] = ProcessTrees(None if how == "no run" else "run")
    trees.add("task", start("sleep", "60").pid)
    # Another child of this program, or the first process of another run of it.
    other = python(start, "burn(0.05)", start_new_session=how != "child")
    if how == "run":
        another: ProcessTrees[str] = ProcessTrees("another")
        another.add("task", other.pid)
    until(lambda: ended(other.pid))
    trees.scan()
    # A child that leads a session looks like such an orphan, but is not waited for.
    assert trees.owner(other.pid) == ("task" if how == "session" else None)
    assert trees.list_dead() == []
    assert waited(other) >= 0.05 - TICK


def test_a_zombie_keeps_its_account_and_is_not_alive(start: Start) -> None:
    child = python(start, "burn(0.1)")
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("task", child.pid)
    until(lambda: ended(child.pid))
    cpu = trees.scan()["task"].cpu
    assert trees.pids("task") == []
    assert trees.kill("task", signal.SIGKILL) == 0
    assert trees.scan()["task"].rss is None  # its memory is unknown, not zero
    assert cpu >= 0.1 - 2 * TICK
    assert cpu <= waited(child)


def test_a_reused_pid_is_another_process(start: Start) -> None:
    last = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last, os.W_OK):
        pytest.skip("only root can say which number the next process gets")
    child = start("true")
    trees: ProcessTrees[str] = ProcessTrees()
    trees.add("task", child.pid)
    begun = require_start_ticks(child.pid)
    trees.scan()
    waited(child)
    until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > (begun + 2) * TICK)
    for _ in range(200):
        last.write_text(str(child.pid - 1))
        again = start("sleep", "60")
        if again.pid == child.pid:
            break
        again.kill()
        again.wait(PATIENCE)
    else:
        pytest.skip("other processes always took the PID first")
    cpu = trees.scan()["task"].cpu
    assert trees.pids("task") == []
    assert trees.kill("task", signal.SIGKILL) == 0
    assert again.poll() is None
    assert trees.scan()["task"].cpu == cpu


def test_one_scan_serves_all_trees_except_forgotten_ones(start: Start) -> None:
    trees: ProcessTrees[int] = ProcessTrees()
    children = [start("sleep", "60") for _ in range(5)]
    for number, child in enumerate(children):
        trees.add(number, child.pid)
    assert list(trees.scan()) == list(range(5))
    # During exec a process has no memory, and a few pages are counted late.
    until(lambda: all(reading.rss is not None for reading in trees.scan().values()))
    trees.forget(2)
    trees.forget(2)
    assert list(trees.scan()) == [0, 1, 3, 4]
    assert trees.pids(2) == []
    assert trees.owner(children[2].pid) is None
    assert trees.owner(children[3].pid) == 3


def test_a_process_that_a_scan_has_missed_can_be_added(start: Start, tmp_path: Path) -> None:
    child = start("sh", "-c", f"sleep 60 & echo $! > {tmp_path / 'pid'}; wait")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    trees: ProcessTrees[str] = ProcessTrees()
    trees.scan()
    trees.add("late", child.pid)
    inner = int((tmp_path / "pid").read_text())
    assert sorted(trees.pids("late")) == sorted([child.pid, inner])
    trees.kill("late", signal.SIGKILL)
