"""Attribution of failed criteria to values, and the explanation of their changes."""

from __future__ import annotations

from typing import Any

from tests.calibration.test_defects import SCENARIO, truth
from twinloop.calibration.error_attribution import explain_changes
from twinloop.calibration.parameters.values import set_values
from twinloop.engine import simulate
from twinloop.fidelity import assess


def twin(**values: Any) -> Any:
    return simulate(set_values(SCENARIO, values), usage_step=1.0, power_step=1.0)


def test_a_failed_criterion_is_attributed_to_the_value_that_affects_it() -> None:
    real = truth(speed_factor=0.93)
    before, after = assess(real, twin()), assess(real, twin(speed_factor=0.93))
    lines = explain_changes(
        [("r", before)], [("r", after)], {"speed_factor": 1.0}, {"speed_factor": 0.93}
    )
    text = "\n".join(lines)
    assert "completions: " in text
    assert "speed_factor moved from 1 to 0.93" in text
    assert "newly failing" not in text
    assert any(line.endswith("before and after: 2 and 0") for line in lines)


def test_new_failures_are_reported_and_unchanged_values_are_not() -> None:
    real = truth()
    good, bad = assess(real, twin()), assess(real, twin(speed_factor=0.8))
    old, new = {"speed_factor": 1.0, "startup_overhead": 0.0}, {"speed_factor": 0.8}
    lines = explain_changes([("r", good)], [("r", bad)], old, {**new, "startup_overhead": 1e-9})
    text = "\n".join(lines)
    assert "newly failing: p50" in text
    assert "startup_overhead" not in text


def test_a_failed_criterion_without_fitted_values_is_reported() -> None:
    real = truth(speed_factor=0.9)
    before = assess(real, twin())
    lines = explain_changes(
        [("r", before)], [("r", before)], {"power.idle": 1.0}, {"power.idle": 2.0}
    )
    assert any("no value that affects it was fitted" in line for line in lines)
