"""A view gives the submission of this run, and the recorded one under its own name."""

import math
from dataclasses import replace

import polars as pl
import pytest

import twinloop as tl
from examples.policy import Wfp3
from tests.cluster.scenarios import Case, Task
from twinloop.engine import CompiledScenario, Simulation
from twinloop.policy import Place, Policy

SLOW = {"service_factor": 10.0}


class Noted:
    """What a policy saw; a run has a copy of its policy, but not of this."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float, float]] = {}
        self.all: list[float] = []

    def __deepcopy__(self, _memo):
        return self


class Noting(Policy):
    """First come, first served on machine 0; notes when each waiting task was submitted."""

    def __init__(self) -> None:
        self.noted = Noted()

    def state(self):
        return {}  # it decides by the view alone

    def decide(self, view):
        self.noted.all += [view.submit(task) for task in range(4)]
        for task in view.waiting:
            self.noted.seen[view.id(task)] = (view.submit(task), view.submit_recorded(task))
            assert view.now >= view.submit(task)
            if view.free(0) >= view.cores(task):
                yield Place(task, 0)


def sessions(policy: object, **model: float) -> tl.Scenario:
    """One user, who submits each task some time after the end of the previous one."""
    tasks = [Task(100.0 * i, run_time=50.0, user="u") for i in range(4)]
    made = Case(({"cores": 1.0},), tuple(tasks), model=model, source="sessions:10").scenario
    return made.replace(policy=policy)


def test_a_view_gives_the_submissions_of_its_run():
    policy = Noting()
    trace = tl.simulate(sessions(policy, **SLOW))
    table = {
        id: (s, r) for id, s, r in trace.tasks.select("id", "submit", "submit_recorded").rows()
    }
    assert policy.noted.seen == table
    assert any(submit > recorded for submit, recorded in table.values())
    assert any(math.isnan(time) for time in policy.noted.all)


def test_children_wait_since_their_submission():
    seen = {}

    class Ages(Noting):
        def decide(self, view):
            for task in view.waiting:
                seen[view.id(task)] = view.now - view.submit(task)
            yield from super().decide(view)

    tasks = (*(Task(float(i), run_time=9.0) for i in range(3)), Task(1.0, parents=(0,)))
    made = Case(({"cores": 4.0},), tasks).scenario.replace(policy=Ages())
    trace = tl.simulate(made)
    assert seen["t3"] == 8.0
    row = trace.tasks.row(3, named=True)
    assert (row["submit"], row["ready"]) == (1.0, 9.0)


def test_ages_are_never_negative_under_feedback():
    waits = []

    class Watched(Wfp3):
        def score(self, view, task):
            waits.append(view.now - view.submit(task))
            return super().score(view, task)

    tasks = [Task(5.0 * i, run_time=4.0 + i % 3, user=f"u{i % 2}") for i in range(12)]
    for factor in (0.1, 10.0):
        model = {"service_factor": factor}
        made = Case(({"cores": 1.0},), tuple(tasks), model=model, source="sessions:1").scenario
        tl.simulate(made.replace(policy=Watched()))
    assert waits
    assert min(waits) >= 0


def test_the_native_age_is_that_of_this_run():
    """A task submitted later here than in the record has waited for less."""
    # `late` is submitted at 2 in the record, but here after its user's first task has ended.
    tasks = (
        Task(0.0, run_time=1.0, user="a"),
        Task(2.0, run_time=5.0, user="a", queue="slow"),
        Task(10.0, run_time=5.0, user="b", queue="slow"),
        Task(0.0, run_time=200.0, cores=1.0, user="c"),
    )
    made = Case(
        ({"cores": 1.0},),
        tasks,
        {"name": "priority", "options": {"age": 1.0}},
        {"service_factor": 50.0},
        queues=({"name": "slow"},),
        source="sessions:1",
    ).scenario
    trace = tl.simulate(made)
    starts = trace.placements.select("task", "start")
    found = trace.tasks.join(starts, left_on="id", right_on="task")
    order = [id for id in found.sort("start")["id"] if id in ("t1", "t2")]
    submits = dict(found.select("id", "submit").rows())
    assert submits["t1"] > submits["t2"]
    assert order == ["t2", "t1"]


def test_a_state_keeps_the_submissions():
    tasks = [Task(float(i), run_time=50.0) for i in range(4)]
    made = Case(({"cores": 1.0},), tuple(tasks)).scenario
    sim = Simulation(made.replace(policy=Noting()))
    sim.run_until(60.0)
    state = sim.state
    # As a run with other submissions would have left it.
    state = replace(state, tasks=state.tasks.with_columns(submit=pl.col("submit") / 2))
    policy = Noting()
    Simulation(made.replace(policy=policy), state=state).run()
    assert policy.noted.seen == {"t2": (1.0, 2.0), "t3": (1.5, 3.0)}


def test_a_dispatcher_accepts_the_submission_time_of_a_task():
    dispatcher = CompiledScenario(sessions("fcfs")).dispatcher()
    assert math.isnan(dispatcher.view.submit(0))
    dispatcher.submit(0, now=30.0, submitted=12.0)
    dispatcher.submit(1, now=31.0)
    view = dispatcher.view
    assert (view.submit(0), view.submit(1)) == (12.0, 31.0)
    assert (view.submit_recorded(0), view.submit_recorded(1)) == (0.0, 100.0)
    with pytest.raises(ValueError, match="submitted"):
        dispatcher.submit(2, now=32.0, submitted=33.0)
