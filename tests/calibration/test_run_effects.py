"""Random effects of runs: posterior intervals against textbook formulas."""

import numpy as np
import pytest
from scipy import stats

from twinloop.calibration.cases import Case
from twinloop.calibration.losses import get_loss
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.uncertainty.prediction_intervals import sample_posterior
from twinloop.calibration.uncertainty.run_effects import (
    RunEffectObjective,
    estimate_run_patterns,
    sample_with_run_effects,
)
from twinloop.engine import simulate
from twinloop.scenario import Scenario

RUNS, TASKS = 5, 40


class Level:
    """One level, measured by runs with a random effect each."""

    space = Space([LinearParameter("level", 0, 20)])

    def __init__(self, seed, between):
        rng = np.random.default_rng(seed)
        own = between * rng.standard_normal(RUNS)
        self.seen = 10 + np.repeat(own, TASKS) + rng.standard_normal(RUNS * TASKS)
        self.means = self.seen.reshape(RUNS, TASKS).mean(axis=1)

    def outputs(self, points):
        return 20 * points - self.seen

    def __call__(self, points):
        return np.abs(self.outputs(points)).mean(axis=1)


@pytest.mark.parametrize("seed", range(2))
def test_the_mean_of_runs_has_the_interval_of_their_means(seed):
    level = Level(seed, between=1.0)
    count = RUNS * TASKS
    paced = RunEffectObjective(level, [np.ones(TASKS)] * RUNS, count)
    best = np.array([level.means.mean() / 20, 0.5])
    # Four random walks: one alone leaves the ends uncertain by 0.05 halves (standard deviation of
    # eight walks), so that a last bit of arithmetic could decide.
    walks = [
        sample_posterior(paced, best, observations=count, count=2000, budget=30_000, seed=walk)
        for walk in range(1, 5)
    ]
    ends = [np.quantile(found.values()["level"], [0.05, 0.95]) for found in walks]
    low, high = np.mean(ends, axis=0)
    half = stats.t.ppf(0.95, RUNS - 1) * stats.sem(level.means)
    assert [low, high] == pytest.approx(
        [level.means.mean() - half, level.means.mean() + half], abs=0.12 * half
    )


def test_equal_runs_leave_the_posterior_of_independent_tasks():
    level = Level(4, between=0.0)
    level.seen -= np.repeat(level.means - 10, TASKS)  # all the same mean
    count = RUNS * TASKS
    paced = RunEffectObjective(level, [np.ones(TASKS)] * RUNS, count)
    found = sample_posterior(paced, np.array([0.5, 0.1]), observations=count, budget=30_000, seed=1)
    spread = np.subtract(*np.quantile(found.values()["level"], [0.95, 0.05]))
    alone = 2 * 1.645 * level.seen.std() / np.sqrt(count)
    assert alone < spread < 2 * alone


def test_the_outputs_without_variance_of_the_run_effect_are_those_of_the_objective():
    level = Level(1, between=1.0)
    paced = RunEffectObjective(level, [np.ones(TASKS)] * RUNS, RUNS * TASKS)
    points = np.array([[0.4, 0.0], [0.6, 0.0]])
    assert paced.outputs(points) == pytest.approx(level.outputs(points[:, :1]))


SCENARIO = Scenario(
    platform="1x1",
    policy="fcfs",
    workload={"tasks": [{"id": f"t{i}", "cores": 1, "run_time": 10 + i} for i in range(4)]},
)
SPACE = Space([LinearParameter("service_factor", 0.5, 2)])


def objective(runs, loss="matched"):
    case = Case.of(runs, scenario=SCENARIO, names=SPACE.names)
    return TwinObjective(SPACE, [case], get_loss(loss), threads=1)


def test_a_slower_run_has_longer_tasks_and_later_ends():
    """A machine slower by a share x makes all times of a busy machine longer by that share."""
    run = simulate(SCENARIO)
    (first, second) = estimate_run_patterns(
        objective([run, run]), SPACE.encode({"service_factor": 1.0})
    )
    starts, makespan, usual = np.array([0, 10, 21, 33]), 46.0, 11.5
    times = np.arange(10, 14)
    by_hand = [starts / makespan, (starts + times) / makespan, times / usual]
    # Each real run has half a weight, and each of the three parts is a mean over four tasks.
    assert first == pytest.approx(np.concatenate(by_hand) / 4 / 2 * 24, rel=1e-6)
    assert second.tolist() == first.tolist()


def test_a_single_run_has_no_run_effect():
    run = simulate(SCENARIO)
    assert estimate_run_patterns(objective([run]), np.array([0.5])) is None


@pytest.mark.parametrize("loss", ["ddks", "explained-variance"])
def test_a_loss_without_residuals_by_run_has_no_run_effect(loss):
    runs = [simulate(SCENARIO.replace(**{"model.speed_factor": s})) for s in (1.0, 1.1)]
    assert estimate_run_patterns(objective(runs, loss), np.array([0.5])) is None


def test_draws_have_the_parameters_of_the_objective_alone():
    runs = [simulate(SCENARIO.replace(**{"model.speed_factor": s})) for s in (0.97, 1.0, 1.04)]
    best = SPACE.encode({"service_factor": 1.0})
    found = sample_with_run_effects(objective(runs), best, observations=12, budget=2000, seed=1)
    assert found.points.shape == (len(found), 1)
    plain = sample_posterior(objective(runs), best, observations=12, budget=2000, seed=1)
    assert found.points.std() > plain.points.std()
