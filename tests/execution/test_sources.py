"""The source of a simulation submits in a real execution too."""

import pytest

from examples.source import Clients
from tests.execution.runs import scenario, task
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


def test_a_new_task_is_refused_because_it_has_no_command():
    class Adding(Source):
        def next(self, now, finished):
            if not hasattr(self, "asked"):
                self.asked = True
                return now, [NewTask(id="new", run_time=1.0)]
            return None

    with pytest.raises(TwinloopError, match="'new': a real execution has no command for it"):
        execute(scenario(task("a", "true")).replace(source=Adding()))
