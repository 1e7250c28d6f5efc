"""Diagnosis of simulated confirmations: the hidden cause is found among other options."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from twinloop.exploration.confirmation.diagnosis import SAME, Diagnosis, diagnose
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.model_options import (
    contention,
    latencies,
    no_delay,
    services,
    speed,
    start_up,
)
from twinloop.exploration.ranking.candidate import Candidate

REPETITIONS = 2


def bag(tasks: int, shortest: float, longest: float, **more: Any) -> dict[str, Any]:
    parameters = {
        "shape": "bag",
        "tasks": tasks,
        "kinds": "cpu:1,cache:1",
        "shortest": shortest,
        "longest": longest,
    }
    return {"generate": {"name": "burn", "parameters": parameters | more}}


def predicted(name: str, scenario: tl.Scenario) -> Candidate:
    """A candidate with the prediction of the model in its scenario."""
    makespan = tl.metrics.figures(tl.simulate(scenario)).makespan
    assert makespan is not None
    return Candidate(name, scenario, {"makespan_s": makespan})


def real(scenario: tl.Scenario, truth: Mapping[str, Any], speed_factor: float) -> tl.Trace:
    """Simulate a real run with the hidden model, with a slightly different speed."""
    hidden = {f"model.{name}": value for name, value in truth.items()}
    base = scenario.replace(model={})
    return tl.simulate(base.replace(**hidden).replace(**{"model.speed_factor": speed_factor}))


def simulate_confirmation(
    candidates: Sequence[Candidate], baseline: Candidate, truth: Mapping[str, Any]
) -> Confirmation:
    random = np.random.default_rng(5)
    rows, held = [], {}
    for repetition in range(1, REPETITIONS + 1):
        for each in (*candidates, baseline):
            trace = real(each.scenario, truth, 1.0 + random.normal(0, 0.002))
            order = len(rows) + 1
            held[order] = trace
            makespan = tl.metrics.figures(trace).makespan
            rows.append({"candidate": each.name, "repetition": repetition, "makespan_s": makespan})
    return Confirmation.of(candidates, baseline, rows, ["makespan_s"], held=held)


def scenario(policy: Any, workload: Any, **model: Any) -> tl.Scenario:
    return tl.Scenario(platform="2x1", policy=policy, workload=workload, model=model, seed=4)


SHARING = {"name": "spread-ic", "options": {"overcommit": 3}}
CONTENTION = {
    "contention": {
        "kinds": {
            "cache": {"pressure": 1.0, "sensitivity": 0.4},
            "cpu": {"pressure": 0.3, "sensitivity": 0.1},
        },
        "within": "core",
    }
}


def sharing(**model: Any) -> tuple[list[Candidate], Candidate]:
    """Shared cores against one task per core: without contention, sharing is predicted better."""
    tasks = bag(14, 0.5, 3.0)
    shared = predicted("three on a core", scenario(SHARING, tasks, **model))
    alone = predicted("one on a core", scenario("fcfs", tasks, **model))
    return [shared], alone


def sizes(**model: Any) -> tuple[list[Candidate], Candidate]:
    """Many small tasks against few long tasks with slightly more work."""
    small = predicted("many small", scenario("fcfs", bag(40, 0.4, 0.6), **model))
    large = predicted("few long", scenario("fcfs", bag(8, 2.6, 3.4), **model))
    return [small], large


@pytest.fixture(scope="module")
def contended() -> Confirmation:
    return simulate_confirmation(*sharing(service_factor=1.01), CONTENTION)


def test_contention_is_found_among_other_options(contended: Confirmation) -> None:
    assert contended.status == "reversed"
    found = diagnose(
        contended, budget=120, options=(contention, start_up, services, speed, no_delay)
    )
    assert found is not None
    assert (found.cause, found.turned) == ("contention", "on")
    assert "lacked contention" in found.sentence
    assert "4 runs of the confirmation itself" in found.fitted_to
    assert "it is not a prediction of them" in found.fitted_to
    rows = {row["option"]: row for row in found.table.to_dicts()}
    # All other options were switched: on if they were off, and off if they were on.
    assert {name: row["tried"] for name, row in rows.items()} == {
        SAME: "-",
        "contention": "on",
        "start-up overhead": "on",
        "service by kind": "on",
        "speed": "off",
        "sharing without delay": "on",
    }
    assert rows["contention"]["right"] == rows["contention"]["pairs"] == 1
    assert rows["contention"]["tau"] == 1.0
    assert rows["contention"]["loss"] == min(row["loss"] for row in rows.values())
    assert rows[SAME]["right"] == 0


def test_start_up_overhead_is_found_among_other_options() -> None:
    made = simulate_confirmation(*sizes(service_factor=1.01), {"startup_overhead": 0.25})
    assert made.status == "reversed"
    found = diagnose(made, budget=120, options=(contention, start_up, latencies, speed))
    assert found is not None
    assert (found.cause, found.turned) == ("start-up overhead", "on")
    assert found.table.height == 5


def test_wrong_values_are_not_caused_by_an_option() -> None:
    """The model has contention that the real runs do not have; a new fit removes it."""
    candidates, alone = sharing(**CONTENTION, service_factor=1.01)
    made = simulate_confirmation(candidates, alone, {})
    assert made.recommendations[0].predicted is not None
    assert made.recommendations[0].predicted > 0
    assert made.status == "reversed"
    found = diagnose(made, budget=120, options=(contention, speed))
    assert found is not None
    rows = {row["option"]: row for row in found.table.to_dicts()}
    assert (rows["contention"]["was"], rows["contention"]["tried"]) == ("on", "off")
    assert rows["contention"]["right"] == rows[SAME]["right"] == 1
    assert found.cause is None
    assert found.sentence.startswith("No option of the model is the cause: fitted again")


def test_the_runs_of_the_calibration_can_suffice(
    contended: Confirmation,
) -> None:
    probe = scenario({"name": "spread-ic", "options": {"overcommit": 2}}, bag(12, 0.5, 1.5))
    runs = [real(probe, CONTENTION, speed_factor) for speed_factor in (1.0, 1.001)]
    found = diagnose(
        contended, runs, budget=80, with_confirmed=False, options=(contention, start_up, speed)
    )
    assert found is not None
    assert found.cause == "contention"
    assert found.fitted_to == "Each model was fitted to 2 runs of the calibration."


def test_a_cause_outside_the_options_is_not_found(contended: Confirmation) -> None:
    found = diagnose(contended, budget=80, options=(speed, start_up))
    assert found is not None
    assert found.cause is None
    assert found.sentence.startswith("No single option")


def test_without_a_reversal_there_is_no_diagnosis() -> None:
    candidates, alone = sharing()
    assert diagnose(simulate_confirmation(candidates, alone, {})) is None


def test_a_diagnosis_is_stored_and_shown(contended: Confirmation, tmp_path: Any) -> None:
    found = diagnose(contended, budget=100, options=(contention, speed))
    assert found is not None
    again = Diagnosis.from_dict(found.to_dict())
    assert again == found
    assert again.table.equals(found.table)
    whole = replace(contended, diagnosis=found)
    whole.save(tmp_path)
    read = Confirmation.load(tmp_path)
    assert read.diagnosis == found
    assert read.pairs.equals(whole.pairs)
    assert read.recommendations == whole.recommendations
    assert found.sentence in str(read)
    assert "## Diagnosis" in read.markdown()
    assert isinstance(found.table, pl.DataFrame)
