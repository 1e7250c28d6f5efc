"""Five thousand short tasks in a row: none is lost, and no process remains."""

import os

import pytest

import twinloop as tl
from tests.execution.runs import BOTH, left, scenario, statuses, task
from tests.execution.test_kills import one_at_a_time
from twinloop.execution import execute

TASKS = 5_000


@BOTH
def test_five_thousand_short_tasks_complete(
    isolation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    trace = execute(
        scenario(*(task(f"{number}", "true") for number in range(TASKS))), isolation=isolation
    )
    assert left(os.getpid()) == []
    assert list(statuses(trace).values()) == ["completed"] * TASKS
    assert trace.placements.height == TASKS
    assert set(trace.tasks["exit_code"]) == {0}
    assert tl.check(trace).errors == ()
    one_at_a_time(trace)
    # Libraries keep a few files open, but not one for each task.
    assert len(os.listdir("/proc/self/fd")) < files + 20  # noqa: PTH208
    facts = trace.manifest.facts
    wall, cpu = facts["run"]["wall_s"], facts["recording"]["executor_cpu_s"]
    with capsys.disabled():
        print(f"\n{TASKS:,} tasks by {facts['nodes']['isolation']}: {wall:.1f} s,", end=" ")
        print(f"{1e3 * cpu / TASKS:.2f} ms of CPU time each")
