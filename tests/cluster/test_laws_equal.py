"""The same run again: copied, from a state, compiled, on threads, step by step."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import (
    BATCH,
    FITTING,
    MODELS,
    OVERCOMMITTING,
    Case,
    Task,
    cases,
    few,
)
from twinloop._core import KPI_NAMES
from twinloop.engine import CompiledScenario, Simulation, SimulationState
from twinloop.engine.run_trace import REASONS, trace_from_run
from twinloop.metrics import figures

TIMES = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25, 4.5, 6.0, 8.0, 9.1, 12.0, 20.0])


def finish(run) -> None:
    while run.run_slice():
        pass


def everything(run) -> dict[str, bytes]:
    """All that a run has to tell, as bytes."""
    told = {}
    for table in ("outcomes", "placements", "use", "decisions"):
        told |= {
            f"{table}.{name}": values.tobytes() for name, values in getattr(run, table)().items()
        }
    told["energy"] = run.energy().tobytes()
    if run.windows(0.7):
        told["power"] = run.power(0.7, True).tobytes()
    told["kpis"] = np.array(list(run.kpis().values())).tobytes()
    return told


def recorded(compiled: CompiledScenario):
    return compiled.start(placements=True, use=True, decisions=True)


# --- copies ---------------------------------------------------------------------------------------


@few
@given(cases(), TIMES)
def test_a_copy_goes_on_as_the_original(case, time):
    compiled = CompiledScenario(case.scenario)
    whole, run = recorded(compiled), recorded(compiled)
    finish(whole)
    while run.next_time() <= time and run.step():
        pass
    twin = run.copy()
    finish(run)
    again = twin.copy()
    finish(twin)
    finish(again)
    assert everything(run) == everything(whole)
    assert everything(twin) == everything(whole)
    assert everything(again) == everything(whole)


@few
@given(cases(), TIMES)
def test_a_copy_between_two_events_goes_on_as_the_original(case, time):
    run = recorded(CompiledScenario(case.scenario))
    run.run_until(max(time, run.now))
    twin = run.copy()
    finish(run)
    finish(twin)
    assert everything(twin) == everything(run)


@few
@given(cases(), TIMES)
def test_what_happens_to_a_copy_does_not_happen_to_the_original(case, time):
    compiled = CompiledScenario(case.scenario)
    whole, sim = Simulation(compiled), Simulation(compiled)
    sim.run_until(max(time, sim.now))
    twin = sim.copy()
    before = everything(sim._run)
    if twin.machines["up"][twin.machines["machine"].to_list().index("m0")]:
        twin.fail("m0")
    # A task that demands more than a slow machine provides needs a simulation with sharing.
    if sim._run.shared or case.model.get("demand") != "fixed":
        twin.submit("late", cores=1.0, run_time=2.0)
    twin.set_cores(f"m{len(case.machines) - 1}", 8.0)
    twin.run()
    assert everything(sim._run) == before
    assert sim.run().equals(whole.run())


# --- from a state ---------------------------------------------------------------------------------

# A state written by hand holds who waits in which order, who runs where and since when, and what is
# done (a complete one: test_states.py). These
# policies remember more than that: what users have used (fair-share), reservations that were made
# before (conservative without compression), the host taken last (round-robin), how many numbers
# were drawn (random, and filter with a subset).
REMEMBERING = {"fair-share", "conservative", "round-robin", "random", "filter"}
FORGETFUL = tuple(
    each.filter(lambda policy: policy["name"] not in REMEMBERING)
    for each in (*BATCH[:3], *BATCH[4:6], *FITTING[:5], *OVERCOMMITTING)
)
# These may put a task that does not ask for nodes on several machines.
SPREADING = {"fcfs", "easy", "easy-time", "sjf", "ljf"}
# Of a task on its way to its machines, or off them, a state does not say how far it has come; nor
# of a checkpoint, when it was written.
AT_ONCE = MODELS.map(
    lambda model: {
        **model,
        "startup_overhead": 0.0,
        "dispatch_latency": 0.0,
        "release_latency": 0.0,
    }
)


@few
@given(
    cases(policies=FORGETFUL, model=AT_ONCE, failing=False, sources=("rigid", "sessions:3")), TIMES
)
def test_a_run_from_a_state_is_the_rest_of_the_run(case, time):
    compiled = CompiledScenario(case.scenario)
    sim = Simulation(compiled)
    sim.run_until(max(time, sim.now))
    # What shares machines on several of them does not advance everywhere alike.
    if sim._run.shared:
        assume(not any(task.nodes == 2 for task in case.tasks))
        assume(case.policy["name"] not in SPREADING)
    state = sim.state
    columns = ("id", "phase", "submit", "start", "end", "done", "machines", "cores")
    by_hand = SimulationState(state.time, state.tasks.select(columns), state.down)
    rest = Simulation(compiled, state=by_hand).run()
    whole = sim.run()
    assert rest["status"].equals(whole["status"])
    for name in ("submit", "start", "end"):
        np.testing.assert_allclose(
            rest[name].to_numpy(), whole[name].to_numpy(), rtol=1e-9, atol=1e-9, err_msg=name
        )


# --- compiled -------------------------------------------------------------------------------------


@few
@given(cases())
def test_all_ways_to_run_give_the_same_result(case):
    scenario = case.scenario
    compiled = CompiledScenario(scenario)
    quick = compiled.run()
    slow = recorded(compiled)
    while slow.step():
        pass
    assert (
        np.array(list(slow.kpis().values())).tobytes() == np.array(list(quick.values())).tobytes()
    )
    trace = tl.simulate(scenario)
    sim = Simulation(scenario)
    tasks = sim.run()
    for name in ("status", "submit", "ready", "energy"):
        assert tasks[name].equals(trace.tasks[name])
    first = trace.placements.group_by("task").agg(pl.col("start").min())
    ran = tasks.filter(pl.col("start").is_not_null()).select(task="id", start="start")
    assert ran.sort("task").equals(first.sort("task"))


@few
@given(cases(most=8), st.lists(st.tuples(*[st.sampled_from([1.0, 0.5, 2.0])] * 2), max_size=4))
def test_many_runs_are_each_of_them(case, factors):
    compiled = CompiledScenario(case.scenario)
    rows = [compiled.values()] + [
        compiled.values({"speed_factor": speed, "service_factor": service})
        for speed, service in factors
    ]
    outputs = (*KPI_NAMES, "starts", "ends")
    runs = [
        compiled.run_many(np.array(rows), outputs=outputs, threads=threads) for threads in (1, 2, 4)
    ]
    for name in outputs:
        assert len({many[name].tobytes() for many in runs}) == 1
    for place, row in enumerate(rows):
        alone = compiled.run(row)
        for name in KPI_NAMES:
            assert np.float64(alone[name]).tobytes() == runs[0][name][place].tobytes(), name
        run = compiled.start(row)
        finish(run)
        for output, column in (("starts", "start"), ("ends", "end")):
            expected = np.sort(run.outcomes()[column])
            np.testing.assert_array_equal(runs[0][output][place], expected)


@few
@given(cases(), st.booleans())
def test_native_kpis_equal_the_metrics(case, for_good):
    if for_good:  # some tasks are interrupted, and never come to their end
        gone = tuple((machine, start, math.inf) for machine, start, _ in case.failures)
        case = case.but(failures=gone)
    check_figures(CompiledScenario(case.scenario).run(), tl.simulate(case.scenario))


@few
@given(cases(), TIMES)
def test_native_kpis_during_a_run_equal_the_metrics(case, time):
    simulation = Simulation(case.scenario)
    simulation.run_until(max(time, simulation.now))
    tasks = simulation.state.tasks
    # The KPIs count a task that runs again with the end of its execution before.
    assume(not (tasks["phase"].eq("running") & tasks["attempts"].gt(1)).any())
    check_figures(simulation.kpis(), simulation.trace())


@few
@given(cases(), TIMES)
def test_a_task_that_runs_has_the_cpu_time_of_one_that_fails_now(case, time):
    simulation = Simulation(case.scenario)
    simulation.run_until(max(time, simulation.now))
    running, trace = simulation.running, simulation.trace()
    is_open = trace.placements["end"].is_null()
    assert set(trace.placements.filter(is_open)["task"]) <= set(running)
    failed = simulation.copy()
    for machine in failed.machines.filter("up")["machine"]:
        failed.fail(machine)
    expected = failed.trace()
    assert not expected.placements["end"].null_count()
    columns = ["task", "attempt", "machine", "cores", "start"]
    assert trace.placements.select(columns).equals(expected.placements.select(columns))
    ours, theirs = (each.tasks["cpu_time"] for each in (trace, expected))
    assert ours.is_null().equals(theirs.is_null())
    np.testing.assert_allclose(ours.drop_nulls(), theirs.drop_nulls(), rtol=1e-9, atol=1e-9)


def check_figures(native, trace):
    told = figures(trace).to_dict()
    shared = [name for name in KPI_NAMES if name in told]
    assert len(shared) > 20
    for name in shared:
        expected = told[name]
        if expected is None or not np.isfinite(expected):
            assert not np.isfinite(native[name]) or native[name] == 0.0, name
        else:
            # Power in the trace is a mean over windows, so its sum is rounded.
            rel = 1e-9 if "energy" in name else 1e-12
            assert native[name] == pytest.approx(expected, rel=rel, abs=1e-12), name


def test_a_task_that_never_came_to_its_end_is_in_the_figures_of_the_core():
    machines = ({"cores": 4.0},)
    tasks = (Task(0.0, cores=1.0, run_time=5.0), Task(0.0, cores=4.0, run_time=2000.0))
    case = Case(machines, tasks, failures=((0, 1000.0, math.inf),))
    found = CompiledScenario(case.scenario).run()
    # The second runs from 5 to 1000, when its machine goes for good.
    assert found["makespan_s"] == 1000.0
    assert found["wait_mean_s"] == 2.5
    assert found["turnaround_mean_s"] == 502.5
    assert found["utilisation"] == pytest.approx((5.0 + 4 * 995.0) / 4000.0)
    assert found["throughput_per_s"] == 0.002


def test_a_task_that_has_not_ended_yet_has_not_missed_its_deadline():
    case = Case(({"cores": 1.0},), (Task(0.0, run_time=5.0, deadline=20.0),))
    simulation = Simulation(case.scenario)
    simulation.run_until(2.0)
    assert simulation.kpis()["deadline_misses"] == 0
    simulation.run()
    assert simulation.kpis()["deadline_misses"] == 0


# --- tables ---------------------------------------------------------------------------------------


def list_placements(compiled: CompiledScenario, run) -> list[tuple]:
    """Expand the records of executions one by one: a row for each of their machines."""
    rows = []
    log, arrays = run.placements(), compiled.arrays
    for index in np.lexsort((log["machine"], log["attempt"], log["task"])).tolist():
        record = {name: values[index].item() for name, values in log.items()}
        task, cores = record["task"], record["cores"]
        requested = arrays.cores[task]
        share = cores / requested if requested > 0 else 1.0
        for machine in range(record["machine"], record["machine"] + record["count"]):
            name = compiled.names.machines[machine]
            reason = REASONS[record["reason"]]
            times = record["start"], record["end"]
            memory = arrays.memory[task] * share
            rows.append((arrays.ids[task], record["attempt"], name, cores, memory, *times, reason))
    return rows


@few
@given(cases())
def test_an_execution_has_a_placement_on_each_of_its_machines(case):
    compiled = CompiledScenario(case.scenario)
    run = recorded(compiled)
    finish(run)
    assert trace_from_run(compiled, run).placements.rows() == list_placements(compiled, run)
