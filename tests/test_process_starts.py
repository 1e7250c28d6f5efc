"""Every use of a real process is recorded, and a test with one must be marked `real`."""

import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

from tests.execution.runs import scenario, task
from tests.process_starts import STARTS, find_problem
from twinloop.execution import execute


def test_a_child_that_only_prints_is_not_recorded() -> None:
    found = subprocess.run(["echo", "text"], capture_output=True, text=True, check=True)
    assert found.stdout == "text\n"
    assert STARTS.seen == []


@pytest.mark.real
def test_an_execution_is_recorded() -> None:
    execute(scenario(task("a", "true")))
    assert {"twinloop._core.spawn", "a process that Twinloop starts"} == set(STARTS.seen)


@pytest.mark.real
def test_a_signal_to_another_process_is_recorded() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        assert STARTS.seen == []
        os.kill(child.pid, 0)  # only tests whether the process exists
        assert STARTS.seen == []
        child.kill()
    assert STARTS.seen == ["a signal to another process"]


@pytest.mark.real
def test_a_command_that_executes_is_recorded(tmp_path: Path) -> None:
    for words in (["simulate", "--help"], ["execute", "--help"]):
        # A program of that name is sufficient: the command is in the arguments.
        command = tmp_path / "twinloop"
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
        subprocess.run([command, *words], check=True)
    assert STARTS.seen == ["twinloop execute"]


@pytest.mark.real
def test_workers_of_multiprocessing_and_forks_are_recorded() -> None:
    worker = multiprocessing.get_context("spawn").Process(target=print)
    worker.start()
    worker.join()
    assert "multiprocessing" in STARTS.seen
    STARTS.seen.clear()
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert STARTS.seen == ["os.fork"]


def test_an_unmarked_test_is_refused_and_a_marked_test_is_not() -> None:
    problem = find_problem(["os.fork", "os.fork"], {"long"})
    assert problem is not None
    assert "(os.fork)" in problem
    assert "`@pytest.mark.real`" in problem
    assert find_problem(["os.fork"], {"real"}) is None
    assert find_problem([], set()) is None


def test_the_records_are_checked_after_each_test(request: pytest.FixtureRequest) -> None:
    (root,) = (
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(request.config.rootpath / "conftest.py")
    )
    after = root.pytest_runtest_teardown(request.node)
    next(after)
    STARTS.seen.append("os.fork")
    with pytest.raises(pytest.fail.Exception, match="without the marker `real`"):
        after.send(None)
    STARTS.seen.clear()
