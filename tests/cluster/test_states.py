"""States: a run that is stopped at any time goes on from its file as if it had not been stopped."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import twinloop as tl
from examples.source import Clients
from tests.cluster.scenarios import Case, Task, cases
from tests.cluster.test_failures_horizon import scenario as often_failing
from tests.cluster.test_file_stores import scenario as local_scenario
from tests.cluster.test_laws_equal import TIMES
from tests.cluster.test_machine_states import LAW_STATES, MODES, ORDERS, TASKS
from tests.cluster.test_machine_states import scenario as states_scenario
from tests.cluster.test_transfers import CHAIN, SHARED, loads, workload
from tests.cluster.test_transfers import scenario as files_scenario
from tests.examples import examples
from twinloop.engine import CompiledScenario, Simulation, SimulationState
from twinloop.policy import Place, Policy
from twinloop.scenario import Scenario
from twinloop.workload import NewTask, Source

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


def check_alike(sim: Simulation, other: Simulation) -> None:
    """Compare the results of a run and of the one that went on from its state."""
    here, there = sim.tasks, other.tasks
    exact = ("id", "status", "attempts")
    assert there.select(exact).equals(here.select(exact))
    for name in ("submit", "ready", "start", "end", "energy"):
        assert there[name].is_null().equals(here[name].is_null()), name
        assert near(there[name].drop_nulls(), here[name].drop_nulls()), name
    exact = ("machine", "tasks", "up", "state")
    assert other.machines.select(exact).equals(sim.machines.select(exact))
    assert near(other.machines["free_cores"], sim.machines["free_cores"])
    assert near(other.machines["energy"], sim.machines["energy"])


def near(values: pl.Series, expected: pl.Series) -> bool:
    return values.to_list() == pytest.approx(expected.to_list(), rel=1e-9, abs=1e-6)


# The orders also reverse transitions, and suspend machines with their tasks.
@pytest.mark.parametrize("mode", MODES)
@given(orders=ORDERS, tasks=TASKS, at=st.integers(0, 11), wait=st.floats(0, 30))
@examples(10)
def test_machines_go_on_in_their_states(tmp_path_factory, mode, orders, tasks, at, wait):
    model = {**MODES[mode], "startup_overhead": 0.5}
    described = states_scenario(LAW_STATES, *tasks, machines=2, model=model)
    sims = [Simulation(described)]
    final = [(40.0, m, order) for order in ("restore", "on", "on") for m in (0, 1)]
    for number, (pause, m, order) in enumerate((*orders, *final)):
        for sim in sims:
            sim.run_until(sim.now + pause)
            with contextlib.suppress(tl.InputError):
                if order in ("fail", "restore"):
                    getattr(sim, order)(f"m{m}")
                else:
                    sim.set_state(f"m{m}", order)
        if number == at % (len(orders) + 1):
            sims[0].run_until(sims[0].now + wait)
            sims.append(continued(sims[0], described, tmp_path_factory.mktemp("state")))
    for sim in sims:
        sim.run()
    check_alike(*sims)


def has_near_tie(times: pl.Series) -> bool:
    gaps = times.unique().sort().diff().drop_nulls()
    return bool((gaps < 1e-9).any())


@example(
    load=[(0.0, 75e6, 0.0), (0.0, 75e6, 1.0), (0.0, 0.0, 0.0), *[(0.0, 75e6, 0.0)] * 2, (0.0,) * 3],
    streams=None,
    mode={},
    time=2.0,
    requested=None,
)
@given(
    loads,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([{}, SHARED]),
    st.floats(0, 20),
    st.sampled_from([None, 2.0, 5.0]),
)
@examples(15)
def test_transfers_go_on_from_a_state(tmp_path_factory, load, streams, mode, time, requested):
    tasks = {f"t{i}": work for i, (_, _, work) in enumerate(load)}
    files = {f"i{i}": size for i, (size, _, _) in enumerate(load)}
    files |= {f"o{i}": size for i, (_, size, _) in enumerate(load)}
    uses = [(f"t{i}", f"{kind[0]}{i}", access) for i in range(len(load))
            for kind, access in (("in", "read"), ("out", "write"))]  # fmt: skip
    store = {"name": "disk", "read": "50 MB/s", "write": "20 MB/s", "capacity": "1 GB"}
    store |= {"streams": streams} if streams else {}
    model = {**mode.get("model", {}), "kill_at_requested_time": True}
    columns = {} if requested is None else {"requested_time": [requested] * len(load)}
    described = files_scenario(workload(tasks, files, uses, **columns), store=store, model=model)
    sim = Simulation(described)
    sim.run_until(time)
    other = continued(sim, described, tmp_path_factory.mktemp("state"))
    assert other._run.stored_bytes().tolist() == sim._run.stored_bytes().tolist()
    assert other._run.live_transfers == sim._run.live_transfers
    sim.run(), other.run()
    check_alike(sim, other)
    here = sim.transfers.filter(pl.col("end") > time).sort("subject", "file")
    there = other.transfers.filter(pl.col("end") > time).sort("subject", "file")
    exact = ["kind", "subject", "file", "reason"]
    # Of two ends that only rounding separates, either may come first and free its machine.
    if not has_near_tie(here["end"]) and not has_near_tie(there["end"]):
        exact += ["from", "to"]
    assert there.select(exact).equals(here.select(exact))
    for name in ("bytes", "start", "end"):
        assert near(there[name], here[name]), name
    assert near(pl.Series(other._run.stored_bytes()), pl.Series(sim._run.stored_bytes()))
    assert other._run.live_transfers == 0


@examples(10)
@given(cases(), TIMES)
def test_a_state_read_again_is_the_same(tmp_path_factory, case, time):
    sim = Simulation(case.scenario)
    sim.run_until(max(time, sim.now))
    state = sim.state
    again = stored(state, tmp_path_factory.mktemp("state"))
    assert again.tasks.equals(state.tasks)
    for name in ("time", "down", "machines", "stores", "added", "source", "scenario"):
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


def test_added_and_removed_machines_are_part_of_a_state(tmp_path):
    scenario = jobs(5.0, 5.0, 5.0).scenario
    sim = Simulation(scenario)
    sim.run_until(1.0)
    sim.add_machine("new", like="m0", cores=4.0)
    sim.add_machine("newer", like="new", speed=2.0)
    sim.run_until(2.0)
    sim.remove_machine("m0")
    other = continued(sim, scenario, tmp_path)
    assert other.machines.select("machine", "state").rows() == [
        ("m0", "removed"),
        ("new", "running"),
        ("newer", "running"),
    ]
    check_alike(sim, other)
    # Two tasks have been on `new` since 1; the first one starts again, at twice the speed.
    assert sim.run()["end"].to_list() == other.run()["end"].to_list() == [4.5, 6.0, 6.0]
    check_alike(sim, other)
    assert sim.trace().placements.filter(pl.col("end") > 2.0).equals(other.trace().placements)


class Probes(Source):
    """A new task every 2 s, beside those of the workload at the start."""

    def __init__(self):
        self.given = -1

    def next(self, now, finished):
        self.given += not finished
        if self.given == 0:
            return 0.0, [0, 1, 2, 3]
        if self.given < 5:
            return 2.0 * self.given, [NewTask(id=f"p{self.given}", cores=1, run_time=1.5)]
        return None


class Chains(Probes):
    """New tasks that wait for tasks of the workload, and for each other."""

    def next(self, now, finished):
        answer = super().next(now, finished)
        if not 0 < self.given < 5:
            return answer
        name = f"p{self.given}"
        first = NewTask(id=name, cores=1, run_time=1.5, parents=[f"t{self.given - 1}", "t0"])
        second = NewTask(id=f"{name}b", cores=1, run_time=3.0, command=["true"], parents=[name])
        return answer[0], [first, second]


@pytest.mark.parametrize("time", [0.0, 2.0, 2.25, 3.5, 6.0, 11.0, 30.0])
@pytest.mark.parametrize("source", [Clients(clients=2, think_time=1.0), Probes(), Chains()])
def test_a_source_in_python_goes_on_from_a_state(tmp_path, time, source):
    latency = {"release_latency": 0.5} if isinstance(source, Chains) else {}
    scenario = jobs(2.0, 3.0, 4.0, 1.0).but(model=latency).scenario.replace(source=source)
    sim = Simulation(scenario)
    sim.submit("mine", cores=2, run_time=1.0, at=5.0, parents=["t1"])
    sim.run_until(max(time, sim.now))
    other = continued(sim, scenario, tmp_path)
    sim.run(), other.run()
    check_alike(sim, other)
    assert other.events == sim.events
    added = [each.trace().manifest.facts["run"].get("added") for each in (sim, other)]
    assert added[0] == added[1]


class Unsaveable(Probes):
    def __init__(self):
        super().__init__()
        self.seen = {1}


def test_a_source_whose_memory_cannot_be_saved_is_named():
    sim = Simulation(jobs(*[5.0] * 4).scenario.replace(source=Unsaveable()))
    with pytest.raises(tl.InputError, match=r"source .*Unsaveable cannot be saved.*'seen'"):
        sim.state  # noqa: B018


def test_a_task_that_fitted_when_it_was_added_is_part_of_a_state(tmp_path):
    scenario = jobs(5.0).scenario
    sim = Simulation(scenario)
    sim.submit("large", cores=3, run_time=1.0, at=2.0)
    sim.set_cores("m0", 4.0)
    sim.submit("fits", cores=3, run_time=1.0, at=3.0)
    sim.set_cores("m0", 2.0)
    sim.run_until(1.0)
    other = continued(sim, scenario, tmp_path)
    sim.set_cores("m0", 4.0), other.set_cores("m0", 4.0)
    assert sim.run()["status"].to_list() == ["completed", "rejected", "completed"]
    other.run()
    check_alike(sim, other)


@pytest.mark.parametrize("mode", MODES)
def test_a_pause_in_progress_is_part_of_a_state(tmp_path, mode):
    model = {**MODES[mode], "startup_overhead": 8.0}
    scenario = states_scenario(LAW_STATES, {"run_time": 10.0}, model=model)
    sim = Simulation(scenario)
    sim.run_until(3.0)
    sim.set_state("m0", "suspended")
    sim.run_until(5.0)
    other = continued(sim, scenario, tmp_path)
    for each in (sim, other):
        each.run_until(20.0)
        each.set_state("m0", "on")
    # It is running at 24; 5 s of the start-up are left, and the work.
    assert sim.run()["end"].to_list() == other.run()["end"].to_list() == [39.0]


@pytest.mark.parametrize("time", [5.0, 10.5, 12.5, 13.0, 20.0])
def test_the_places_of_local_files_are_part_of_a_state(tmp_path, time):
    tasks = [{"id": "w", "writes": ["x"]}, {"id": "r", "reads": ["x"], "parents": ["w"]}]
    files = [{"name": "x", "size": "40 MB", "store": "local"}]
    scenario = local_scenario(tasks, files)
    sim = Simulation(scenario)
    sim.run_until(time)
    other = continued(sim, scenario, tmp_path)
    # Written at 20 MB/s from 10 to 12, read at 50 MB/s up to 12.8, without latency and ports.
    assert other.state.stores == {"disk": [], "tape": [], "a": ["x"] * (time > 12), "b": []}
    assert sim.run()["end"].to_list() == other.run()["end"].to_list() == pytest.approx([12, 22.8])
    check_alike(sim, other)


def test_sharing_that_began_in_the_run_is_part_of_a_state(tmp_path):
    power = {"model": "linear", "idle": 100.0, "max": 200.0}
    scenario = jobs(5.0, 5.0).but(machines=({"cores": 2.0, "power": power},)).scenario
    sim = Simulation(scenario)
    sim.run_until(2.0)
    sim._run.share_machines()
    sim.run_until(3.0)
    other = continued(sim, scenario, tmp_path)
    assert other._run.shared
    sim.run(), other.run()
    check_alike(sim, other)
    assert sim.tasks["end"].to_list() == pytest.approx([5.0, 10.0])


def test_failures_beyond_those_of_a_new_run_are_not_begun_again(tmp_path):
    scenario = often_failing()
    sim = Simulation(scenario)
    sim.run_until(1.1 * CompiledScenario(scenario).horizon)
    while not sim.running:
        sim.step()
    other = continued(sim, scenario, tmp_path)
    sim.run(), other.run()
    check_alike(sim, other)


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


def in_startup() -> tuple[tl.Scenario, SimulationState]:
    """Return a state in which `m0` starts a task up, and `m1` is switched off."""
    states = {"off": {"power": 5.0}, "switching-off": {"power": 50.0, "duration": 12.0}}
    scenario = states_scenario(states, machines=2, model={"startup_overhead": 8.0})
    sim = Simulation(scenario)
    sim.set_state("m1", "off")
    sim.run_until(4.0)
    return scenario, sim.state


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("executions", {"until": np.inf}, "'t0': until: must be finite in this step"),
        ("executions", {"stop": np.nan}, "'t0': stop: must be infinite, or a time"),
        ("executions", {"step": "release"}, "'t0': step: a task in the phase 'running'"),
        ("executions", {"step": "sleep"}, "'t0': step: input should be 'dispatch'"),
        ("executions", {"draws": True}, "'t0': remaining: must have a value for each of its 1"),
        ("executions", {"halted": 1}, "'t0': halted: must be the number of its machines"),
        ("executions", {"paused": 9.0, "halted": 1, "left": 2.0}, "paused: must not be after 4.0"),
        ("executions", {"rank": "first"}, "'t0': rank: input should be a valid integer"),
        ("executions", {"task": "t9"}, "the task 't9' has no row"),
        ("machines", {"state": "asleep"}, "'m0': there is no state 'asleep'"),
        ("machines", {"state": "switching-off", "begun": -9.0}, "'m0': .*`begun` does not fit"),
        ("machines", {"state": "switching-off", "begun": 9.0}, "'m0': .*`begun` does not fit"),
        ("machines", {"outages": None}, "'m0': outages: input should be a valid integer"),
        ("machines", {"machine": "m7"}, "there is no machine 'm7'"),
        ("machines", {"machine": "m7", "added": {}}, "'m7': added: 'cores' is missing"),
    ],
)
def test_an_inconsistent_state_is_refused_with_its_field(part, change, why):
    scenario, state = in_startup()
    first, *others = getattr(state, part)
    changed = replace(state, **{part: ({**first, **change}, *others)})
    with pytest.raises(tl.InputError, match=rf"state\.{part}: .*{why}"):
        Simulation(scenario, state=changed)
    Simulation(scenario, state=state)


@pytest.mark.parametrize(
    ("stores", "why"),
    [({"tape": []}, "no data store 'tape'"), ({"disk": ["x"]}, "'disk': .* no file 'x'")],
)
def test_unknown_stores_and_files_are_refused(stores, why):
    sim = Simulation(files_scenario(CHAIN))
    with pytest.raises(tl.InputError, match=why):
        Simulation(files_scenario(CHAIN), state=replace(sim.state, stores=stores))


def test_a_source_in_python_needs_its_state():
    scenario = jobs(*[5.0] * 4).scenario.replace(source=Probes())
    state = replace(Simulation(scenario).state, source=None)
    with pytest.raises(tl.InputError, match=r"state\.source: does not contain the state of the s"):
        Simulation(scenario, state=state)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 99}, r"state\.json: schema_version: .*version 99"),
        ({"time": "now"}, r"state\.json: time:"),
        ({"tasks": {"id": ["a"], "submit": ["x"]}}, r"state\.json: tasks\.phase:"),
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


def test_an_interrupted_task_that_is_held_again_comes_after_the_tasks_held_before(tmp_path):
    tasks = [("long", 0, 8, None), ("first", 0, 4, "low"), ("second", 1, 4, "low")]
    scenario = Scenario(
        platform={
            "clusters": [{"hosts": [{"names": ["n1", "n2"], "count": 2, "cores": 1}]}],
            "queues": [{"name": "low", "max_running": 1}],
        },
        workload={
            "tasks": [
                {"id": name, "submit": submit, "run_time": run_time, "queue": queue}
                for name, submit, run_time, queue in (*tasks, ("third", 2, 4, "low"))
            ]
        },
        policy="fcfs",
    )
    sim = Simulation(scenario)
    sim.run_until(3)
    sim.fail("n2")
    sim.restore("n2")
    sim.run_until(4)
    other = continued(sim, scenario, tmp_path)
    here, there = sim.run(), other.run()
    # The second one has taken the place of the first one, which comes after the third one.
    starts = dict(here.select("id", "start").rows())
    assert starts["third"] == 7
    assert dict(here.select("id", "end").rows())["first"] == 15
    assert there.select("id", "start", "end").equals(here.select("id", "start", "end"))
