"""Copies of a running simulation: another policy, without the history, policies in Python."""

import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import BATCH, Case, Task, cases, few, fewer
from tests.cluster.test_laws_equal import TIMES, everything, finish, recorded
from twinloop.engine import CompiledScenario, Simulation
from twinloop.policy import Place, Policy

#: Policies whose memory follows from the waiting and the running tasks.
FORGETFUL = (BATCH[0], BATCH[1], BATCH[4])


def short_jobs(*lengths: float, **options) -> Case:
    """Jobs that need the whole machine, submitted at 0 in this order."""
    tasks = tuple(Task(submit=0.0, cores=4.0, run_time=length) for length in lengths)
    return Case(machines=({"cores": 4.0},), tasks=tasks, **options)


# --- copies ---------------------------------------------------------------------------------------


@few
@given(cases(), st.lists(st.integers(0, 7), max_size=30))
def test_original_and_copies_advance_in_any_order(case, moves):
    compiled = CompiledScenario(case.scenario)
    whole, runs = recorded(compiled), [recorded(compiled)]
    finish(whole)
    for move in moves:
        run = runs[move % len(runs)]
        if move >= 6 and len(runs) < 4:
            runs.append(run.copy())
        else:
            run.step()
    for run in runs:
        finish(run)
        assert everything(run) == everything(whole)


@fewer
@given(cases(), TIMES)
def test_copies_go_on_in_other_threads(case, time):
    compiled = CompiledScenario(case.scenario)
    whole, run = recorded(compiled), recorded(compiled)
    finish(whole)
    while run.next_time() <= time and run.step():
        pass
    copies = [run.copy() for _ in range(3)]
    threads = [threading.Thread(target=finish, args=[each]) for each in copies]
    for thread in threads:
        thread.start()
    finish(run)
    for thread in threads:
        thread.join()
    assert all(everything(each) == everything(whole) for each in (run, *copies))


# More rows than a chunk of any table has.
def test_copies_of_a_long_run_share_no_change():
    count = 5000
    tasks = tl.Workload(
        tasks=pl.DataFrame(
            {
                "id": [str(i) for i in range(count)],
                "submit": np.arange(count) / 2.0,
                "cores": 1.0 + np.arange(count) % 3,
                "work": 3.0 + np.arange(count) % 5,
                "limit": 1.0,
            }
        )
    )
    sim = Simulation(tl.Scenario(platform="4x2", workload=tasks, policy="easy"))
    sim.run_until(count / 4)
    first = sim.copy()
    before = everything(sim._run)
    for machine in first.machines["machine"][:3]:
        first.fail(machine)
    first.submit("more", cores=1, run_time=5.0)
    first.run()
    assert everything(sim._run) == before
    second = sim.copy()
    assert sim.run().equals(second.run())
    assert everything(sim._run) == everything(second._run)


# As above: the table of other resources has 4,096 numbers in a chunk, three for each task.
def test_copies_share_no_added_task():
    resources = ("gpu", "licence", "slot")
    host = {"cores": 4, "resources": dict.fromkeys(resources, 8)}
    first = pl.DataFrame(
        {
            "id": ["first"], "submit": [0.0], "cores": [1.0], "work": [1.0], "limit": [1.0],
            "resources": [[{"name": each, "amount": 1.0} for each in resources]],
        }
    )  # fmt: skip
    sim = Simulation(
        tl.Scenario(
            platform={"clusters": [{"hosts": [{**host, "count": 2}]}]},
            workload=tl.Workload(tasks=first),
            policy="easy",
        )
    )

    def submit(to: Simulation, number: int, name: str, at: float) -> None:
        amounts = {each: number % (2 + i) for i, each in enumerate(resources)}
        to.submit(name, cores=1 + number % 3, run_time=2.0, at=at, resources=amounts)

    for number in range(1500):
        submit(sim, number, f"task-{number}", number / 2)
    sim.run_until(400.0)
    other = sim.copy()
    for number in range(1500):
        submit(other, number + 1, f"other-{number}", 700.0 + number)
        submit(sim, number, f"mine-{number}", 800.0 + number)
    with pytest.raises(tl.InputError, match="already the ID"):
        submit(other, 0, "task-7", 900.0)
    for each, prefix, more in ((sim, "mine", 0), (other, "other", 1)):
        added = each._run.added_tasks()
        names = [f"task-{i}" for i in range(1500)] + [f"{prefix}-{i}" for i in range(1500)]
        assert added["id"] == names
        numbers = [*range(1500), *(i + more for i in range(1500))]
        expected = [[number % (2 + i) for i in range(3)] for number in numbers]
        assert added["amounts"].reshape(-1, 3).tolist() == expected
        assert added["cores"].tolist() == [1 + number % 3 for number in numbers]
        assert each.run()["status"].to_list() == ["completed"] * 3001


# --- another policy -------------------------------------------------------------------------------


@few
@given(cases(policies=FORGETFUL), TIMES)
def test_the_same_policy_again_changes_nothing(case, time):
    # A task that runs longer than planned counts as ending now, whenever the policy is called.
    case = case.but(tasks=tuple(replace(task, requested=None) for task in case.tasks))
    sim = Simulation(case.scenario)
    sim.run_until(max(time, sim.now))
    same, plain = sim.copy(case.policy), sim.copy()
    finish(same._run)
    finish(plain._run)
    assert everything(same._run) == everything(plain._run)


@few
@given(cases(), st.one_of(*BATCH), TIMES)
def test_every_task_ends_under_another_policy(case, policy, time):
    sim = Simulation(case.scenario)
    sim.run_until(max(time, sim.now))
    ended = sim.tasks.filter(pl.col("end").is_not_null())
    try:
        other = sim.copy(policy)
    except tl.InputError as error:
        assume("cannot change" not in str(error) and "share machines" not in str(error))
        raise
    tasks = other.run()
    assert tasks["status"].null_count() == 0
    assert tasks.filter(pl.col("id").is_in(ended["id"].implode())).equals(ended)


def test_another_policy_decides_at_once():
    sim = Simulation(
        Case(
            machines=({"cores": 2.0},),
            tasks=(
                Task(0.0, cores=1.0, run_time=10.0),
                Task(0.0, cores=2.0, run_time=10.0),
                Task(0.0, cores=1.0, run_time=5.0),
            ),
        ).scenario
    )
    sim.run_until(2.0)
    assert sim.copy().run()["start"].to_list() == [0.0, 10.0, 20.0]
    assert sim.copy("easy").run()["start"].to_list() == [0.0, 10.0, 2.0]
    assert sim.copy("easy").copy("fcfs").run()["start"].to_list() == [0.0, 10.0, 20.0]


def test_a_task_that_another_policy_can_never_place_is_rejected():
    machines = ({"cores": 2.0}, {"cores": 2.0})
    tasks = (
        Task(0.0, cores=4.0, run_time=10.0, use=0.5),
        Task(0.0, cores=4.0, run_time=10.0, use=0.5),
        Task(20.0, cores=4.0, run_time=10.0, use=0.5),
        Task(20.0, cores=2.0, run_time=10.0),
    )
    sim = Simulation(Case(machines=machines, tasks=tasks).scenario)
    sim.run_until(5.0)
    after = sim.copy("first-fit").run()
    assert after["status"].to_list() == ["completed", "rejected", "rejected", "completed"]
    assert sim.run()["status"].to_list() == ["completed"] * 4


def test_a_trace_names_the_policies_before():
    sim = Simulation(short_jobs(10.0, 5.0).scenario)
    sim.run_until(3.0)
    trace = sim.copy({"name": "sjf"}).trace()
    assert trace.manifest.facts["run"]["policy"] == "sjf"
    assert trace.manifest.facts["run"]["earlier_policies"] == [{"policy": "fcfs", "until": 3.0}]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"name": "filter", "options": {"filters": {"capacity": True}}}, "clocks"),
        ("esay", "did you mean 'easy'"),
    ],
)
def test_a_policy_that_needs_another_start_is_refused(policy, why):
    sim = Simulation(short_jobs(10.0).scenario)
    with pytest.raises(tl.InputError, match=why):
        sim.copy(policy)


def test_a_copy_whose_policy_overcommits_shares_the_machines():
    sim = Simulation(short_jobs(10.0, 10.0).scenario)
    sim.run_until(4.0)
    both = sim.copy({"name": "pack-ic", "options": {"overcommit": 2.0}})
    # From 4 on both have half of the machine: 6 s of work take 12, and then 4 s are left.
    assert both.run()["end"].to_list() == [16.0, 20.0]
    assert sim.run()["end"].to_list() == [10.0, 20.0]


# --- without the history --------------------------------------------------------------------------


def test_a_copy_without_history_covers_what_has_not_ended():
    power = {"model": "linear", "idle": 100.0, "max": 200.0}
    case = short_jobs(10.0, 5.0, 5.0).but(machines=({"cores": 4.0, "power": power},))
    sim = Simulation(case.scenario)
    sim.run_until(12.0)
    rest = sim.copy(history=False)
    assert rest.tasks["id"].to_list() == ["t1", "t2"]
    assert rest.machines["energy"].to_list() == [0.0]
    rest.run()
    trace = rest.trace()
    assert trace.tasks["id"].to_list() == ["t1", "t2"]
    assert trace.placements.select("task", "start", "end").rows() == [
        ("t1", 10.0, 15.0),
        ("t2", 15.0, 20.0),
    ]
    assert rest.machines["energy"].to_list() == [8 * 200.0]
    assert trace.power["watts"].to_list() == pytest.approx([200.0] * trace.power.height)
    figures = rest.kpis()
    assert (figures["tasks"], figures["completed"], figures["energy_j"]) == (2.0, 2.0, 1600.0)
    assert sim.run()["id"].to_list() == ["t0", "t1", "t2"]
    # A copy of it leaves as much behind, or more.
    assert rest.copy().tasks.equals(rest.tasks)
    assert rest.copy(history=False).tasks.is_empty()


@few
@given(cases(), TIMES)
def test_a_copy_without_history_ends_its_tasks_at_the_same_times(case, time):
    sim = Simulation(case.scenario)
    sim.run_until(max(time, sim.now))
    energy = sim.machines["energy"]
    rest, whole = sim.copy(history=False), sim.copy()
    tasks, all_tasks = rest.run(), whole.run()
    assert tasks.equals(all_tasks.filter(pl.col("id").is_in(tasks["id"].implode())))
    spent = whole.machines["energy"] - energy
    assert rest.machines["energy"].to_list() == pytest.approx(spent.to_list(), abs=1e-6)
    placements = whole.trace().placements.rows()
    assert set(rest.trace().placements.rows()) <= set(placements)


# --- policies in Python ---------------------------------------------------------------------------


class Counting(Policy):
    """First come, first served, one start per call; remembers its calls."""

    def __init__(self):
        self.starts = []
        self.view = None

    def start(self, view, rng):
        state = Counting()
        state.view = view
        return state

    def decide(self, view):
        assert view is self.view
        task = view.first_waiting
        if task is None or view.free(0) < view.cores(task):
            return None
        self.starts.append(task)
        return [Place(task, 0)]


class Copying(Counting):
    def start(self, view, rng):
        state = type(self)()
        state.lock = threading.Lock()  # which deepcopy cannot copy
        return state

    def decide(self, view):
        self.view = view
        return super().decide(view)

    def copy(self):
        state = Copying()
        state.lock = threading.Lock()
        state.starts = list(self.starts)
        return state


class Locked(Copying):
    copy = None


@pytest.mark.parametrize("policy", [Counting(), Copying()])
def test_a_policy_in_python_is_copied_with_its_run_state(policy):
    scenario = short_jobs(5.0, 6.0, 7.0).scenario.replace(policy=policy)
    sim = Simulation(scenario)
    sim.run_until(6.0)
    other = sim.copy()
    ends = [5.0, 11.0, 18.0]
    assert other.run()["end"].to_list() == ends
    assert sim.tasks["end"].to_list() == [5.0, None, None]
    assert sim.run()["end"].to_list() == ends
    assert sim.copy("sjf").run()["end"].to_list() == ends
    assert policy.starts == []


def test_a_policy_in_python_takes_over():
    sim = Simulation(short_jobs(5.0, 6.0, 7.0).scenario)
    sim.run_until(6.0)
    assert sim.copy(Counting()).run()["end"].to_list() == [5.0, 11.0, 18.0]


def test_a_run_state_that_cannot_be_copied_is_named():
    sim = Simulation(short_jobs(5.0, 6.0).scenario.replace(policy=Locked()))
    with pytest.raises(tl.InputError, match=r"test_forks:Locked cannot be copied.*lock"):
        sim.copy()
    assert sim.run()["end"].to_list() == [5.0, 11.0]
