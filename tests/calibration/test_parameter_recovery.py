"""Parameter recovery: known values are found, and pairs of loss and optimiser are ranked."""

from __future__ import annotations

import numpy as np
import pytest

from twinloop.calibration import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    Space,
    measure_distance,
    rank_losses_and_optimisers,
)
from twinloop.calibration.search.parameter_recovery import rank_by_recovery, round_values
from twinloop.description.errors import InputError
from twinloop.engine import simulate
from twinloop.scenario import Scenario

SPACE = Space(
    [
        LinearParameter("a", 0, 10),
        ExponentialParameter("b", 0.1, 10),
        CategoricalParameter("c", ["x", "y"]),
    ]
)
TRUTH = {"a": 2.0, "b": 1.0, "c": "y"}


class Made:
    """A simulator with known values, and a loss that depends on all of them or only on some."""

    space = SPACE

    def __init__(self, loss: str) -> None:
        if loss == "broken":
            raise InputError("cannot be computed here")
        self.loss = loss

    def __call__(self, points: np.ndarray) -> np.ndarray:
        values = self.space.decode(points)
        a = np.abs(np.asarray(values["a"]) - 2.0)
        if self.loss == "blind":
            return a
        b = np.abs(np.log(np.asarray(values["b"])))
        return a + b + np.array([c != "y" for c in values["c"]])


def test_the_distance_is_that_of_the_formula() -> None:
    found = {"a": 3.0, "b": 0.8, "c": "x"}
    assert measure_distance(found, TRUTH, SPACE) == pytest.approx(0.5 + 0.2 + 1.0)
    assert measure_distance(TRUTH, TRUTH, SPACE) == 0.0
    # A true value of 0 is scaled by the range.
    assert measure_distance({**found, "a": 3.0}, {**TRUTH, "a": 0.0}, SPACE) == pytest.approx(
        0.3 + 1.2
    )


def test_every_pair_is_ranked_and_the_loss_with_more_outputs_wins() -> None:
    ranking = rank_by_recovery(
        Made,
        TRUTH,
        losses=["blind", "whole", "broken"],
        optimisers=["nelder-mead", "random"],
        budget=200,
    )
    assert ranking.table.height == 6
    assert ranking.best[0] == "whole"
    last = ranking.table.tail(2)
    assert last["loss"].to_list() == ["broken", "broken"]
    assert last["distance"].null_count() == 2
    assert all("cannot be computed" in why for why in last["why"])
    far = ranking.table["distance"].drop_nulls()
    assert (far.diff().drop_nulls() >= 0).all()
    assert "whole" in str(ranking)


def test_hidden_values_lie_in_their_ranges_and_have_two_digits() -> None:
    assert round_values({"a": 1.2345, "b": 0.10234, "c": "x"}, SPACE) == {
        "a": 1.2,
        "b": 0.1,
        "c": "x",
    }
    near = round_values({"a": 9.999, "b": 9.99, "c": "y"}, SPACE)
    assert near == {"a": 10.0, "b": 10.0, "c": "y"}


def test_the_values_of_the_simulator_are_recovered() -> None:
    scenario = Scenario(
        platform="2x2",
        policy="fcfs",
        workload={"generate": {"name": "burn", "parameters": {"bursts": 2, "size": 10}}},
    )
    real = simulate(scenario.replace(**{"model.service_factor": 1.12}))
    ranking = rank_losses_and_optimisers(
        [real],
        scenario=scenario,
        parameters={"service_factor": {"linear": [0.5, 2]}, "startup_overhead": {"linear": [0, 1]}},
        losses=["matched", "makespan", "ends-sorted"],
        optimisers=["nelder-mead", "auto"],
        budget=150,
    )
    assert ranking.table.height == 6
    assert ranking.table["distance"][0] < 0.01
    assert ranking.best[0] != "makespan"
