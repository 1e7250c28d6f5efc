"""Laws at the edges, by hand: every task ends once, limits are kept, nonsense is refused."""

import math

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop.description.errors import InputError, TwinloopError
from twinloop.engine import CompiledScenario, Simulation, SimulationState
from twinloop.policy import Kill, Place, Policy, Preempt, SetState
from twinloop.scenario.model import MODEL_VALUES
from twinloop.workload import Workload

ONE = ({"cores": 1.0},)
POWER = {"model": "linear", "idle": 100.0, "max": 200.0}
QUEUES = ({"name": "lo", "priority": 0.0}, {"name": "hi", "priority": 1.0})
SHARED = {"name": "spread-ic", "options": {"overcommit": 2.0}}


def times(case: Case) -> list[tuple[float, float]]:
    """Start of the first execution and end of each task."""
    tasks = Simulation(case.scenario).run()
    return tasks.select("start", "end").rows()


@pytest.mark.parametrize("preempt", ["restart", "resume"])
def test_a_task_that_releases_its_machine_is_over_and_cannot_be_preempted(preempt: str) -> None:
    tasks = (
        Task(0.0, run_time=10.0, queue="lo"),
        Task(12.0, run_time=5.0, queue="hi"),
        Task(13.0, run_time=3.0, queue="lo"),
    )
    policy = {"name": "priority", "options": {"preempt": preempt}}
    case = Case(ONE, tasks, policy, {"release_latency": 5.0}, queues=QUEUES)
    # Over at 10, free at 15; the second runs 15-20 and is free at 25.
    assert times(case) == [(0, 10), (15, 20), (25, 28)]
    trace = tl.simulate(case.scenario)
    assert trace.placements.height == 3
    assert trace.tasks["status"].to_list() == ["completed"] * 3


def test_a_place_given_and_taken_back_in_one_decision_never_was() -> None:
    # At 100 the old task comes first by its age, is placed, and gives way to the one above it.
    tasks = (
        Task(0.0, run_time=100.0, queue="hi"),
        Task(1.0, run_time=10.0, queue="lo"),
        Task(50.0, run_time=10.0, queue="hi"),
    )
    policy = {"name": "priority", "options": {"preempt": "restart", "age": 0.1}}
    case = Case(({"cores": 1.0, "power": POWER},), tasks, policy, queues=QUEUES)
    trace = tl.simulate(case.scenario)
    assert times(case) == [(0, 100), (110, 120), (100, 110)]
    assert trace.placements.height == 3
    # Always busy: 200 W for 120 s, all of it charged to somebody.
    assert trace.manifest.facts["run"]["energy_j"] == pytest.approx(24_000)
    assert trace.tasks["energy"].to_list() == pytest.approx([20_000, 2_000, 2_000])


def test_a_long_chain_behind_a_task_that_cannot_run() -> None:
    count = 100_000
    tasks = pl.DataFrame(
        {
            "id": [str(i) for i in range(count)],
            "submit": 0.0,
            "cores": [2.0, *[1.0] * (count - 1)],
            "work": 1.0,
            "limit": 1.0,
            "parents": [None, *([str(i)] for i in range(count - 1))],
        }
    )
    scenario = tl.Scenario(platform="1x1", workload=Workload(tasks=tasks), policy="fcfs")
    assert CompiledScenario(scenario).run()["rejected"] == count


def test_a_task_without_requested_time_is_not_killed() -> None:
    case = Case(ONE, (Task(0.0, run_time=10.0), Task(0.0, run_time=10.0, requested=10.0)))
    slow = case.but(model={"kill_at_requested_time": True, "speed_factor": 0.5})
    trace = tl.simulate(slow.scenario)
    assert trace.tasks["status"].to_list() == ["completed", "killed"]
    assert trace.tasks["requested_time"].to_list() == [None, 10.0]


def test_what_was_run_before_counts_towards_the_requested_time() -> None:
    tasks = (
        Task(0.0, run_time=15.0, requested=10.0, queue="lo"),
        Task(5.0, run_time=2.0, requested=9.0, queue="hi"),
    )
    policy = {"name": "priority", "options": {"preempt": "resume"}}
    case = Case(ONE, tasks, policy, {"kill_at_requested_time": True}, queues=QUEUES)
    # 5 s before the interruption, 5 after it.
    assert times(case) == [(0, 12), (5, 7)]


@pytest.mark.parametrize("interval", [0.1, 0.7, 60.1])
def test_no_multiple_of_the_interval_is_missed(interval: float) -> None:
    submits = [(k - 0.5) * interval for k in range(1, 200)]
    tasks = tuple(Task(submit, run_time=0.0) for submit in submits)
    case = Case(ONE, tasks, model={"decision_interval": interval})
    starts = [start for start, _ in times(case)]
    assert starts == pytest.approx([k * interval for k in range(1, 200)], rel=1e-12)


@pytest.mark.parametrize("policy", [{"name": "fcfs"}, SHARED])
def test_checkpoints_do_not_depend_on_sharing(policy: dict) -> None:
    # 3 s of work, 1 s of writing: after 12.5 s three are written. Down for 1 s, then 1 s is left.
    then = {"on_failure": "resume", "checkpoint_interval": 3.0, "checkpoint_cost": 1.0}
    case = Case(ONE, (Task(0.0, run_time=10.0),), policy, failures=((0, 12.5, 1.0),), then=then)
    assert times(case) == [(0, 14.5)]
    undisturbed = tl.simulate(case.but(failures=((0, 1000.0, 1.0),)).scenario)
    assert undisturbed.placements["end"].to_list() == [13.0]
    assert undisturbed.tasks["cpu_time"].to_list() == pytest.approx([13.0])


def test_failures_go_on_for_as_long_as_the_run() -> None:
    scenario = Case(ONE, (Task(0.0, run_time=100.0),), model={"speed_factor": 0.001}).scenario
    often = {"mtbf": "10min", "mttr": "1min", "on_failure": "resume", "checkpoint_interval": "1min"}
    trace = tl.simulate(scenario.replace(failures=often))
    downs = trace.node_states
    # 100,000 s of work, a failure every 660 s: the longest time without one is far below the rest.
    assert downs.height > 100
    assert downs["start"].diff().max() < 10_000


def test_who_depends_on_a_rejected_job_is_out_of_the_graphs() -> None:
    tasks = (
        Task(0.0, cores=4.0, run_time=10.0, user="u"),
        Task(10.0, run_time=10.0, user="u", parents=(0,)),
        Task(100.0, run_time=10.0, user="u"),
    )
    case = Case(({"cores": 2.0},), tasks, source="sessions:3")
    trace = tl.simulate(case.scenario)
    assert trace.tasks["status"].to_list() == ["rejected", "rejected", "completed"]
    assert trace.tasks["submit"][2] == 100


def test_cpu_time_is_that_of_the_machine_it_ran_on() -> None:
    machines = ({"cores": 1.0, "speed": 1.0}, {"cores": 1.0, "speed": 2.0})
    trace = tl.simulate(Case(machines, (Task(0.0, run_time=10.0),) * 2).scenario)
    assert trace.tasks["run_time"].to_list() == [10, 5]
    assert trace.tasks["cpu_time"].to_list() == [10, 5]


def test_a_task_without_cores_takes_its_time() -> None:
    workload = Workload(
        tasks=pl.DataFrame(
            {"id": ["a"], "submit": [0.0], "cores": [0.0], "work": [5.0], "limit": [1.0]}
        )
    )
    for policy in ("fcfs", "easy", "first-fit"):
        scenario = tl.Scenario(platform="2x1", workload=workload, policy=policy)
        assert tl.simulate(scenario).placements["end"].to_list() == [5]


def test_energy_so_far_is_charged_so_far() -> None:
    case = Case(({"cores": 1.0, "power": POWER},), (Task(0.0, run_time=10.0),))
    for policy in ({"name": "fcfs"}, SHARED):
        sim = Simulation(case.but(policy=policy).scenario)
        sim.run_until(5.0)
        assert sim.tasks["energy"].to_list() == pytest.approx([1000])
        assert sim.machines["energy"].to_list() == pytest.approx([1000])
        assert sim.run()["energy"].to_list() == pytest.approx([2000])


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [{"speed_factor": 0}, {"service_factor": -1}, {"startup_overhead": math.nan}]
)
def test_values_that_no_model_has(value: dict) -> None:
    compiled = CompiledScenario(Case(ONE, (Task(0.0),)).scenario)
    with pytest.raises(InputError, match=next(iter(value))):
        compiled.run(value)
    matrix = compiled.values().reshape(1, -1).copy()
    for name, number in value.items():
        matrix[0, MODEL_VALUES.index(name)] = number
    with pytest.raises(InputError, match=next(iter(value))):
        compiled.run_many(matrix)


@pytest.mark.parametrize("step", [0.0, -5.0, math.nan, math.inf])
def test_windows_of_no_length(step: float) -> None:
    with pytest.raises(InputError, match="power_step"):
        tl.simulate(Case(ONE, (Task(0.0),)).scenario, power_step=step)


def test_the_dispatcher_refuses_what_cannot_be() -> None:
    dispatcher = CompiledScenario(Case(ONE, (Task(0.0),) * 2).scenario).dispatcher()
    dispatcher.submit(0, now=1.0)
    for wrong, error in (
        (lambda: dispatcher.submit(99, now=1.0), IndexError),
        (lambda: dispatcher.end(99, now=1.0), IndexError),
        (lambda: dispatcher.set_open(99, True, now=1.0), IndexError),
        (lambda: dispatcher.submit(0, now=1.0), ValueError),
        (lambda: dispatcher.end(0, now=1.0), ValueError),
        (lambda: dispatcher.reject_placement(1, now=1.0), ValueError),
        (lambda: dispatcher.decide(now=0.5), ValueError),
    ):
        with pytest.raises(error):
            wrong()
    assert dispatcher.decide(now=1.0) == [("place", 0, [(0, 1.0)])]
    dispatcher.reject_placement(0, now=1.0)
    assert dispatcher.decide(now=2.0) == [("place", 0, [(0, 1.0)])]


class Says(Policy):
    """Answers with the same decisions, once."""

    def __init__(self, *decisions: object) -> None:
        self.decisions = list(decisions)

    def decide(self, view):
        said, self.decisions = self.decisions, []
        return said


GPU = {"cores": 4.0, "resources": {"gpu": 1.0}}


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Place(0, [0, 0]), "twice"),
        (Place(0, [0, 1], cores=[4.0, -2.0]), "number of cores is not valid"),
        (Place(0, 0, cores=math.nan), "number of cores is not valid"),
        (Place(0, 0, cores=1.0), "do not add up"),
        (Place(1, 0), "nodes"),
        (Place(2, 1), "another resource"),
        (Place(3, 0), "too few free cores"),
        (Place(0, 7), "no machine 7"),
        (Place(9, 0), "no task 9"),
        (Place("t0", 0), "a task must be an index"),
        (Preempt(0), "is not running"),
        (Kill(4), "neither waiting nor running"),
        (SetState(0, "asleep"), "'on', 'off'"),
        ("start it", "not a decision"),
    ],
)
def test_decisions_that_cannot_be_carried_out(decision: object, why: str) -> None:
    tasks = (
        Task(0.0, cores=2.0),
        Task(0.0, cores=2.0, nodes=2),
        Task(0.0, gpus=1.0),
        Task(0.0, cores=8.0),
        Task(50.0),
    )
    case = Case((GPU, {"cores": 4.0}), tasks)
    scenario = case.scenario.replace(policy=Says(decision))
    with pytest.raises(TwinloopError, match=why):
        tl.simulate(scenario)


def test_numbers_of_numpy_are_numbers() -> None:
    scenario = Case(({"cores": 4.0},) * 2, (Task(0.0, cores=2.0),)).scenario
    trace = tl.simulate(scenario.replace(policy=Says(Place(np.int64(0), np.int64(1)))))
    assert trace.placements["machine"].to_list() == ["m1"]


def test_a_machine_switched_off_uses_no_power_and_a_failed_machine_stays_down() -> None:
    machines = ({"cores": 1.0, "power": POWER},) * 2
    case = Case(machines, (Task(0.0, run_time=10.0),), failures=((1, 4.0, 100.0),))
    off = Says(SetState(1, "off"), Place(0, 0))
    trace = tl.simulate(case.but(failures=()).scenario.replace(policy=off))
    assert trace.manifest.facts["run"]["energy_j"] == pytest.approx(2000)
    assert trace.node_states.rows() == [("m1", 0.0, None, "off")]


def test_states_that_no_run_is_in() -> None:
    compiled = CompiledScenario(Case(({"cores": 2.0},), (Task(0.0, run_time=10.0),) * 2).scenario)
    sim = Simulation(compiled)
    sim.run_until(5.0)
    good = sim.state
    running = pl.col("phase") == "running"
    for change, why in (
        ({"cores": pl.lit([9.0], dtype=pl.List(pl.Float64))}, "add up"),
        ({"done": pl.lit(2.0)}, "share"),
        ({"phase": pl.lit("asleep")}, "phase"),
        ({"submit": pl.lit(None, dtype=pl.Float64)}, "submission"),
        ({"machines": pl.lit(["m7"], dtype=pl.List(pl.String))}, "m7"),
    ):
        tasks = good.tasks.with_columns(
            pl.when(running).then(new).otherwise(pl.col(name)).alias(name)
            for name, new in change.items()
        )
        with pytest.raises(InputError, match=why):
            Simulation(compiled, state=SimulationState(time=5.0, tasks=tasks))


def test_the_dispatcher_plans_with_the_record_without_a_requested_time() -> None:
    # One of two cores is taken for 10 s; the second waits for both, the third ends before that.
    tasks = (
        Task(0.0, run_time=10.0),
        Task(0.0, cores=2.0, run_time=10.0),
        Task(0.0, run_time=5.0),
    )
    dispatcher = CompiledScenario(Case(ONE * 2, tasks, {"name": "easy"}).scenario).dispatcher()
    for task in range(3):
        dispatcher.submit(task, now=0.0)
    placed = [task for _, task, _ in dispatcher.decide(now=0.0)]
    assert placed == [0, 2]


def test_a_task_submitted_after_an_interruption_has_its_full_time() -> None:
    tasks = (
        Task(0.0, run_time=15.0, requested=20.0, queue="lo"),
        Task(5.0, run_time=2.0, requested=9.0, queue="hi"),
    )
    policy = {"name": "priority", "options": {"preempt": "resume"}}
    sim = Simulation(
        Case(ONE, tasks, policy, {"kill_at_requested_time": True}, queues=QUEUES).scenario
    )
    sim.run_until(6.0)
    sim.submit("late", cores=1.0, run_time=3.0, requested_time=3.0)
    assert sim.run().filter(id="late")["status"].to_list() == ["completed"]


def test_a_late_task_that_needs_sharing_ends_as_if_it_was_known() -> None:
    # The machine gives half a core. The first needs less, so that nothing was to be shared.
    hosts = ({"cores": 1.0, "speed": 0.5},)
    fixed = {"demand": "fixed"}
    case = Case(hosts, (Task(0.0, run_time=5.0, use=0.4),), {"name": "fcfs"}, fixed)
    alone = Simulation(case.scenario)
    alone.submit("late", cores=1.0, run_time=50.0)
    assert alone.run()["end"].to_list() == [5.0, 105.0]
    both = case.but(tasks=(*case.tasks, Task(0.0, run_time=50.0)))
    shared = Simulation(both.scenario)
    shared.submit("late", cores=1.0, run_time=50.0)
    ends = shared.run().filter(pl.col("id") != "t0").sort("end")["end"].to_list()
    assert ends == [105.0, 205.0]


@pytest.mark.parametrize("field", ["user", "queue"])
def test_an_unknown_name_of_a_submitted_task_is_the_only_error(field: str) -> None:
    simulation = Simulation(Case(ONE, (Task(0.0),)).scenario)
    with pytest.raises(InputError) as said:
        simulation.submit("late", cores=1.0, run_time=1.0, **{field: "nosuch"})
    assert said.value.field == f"task 'late': {field}"
    assert "shared machines" not in str(said.value)
