"""The view of a policy has the submission times of the real run."""

import pytest

from tests.execution.runs import scenario, task
from twinloop.engine import CompiledScenario
from twinloop.execution import execute
from twinloop.execution.decision_replay import replay_decisions
from twinloop.policy import Place, Policy

pytestmark = pytest.mark.real


class SharedNotes(dict):
    """Observations of a policy, which copies of the policy share."""

    def __deepcopy__(self, _memo):
        return self


class NotingPolicy(Policy):
    """Places tasks on node 0, and records the submission times of waiting tasks."""

    def __init__(self) -> None:
        self.seen = SharedNotes()

    def decide(self, view):
        for number in view.waiting:
            self.seen[view.id(number)] = (view.submit(number), view.submit_recorded(number))
            if view.free(0) >= view.cores(number):
                yield Place(number, 0)


def test_the_view_of_a_real_run_has_its_submissions():
    policy = NotingPolicy()
    given = scenario(
        task("first", "sleep", 0.05),
        # Submitted with the first, but ready only when that has ended.
        task("child", "true", parents=["first"]),
        # A user who submits when the first has ended.
        task("next", "true", submit=0.01, user="u"),
        policy=policy,
    )
    trace = execute(given)
    rows = trace.tasks.select("id", "submit", "submit_recorded", "ready").iter_rows()
    found = {name: (submit, recorded, ready) for name, submit, recorded, ready in rows}
    assert policy.seen == {name: times[:2] for name, times in found.items()}
    submit, _, ready = found["child"]
    assert ready > submit
    assert replay_decisions(trace, CompiledScenario(given)).is_identical
    assert policy.seen == {name: times[:2] for name, times in found.items()}
