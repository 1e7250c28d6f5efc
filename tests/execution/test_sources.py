"""The source of a simulation submits in a real execution too."""

import shlex
import signal
from pathlib import Path

import pytest

import twinloop as tl
from examples.source import Clients
from tests.execution.runs import launch, read_output, scenario, statuses, task
from twinloop.description.errors import TwinloopError
from twinloop.engine import CompiledScenario
from twinloop.execution import execute
from twinloop.execution.decision_replay import replay_decisions
from twinloop.workload import NewTask, Source

__all__ = ["launch"]  # a fixture

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


def list_added(folder):
    """Return the lines of the command file after the list that is written before the run."""
    first, _, rest = (folder / "commands.txt").read_text().partition("# added by the source")
    assert first.startswith("# No shell reads these commands.")
    return rest.splitlines()[1:]


def test_a_new_command_is_listed_once_and_before_it_starts(tmp_path):
    show = ["cat", str(tmp_path / "run" / "commands.txt"), "{id}"]
    fast = {"environment": {"KIND": "fast"}, "folder": str(tmp_path)}
    tasks = [
        "a", new("as a", "true"), new("b", *show), new("c", "echo", "{node}"),
        new("d", "echo", "{node}"), new("e", "echo", "\x1b[2K", **fast),
        new("f", "echo", "{node}", parents=["e"]), new("g", "true", parents=["e"], **fast),
        new("too large", "ls", cores=9.0),
    ]  # fmt: skip
    given = scenario(task("a", "true"), policy="fcfs", platform="1x1", source=Once(*tasks))
    execute(given, tmp_path / "run")
    assert list_added(tmp_path / "run") == [
        f"# in {Path.cwd()}", f"1 x {shlex.join([*show[:2], 'b'])}", "3 x echo '{node}'",
        f"# in {tmp_path}", "1 x env KIND=fast echo '\\x1b[2K'", "1 x env KIND=fast true",
    ]  # fmt: skip
    # The process of b has read the file after its own line was written, and before the next one.
    seen = read_output(tmp_path / "run", "b").splitlines()
    assert seen[-1] == f"1 x {shlex.join([*show[:2], 'b'])}"
    assert seen == (tmp_path / "run" / "commands.txt").read_text().splitlines()[: len(seen)]


def test_new_commands_are_listed_in_the_run_if_those_of_the_workload_are_listed_elsewhere(tmp_path):
    file = tmp_path / "run" / "commands.txt"
    tasks = ["a", new("as a", "true"), new("b", "echo"), new("c", "rm", str(file)),
             new("d", "echo", "d"), new("e", "echo", "e")]  # fmt: skip
    for names, listed in (("ab", ["1 x echo"]), ("abcde", ["1 x echo d", "1 x echo e"])):
        given = [each for each in tasks if getattr(each, "id", each) in names]
        given = scenario(task("a", "true"), policy="fcfs", platform="1x1", source=Once(*given))
        execute(given, tmp_path / "run", announced=True, overwrite=True)
        assert list_added(tmp_path / "run") == [f"# in {Path.cwd()}", *listed]
    execute(scenario(task("a", "true")), tmp_path / "run", announced=True, overwrite=True)
    assert not file.exists()


class Endless(Source):
    """Submits a new task that does not end."""

    def __init__(self):
        self.tasks = [
            NewTask(id="n/1", run_time=1.0, command=["sh", "-c", "echo there; sleep 300"])
        ]

    def next(self, now, finished):
        return (now, [self.tasks.pop()]) if self.tasks else None


def test_a_killed_run_has_its_new_tasks_and_can_be_replaced(launch):
    given = scenario(task("a", "true"), source=f"{__name__}:Endless")
    run = launch(given, "--allow-code")
    output = run.folder / "output" / "n%2F1" / "0.out"
    run.until(lambda: output.exists() and output.stat().st_size)
    run.kill()
    run.ends(-signal.SIGKILL)
    assert list_added(run.folder) == [f"# in {Path.cwd()}", "1 x sh -c 'echo there; sleep 300'"]
    assert tl.read(run.folder).tasks["id"].to_list() == ["a", "n/1"]
    execute(scenario(task("b", "true")), run.folder, overwrite=True)
    assert [each.name for each in (run.folder / "output").iterdir()] == ["b"]


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
