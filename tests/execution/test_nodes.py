"""Laws of nodes on this machine, with real processes in real control groups."""

import json
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from tests.execution.child_processes import PATIENCE
from twinloop import _core
from twinloop.description import InputError
from twinloop.execution import leftovers, task_starter
from twinloop.execution.local_machine import Hierarchy, LocalMachine
from twinloop.execution.nodes import (
    LocalNodes,
    NodeSpec,
    NodeTask,
    cgroup2,
    make_run_name,
    remove_stale_groups,
)
from twinloop.execution.nodes.cgroup1 import GroupTreeV1
from twinloop.execution.nodes.cgroup2 import BaseGroup, GroupTreeV2, find_base_group
from twinloop.execution.nodes.cgroup_tree import GroupLimits, UnusableHierarchyError, cores_to_quota
from twinloop.execution.nodes.cpu_layout import assign_cpus
from twinloop.execution.nodes.missing_resources import find_unenforced_limits

pytestmark = pytest.mark.real

# Imported before a child changes its user, which may not read the files of Python.
assert task_starter

TICK = 1 / os.sysconf("SC_CLK_TCK")
PYTHON = (sys.executable, "-I", "-S", "-c")
BUSY = "import time\nuntil = time.monotonic() + {}\nwhile time.monotonic() < until: pass"
MIB = 2.0**20


def groups_of_this_process() -> list[str]:
    own = f"{leftovers.GROUP_PREFIX}{os.getpid()}-"
    return [
        name
        for hierarchy in LocalMachine.detect().hierarchies
        for _, names, _ in os.walk(hierarchy.mount)
        for name in names
        if name.startswith(own)
    ]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def check_no_leftovers() -> Iterator[None]:
    before = open_files()
    yield
    assert groups_of_this_process() == []
    assert open_files() == before


@pytest.fixture(params=["cgroup2", "cgroup1", "affinity"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Every isolation that is available on this machine."""
    try:
        LocalNodes.create([NodeSpec("a", 0.5, None)], isolation=request.param).close()
    except InputError as error:
        pytest.skip(str(error))
    return str(request.param)


def needs(nodes: LocalNodes, *controllers: str) -> None:
    missing = set(controllers) - set(nodes.controllers)
    if missing:
        pytest.skip(f"{nodes.isolation} does not control {', '.join(missing)} here")


class Child:
    """A process in a part of a node, which is always ended and reaped."""

    def __init__(self, part: NodeTask, *argv: str) -> None:
        self.called = time.monotonic()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            self.pid, self.hold = _core.spawn(
                argv[0], list(argv), [f"PATH={os.environ['PATH']}"], "/",
                stdin=null, stdout=null, stderr=null, join=list(part.join), cpus=list(part.cpus),
            )  # fmt: skip
        finally:
            os.close(null)

    def wait(self) -> tuple[int, float]:
        """Wait; return the exit code or minus the signal, and the CPU time."""
        _, status, used = os.wait4(self.pid, 0)
        self.wall = time.monotonic() - self.called
        os.close(self.hold)
        self.hold = -1
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold >= 0:
            signal.pidfd_send_signal(self.hold, signal.SIGKILL)
            self.wait()


def soon(condition: Callable[[], bool]) -> bool:
    """Return whether a condition is met within the time limit."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    return leftovers.read_start_ticks(pid) is None


# Assignment of CPUs.


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_every_node_has_its_cores_even_if_all_others_are_busy(tenths: list[int], more: int) -> None:
    cpus = list(range(10, 10 + math.ceil(sum(tenths) / 10) + more))
    given_to = assign_cpus([number / 10 for number in tenths], cpus)
    sink = 1 + len(tenths) + len(cpus)
    capacity = np.zeros((sink + 1, sink + 1), dtype=np.int32)
    for node, (number, own) in enumerate(zip(tenths, given_to, strict=True), start=1):
        assert len(set(own)) == len(own) >= math.ceil(number / 10)
        assert set(own) <= set(cpus)
        capacity[0, node] = number
        for cpu in own:
            capacity[node, 1 + len(tenths) + cpus.index(cpu)] = 10
    capacity[1 + len(tenths) : sink, sink] = 10
    assert maximum_flow(csr_array(capacity), 0, sink).flow_value == sum(tenths)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_whole_cores_share_their_cpus_with_no_other_node(tenths: list[int]) -> None:
    cpus = range(math.ceil(sum(tenths) / 10))
    given_to = assign_cpus([number / 10 for number in tenths], cpus)
    for node, number in enumerate(tenths):
        others = {cpu for other, own in enumerate(given_to) if other != node for cpu in own}
        assert len(set(given_to[node]) - others) >= number // 10


@given(st.floats(0.001, 512))
def test_a_quota_corresponds_to_its_cores_within_the_limits_of_the_kernel(cores: float) -> None:
    quota, period = cores_to_quota(cores)
    assert quota / period == pytest.approx(cores, abs=0.5 / period + cores * 0.5 / period)
    assert quota >= 1_000
    assert 1_000 <= period <= 1_000_000


def test_a_platform_that_does_not_fit_is_refused_with_a_suggestion() -> None:
    machine = LocalMachine.detect()
    for specs, problem in (
        ([NodeSpec(f"n{i}", 1.0, None) for i in range(len(machine.cpus) + 1)], "cores"),
        ([NodeSpec("a", machine.cores, machine.memory * 2.0)], "memory"),
        ([NodeSpec("a", 0.0, None)], "0 cores"),
        ([NodeSpec("a", math.inf, None)], "inf cores"),
    ):
        with pytest.raises(InputError, match=problem) as caught:
            LocalNodes.create(specs)
        assert caught.value.field == "platform"
        assert caught.value.remedy
    with pytest.raises(InputError, match="no isolation"):
        LocalNodes.create([NodeSpec("a", 0.5, None)], isolation="docker")


def test_suggested_platforms_fit() -> None:
    machine = LocalMachine.detect()
    for text in machine.suggest_platforms():
        count, cores = text.split("x")
        specs = [NodeSpec(f"n{i}", float(cores), None) for i in range(int(count))]
        LocalNodes.create(specs, machine=machine).close()


# Processes of a part.


def test_processes_and_their_children_are_in_their_part_and_on_its_cpus(isolation: str) -> None:
    with LocalNodes.create([NodeSpec("a", 1.0, None)], isolation=isolation) as nodes:
        part = nodes.add_task(0, "task", 1.0, None)
        allowed = set(nodes.facts()["nodes"][0]["cpus"])
        assert len(allowed) == 1
        with Child(part, "/bin/sh", "-c", "sleep 300 & setsid sleep 300 & wait") as child:
            if part.is_accounted:
                assert soon(lambda: len(part.pids()) == 3)
                assert child.pid in part.pids()
            for pid in part.pids() or [child.pid]:
                assert os.sched_getaffinity(pid) == allowed
            there = part.pids()
            assert part.kill(signal.SIGTERM) == len(there)
            assert soon(lambda: part.pids() == [])
            if there:
                assert child.wait()[0] == -signal.SIGTERM
            # A process leaves its group shortly before it ends.
            assert soon(lambda: all(map(is_gone, there)))


def test_closing_ends_all_processes_and_removes_all_groups(isolation: str) -> None:
    nodes = LocalNodes.create([NodeSpec("a", 0.5, 512 * MIB)], isolation=isolation)
    first, second = (nodes.add_task(0, name, 0.5, None) for name in ("first", "second"))
    script = "trap '' TERM; setsid sleep 300 & wait"
    with Child(first, "/bin/sh", "-c", script), Child(second, "/bin/sh", "-c", script):
        if first.is_accounted:
            assert soon(lambda: len(first.pids()) == len(second.pids()) == 2)
        ended, there = first.pids(), first.pids() + second.pids()
        kept = second.pids()
        first.close()
        first.close()
        assert soon(lambda: all(map(is_gone, ended)))
        assert second.pids() == kept
        assert first.pids() == []
        assert first.join == ()
        assert not first.is_accounted
        nodes.close()
        nodes.close()
        assert soon(lambda: all(map(is_gone, there)))
    assert groups_of_this_process() == []
    assert not nodes.is_alive(0)


def test_a_part_can_have_any_name_and_two_the_same(isolation: str) -> None:
    with LocalNodes.create([NodeSpec("../x", 0.5, None)], isolation=isolation) as nodes:
        for name in ("", "..", "a/b", "../../etc", "cgroup.procs", "x" * 999, "ä\0\n", "a/b"):
            part = nodes.add_task(0, name, 0.5, None)
            assert bool(part.join) == (isolation != "affinity")
        inside = [path for top in nodes.groups for path in leftovers.list_groups(str(top))]
        assert all(str(Path(path).resolve()) == path for path in inside)


def test_a_removed_node_is_detected() -> None:
    with LocalNodes.create([NodeSpec("a", 0.5, None), NodeSpec("b", 0.5, None)]) as nodes:
        if not nodes.groups:
            pytest.skip("no groups here")
        (nodes.groups[0] / "node-1").rmdir()
        assert nodes.is_alive(0)
        assert not nodes.is_alive(1)
        with pytest.raises(OSError, match="node-1"):
            nodes.add_task(1, "task", 0.5, None)
        nodes.add_task(0, "task", 0.5, None)


# Limits.


@pytest.mark.parametrize("node_cores", [0.25, pytest.param(1.0, marks=pytest.mark.long)])
def test_a_busy_loop_gets_no_more_than_its_cores(isolation: str, node_cores: float) -> None:
    with LocalNodes.create([NodeSpec("a", node_cores, None)], isolation=isolation) as nodes:
        if "cpu" not in nodes.controllers:
            assert any("not enforced" in text for text in nodes.warnings)
            return
        part = nodes.add_task(0, "task", 0.25, None)
        with Child(part, *PYTHON, BUSY.format(1.0)) as child:
            code, used = child.wait()
        assert code == 0
        # A quota is renewed every 20 ms, and a CPU takes slices of up to 5 ms of it.
        assert used <= 0.25 * (child.wall + 2 * 0.02) + 0.01


def test_of_competing_parts_the_one_with_more_cores_gets_more(isolation: str) -> None:
    large, small = measure_competition(isolation, 0.4)
    assert large > small


@pytest.mark.long
def test_competing_parts_share_in_proportion_to_their_cores(isolation: str) -> None:
    """Over seconds, on a machine without other work: slices of the scheduler even out."""
    large, small = measure_competition(isolation, 2.0)
    assert 1.7 < large / small < 2.3


def measure_competition(isolation: str, seconds: float) -> tuple[float, float]:
    """Return the CPU seconds of two busy parts, one with twice the cores of the other."""
    with LocalNodes.create([NodeSpec("a", 0.4, None)], isolation=isolation) as nodes:
        needs(nodes, "cpu")
        large, small = nodes.add_task(0, "large", 0.4, None), nodes.add_task(0, "small", 0.2, None)
        if not large.is_accounted:
            pytest.skip("no CPU time of groups here")
        busy = (*PYTHON, BUSY.format(60))
        with Child(large, *busy), Child(small, *busy):
            assert soon(lambda: min(read_cpu_times(large, small)) > 0.05)
            before = read_cpu_times(large, small)
            assert soon(lambda: sum(read_cpu_times(large, small)) > sum(before) + seconds)
            after = read_cpu_times(large, small)
            large.kill(signal.SIGKILL)
            small.kill(signal.SIGKILL)
    return after[0] - before[0], after[1] - before[1]


def read_cpu_times(one: NodeTask, other: NodeTask) -> tuple[float, float]:
    """Read the CPU time of two parts at the same time; repeat if the first has changed."""
    while True:
        first, second, later = one.read()[0], other.read()[0], one.read()[0]
        if later - first < 0.01:
            return first, second


HOG = "b = bytearray(1 << 20) * 256"


@pytest.mark.parametrize("owner", ["node", "part"])
def test_memory_above_the_limit_kills_and_is_reported(isolation: str, owner: str) -> None:
    limit = 64 * MIB
    spec = NodeSpec("a", 0.5, limit if owner == "node" else None)
    with LocalNodes.create([spec], isolation=isolation) as nodes:
        part = nodes.add_task(0, "hog", 0.5, limit if owner == "part" else None)
        modest = nodes.add_task(0, "modest", 0.5, None)
        with Child(part, *PYTHON, HOG) as child, Child(modest, *PYTHON, "pass") as other:
            assert other.wait()[0] == 0
            code, _ = child.wait()
        if "memory" not in nodes.controllers:
            assert code == 0
            assert part.oom_kills == 0
            assert part.peak() is None
            assert any("memory is not" in text for text in nodes.warnings) == (owner == "node")
            return
        assert code == -signal.SIGKILL
        assert part.oom_kills == 1
        assert modest.oom_kills == 0
        part.close()
        assert part.oom_kills == 1
        assert part.peak() == pytest.approx(limit, rel=0.1)


# Accounting.


def test_the_cpu_time_of_a_part_equals_rusage_within_a_tick(isolation: str) -> None:
    script = (
        "import os\nfor _ in range(3):\n if not os.fork():\n  for i in range(3000000): pass\n"
        "  os._exit(0)\nfor _ in range(3): os.wait()\nfor i in range(3000000): pass"
    )
    with LocalNodes.create([NodeSpec("a", 1.0, None)], isolation=isolation) as nodes:
        part = nodes.add_task(0, "task", 1.0, None)
        if not part.is_accounted:
            with pytest.raises(ValueError, match="no control group"):
                part.read()
            return
        assert part.read()[0] < TICK
        with Child(part, *PYTHON, script) as child:
            code, used = child.wait()
        assert code == 0
        assert used > TICK
        assert part.read()[0] == pytest.approx(used, abs=TICK)


def test_an_orphan_without_a_waiting_parent_is_counted(isolation: str) -> None:
    orphan = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nfor i in range(3000000): pass"
    with LocalNodes.create([NodeSpec("a", 1.0, None)], isolation=isolation) as nodes:
        part = nodes.add_task(0, "task", 1.0, None)
        if not part.is_accounted:
            pytest.skip("no group, no account")
        with Child(part, *PYTHON, orphan) as child:
            _, used = child.wait()
        assert soon(lambda: part.pids() == [])
        assert part.read()[0] > used + TICK


@pytest.mark.parametrize("counted", ["by the group", "by its processes"])
def test_the_memory_in_use_is_the_memory_filled(counted: str) -> None:
    machine = LocalMachine.detect()
    if counted == "by its processes":
        without = [one for one in machine.hierarchies if "memory" not in one.controllers]
        machine = machine._replace(hierarchies=tuple(without))
    hold = "import time\nb = bytearray(1 << 20) * 48\ntime.sleep(300)"
    with LocalNodes.create([NodeSpec("a", 0.5, None)], machine=machine) as nodes:
        if counted == "by its processes" and "memory" in nodes.controllers:
            nodes._trees[0].drop_controllers(["memory"])
        part = nodes.add_task(0, "task", 0.5, None)
        if not part.is_accounted:
            pytest.skip("no group, no account")
        with Child(part, *PYTHON, hold):
            assert soon(lambda: (part.read()[1] or 0.0) >= 48 * MIB)
            assert (part.read()[1] or 0.0) < 80 * MIB
            peak = part.peak()
            assert (peak is None) == ("memory" not in nodes.controllers)
            assert peak is None or peak >= 48 * MIB
            part.kill(signal.SIGKILL)


# Missing permissions and controllers.


def test_without_groups_affinity_is_used_with_a_warning_of_its_limits() -> None:
    machine = LocalMachine.detect()._replace(hierarchies=())
    specs = [NodeSpec("a", 0.5, 64 * MIB)]
    with LocalNodes.create(specs, machine=machine) as nodes:
        assert nodes.isolation == nodes.facts()["isolation"] == "affinity"
        assert len(nodes.warnings) == 4
        part = nodes.add_task(0, "task", 0.5, None)
        assert part.cpus == machine.cpus[:1]
        assert (part.join, part.is_accounted, part.pids()) == ((), False, [])
    for asked in ("cgroup1", "cgroup2"):
        with pytest.raises(InputError, match=f"{asked} is not available") as caught:
            LocalNodes.create(specs, machine=machine, isolation=asked)
        assert caught.value.field == "isolation"


def test_no_isolation_confines_nothing() -> None:
    with LocalNodes.create([NodeSpec("a", 1e6, None)], isolation="none") as nodes:
        part = nodes.add_task(0, "task", 1.0, None)
        assert (part.join, part.cpus, nodes.warnings) == ((), (), ())
        assert nodes.is_alive(0)


def test_enforced_limits_have_no_warning() -> None:
    specs = [NodeSpec("a", 0.5, 1.0)]
    everything = {"cpu", "cpuset", "memory"}
    assert find_unenforced_limits(specs, everything) == ()
    for controller in everything:
        assert find_unenforced_limits(specs, everything - {controller})
    assert find_unenforced_limits([NodeSpec("a", 1.0, None)], {"cpu", "cpuset"}) == ()


def test_a_failing_controller_is_omitted_and_the_others_are_used() -> None:
    machine = LocalMachine.detect()
    places = [one for one in machine.hierarchies if "cpu" in one.controllers]
    if not places or not os.access(places[0].own, os.W_OK):
        pytest.skip("no cpu controller of version 1 that may be written")
    narrow = places[0].own / f"narrow-{os.getpid()}"
    narrow.mkdir()
    try:
        (narrow / "cpu.cfs_quota_us").write_text("20000")  # 0.2 cores: 0.5 do not fit in
        # The last controller: the others have their groups by then.
        others = [one for one in machine.hierarchies if one not in places]
        machine = machine._replace(hierarchies=(*others, places[0]._replace(own=narrow)))
        with LocalNodes.create([NodeSpec("a", 0.5, None)], machine=machine) as nodes:
            assert "cpu" not in nodes.controllers
            assert any(text.startswith("cpu: Invalid argument") for text in nodes.warnings)
            part = nodes.add_task(0, "task", 0.5, None)
            with Child(part, "/bin/true") as child:
                assert child.wait()[0] == 0
        assert leftovers.list_groups(str(narrow)) == [str(narrow)]
    finally:
        narrow.rmdir()


def test_an_ordinary_user_gets_weaker_isolation_with_the_reason() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")

    def create() -> dict[str, Any]:
        become(65534)
        with LocalNodes.create([NodeSpec("a", 0.5, None)], run=make_run_name()) as nodes:
            return nodes.facts()

    facts = in_a_child(create)
    assert facts["isolation"] == "affinity"
    assert any("Permission denied" in text or "written" in text for text in facts["warnings"])


# Control groups of version 2, in plain files.


def v2_group(path: Path, controllers: str, procs: str = "", kind: str = "domain") -> Path:
    path.mkdir(exist_ok=True)
    (path / "cgroup.controllers").write_text(f"{controllers}\n")
    (path / "cgroup.subtree_control").write_text("\n")
    (path / "cgroup.procs").write_text(procs)
    if kind:
        (path / "cgroup.type").write_text(f"{kind}\n")
    return path


def test_v2_uses_the_root_an_empty_parent_group_or_its_own_group_if_alone(tmp_path: Path) -> None:
    alone = f"{os.getpid()}\n"
    top = v2_group(tmp_path / "top", "cpu memory hugetlb", procs="1\n", kind="")
    empty = v2_group(top / "slice", "cpu memory")
    own = v2_group(empty / "scope", "cpu memory", procs=alone)
    hierarchy = Hierarchy(2, (), top, own)
    assert find_base_group(hierarchy) == BaseGroup(own, ("cpu", "memory"), (os.getpid(),))
    # A shell is in the group, too: its parent is used.
    v2_group(own, "cpu memory", procs=f"{alone}1\n")
    assert find_base_group(hierarchy) == BaseGroup(empty, ("cpu", "memory"), ())
    # The root has one more controller.
    v2_group(top, "cpuset cpu memory", procs="1\n", kind="")
    assert find_base_group(hierarchy) == BaseGroup(top, ("cpu", "cpuset", "memory"), ())
    with pytest.raises(UnusableHierarchyError, match="other processes"):
        find_base_group(hierarchy._replace(mount=own))
    v2_group(own, "cpu memory", procs=alone, kind="threaded")
    with pytest.raises(UnusableHierarchyError, match="threaded"):
        find_base_group(hierarchy._replace(mount=own))
    v2_group(own, "pids", procs=alone)
    with pytest.raises(UnusableHierarchyError, match="no usable controller"):
        find_base_group(hierarchy._replace(mount=own))


def test_v2_writes_limits_in_the_format_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "memory.swap.max").write_text("max")
    tree = GroupTreeV2(tmp_path, ["cpu", "cpuset", "memory"])
    assert (
        tree.set_limits(tmp_path, GroupLimits((0, 3), quota=0.5, weight=2.0, memory=64 * MIB)) == {}
    )
    wrote = {
        "cpu.max": "10000 20000",
        "cpu.weight": "200",
        "cpuset.cpus": "0,3",
        "memory.max": "67108864",
        "memory.swap.max": "0",
    }
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == wrote
    for file, text in (
        ("cpu.stat", b"usage_usec 1500000\nuser_usec 1\n"),
        ("memory.stat", b"anon 8192\nfile 99999\nkernel 7\nfile_mapped 4096\n"),
        ("memory.events", b"low 0\noom 9\noom_kill 2\noom_group_kill 0\n"),
        ("memory.peak", b"12288\n"),
        ("cgroup.procs", b""),
    ):
        (tmp_path / file).write_bytes(text)
    part = NodeTask([(tree, tmp_path)], join=(), cpus=())
    assert part.read() == (1.5, 12288.0)
    assert (part.peak(), part.oom_kills) == (12288.0, 2)
    # Missing values, and memory without a process, are unknown and not 0.
    (tmp_path / "memory.stat").write_bytes(b"anon 0\nfile_mapped 0\n")
    assert part.read() == (1.5, None)
    (tmp_path / "memory.stat").write_bytes(b"kernel 7\n")
    assert part.read() == (1.5, None)
    (tmp_path / "cpu.stat").write_bytes(b"nr_periods 7\n")
    with pytest.raises(ValueError, match="usage_usec"):
        part.read()
    for file in tmp_path.iterdir():
        file.unlink()
    part.close()
    tree.close()


@pytest.mark.parametrize("user", [0, 65534])
def test_v2_leaves_its_own_group_and_returns(monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    """With any available controller, because the rules of the kernel are the same for all."""
    hierarchy = next((one for one in LocalMachine.detect().hierarchies if one.version == 2), None)
    if os.getuid() != 0 or hierarchy is None:
        pytest.skip("needs root and control groups of version 2")
    mount = hierarchy.mount
    domain = set((mount / "cgroup.controllers").read_text().split()) - {"cpu", "cpuset", "pids"}
    if not domain or not os.access(mount, os.W_OK) or (mount / "cgroup.type").exists():
        pytest.skip("no controller of version 2 in reach")
    name = min(domain)
    monkeypatch.setattr(cgroup2, "CONTROLLERS", (name,))
    control = mount / "cgroup.subtree_control"
    was_on = name in control.read_text().split()
    own = mount / f"trial-{os.getpid()}-{user}"
    own.mkdir()
    try:
        control.write_text(f"+{name}")
        for file in (own, *(own / f"cgroup.{one}" for one in ("procs", "subtree_control"))):
            os.chown(file, user, user)
        said = in_a_child(lambda: live_in(own, user))
        inside, facts, pids, after, below, enabled = said
        assert inside.startswith(f"0::/{own.name}/{leftovers.GROUP_PREFIX}")
        assert inside.endswith(f"/{leftovers.EXECUTOR_GROUP}")
        assert (facts["isolation"], facts["controllers"]) == ("cgroup2", {name: "cgroup2"})
        assert len(pids) == 1
        assert (after, below, enabled) == (f"0::/{own.name}", [], [])
    finally:
        assert leftovers.remove_groups(str(own))
        if not was_on:
            with suppress(OSError):  # another run of this test has a group that uses it
                control.write_text(f"-{name}")


def live_in(own: Path, user: int) -> list[Any]:
    """Create nodes in a process that is alone in a group; return the observed values."""
    (own / "cgroup.procs").write_text("0")
    become(user)
    with LocalNodes.create(
        [NodeSpec("a", 0.5, None)], isolation="cgroup2", run=make_run_name()
    ) as nodes:
        inside = own_v2_group()
        part = nodes.add_task(0, "task", 0.5, None)
        with Child(part, "/bin/sleep", "300") as child:
            there = part.pids()
            assert there == [child.pid]
            part.kill(signal.SIGKILL)
        facts = nodes.facts()
    below = [path.name for path in own.iterdir() if path.is_dir()]
    enabled = (own / "cgroup.subtree_control").read_text().split()
    return [inside, facts, there, own_v2_group(), below, enabled]


def own_v2_group() -> str:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return next(line for line in lines if line.startswith("0::"))


def become(user: int) -> None:
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def in_a_child(body: Callable[[], Any]) -> Any:
    """Run a function in a child process; return its result by JSON."""
    ear, mouth = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of a fork with threads
        pid = os.fork()
    if pid == 0:
        try:
            os.write(mouth, json.dumps(body()).encode())
        except BaseException as error:
            os.write(mouth, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(mouth)
    with os.fdopen(ear) as stream:
        said = json.loads(stream.read())
    os.waitpid(pid, 0)
    return said


def test_v1_is_refused_if_no_group_can_be_created(tmp_path: Path) -> None:
    nowhere = Hierarchy(1, ("cpu",), tmp_path, tmp_path / "gone")
    with pytest.raises(UnusableHierarchyError, match="No such file"):
        GroupTreeV1.open(nowhere, "1-1-0000")


def test_v1_drops_a_hierarchy_whose_cpuset_cannot_be_set(tmp_path: Path) -> None:
    tree = GroupTreeV1(tmp_path, ["cpu", "cpuset"])
    tree.drop_controllers(["cpuset"])
    assert tree.controllers == []
    tree.close()
    tmp_path.mkdir()
    tree = GroupTreeV1(tmp_path, ["cpu", "cpuacct"])
    tree.drop_controllers(["cpu"])
    assert tree.controllers == ["cpuacct"]
    tree.close()


def test_a_sweep_does_not_affect_running_processes() -> None:
    with LocalNodes.create([NodeSpec("a", 0.5, None)]) as nodes:
        part = nodes.add_task(0, "task", 0.5, None)
        with Child(part, "/bin/sleep", "300") as child:
            assert not any(nodes.run in line for line in remove_stale_groups())
            assert nodes.is_alive(0)
            assert not is_gone(child.pid)
            part.kill(signal.SIGKILL)
