"""Detection of the resources of a machine from texts of the kernel, and the command for it."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from twinloop.cli.nodes import nodes
from twinloop.execution.local_machine import Hierarchy, LocalMachine, parse_hierarchies
from twinloop.platform import Platform

V1 = """\
23 1 259:0 / / rw - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_hybrid_machines_have_both_versions_each_with_its_own_group() -> None:
    membership = "4:memory:/a/b\n2:cpu,cpuacct:/c\n1:name=systemd:/s\n0::/s\n"
    top = Path("/sys/fs/cgroup")
    wanted = {
        Hierarchy(1, ("cpu", "cpuacct"), top / "cpu,cpuacct", top / "cpu,cpuacct/c"),
        Hierarchy(1, ("memory",), top / "memory", top / "memory/a/b"),
        Hierarchy(1, ("name=systemd",), top / "systemd", top / "systemd/s"),
        Hierarchy(2, (), top / "unified", top / "unified/s"),
    }
    assert set(parse_hierarchies(V1, membership)) == wanted


def test_in_a_container_the_visible_root_is_deep_in_the_hierarchy() -> None:
    mounts = r"9 8 0:1 /docker/x /my\040groups/cpu ro - cgroup cgroup rw,cpu" + "\n"
    (found,) = parse_hierarchies(mounts, "3:cpu:/docker/x/y\n")
    assert found == Hierarchy(1, ("cpu",), Path("/my groups/cpu"), Path("/my groups/cpu/y"))
    assert parse_hierarchies(mounts, "3:cpu:/docker/z\n") == ()
    v2 = "9 8 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    assert parse_hierarchies(v2, "0::/../elsewhere\n") == ()
    assert parse_hierarchies("", "") == ()


def test_this_machine_has_the_resources_of_the_kernel() -> None:
    machine = LocalMachine.detect()
    assert set(machine.cpus) == os.sched_getaffinity(0)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine.memory <= pages
    for hierarchy in machine.hierarchies:
        assert hierarchy.own.is_relative_to(hierarchy.mount)
        members = (hierarchy.own / "cgroup.procs").read_text().split()
        assert str(os.getpid()) in members


def test_limits_of_this_process_bound_its_machine(tmp_path: Path) -> None:
    from twinloop.execution import local_machine as looking

    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    (inner / "cpu.max").write_text("max 100000\n")
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("4096\n")
    (tmp_path / "memory.max").write_text("8192\n")
    v2 = (Hierarchy(2, (), tmp_path, inner),)
    assert list(looking._list_limits(v2, looking._read_core_limit)) == [1.5]
    assert list(looking._list_limits(v2, looking._read_memory_limit)) == [4096.0, 8192.0]
    (inner / "cpu.cfs_quota_us").write_text("-1\n")
    (inner / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert list(
        looking._list_limits((Hierarchy(1, ("cpu",), tmp_path, inner),), looking._read_core_limit)
    ) == [0.5]


@pytest.mark.parametrize("cores", [0.3, 1.0, 1.5, 2.0, 7.25, 64.0])
def test_suggestions_are_platforms_and_fit(cores: float) -> None:
    machine = LocalMachine(tuple(range(64)), cores, 2**30, None, None, ())
    for text in machine.suggest_platforms():
        Platform.parse(text)
        count, each = text.split("x")
        assert int(count) * float(each) <= cores


def test_the_command_prints_the_resources() -> None:
    app = typer.Typer()
    app.command()(nodes)
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    machine = LocalMachine.detect()
    assert document["cpus"] == list(machine.cpus)
    assert document["isolation"] in {"cgroup2", "cgroup1", "affinity"}
    assert bool(document["warnings"]) or {"cpu", "cpuset", "memory"} <= set(document["controllers"])
    assert document["suggestions"] == list(machine.suggest_platforms())
    text = CliRunner().invoke(app, []).stdout
    assert document["isolation"] in text
    assert all(warning in text for warning in document["warnings"])
