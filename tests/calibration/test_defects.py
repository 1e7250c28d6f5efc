"""Known defects of a twin, one at a time: the expected criteria fail, and the value is found."""

from __future__ import annotations

from typing import Any

import pytest

from twinloop.calibration import calibrate, hold_out
from twinloop.engine import simulate
from twinloop.fidelity import Criteria, assess
from twinloop.metrics import figures
from twinloop.scenario import Scenario

LINEAR = {"model": "linear", "idle": "100 W", "max": "200 W"}

#: Five bursts on two nodes: queues, idle times, and usage that varies between tasks.
SCENARIO = Scenario(
    platform={"clusters": [{"hosts": [{"count": 2, "cores": 2, "power": LINEAR}]}]},
    policy="fcfs",
    workload={
        "generate": {
            "name": "burn",
            "parameters": {
                "bursts": 5, "size": 16, "period": 60, "interval": 1.0,
                "shortest": 5.0, "longest": 30.0, "kinds": "cpu:3,mixed:1",
            },
        }
    },
    seed=7,
)  # fmt: skip


def truth(**values: Any) -> Any:
    """A run simulated with these values, with the scenario of the twin in its manifest."""
    changed = {
        name if name.startswith("platform") else f"model.{name}": value
        for name, value in values.items()
    }
    return simulate(SCENARIO.replace(**changed), usage_step=1.0, power_step=1.0)


def failed(real: Any, twin: Any) -> set[str]:
    return {f.metric for f in assess(real, twin).findings if f.status == "FAIL"}


@pytest.mark.parametrize(
    ("name", "true", "span", "metrics"),
    [
        ("speed_factor", 0.93, (0.5, 2.0), {"completions", "wait times"}),
        ("service_factor", 1.07, (0.5, 2.0), {"completions", "wait times"}),
        ("startup_overhead", 0.8, (0.0, 5.0), {"wait times"}),
    ],
)
def test_a_defect_fails_the_expected_criteria_and_is_corrected_to_one_percent(
    name: str, true: float, span: tuple[float, float], metrics: set[str]
) -> None:
    real = truth(**{name: true})
    assert metrics <= failed(real, truth())
    fit = calibrate(
        real,
        scenario=SCENARIO,
        parameters={name: {"linear": list(span)}},
        budget=300,
        analysis=2000,
    )
    assert fit.values[name] == pytest.approx(true, rel=0.01)
    assert fit.identifiability is not None
    assert fit.identifiability.unidentifiable == ()
    assert [verdict.status for _, verdict in fit.after] == ["PASS"]
    assert fit.loss < 0.05 * fit.loss_before


def test_idle_power_is_an_error_in_watts_and_is_corrected_to_one_percent() -> None:
    real = truth(**{"platform.clusters[0].hosts[0].power.idle": 80.0})
    twin = truth()
    # The criterion assesses the trend, which an offset does not change; the watts show it.
    assert "power" not in failed(real, twin)
    # Twice 20 W of idle power too much, as far as hosts are idle: 20 W times the idle share.
    drawn = [figures(run).energy / figures(run).makespan for run in (real, twin)]
    bias = assess(real, twin).errors.power_bias
    assert bias == pytest.approx(drawn[1] - drawn[0], rel=0.05)
    assert 0.0 < bias < 40.0
    fit = calibrate(
        real,
        scenario=SCENARIO,
        parameters={"power.idle": {"linear": [0, 300]}},
        budget=300,
        analysis=2000,
    )
    assert fit.values["power.idle"] == pytest.approx(80.0, rel=0.01)


def test_the_interval_of_the_capacity_contains_the_truth() -> None:
    real = truth(effective_capacity=1.5)
    fit = calibrate(
        real,
        scenario=SCENARIO,
        parameters={"effective_capacity": {"linear": [0.5, 3.0]}},
        budget=300,
        analysis=2000,
    )
    assert fit.identifiability is not None
    row = fit.identifiability.table.row(0, named=True)
    assert row["low"] <= 1.5 <= row["high"]
    # Three tasks on two cores, for any value from there to just below four.
    assert row["low"] > 1.45
    assert row["high"] < 2.05
    assert fit.loss == pytest.approx(0.0, abs=1e-9)


def test_all_values_fitted_together_are_found_or_reported_as_unidentifiable() -> None:
    real = truth(speed_factor=0.93, service_factor=1.1, startup_overhead=0.8)
    fit = calibrate(
        real,
        scenario=SCENARIO,
        parameters={
            "speed_factor": {"linear": [0.5, 2]},
            "service_factor": {"linear": [0.5, 2]},
            "startup_overhead": {"linear": [0, 5]},
        },
        budget=2000,
        analysis=4000,
    )
    found = fit.values
    ratio = found["service_factor"] / found["speed_factor"]
    assert ratio == pytest.approx(1.1 / 0.93, rel=0.01)
    assert found["startup_overhead"] == pytest.approx(0.8, rel=0.01)
    assert fit.identifiability is not None
    assert set(fit.identifiability.unidentifiable) == {"speed_factor", "service_factor"}
    assert ("speed_factor", "service_factor") in fit.identifiability.groups


def test_the_optional_criterion_in_watts_fails_and_passes_after_correction() -> None:
    real = truth(**{"platform.clusters[0].hosts[0].power.idle": 80.0})
    asked = Criteria(power={"watts": 0.01})
    fit = calibrate(
        real,
        scenario=SCENARIO,
        parameters={"power.idle": {"linear": [0, 200]}},
        budget=200,
        analysis=0,
        criteria=asked,
    )
    (_, before), (_, after) = fit.before[0], fit.after[0]
    assert before["watts"].status == "FAIL"
    assert after["watts"].status == "PASS"


def test_at_the_true_values_both_parts_of_a_run_cut_in_time_fit() -> None:
    real = truth(speed_factor=0.93)
    split = hold_out([real], by="time")
    for loss in ("matched", "makespan", "ends-sorted"):
        fit = calibrate(
            split.train,
            validation=split.validation,
            scenario=SCENARIO,
            parameters={"speed_factor": {"linear": [0.9, 1.0]}},
            loss=loss,
            budget=120,
            analysis=0,
        )
        assert fit.values["speed_factor"] == pytest.approx(0.93, abs=1e-3), loss
        assert fit.validation_loss == pytest.approx(0.0, abs=2e-3), loss
        assert fit.after[0][1].status == "PASS"


def test_power_is_compared_from_the_first_submission_on() -> None:
    late = SCENARIO.replace(
        workload={
            "tasks": [
                {"id": "a", "submit": 50.0, "cores": 1, "run_time": 60.0},
                {"id": "b", "submit": 90.0, "cores": 2, "run_time": 40.0},
            ]
        }
    )
    real = simulate(
        late.replace(**{"platform.clusters[0].hosts[0].power.max": 150.0}), power_step=10.0
    )
    fit = calibrate(
        real,
        scenario=late,
        parameters={"power.max": {"linear": [100, 300]}},
        budget=100,
        analysis=0,
    )
    assert fit.values["power.max"] == pytest.approx(150.0, rel=0.01)
    assert fit.loss == pytest.approx(0.0, abs=1e-4)


def test_a_run_of_the_calibration_is_no_prediction() -> None:
    real, other = truth(speed_factor=0.93), truth(speed_factor=0.94)
    fit = calibrate(
        real,
        validation=[other],
        scenario=SCENARIO,
        parameters={"speed_factor": {"linear": [0.5, 2.0]}},
        budget=80,
        analysis=0,
    )
    (_, before), (_, after), (_, unseen) = fit.before[0], fit.after[0], fit.unseen[0]
    assert (before.mode, after.mode, unseen.mode) == ("predict", "replay", "predict")
    assert "fitted" in after.provenance
    again = simulate(fit.scenario)
    assert assess(real, again).mode == "replay"
    assert assess(other, again).mode == "predict"
