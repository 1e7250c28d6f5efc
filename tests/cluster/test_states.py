"""States: a run that is stopped at any time goes on from its file as if it had not been stopped."""

import json
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given

import twinloop as tl
from tests.cluster.scenarios import Case, Task, cases
from tests.cluster.test_laws_equal import TIMES
from tests.examples import examples
from twinloop.engine import Simulation, SimulationState
from twinloop.policy import Place, Policy

EXACT = ("id", "status", "submit", "ready", "start", "end", "attempts")


def stored(state: SimulationState, folder) -> SimulationState:
    state.save(folder / "state.json")
    return SimulationState.load(folder / "state.json")


def continued(sim: Simulation, scenario: tl.Scenario, folder) -> Simulation:
    return Simulation(scenario, state=stored(sim.state, folder))


# --- laws -----------------------------------------------------------------------------------------


@examples(60)
@given(cases(), TIMES)
def test_a_run_goes_on_from_its_state(tmp_path_factory, case, time):
    scenario = case.scenario
    sim = Simulation(scenario)
    sim.run_until(max(time, sim.now))
    other = continued(sim, scenario, tmp_path_factory.mktemp("state"))
    assert other.state.tasks.select("id", "phase").equals(sim.state.tasks.select("id", "phase"))
    here, there = sim.run(), other.run()
    if sim._run.shared:
        # On shared machines, the remaining work is rounded.
        for name in ("start", "end"):
            assert there[name].fill_null(-1).to_list() == pytest.approx(
                here[name].fill_null(-1).to_list(), rel=1e-9, abs=1e-9
            )
    else:
        assert there.select(EXACT).equals(here.select(EXACT))
    assert there["energy"].to_list() == pytest.approx(here["energy"].to_list(), abs=1e-6)
    assert other.machines["energy"].to_list() == pytest.approx(
        sim.machines["energy"].to_list(), rel=1e-9, abs=1e-6
    )


@examples(10)
@given(cases(), TIMES)
def test_a_state_read_again_is_the_same(tmp_path_factory, case, time):
    sim = Simulation(case.scenario)
    sim.run_until(max(time, sim.now))
    state = sim.state
    again = stored(state, tmp_path_factory.mktemp("state"))
    assert again.tasks.equals(state.tasks)
    for name in ("time", "down", "machines", "added", "scenario"):
        assert getattr(again, name) == getattr(state, name)
    assert repr(again.executions) == repr(state.executions)
    assert repr(again.decisions) == repr(state.decisions)


# --- by hand --------------------------------------------------------------------------------------


def jobs(*lengths: float, **more) -> Case:
    tasks = tuple(Task(submit=0.0, cores=2.0, run_time=length) for length in lengths)
    return Case(machines=({"cores": 2.0},), tasks=tasks, **more)


@pytest.mark.parametrize("time", [0.1, 0.3, 0.6, 4.0, 5.6, 5.8])
def test_latencies_in_progress_are_part_of_a_state(tmp_path, time):
    model = {"dispatch_latency": 0.25, "startup_overhead": 0.25, "release_latency": 0.25}
    scenario = jobs(5.0, 3.0, model=model).scenario
    sim = Simulation(scenario)
    sim.run_until(time)
    ends = continued(sim, scenario, tmp_path).run()["end"].to_list()
    # Dispatch, start-up and work; then the release, and the same again.
    assert ends == [5.5, 5.75 + 3.5]


def test_a_submitted_task_is_part_of_a_state(tmp_path):
    scenario = jobs(5.0).scenario
    sim = Simulation(scenario)
    sim.submit("late", cores=1, run_time=2.0, at=7.0)
    sim.run_until(1.0)
    assert continued(sim, scenario, tmp_path).run().select("id", "end").rows() == [
        ("t0", 5.0),
        ("late", 9.0),
    ]


def test_changed_cores_and_outages_by_hand_are_part_of_a_state(tmp_path):
    scenario = jobs(5.0, 5.0).scenario
    sim = Simulation(scenario)
    sim.run_until(1.0)
    sim.set_cores("m0", 4.0)
    other = continued(sim, scenario, tmp_path)
    assert other.run()["end"].to_list() == sim.copy().run()["end"].to_list() == [5.0, 6.0]
    sim.fail("m0")
    other = continued(sim, scenario, tmp_path)
    for each in (sim, other):
        each.run_until(10.0)
        each.restore("m0")
    assert other.run()["end"].to_list() == sim.run()["end"].to_list() == [15.0, 15.0]


class Alternating(Policy):
    """Places tasks on the machines in turn, from a random one on."""

    def start(self, view, rng):
        state = Alternating()
        state.next, state.rng = int(rng.integers(3)), rng
        return state

    def decide(self, view):
        for task in view.waiting:
            if view.free(self.next % 3) < 1:
                return
            yield Place(task, self.next % 3)
            self.next += 1 + int(self.rng.integers(2))


class Unsaved(Alternating):
    def start(self, view, rng):
        state = Unsaved()
        state.next, state.rng, state.seen = 0, rng, {1, 2}
        return state


def test_the_memory_of_a_policy_in_python_is_part_of_a_state(tmp_path):
    tasks = tuple(Task(submit=float(i), run_time=2.5) for i in range(12))
    case = Case(machines=({"cores": 1.0},) * 3, tasks=tasks)
    scenario = case.scenario.replace(policy=Alternating())
    sim = Simulation(scenario)
    sim.run_until(4.5)
    other = continued(sim, scenario, tmp_path)
    other.run(), sim.run()
    ours = other.trace().placements
    assert ours.rows() == sim.trace().placements.filter(pl.col("end") > 4.5).rows()


def test_a_policy_whose_memory_cannot_be_saved_is_named():
    sim = Simulation(jobs(5.0).scenario.replace(policy=Unsaved()))
    with pytest.raises(tl.InputError, match=r"test_states:Unsaved cannot be saved.*'seen'"):
        sim.state  # noqa: B018


# --- refusals -------------------------------------------------------------------------------------


def test_a_state_of_another_scenario_is_refused(tmp_path):
    case = jobs(5.0)
    sim = Simulation(case.scenario)
    with pytest.raises(tl.InputError, match="another scenario"):
        continued(sim, case.but(seed=1).scenario, tmp_path)
    state = replace(sim.state, scenario="")
    assert Simulation(case.but(seed=1).scenario, state=state).run()["end"].to_list() == [5.0]


@pytest.mark.parametrize(("cores", "why"), [([0.0], "positive"), ([1.0], "add up to the 2 cores")])
def test_cores_that_do_not_fit_the_request_are_refused(cores, why):
    state = SimulationState(
        time=1.0,
        tasks=pl.DataFrame(
            {
                "id": ["t0"],
                "phase": ["running"],
                "submit": [0.0],
                "start": [0.0],
                "end": [None],
                "done": [0.2],
                "machines": [["m0"]],
                "cores": [cores],
            }
        ),
    )
    with pytest.raises(tl.InputError, match=why):
        Simulation(jobs(5.0).scenario, state=state)


def test_more_cores_than_a_machine_has_are_refused():
    state = SimulationState(
        time=1.0,
        tasks=pl.DataFrame(
            {
                "id": ["t0", "t1"],
                "phase": ["running"] * 2,
                "submit": [0.0] * 2,
                "start": [0.0] * 2,
                "end": [None] * 2,
                "done": [0.2] * 2,
                "machines": [["m0"]] * 2,
                "cores": [[2.0]] * 2,
            }
        ),
    )
    with pytest.raises(tl.InputError, match="more cores of 'm0' than are available"):
        Simulation(jobs(5.0, 5.0).scenario, state=state)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 99}, r"state\.json: schema_version: .*version 99"),
        ({"time": "now"}, r"state\.json: time:"),
        ({"tasks": {"id": ["a"], "submit": ["x"]}}, r"state\.json: tasks:"),
    ],
)
def test_a_damaged_file_is_named_with_its_field(tmp_path, change, why):
    file = tmp_path / "state.json"
    Simulation(jobs(5.0).scenario).state.save(file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(tl.InputError, match=why):
        SimulationState.load(file)


def test_a_recovery_does_not_end_a_later_outage():
    window = {"start": 5.0, "end": 25.0, "hosts": ["m0"]}
    case = jobs(4.0).but(failures=((0, 1.0, 9.0),), maintenance=(window,))
    sim = Simulation(case.scenario)
    sim.run_until(2.0)
    sim.restore("m0")
    # It runs from 2 to 5; the first outage would have ended at 10, the second one ends at 25.
    assert sim.run()["end"].to_list() == [29.0]
