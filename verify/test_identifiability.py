"""Identifiability of many models: null spaces are found, intervals have their coverage."""

import numpy as np
import pytest

from tests.calibration.models import (
    MANY_RATIOS,
    ONE_RATIO,
    Bag,
    Gravity,
    LossOnly,
    Planted,
    Transportation,
)
from tests.calibration.test_prediction import covered
from twinloop.calibration.identifiability import analyse_identifiability
from twinloop.calibration.uncertainty.prediction_intervals import (
    compute_intervals,
    sample_posterior,
)


def test_fifty_random_models_with_a_known_null_space():
    right = wrong = missed = grouped = 0
    for seed in range(50):
        model = Planted(seed)
        found = analyse_identifiability(model, model.best, noise=model.noise)
        unidentifiable = set(found.unidentifiable)
        right += len(unidentifiable & model.loose)
        wrong += len(unidentifiable - model.loose)
        missed += len(model.loose - unidentifiable)
        grouped += set(found.groups) == model.groups
    precision, recall = right / (right + wrong), right / (right + missed)
    print(f"precision {precision:.3f}, recall {recall:.3f}, groups right in {grouped} of 50")
    assert precision >= 0.9
    assert recall >= 0.9
    assert grouped >= 45


@pytest.mark.parametrize(
    ("example", "unidentifiable"),
    [
        (Transportation(*ONE_RATIO), 3),
        (Transportation(*MANY_RATIOS), 2),
        (Transportation(*ONE_RATIO, stages=True), 0),
        (Transportation(*MANY_RATIOS, tied=True), 0),
        (Gravity("impact"), 3),
        (Gravity("trajectory"), 0),
    ],
)
def test_the_loss_alone_gives_the_same(example, unidentifiable):
    found = analyse_identifiability(LossOnly(example), example.best, loss_bound=0.01)
    assert len(found.unidentifiable) == unidentifiable


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loose": True},
        {"noise": 0.1, "repeats": 1},
        {"noise": 0.02, "loose": True},
        {"noise": 0.1, "lognormal": True},
    ],
    ids=str,
)
def test_nine_of_ten_outcomes_lie_in_their_intervals(options):
    share = np.mean([covered(Bag(seed, **options), seed, 4000) for seed in range(400)])
    print(f"{options}: {100 * share:.1f} % of 400 outcomes")
    assert 0.85 <= share <= 0.95


@pytest.mark.parametrize("loose", [False, True])
def test_nine_of_ten_outcomes_lie_in_their_intervals_by_the_loss_alone(loose):
    from scipy.optimize import minimize

    inside = []
    for seed in range(250):
        bag = Bag(seed, loose=loose)
        best = minimize(
            lambda point, bag=bag: bag(np.clip(point, 0, 1)[np.newaxis])[0],
            np.full(len(bag.space), 0.5),
            method="Nelder-Mead",
            bounds=[(0, 1)] * len(bag.space),
            options={"maxfev": 400},
        ).x
        found = sample_posterior(
            LossOnly(bag), best, observations=12, power=1, count=200, budget=4000, seed=seed
        )
        limits = compute_intervals(
            bag.makespan(found.points, *bag.new), noise=found.noise, freedom=found.freedom
        )
        inside.append(limits.low[0] <= bag.outcome <= limits.high[0])
    print(f"loose {loose}: {100 * np.mean(inside):.1f} % of 250 outcomes")
    assert 0.85 <= np.mean(inside) <= 0.95
