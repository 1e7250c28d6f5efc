"""The source of a simulation submits in a real execution too."""

import pytest

import twinloop as tl
from examples.source import Clients
from tests.execution.runs import read_output, scenario, statuses, task
from twinloop.description.errors import TwinloopError
from twinloop.engine import CompiledScenario
from twinloop.execution import execute
from twinloop.execution.decision_replay import replay_decisions
from twinloop.workload import NewTask, Source

pytestmark = pytest.mark.real


class AfterFailure(Source):
    """Submits task b when task a has failed; task c never."""

    def next(self, now, finished):
        if not hasattr(self, "asked"):
            self.asked = True
            return now, ["a"]
        return (now, ["b"]) if [each[::2] for each in finished] == [("a", "failed")] else None


def test_clients_submit_when_their_task_has_ended():
    given = scenario(*(task(name, "true") for name in "abc")).replace(source=Clients(1))
    trace = execute(given)
    assert trace.tasks["status"].to_list() == ["completed"] * 3
    ends = dict(trace.placements.select("task", "end").iter_rows())
    submits = dict(trace.tasks.select("id", "submit").iter_rows())
    assert ends["a"] <= submits["b"] <= ends["b"] <= submits["c"]
    assert replay_decisions(trace, CompiledScenario(given)).is_identical


def test_statuses_are_reported_and_tasks_may_never_be_submitted():
    given = scenario(task("a", "false"), task("b", "true"), task("c", "true"))
    trace = execute(given.replace(source=AfterFailure()))
    assert trace.tasks["status"].to_list() == ["failed", "completed", "cancelled"]


class Once(Source):
    """Submits these tasks at the start."""

    def __init__(self, *tasks):
        self.tasks = tasks

    def next(self, now, finished):
        if not hasattr(self, "asked"):
            self.asked = True
            return now, self.tasks
        return None


def new(name, *command, parents=(), **more):
    return NewTask(id=name, run_time=0.01, command=command, parents=parents, **more)


class Growing(Source):
    """Two tasks at the start; when a new task has ended, the next one, which waits for all."""

    def __init__(self):
        self.made, self.plan = [], None

    def next(self, now, finished):
        if not finished and self.plan:
            self.plan = None
        if not self.made:
            self.plan = ["b", new("n0", "true", parents=["a", "b"]), "a"]
        elif any(each.task == self.made[-1] for each in finished) and len(self.made) < 4:
            self.plan = [new(f"n{len(self.made)}", "true", parents=[*self.made, "a"])]
        if not self.plan:
            return None
        self.made += [each.id for each in self.plan if isinstance(each, NewTask)]
        return now, self.plan


def test_new_tasks_are_submitted_alike_in_a_simulation_and_in_a_real_execution(tmp_path):
    given = scenario(task("a", "true"), task("b", "true")).replace(source=Growing())
    lines = []
    real = execute(given, tmp_path / "run", announce=lines.append)
    simulated = tl.simulate(given)
    columns = ["id", "parents", "status", "command", "requested_cores", "requested_time"]
    assert simulated.tasks["status"].to_list() == ["completed"] * 6
    assert real.tasks.select(columns).equals(simulated.tasks.select(columns))
    assert tl.Trace.load(tmp_path / "run").tasks.equals(real.tasks)
    for trace in (real, simulated):
        assert trace.placements["task"].sort().to_list() == ["a", "b", "n0", "n1", "n2", "n3"]
        start, end = (dict(trace.placements.select("task", side).iter_rows())
                      for side in ("start", "end"))  # fmt: skip
        for name, parents in trace.tasks.select("id", "parents").drop_nulls().iter_rows():
            assert all(end[parent] <= start[name] for parent in parents)
        submits = trace.tasks["submit"].to_list()
        assert submits[2:] == sorted(submits[2:])
        assert trace.manifest.facts["run"]["added"] == {given.source.title: 4}
    assert any("Growing may add tasks with other commands" in line for line in lines)
    assert replay_decisions(real, CompiledScenario(given)).is_identical


def test_a_new_task_has_its_environment_and_its_folder(tmp_path):
    command = ["sh", "-c", 'echo "$KIND" {id} {cores} {run_time}; pwd']
    given = new("n", *command, environment={"KIND": "new {id}"}, folder=str(tmp_path))
    execute(scenario(task("a", "true")).replace(source=Once(given)), tmp_path / "run")
    assert read_output(tmp_path / "run", "n") == f"new n n 1 0.01\n{tmp_path}\n"


def test_a_new_task_ends_with_a_parent_that_does_not_complete():
    tasks = [
        "a", new("after failed", "true", parents=["a"]), new("large", "true", cores=9.0),
        new("after large", "true", parents=["large"]), new("never", "true", parents=["c"]),
    ]  # fmt: skip
    given = scenario(task("a", "false"), task("c", "true"), policy="fcfs", source=Once(*tasks))
    trace = execute(given)
    assert statuses(trace) == {
        "a": "failed", "c": "cancelled", "after failed": "failed", "large": "rejected",
        "after large": "rejected", "never": "failed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (NewTask(id="new", run_time=1.0),
         "the source .*Once submits the new task 'new': a real execution has no command for it"),
        (new("new", "echo", "{core}"), "task 'new': command: there is no variable 'core'"),
        (new("new", "true", parents=["x"]), "Once, at t = .*: the task 'new' depends on 'x'"),
    ],
)  # fmt: skip
def test_a_new_task_that_cannot_run_is_an_error(wrong, text):
    with pytest.raises(TwinloopError, match=text):
        execute(scenario(task("a", "true")).replace(source=Once(wrong)))
