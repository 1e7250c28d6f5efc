"""Overheads of a workflow manager: cycle, before, after and interval, by hand and at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation, simulate
from twinloop.scenario import Scenario
from twinloop.scenario.detail import Submission


def make_scenario(
    tasks: list[dict[str, Any]], submission: dict[str, float], cores: int = 100, **model: Any
) -> Scenario:
    return Scenario(
        platform=f"1x{cores}",
        workload={"tasks": tasks},
        policy="fcfs",
        model={"submission": submission, **model},
    )


def list_times(scenario: Scenario) -> list[tuple[float, float, float]]:
    run = simulate(scenario)
    return run.tasks.join(run.placements, left_on="id", right_on="task").select(
        "ready", "start", "end"
    ).rows()  # fmt: skip


FORK = [
    {"id": "a", "run_time": 10},
    {"id": "b", "run_time": 10, "parents": ["a"]},
    {"id": "c", "run_time": 20, "parents": ["a"]},
    {"id": "d", "run_time": 5, "parents": ["b", "c"]},
]

#: Ready, start and end of the four tasks, by hand.
BY_HAND: dict[str, tuple[dict[str, float], list[tuple[float, float, float]]]] = {
    "before": ({"before": 5}, [(0, 5, 15), (15, 20, 30), (15, 20, 40), (40, 45, 50)]),
    "after": ({"after": 3}, [(0, 0, 10), (13, 13, 23), (13, 13, 33), (36, 36, 41)]),
    "interval": ({"interval": 2}, [(0, 2, 12), (12, 14, 24), (12, 16, 36), (36, 38, 43)]),
    # Each negotiation begins when a job waits, and takes 12 s.
    "cycle": ({"cycle": 12}, [(0, 12, 22), (22, 34, 44), (22, 34, 54), (54, 66, 71)]),
    # The second of two jobs comes in the middle of the negotiation of the first one.
    "interval and cycle": (
        {"interval": 2, "cycle": 12},
        [(0, 14, 24), (24, 38, 48), (24, 38, 58), (58, 72, 77)],
    ),
    "all": (
        {"interval": 1, "before": 5, "cycle": 12, "after": 3},
        [(0, 18, 28), (31, 49, 59), (31, 49, 69), (72, 90, 95)],
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_the_times_of_a_fork_are_those_worked_out_by_hand(case):
    submission, expected = BY_HAND[case]
    assert list_times(make_scenario(FORK, submission)) == expected
    # The parameters act natively, and none of them without a manager.
    free = CompiledScenario(make_scenario(FORK, {}, detail={"submission": "negotiator"}))
    assert free.run()["makespan_s"] == 35
    values = {f"submission.{name}": value for name, value in submission.items()}
    assert free.run(values)["makespan_s"] == expected[-1][2]
    direct = make_scenario(FORK, submission, detail={"submission": "direct"})
    assert list_times(direct) == list_times(make_scenario(FORK, {}))
    with pytest.raises(InputError, match=r"'submission\..*' is not a model value"):
        CompiledScenario(direct).run(values)


def test_overheads_hold_no_cores():
    tasks = [{"id": i, "run_time": 10, "cores": 1} for i in "abc"]
    times = list_times(make_scenario(tasks, {"before": 5, "after": 7}, cores=1))
    assert times == [(0, 5, 15), (0, 15, 25), (0, 25, 35)]
    # Latencies and overheads of the model do.
    times = list_times(make_scenario(tasks, {"before": 5}, cores=1, release_latency=7))
    assert [start for _, start, _ in times] == [5, 22, 39]


def test_a_negotiation_that_finds_no_cores_is_followed_by_one_at_the_next_end():
    tasks = [{"id": i, "run_time": 10} for i in "abc"]
    times = list_times(make_scenario(tasks, {"cycle": 4}, cores=1))
    assert [start for _, start, _ in times] == [4, 18, 32]


def test_negotiations_begin_at_multiples_of_the_decision_interval():
    tasks = [{"id": "a", "run_time": 10, "submit": 1}, {"id": "b", "run_time": 10, "submit": 65}]
    times = list_times(make_scenario(tasks, {"cycle": 4}, decision_interval=60))
    assert [start for _, start, _ in times] == [64, 124]


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 9))
    return [
        {
            "id": f"t{i}",
            "submit": draw(st.sampled_from([0, 0, 3.5, 11])),
            # No sum of some of these is one of others: the order of simultaneous ends and
            # submissions is none of this test's.
            "run_time": draw(st.integers(0, 12)) + 2.0 ** -(i + 3),
            "parents": [f"t{p}" for p in range(i) if draw(st.integers(0, 3)) == 0],
        }
        for i in range(count)
    ]


def compute_starts(tasks: list[dict[str, Any]], submission: Submission) -> dict[str, float]:
    """The starts on a machine with cores for all tasks, from one time to the next."""
    waits_for = {task["id"]: set(task["parents"]) for task in tasks}
    by_id = {task["id"]: task for task in tasks}
    starts: dict[str, float] = {}
    ready: dict[str, float] = {}
    visible: dict[str, float] = {}
    known: dict[str, float] = {}  # when the manager knows of the end
    free_at, decision = float("-inf"), None
    now = 0.0
    while len(starts) < len(tasks):
        for task in list(known):
            if known[task] <= now:
                for parents in waits_for.values():
                    parents.discard(task)
        for task in tasks:
            name = task["id"]
            if name not in ready and not waits_for[name] and task["submit"] <= now:
                ready[name] = now
                free_at = max(now, free_at) + submission.interval
                visible[name] = free_at + submission.before
        waiting = [name for name in visible if visible[name] <= now and name not in starts]
        if waiting and decision is None:
            decision = now + submission.cycle
        if decision is not None and decision <= now:
            decision = None
            for name in waiting:
                starts[name] = now
                known[name] = now + by_id[name]["run_time"] + submission.after
            continue  # tasks of zero length may have ended
        times = [*known.values(), *visible.values(), *(t["submit"] for t in tasks)]
        if decision is not None:
            times.append(decision)
        now = min((time for time in times if time > now), default=now)
    return starts


@given(
    graphs(),
    st.builds(
        Submission,
        cycle=st.sampled_from([0, 0, 5]),
        before=st.sampled_from([0, 2]),
        after=st.sampled_from([0, 3.25]),
        interval=st.sampled_from([0, 0.5]),
    ),
)
@examples(80)
def test_random_workflows_start_as_in_a_slow_simulation(tasks, submission):
    scenario = make_scenario(tasks, submission.to_dict(complete=True))
    run = simulate(scenario)
    starts = dict(run.placements.select("task", "start").rows())
    assert starts == compute_starts(tasks, submission)


def test_copies_continue_the_overheads_and_states_are_refused():
    sim = Simulation(make_scenario(FORK, BY_HAND["all"][0]))
    for time in (0.5, 3, 10, 29, 33, 40, 71):
        sim.run_until(time)
        copy = sim.copy()
        copy.run()
        assert copy.tasks["end"].to_list() == [28, 59, 69, 95]
    with pytest.raises(InputError, match=r"cannot be saved: use copy\(\)"):
        sim.state()


def test_a_task_that_is_added_depends_on_ends_that_the_manager_does_not_know_yet():
    sim = Simulation(make_scenario(FORK, {"after": 3}))
    sim.run_until(11)  # the first task ended at 10 s, the manager knows of it at 13 s
    sim.submit(id="new", cores=1, run_time=1, parents=["a"])
    sim.run()
    assert dict(sim.tasks.select("id", "start").rows())["new"] == 13
