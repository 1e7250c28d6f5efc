"""Laws of failures: a failure affects only its task, and is reported."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import twinloop as tl
from tests.execution.child_processes import TICK
from tests.execution.runs import EXECUTE, PATIENCE, left, scenario, statuses, task
from twinloop.description.errors import InputError
from twinloop.execution import execute
from twinloop.execution.nodes import LocalNodes
from twinloop.execution.run_folder import check_run_folder

pytestmark = pytest.mark.real


def grouped() -> None:
    """Skip without control groups that confine tasks to their nodes."""
    with LocalNodes.create([]) as nodes:
        if not nodes.isolation.startswith("cgroup"):
            pytest.skip("there are no control groups that may be used here")


def notes(trace: tl.Trace) -> str:
    return "\n".join(map(str, trace.manifest.cleaned))


#: Removes the second of several nodes after their creation, which is detected when a task starts
#: there.
DESTROY = """
import pathlib, sys
for node in pathlib.Path("/sys/fs/cgroup").glob(f"**/twinloop-{sys.argv[1]}-*/node-1"):
    node.rmdir()
"""


def test_the_failure_of_one_node_affects_no_other() -> None:
    grouped()
    given = scenario(
        task("long", "sleep", 0.5),
        task("pair", "true", nodes=2, cores=1.0, submit=0.1),
        task("after", "true", submit=0.2),
        platform="3x0.5",
        policy="fcfs",
        workload={"prepare": [{"command": [sys.executable, "-c", DESTROY, str(os.getpid())]}]},
    ).replace(**{"workload.tasks[0].cores": 0.5, "workload.tasks[2].cores": 0.5})
    trace = execute(given)
    assert statuses(trace) == {"long": "completed", "pair": "completed", "after": "completed"}
    assert trace.node_states["node"].to_list() == [trace.nodes["node"][1]]
    assert trace.placements.filter(trace.placements["task"] == "long").height == 1
    assert "nodes that failed" in notes(trace)
    assert not left(os.getpid())


def test_a_task_without_enough_memory_is_reported() -> None:
    grouped()
    hog = task("hog", sys.executable, "-c", "x = b'x' * (300 << 20)")
    trace = execute(scenario(hog, task("other", "true"), platform="2x1/64MiB"))
    if "memory" not in trace.manifest.facts["nodes"]["controllers"]:
        pytest.skip("there is no controller of memory here")
    assert statuses(trace) == {"hog": "killed", "other": "completed"}
    assert "too little memory (hog)" in notes(trace)


def test_the_number_of_tasks_is_not_limited_by_open_files(tmp_path: Path) -> None:
    tasks = [task(str(n), "sleep", 0.5, cores=0.05) for n in range(30)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1000:
        pytest.skip("the hard limit on open files is low here")
    tasks.append(task("limit", "sh", "-c", "ulimit -n", cores=0.05))
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, hard))
    try:
        given = scenario(*tasks, platform="2x1", policy="fcfs")
        trace = execute(given, tmp_path / "run")
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 80
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(statuses(trace).values()) == {"completed"}
    # Tasks have the limit of their user, not the raised limit of the run.
    assert (tmp_path / "run" / "output" / "limit" / "0.out").read_text() == "80\n"


def test_names_that_are_no_text_are_passed_unchanged(tmp_path: Path) -> None:
    file = scenario(task("a", "sh", "-c", 'printf %s "$ODD" | od -An -tx1')).save(
        tmp_path / "s.yaml"
    )
    odd = {b"ODD": b"\xff", b"PATH": os.environb[b"PATH"] + b":/\xfe"}
    done = subprocess.run(
        [*EXECUTE, file, "-o", tmp_path / "run"],
        env={**os.environb, **odd},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "output" / "a" / "0.out").read_text().split() == ["ff"]


def test_an_ignored_sigchld_hides_no_end_of_a_task(tmp_path: Path) -> None:
    file = scenario(task("a", "true")).save(tmp_path / "s.yaml")
    done = subprocess.run(
        [*EXECUTE, file, "-o", tmp_path / "run"],
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert statuses(tl.read(tmp_path / "run")) == {"a": "completed"}


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path: Path) -> None:
    thesis = tmp_path / "mine" / "output" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    with pytest.raises(InputError, match="is not a run"):
        check_run_folder(tmp_path / "mine", overwrite=True)
    with pytest.raises(InputError, match="is not a run"):
        execute(scenario(task("a", "true")), tmp_path / "mine", overwrite=True)
    assert thesis.read_text() == "years of work"


def test_the_current_folder_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    execute(scenario(task("a", "true")), ".")
    execute(scenario(task("b", "true")), ".", overwrite=True)
    assert tmp_path.stat().st_ino == before
    assert statuses(tl.read(".")) == {"b": "completed"}


def test_a_relative_path_is_relative_to_the_folder_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "there" / "bin" / "own-tool"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho own\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}")
    given = scenario(task("a", "own-tool", folder=str(tmp_path / "there")))
    assert statuses(execute(given, tmp_path / "run")) == {"a": "completed"}


def test_a_replay_uses_the_planned_times_of_the_run() -> None:
    # Shortest first by the declared times: b before a, although a takes less time.
    given = scenario(
        task("block", "sleep", 0.3),
        {**task("a", "sleep", 0.05, submit=0.05), "run_time": 5},
        {**task("b", "sleep", 0.15, submit=0.05), "run_time": 1},
        platform="1x1",
        policy="sjf",
    )
    real = execute(given)
    for run in (real, tl.simulate(tl.replay_scenario(real))):
        assert run.placements.sort("start")["task"].to_list() == ["block", "b", "a"]


def test_the_time_of_a_start_is_not_that_of_the_starts_before_it() -> None:
    tasks = [task(str(n), "true", cores=0.1) for n in range(20)]
    facts = execute(scenario(*tasks, policy="fcfs")).manifest.facts["latency"]
    assert facts["start"]["count"] == facts["dispatch"]["count"] == 20
    # All twenty are placed by one decision, one after the other: the last waits for all others.
    others = 20 * facts["start"]["mean_s"] - facts["start"]["max_s"]
    assert facts["dispatch"]["max_s"] >= others - TICK
