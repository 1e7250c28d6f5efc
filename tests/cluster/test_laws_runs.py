"""Laws that every run keeps, on random scenarios: time, capacity, work, statuses."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from tests.cluster.scenarios import OVERCOMMITTING, Case, cases
from twinloop.engine import CompiledScenario

NEAR = 1e-9
STATUSES = ("none", "completed", "rejected", "killed", "failed", "lost", "cancelled")


class Finished:
    """A run to its end, with all its logs."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.compiled = CompiledScenario(case.scenario)
        self.run = self.compiled.start(placements=True, use=True, decisions=True)
        while self.run.run_slice():
            pass
        self.outcomes = self.run.outcomes()
        self.names = list(self.compiled.names.machines)

    @property
    def status(self) -> list[str]:
        return [STATUSES[code] for code in self.outcomes["status"]]

    def executions(self) -> list[tuple[int, int, int, float, float, float]]:
        """Task, attempt, machine, cores, start and end, machine by machine."""
        log = self.run.placements()
        rows = zip(
            *(log[name] for name in ("task", "attempt", "machine", "count", "cores", "start")),
            log["end"],
            strict=True,
        )
        return [
            (int(task), int(attempt), int(first) + i, float(cores), float(start), float(end))
            for task, attempt, first, count, cores, start, end in rows
            for i in range(count)
        ]

    def host(self, machine: int) -> dict:
        return self.case.machines[int(self.names[machine].removeprefix("m"))]

    def capacity(self, machine: int) -> float:
        host = self.host(machine)
        return host["cores"] * host["speed"] * self.case.model.get("speed_factor", 1.0)

    def use_steps(self) -> dict[int, list[tuple[float, float]]]:
        """By machine: from when on it was used how much (NaN: off), the end of the run last."""
        log = self.run.use()
        steps = defaultdict(list)
        for machine, t, used in zip(log["machine"], log["t"], log["used"], strict=True):
            steps[int(machine)].append((float(t), float(used)))
        for each in steps.values():
            each.append((self.run.now, float("nan")))
        return steps

    def given_work(self) -> float:
        """Reference core-seconds that all machines have given."""
        return sum(
            use * (after - t)
            for steps in self.use_steps().values()
            for (t, use), (after, _) in pairwise(steps)
            if not np.isnan(use)
        )


def most_at_once(intervals: list[tuple[float, float, float]]) -> float:
    """The largest sum of amounts held at any time; who ends makes room for who begins."""
    events = sorted(
        event
        for start, end, amount in intervals
        if end > start
        for event in ((start, 1, amount), (end, 0, -amount))
    )
    most = now = 0.0
    for _, _, amount in events:
        now += amount
        most = max(most, now)
    return most


# --- statuses and time ----------------------------------------------------------------------------


def every_task_ends_in_one_status_and_time_goes_forward(done):
    case = done.case
    ended, status = done.outcomes, done.status
    assert "none" not in status
    executions = done.executions()
    ran = {task for task, *_ in executions}
    for i, (task, how) in enumerate(zip(case.tasks, status, strict=True)):
        if how == "rejected":
            assert i not in ran
            assert ended["submit"][i] == task.submit
        if how == "lost" and i not in ran:
            # Its machine failed between the dispatch and the start.
            assert case.model["dispatch_latency"] > 0
            assert ended["attempts"][i] == 0
            assert np.isnan(ended["start"][i])
            assert ended["submit"][i] <= ended["ready"][i] <= ended["end"][i]
        elif how in ("completed", "killed", "lost"):
            assert i in ran
            assert ended["submit"][i] <= ended["ready"][i] <= ended["start"][i]
            assert ended["start"][i] <= ended["last_start"][i] <= ended["end"][i]
        for parent in task.parents:
            if i in ran:
                assert status[parent] == "completed"
                assert ended["ready"][i] >= ended["end"][parent]
            elif status[parent] not in ("completed", "none"):
                assert how in ("failed", "rejected")
        if case.source == "rigid":
            assert ended["submit"][i] == task.submit
    for log in (done.run.use(), done.run.decisions()):
        assert (np.diff(log["t"]) >= 0).all()
    ends = done.run.placements()["end"]
    assert (np.diff(ends) >= 0).all()
    assert all(start <= end for *_, start, end in executions)


def attempts_follow_each_other_and_only_the_last_ends_the_task(done):
    spans = defaultdict(dict)
    for task, attempt, _, _, start, end in done.executions():
        assert spans[task].setdefault(attempt, (start, end)) == (start, end)
    for task, attempts in spans.items():
        assert sorted(attempts) == list(range(int(done.outcomes["attempts"][task])))
        in_order = [attempts[i] for i in sorted(attempts)]
        assert all(before[1] <= after[0] for before, after in pairwise(in_order))
        if done.status[task] in ("completed", "killed", "lost"):
            assert in_order[-1][1] == done.outcomes["end"][task]


def decisions_are_made_when_they_may_be(done):
    interval = done.case.model["decision_interval"]
    if interval:
        times = done.run.decisions()["t"]
        multiples = np.round(times / interval) * interval
        np.testing.assert_allclose(times, multiples, rtol=NEAR, atol=NEAR)


# --- capacity -------------------------------------------------------------------------------------


def no_machine_gives_more_than_it_has(done):
    case = done.case
    ratio = case.policy["options"].get("overcommit", 1.0) * case.model["effective_capacity"]
    # It counts tasks, not what they ask for; what these draw is checked all the same.
    counts_tasks = case.policy["name"] == "fifo"
    held = {name: defaultdict(list) for name in ("cores", "memory", "gpu")}
    for task, _, machine, given_cores, start, end in done.executions():
        asked = case.tasks[task]
        held["cores"][machine].append((start, end, given_cores))
        share = given_cores / asked.cores
        for name, amount in (("memory", asked.memory), ("gpu", asked.gpus)):
            if amount:
                held[name][machine].append((start, end, amount * share))
    for machine, intervals in held["cores"].items():
        most = np.inf if counts_tasks else done.host(machine)["cores"] * ratio
        assert most_at_once(intervals) <= most + NEAR
    for machine, intervals in held["memory"].items():
        assert most_at_once(intervals) <= done.host(machine).get("memory", np.inf) + NEAR
    for machine, intervals in held["gpu"].items():
        most = np.inf if counts_tasks else done.host(machine).get("resources", {}).get("gpu", 0.0)
        assert most_at_once(intervals) <= most + NEAR
    for machine, steps in done.use_steps().items():
        used = [use for _, use in steps if not np.isnan(use)]
        assert max(used, default=0.0) <= done.capacity(machine) * (1 + NEAR)
        assert min(used, default=0.0) >= 0.0


def one_task_is_on_a_machine_where_the_policy_says_so(done):
    if done.case.policy["name"] not in ("fifo", "baseline-ic1"):
        return
    tasks = defaultdict(list)
    for _, _, machine, _, start, end in done.executions():
        tasks[machine].append((start, end, 1.0))
    assert all(most_at_once(each) <= 1 for each in tasks.values())


def tasks_have_what_they_asked_for(done):
    case = done.case
    given_cores = defaultdict(list)
    for task, attempt, machine, cores, _, _ in done.executions():
        given_cores[task, attempt].append((machine, cores))
    for (task, _), parts in given_cores.items():
        asked = case.tasks[task]
        machines = [machine for machine, _ in parts]
        assert len(set(machines)) == len(machines)
        assert sum(cores for _, cores in parts) == pytest.approx(asked.cores, rel=NEAR)
        single_cores = all(host["cores"] == 1 for host in case.machines)
        if asked.nodes and not (single_cores and asked.cores == asked.nodes):
            assert len(parts) == asked.nodes


# --- limits ---------------------------------------------------------------------------------------


def queues_keep_their_limits(done):
    case = done.case
    spans = {(task, attempt): (start, end) for task, attempt, _, _, start, end in done.executions()}
    for queue in case.queues:
        mine = [
            (start, end, case.tasks[task].user)
            for (task, _), (start, end) in spans.items()
            if case.tasks[task].queue == queue["name"]
        ]
        assert most_at_once([(s, e, 1.0) for s, e, _ in mine]) <= queue.get("max_running", np.inf)
        for user in ("ann", "bob", None):
            own = [(s, e, 1.0) for s, e, whose in mine if whose == user]
            assert most_at_once(own) <= queue.get("max_running_per_user", np.inf)


def nobody_is_where_nobody_may_be(done):
    case = done.case
    exact = not done.run.shared
    for task, _, machine, _, start, end in done.executions():
        asked, name = case.tasks[task], done.names[machine]
        for window in case.maintenance:
            if name in window["hosts"]:
                assert end <= window["start"] or start >= window["end"]
        for window in case.reservations:
            owner = asked.user in window.get("users", ()) or asked.queue in window.get("queues", ())
            # Where machines are shared a task may take longer than anybody planned.
            if name in window["hosts"] and not owner and (exact or start >= window["start"]):
                assert end <= window["start"] or start >= window["end"]
    for machine, start, end in done.compiled.outages.select("node", "start", "end").iter_rows():
        for _, _, place, _, began, ended in done.executions():
            if done.names[place] == machine:
                assert ended <= start or began >= end


# --- work -----------------------------------------------------------------------------------------


def work_done_is_work_submitted(done):
    case = done.case
    factor, by_kind = case.model["service_factor"], case.model["service_factors"]
    # What an interrupted task has done counts, whether it is kept or not.
    keeps = case.policy["options"].get("preempt") == "resume" and not done.compiled.outages.height
    # With no-delay a task may end with less than its work: `test_laws_energy` says how much less.
    loses = case.model["sharing"] == "no-delay"
    for i, task in enumerate(case.tasks):
        work = task.work * factor * by_kind.get(task.kind, 1.0)
        did = float(done.outcomes["done"][i])
        once = done.outcomes["attempts"][i] <= 1
        assert did >= 0.0
        if done.status[i] == "completed" and not loses:
            if once or keeps:
                assert did == pytest.approx(work, rel=NEAR, abs=NEAR)
            assert did >= work * (1 - NEAR) - NEAR
        elif once:
            assert did <= work * (1 + NEAR) + NEAR
        if done.outcomes["attempts"][i] == 0:
            assert did == 0.0


def machines_give_what_tasks_have_done(done):
    """No less; and no more, but for what neighbours and checkpoints cost."""
    did = float(done.outcomes["done"].sum())
    assert done.given_work() >= did * (1 - NEAR) - NEAR
    costly = done.case.then.get("checkpoint_cost") and done.case.failures
    if not costly and done.case.model.get("contention", "none") == "none":
        assert done.given_work() == pytest.approx(did, rel=NEAR, abs=NEAR)


LAWS = (
    every_task_ends_in_one_status_and_time_goes_forward,
    attempts_follow_each_other_and_only_the_last_ends_the_task,
    decisions_are_made_when_they_may_be,
    no_machine_gives_more_than_it_has,
    one_task_is_on_a_machine_where_the_policy_says_so,
    tasks_have_what_they_asked_for,
    queues_keep_their_limits,
    nobody_is_where_nobody_may_be,
    work_done_is_work_submitted,
    machines_give_what_tasks_have_done,
)


@given(cases())
def test_every_run_keeps_the_laws(case):
    done = Finished(case)
    for law in LAWS:
        law(done)


@given(cases(policies=OVERCOMMITTING, most=6))
def test_runs_that_share_machines_keep_the_laws(case):
    done = Finished(case)
    for law in LAWS:
        law(done)
