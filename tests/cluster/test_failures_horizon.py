"""Failures are drawn for as long as a run takes, however it is run and whatever was run before."""

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop.engine import CompiledScenario, Simulation
from twinloop.policy import Policy

OFTEN = {"mtbf": "20s", "mttr": "10s"}


def scenario(policy: object = "fcfs", failures: dict | None = None, **model) -> tl.Scenario:
    """Tasks that are interrupted so often that they take far longer than planned."""
    return tl.Scenario(
        platform="2x2",
        policy=policy,
        workload={"tasks": [{"id": f"t{i}", "cores": 2, "run_time": 60} for i in range(12)]},
        failures=failures or OFTEN,
        model=model,
        seed=3,
    )


def whole(trace: tl.Trace) -> pl.DataFrame:
    ran = trace.placements.select("task", "attempt", "start", "end", "reason")
    return ran.sort("task", "attempt")


def test_a_run_goes_far_beyond_what_was_planned():
    compiled = CompiledScenario(scenario())
    planned = compiled.horizon
    assert tl.simulate(compiled).placements["end"].max() > planned
    # Machines fail until the end: not only for as long as was planned.
    states = tl.simulate(compiled).node_states
    assert states.filter(pl.col("start") > planned).height > 0


def test_all_ways_to_run_have_the_same_failures():
    expected = tl.simulate(scenario())
    figures = CompiledScenario(scenario()).run()
    many = CompiledScenario(scenario()).run_many([{}], outputs=tuple(figures))
    assert {name: float(many[name][0]) for name in figures} == pytest.approx(
        figures, abs=0, rel=0, nan_ok=True
    )
    stepped = Simulation(scenario())
    stepped.run()
    assert whole(stepped.trace()).equals(whole(expected))
    by_step = Simulation(scenario())
    while by_step.step():
        pass
    assert whole(by_step.trace()).equals(whole(expected))
    to_times = Simulation(scenario())
    end = expected.placements["end"].max()
    for share in np.linspace(0.0, 1.0, 23):
        to_times.run_until(float(share * end))
        assert to_times.now == share * end
    assert whole(to_times.trace()).equals(whole(expected))
    again = Simulation(scenario())
    again.run_until(end / 2)
    copied = again.copy()
    copied.run()
    assert whole(copied.trace()).equals(whole(expected))


def test_runs_do_not_depend_on_earlier_runs():
    rows = [{"speed_factor": speed} for speed in (0.8, 1.0, 1.5, 4.0)]
    outputs = ("makespan_s", "completed", "wait_mean_s", "ends")
    fresh = CompiledScenario(scenario()).run_many(rows, outputs=outputs)
    used = CompiledScenario(scenario())
    for row in rows:
        used.run(row)
    again = used.run_many(rows[::-1], outputs=outputs)
    for name in outputs:
        assert again[name][::-1].tobytes() == fresh[name].tobytes(), name
    for row, span in zip(rows, fresh["makespan_s"], strict=True):
        assert CompiledScenario(scenario()).run(row)["makespan_s"] == span
        changed = CompiledScenario(scenario()).scenario_from_values(row)
        assert tl.simulate(changed).manifest.facts["run"]["makespan_s"] == span


class Never(Policy):
    """Places no task."""

    def decide(self, view):
        return ()


@pytest.mark.parametrize("failures", [OFTEN, {"mtbf": "4000s", "mttr": "10s"}])
def test_tasks_that_no_policy_places_end_the_run(failures):
    """Failures alone help no task that waits: the end does not depend on how many are drawn."""
    compiled = CompiledScenario(scenario(Never(), failures))
    first = compiled.run()
    assert first["failed"] == 12
    compiled.extend_failures(10 * compiled.horizon)
    assert compiled.run() == pytest.approx(first, abs=0, rel=0, nan_ok=True)
    sim = Simulation(scenario(Never(), failures))
    sim.run()
    assert sim.now == 0.0


def test_recorded_failures_are_all_known():
    """One that begins after the planned end counts, and so does one that overlaps an earlier."""
    tasks = (Task(0.0, cores=1.0, run_time=10.0),)
    # Before the planned end, four times the run time: down for longer than planned, and again.
    failures = ((0, 5.0, 100.0), (0, 104.0, 50.0), (0, 300.0, 20.0))
    case = Case(({"cores": 1.0},), tasks, failures=failures)
    expected = [(0.0, 5.0), (154.0, 164.0)]
    for trace in (tl.simulate(case.scenario), _stepped(case.scenario)):
        assert trace.placements.select("start", "end").rows() == expected
    assert CompiledScenario(case.scenario).run()["makespan_s"] == 164.0


def _stepped(made: tl.Scenario) -> tl.Trace:
    sim = Simulation(made)
    sim.run()
    return sim.trace()
