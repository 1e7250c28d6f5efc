"""Identifiability of models for which it can be computed by hand."""

import re

import numpy as np
import polars as pl
import pytest

from tests.calibration.models import (
    MANY_RATIOS,
    ONE_RATIO,
    Compared,
    Gravity,
    LossOnly,
    Planted,
    Transportation,
)
from twinloop.calibration.identifiability import Hint, Identifiability, analyse_identifiability
from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
)
from twinloop.calibration.parameters.space import Space
from twinloop.description.errors import InputError

BOTH = pytest.mark.parametrize("seen", ["outputs", "loss"])


def analyse(objective, seen, **options):
    """Analyse the outputs with a noise of 1 %, or only the loss with a bound of 1 %."""
    if seen == "loss":
        return analyse_identifiability(
            LossOnly(objective), objective.best, loss_bound=0.01, **options
        )
    return analyse_identifiability(objective, objective.best, noise=0.01, **options)


@BOTH
def test_one_ratio_of_cargo_to_distance_identifies_no_parameter(seen):
    found = analyse(Transportation(*ONE_RATIO), seen)
    assert found.unidentifiable == ("loading", "driving", "unloading")
    assert found.groups == (("loading", "driving", "unloading"),)


@BOTH
def test_many_ratios_identify_driving_but_not_loading_and_unloading(seen):
    example = Transportation(*MANY_RATIOS)
    found = analyse(example, seen)
    assert found.groups == (("loading", "unloading"),)
    assert found.unidentifiable == ("loading", "unloading")
    values = example.space.decode_one(example.best)
    kept = 1 / values["loading"] + 1 / values["unloading"]
    assert found.sentences == (
        "loading and unloading compensate each other in this data: "
        f"the sum of their reciprocals stays near {kept:.3g}.",
    )
    # At the bound, one of them takes all of the time.
    low = found.table["low"].to_list()
    assert low[0] == pytest.approx(1 / kept, rel=0.12)
    assert low[2] == pytest.approx(1 / kept, rel=0.12)


@pytest.mark.parametrize("data", [ONE_RATIO, MANY_RATIOS])
def test_a_loss_of_each_stage_identifies_all(data):
    found = analyse(Transportation(*data, stages=True), "outputs")
    assert found.unidentifiable == ()
    assert str(found) == "The data determine every parameter."


@BOTH
def test_a_tied_ratio_identifies_all_with_diverse_data(seen):
    assert analyse(Transportation(*MANY_RATIOS, tied=True), seen).unidentifiable == ()
    assert analyse(Transportation(*ONE_RATIO, tied=True), seen).groups == (("handling", "driving"),)


@BOTH
def test_the_time_of_impact_does_not_identify_the_common_scale(seen):
    found = analyse(Gravity("impact"), seen)
    assert found.groups == (("A", "B", "C"),)
    assert found.unidentifiable == ("A", "B", "C")
    assert "only their ratios are identifiable, not their common scale" in str(found)


def test_the_trajectory_identifies_the_common_scale():
    found = analyse(Gravity("trajectory"), "outputs")
    assert found.unidentifiable == ()
    assert found.groups == ()


def test_random_models_with_a_known_null_space():
    right = wrong = missed = 0
    for seed in range(12):
        model = Planted(seed)
        found = analyse_identifiability(model, model.best, noise=model.noise)
        unidentifiable = set(found.unidentifiable)
        right += len(unidentifiable & model.loose)
        wrong += len(unidentifiable - model.loose)
        missed += len(model.loose - unidentifiable)
    assert right / (right + wrong) >= 0.9
    assert right / (right + missed) >= 0.9


class Links(Compared):
    """Two links in series: the slower link limits the rate, and their latencies add up."""

    def __init__(self):
        self.space = Space(
            [
                ExponentialParameter("first.bandwidth", 1, 1000),
                ExponentialParameter("second.bandwidth", 1, 1000),
                LinearParameter("first.latency", 0, 1),
                LinearParameter("second.latency", 0, 1),
            ]
        )
        self.best = self.space.encode(
            {
                "first.bandwidth": 10.0,
                "second.bandwidth": 200.0,
                "first.latency": 0.4,
                "second.latency": 0.3,
            }
        )
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        first, second, one, two = (v[:, np.newaxis] for v in self.space.decode(points).values())
        return np.array([1.0, 3.0, 10.0, 30.0]) / np.minimum(first, second) + one + two


def test_of_two_links_only_the_slower_one_and_the_sum_of_latencies_are_identifiable():
    found = analyse(Links(), "outputs")
    assert not found.table["identifiable"].any()
    rows = {row["parameter"]: row for row in found.table.rows(named=True)}
    # Either may be the slower link, so only a lower bound of each is known.
    for name in ("first.bandwidth", "second.bandwidth"):
        assert rows[name]["low"] == pytest.approx(10.0, rel=0.1)
        assert rows[name]["high"] == 1000.0
    assert ("first.latency", "second.latency") in found.groups
    bandwidths, latencies = found.sentences
    assert re.search(r"the smaller of them stays near (9\.9\d|10)\.$", bandwidths)
    assert latencies == (
        "first.latency and second.latency compensate each other in this data: "
        "their sum stays near 0.7."
    )


class Disk(Compared):
    """A disk of at most 10 that limits only a faster CPU; the fan has no effect."""

    def __init__(self):
        self.space = Space(
            [
                LinearParameter("disk", 8, 10),
                LinearParameter("cpu", 1, 20),
                LinearParameter("contention.linear.slope", 0, 1),
            ]
        )
        self.best = self.space.encode({"disk": 9.0, "cpu": 5.0, "contention.linear.slope": 0.5})
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        disk, cpu, _ = self.space.decode(points).values()
        return np.array([10.0, 20.0]) / np.minimum(disk, cpu)[:, np.newaxis]


@BOTH
def test_a_masked_parameter_names_the_masking_one(seen):
    found = analyse(Disk(), seen, facts={"shared_cores": False})
    assert found.unidentifiable == ("disk", "contention.linear.slope")
    assert found.sentences[0].startswith(
        "disk: not identifiable, it has no effect unless cpu is above about 8."
    )
    assert found.sentences[1] == (
        "contention.linear.slope: not identifiable, no two tasks ever shared a core "
        "(add runs with more than one task per core)."
    )


def test_without_the_hint_the_effect_is_reported_as_missing():
    found = analyse(Disk(), "outputs", hints=())
    assert found.sentences[1] == (
        "contention.linear.slope: not identifiable, it has no effect in this data."
    )


class Bag(Compared):
    """Run times of tasks: a start-up and a service factor."""

    def __init__(self, work):
        self.work = np.array(work, float)
        self.space = Space(
            [
                LinearParameter("startup_overhead", 0, 10),
                ExponentialParameter("service_factor", 0.2, 5),
            ]
        )
        self.best = self.space.encode({"startup_overhead": 2.0, "service_factor": 1.0})
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        startup, service = (v[:, np.newaxis] for v in self.space.decode(points).values())
        return startup + service * self.work


def test_for_tasks_of_one_length_the_advice_is_to_add_short_tasks():
    found = analyse(Bag([20, 20, 20]), "outputs")
    assert found.groups == (("startup_overhead", "service_factor"),)
    assert found.sentences[0].endswith("add runs with short tasks.")
    assert "one goes down as the other goes up" in found.sentences[0]
    assert analyse(Bag([1, 20, 40]), "outputs").unidentifiable == ()


def test_hints_of_the_user_are_used():
    hints = [Hint(("service*", "*over*"), "look elsewhere")]
    assert "look elsewhere" in str(analyse(Bag([20, 20]), "outputs", hints=hints))


class Choices(Compared):
    """A mode with two equivalent values, an integer, and a speed."""

    def __init__(self, factor=3.0):
        self.space = Space(
            [
                CategoricalParameter("mode", ["slow", "fast", "turbo"]),
                LinearParameter("cores", 1, 6, integer=True),
                LinearParameter("speed", 1, 5),
            ]
        )
        self.factor = factor
        self.best = self.space.encode({"mode": "fast", "cores": 4, "speed": 2.0})
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        values = self.space.decode(points)
        rate = np.array([1.0 if mode == "slow" else self.factor for mode in values["mode"]])
        waves = np.ceil(np.array([4.0, 9.0, 25.0]) / values["cores"][:, np.newaxis])
        return waves * 10 / rate[:, np.newaxis] + np.array([10, 100, 1]) / values["speed"][:, None]


@BOTH
def test_discrete_parameters_are_tried_value_by_value(seen):
    found = analyse(Choices(), seen)
    assert found.unidentifiable == ("mode",)
    mode, cores, _ = found.table.rows(named=True)
    assert mode["levels"] == ["fast", "turbo"]
    assert mode["value"] is None
    assert (cores["low"], cores["high"]) == (4.0, 4.0)
    assert found.sentences == ("mode: not identifiable, fast and turbo fit equally well.",)


def test_a_value_at_the_end_of_its_range_is_reported():
    class Beyond(Compared):
        space = Space([LinearParameter("speed", 1, 2)])
        best = np.array([1.0])
        truth = np.array([[10.0, 20.0]]) / 2.2

        def seen(self, points):
            return np.array([10.0, 20.0]) / self.space.decode(points)["speed"][:, np.newaxis]

    found = analyse_identifiability(Beyond(), Beyond.best)
    assert "speed is at the upper end of its range, 2: better values may be beyond it." in str(
        found
    )


class Regression:
    """Straight lines through noisy points, with the intervals of linear regression."""

    space = Space([LinearParameter("intercept", -5, 5), LinearParameter("slope", -5, 5)])

    def __init__(self, seed=1):
        rng = np.random.default_rng(seed)
        self.x = np.linspace(0, 1, 12)
        self.y = 1 + 2 * self.x + 0.1 * rng.standard_normal(12)
        design = np.column_stack([np.ones(12), self.x])
        self.fit, squares, *_ = np.linalg.lstsq(design, self.y, rcond=None)
        errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares[0] / 10)
        self.half = 1.8124611 * errors  # Student's t of 10 degrees, 95 %
        self.best = self.space.encode({"intercept": self.fit[0], "slope": self.fit[1]})

    def outputs(self, points):
        intercept, slope = (v[:, np.newaxis] for v in self.space.decode(points).values())
        return intercept + slope * self.x - self.y

    def __call__(self, points):
        return (self.outputs(points) ** 2).mean(axis=1)


def test_intervals_are_those_of_linear_regression():
    line = Regression()
    found = analyse_identifiability(line, line.best)
    table = found.table
    assert table["low"].to_numpy() == pytest.approx(
        line.fit - line.half, abs=2e-2 * line.half.min()
    )
    assert table["high"].to_numpy() == pytest.approx(
        line.fit + line.half, abs=2e-2 * line.half.min()
    )
    assert found.noise == pytest.approx(np.sqrt((line.outputs(line.best[None]) ** 2).sum() / 10))


def test_a_calibration_with_a_better_neighbour_is_reported():
    line = Regression()
    found = analyse_identifiability(line, np.clip(line.best + 0.2, 0, 1))
    assert "A nearby point fits better than the calibration" in str(found)
    assert "fits better" not in str(analyse_identifiability(line, line.best))


def test_the_range_of_another_parameter_is_no_data():
    class Product(Compared):
        space = Space([ExponentialParameter("a", 0.1, 10), ExponentialParameter("b", 0.1, 10)])
        best = np.array([0.99, 0.99])
        truth = np.full((1, 2), 10**1.96)

        def seen(self, points):
            a, b = self.space.decode(points).values()
            return np.tile((a * b)[:, np.newaxis], 2)

    found = analyse_identifiability(Product(), Product.best, noise=1e-4)
    # The range of one parameter would bound the other; without the ranges both are free.
    assert found.table["share"].max() < 0.03
    assert found.unidentifiable == ("a", "b")


def test_failures_and_unknown_outputs_are_tolerated():
    class Fragile(Transportation):
        def outputs(self, points):
            found = super().outputs(points)
            found[points[:, 1] > 0.65] = np.nan
            return np.hstack([found, np.full((len(points), 1), np.nan)])

    found = analyse(Fragile(*MANY_RATIOS), "outputs")
    assert found.unidentifiable == ("loading", "unloading")


@pytest.mark.parametrize("seen", ["outputs", "loss"])
@pytest.mark.parametrize("budget", [1, 30, 100, 200, 400])
def test_the_budget_is_kept_and_missing_results_are_reported(seen, budget):
    class Counting(Transportation):
        count = 0

        def outputs(self, points):
            type(self).count += len(points)
            return super().outputs(points)

    example = Counting(*MANY_RATIOS)
    Counting.count = 0
    found = analyse(example, seen, budget=budget)
    assert Counting.count == found.evaluations <= budget
    if not found.complete:
        assert "evaluations" in str(found)
    if budget < 100:
        assert not found.complete


@pytest.mark.parametrize(
    "example", [Transportation(*MANY_RATIOS), Choices()], ids=["truck", "words"]
)
def test_an_unfinished_analysis_agrees_with_the_finished_one(example):
    """For every budget: missing results are null, and all others are final."""
    whole = analyse(example, "outputs").table
    unfinished = 0
    for budget in range(20, 700, 20):
        found = analyse(example, "outputs", budget=budget)
        unfinished += not found.complete
        for part, final in zip(found.table.to_dicts(), whole.to_dicts(), strict=True):
            for column in ("low", "high", "share", "identifiable", "levels"):
                assert part[column] in (None, final[column]), (budget, column, part, final)
            if part["identifiable"] is None:
                assert not found.complete
                assert part["parameter"] in found.unknown
                assert part["parameter"] not in found.unidentifiable
                assert "too few" in part["why"]
                assert part["parameter"] in found.sentences[-1]
            elif not part["identifiable"]:
                assert part["parameter"] in found.unidentifiable
        assert found.complete or "data determine every" not in str(found)
    assert unfinished > 5


def test_intervals_around_a_point_that_is_not_a_minimum_are_unknown():
    """Rosenbrock's valley: the fit stops halfway along it, and the profiles lead further down."""

    class Valley:
        space = Space([LinearParameter("x", -2, 2), LinearParameter("y", -2, 2)])

        def outputs(self, points):
            x, y = 4 * points.T - 2
            return np.stack([30 * (y - x**2), 1 - x], axis=1)

        def __call__(self, points):
            return (self.outputs(points) ** 2).mean(axis=1)

    found = analyse_identifiability(Valley(), np.array([0.3, 0.7]), noise=0.01)
    assert found.unknown == ("x", "y")
    assert found.unidentifiable == ()
    assert not found.complete
    assert found.table["low"].null_count() == found.table["high"].null_count() == 2
    assert "not at a minimum" in str(found)
    at_it = analyse_identifiability(Valley(), np.array([0.75, 0.75]), noise=0.01)
    assert at_it.complete
    for row in at_it.table.to_dicts():
        assert row["low"] <= 1.0 <= row["high"]


def test_an_analysis_is_stored_and_read_unchanged():
    found = analyse(Choices(), "outputs")
    again = Identifiability.from_dict(found.to_dict())
    assert again.table.equals(found.table)
    assert again.profiles.equals(found.profiles)
    assert (again.groups, again.sentences) == (found.groups, found.sentences)


def test_profiles_contain_acceptable_calibrations():
    example = Transportation(*MANY_RATIOS)
    found = analyse(example, "outputs")
    held = found.profiles.filter(pl.col("parameter") == "loading")
    sums = 1 / held["value.loading"] + 1 / held["value.unloading"]
    assert held["value.loading"].is_sorted()
    assert sums.to_numpy() == pytest.approx(np.full(len(held), sums[0]), rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.0}, "noise: must be positive"),
        ({"tolerance": 2.0}, "between 0 and 1"),
        ({"budget": 0}, "at least 1 evaluation"),
    ],
)
def test_errors_state_the_problem(options, message):
    example = Transportation(*ONE_RATIO)
    with pytest.raises(InputError, match=message):
        analyse_identifiability(example, example.best, **options)
