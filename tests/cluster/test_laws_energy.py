"""Energy is exact: at every resolution, over machines, and over tasks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster import demand
from tests.cluster.scenarios import MODELS, Case, Task, cases, few
from tests.cluster.test_laws_runs import Finished
from twinloop.engine import CompiledScenario
from twinloop.platform.power import PowerModel

STEPS = st.one_of(st.floats(0.01, 50.0), st.sampled_from([0.25, 0.5, 1.0, 3.0, 1000.0]))
EXACT = 1e-9


def models(case: Case) -> dict[str, PowerModel]:
    """The power models by machine, whose formulas `tests/platform` checks."""
    hosts = [host for _, host in case.scenario.platform.hosts()]
    return {host.names[0]: host.power for host in hosts}


@few
@given(cases(), STEPS)
def test_energy_is_the_integral_of_power_at_every_resolution(case, step):
    trace = tl.simulate(case.scenario, power_step=step, power_per_node=True)
    energy = trace.manifest.facts["run"]["energy_j"]
    power = trace.power
    assert (power["dt"] >= 0).all()
    joules = power["watts"] * power["dt"]
    whole = power["node"].is_null()
    assert joules.filter(whole).sum() == pytest.approx(energy, rel=EXACT)
    assert joules.filter(~whole).sum() == pytest.approx(energy, rel=EXACT)
    ends = power.filter(whole)["t"]
    if ends.len():
        begin = CompiledScenario(case.scenario).start().start_time
        assert power.filter(whole)["dt"].sum() == pytest.approx(ends[-1] - begin, rel=EXACT)


def windows(done: Finished, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The edges of the windows of the power table, and the joules of each machine in each."""
    count = done.run.windows(step)
    edges = np.minimum(done.run.start_time + step * np.arange(count + 1), done.run.now)
    edges[-1] = done.run.now
    return edges, np.asarray(done.run.power(step, True)).reshape(-1, count) * np.diff(edges)


def same_windows(case: Case, done: Finished, step: float, drawn_by) -> None:
    """Each machine drew in each window, and in all, what its uses (from, to, how much) say."""
    if not done.run.windows(step):
        return
    edges, joules = windows(done, step)
    # Means over windows that are nothing but rounding mean nothing.
    wide = np.diff(edges) > 1e-6
    drawing = models(case)
    for machine, name in enumerate(done.names):
        expected = np.zeros(len(edges) - 1)
        for start, end, use in drawn_by(machine):
            if use is not None:
                share = min(max(use / done.capacity(machine), 0.0), 1.0)
                both = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
                expected += drawing[name].watts(share) * np.maximum(both, 0.0)
        np.testing.assert_allclose(joules[machine][wide], expected[wide], rtol=1e-8, atol=1e-6)
        assert float(done.run.energy()[machine]) == pytest.approx(expected.sum(), rel=EXACT)


# Nobody is stretched: what a task draws follows from where it was, and when.
UNSHARED = MODELS.map(lambda model: {**model, "sharing": "no-delay"})
CONSTANT = cases(model=UNSHARED, contention=False, varying=False)


@few
@given(CONSTANT, STEPS)
def test_every_window_has_the_mean_of_what_the_tasks_there_asked_for(case, step):
    done = Finished(case)
    asked = demand.rates(done)
    same_windows(case, done, step, lambda m: demand.steps(done, m, asked.get(m, [])))


@few
@given(CONSTANT)
def test_without_delay_work_is_what_the_machines_gave(case):
    done = Finished(case)
    # What is drawn while a checkpoint is written is no work.
    assume(not (case.failures and case.then.get("checkpoint_cost")))
    expected = demand.got(done)
    for task, did in enumerate(done.outcomes["done"]):
        assert did == pytest.approx(expected[task], rel=EXACT, abs=EXACT)


@few
@given(cases(), STEPS)
def test_every_window_has_the_mean_of_what_the_machines_drew(case, step):
    """Where demand varies or machines are shared, by the use that the run itself has noted."""
    done = Finished(case)
    noted = done.use_steps()
    same_windows(
        case,
        done,
        step,
        lambda m: [
            (t, after, None if np.isnan(use) else use)
            for (t, use), (after, _) in pairwise(noted[m])
        ],
    )


@few
@given(cases())
def test_energy_is_the_sum_over_tasks_and_idle_machines(case):
    done = Finished(case)
    drawing = models(case)
    unused = sum(
        float(drawing[done.names[machine]].watts(0.0)) * (after - t)
        for machine, steps in done.use_steps().items()
        for (t, use), (after, _) in pairwise(steps)
        if use == 0.0
    )
    tasks = float(done.outcomes["energy"].sum())
    assert tasks + unused == pytest.approx(float(done.run.energy().sum()), rel=EXACT, abs=EXACT)
    assert (done.outcomes["energy"] >= 0).all()


LINEAR = {"model": "linear", "idle": 100.0, "max": 200.0}


def test_idle_and_full_power():
    # One core of two is used for 4 s, none for 6 s before the next task uses both for 5 s.
    case = Case(
        machines=({"cores": 2.0, "power": LINEAR},),
        tasks=(Task(0.0, cores=1.0, run_time=4.0), Task(10.0, cores=2.0, run_time=5.0)),
    )
    trace = tl.simulate(case.scenario, power_step=1.0)
    assert trace.power["watts"].to_list() == [150.0] * 4 + [100.0] * 6 + [200.0] * 5
    assert trace.manifest.facts["run"]["energy_j"] == 600.0 + 600.0 + 1000.0
    assert trace.tasks["energy"].to_list() == [600.0, 1000.0]


def test_a_machine_that_is_down_uses_no_power():
    case = Case(
        machines=({"cores": 1.0, "power": LINEAR},) * 2,
        tasks=(Task(0.0, run_time=10.0),),
        failures=((1, 2.0, 3.0),),
    )
    trace = tl.simulate(case.scenario, power_step=1.0, power_per_node=True)
    second = trace.power.filter(node="m1")["watts"].to_list()
    assert second == [100.0] * 2 + [0.0] * 3 + [100.0] * 5


def test_energy_follows_the_share_of_use():
    # Both are there for 4 s, one of them with three times the use; then it has all for itself.
    case = Case(
        machines=({"cores": 4.0, "power": LINEAR},),
        tasks=(Task(0.0, cores=3.0, run_time=6.0), Task(0.0, cores=1.0, run_time=4.0)),
        policy={"name": "first-fit", "options": {}},
    )
    trace = tl.simulate(case.scenario)
    both, alone = 200.0 * 4, 175.0 * 2
    assert trace.tasks["energy"].to_list() == pytest.approx(
        [0.75 * both + alone, 0.25 * both], rel=1e-12
    )
