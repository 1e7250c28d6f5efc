"""The scenario that simulates a recorded execution again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinloop.description.errors import InputError
from twinloop.scenario import Scenario, scenario_of_run


def make_execution_scenario(
    path: str, recorded: Mapping[str, Any] | None, base: Scenario | None
) -> Scenario:
    """Make the scenario of an execution, as yet without anything injected.

    This is the base scenario if there is one, else the recorded one, else the one of the broker
    that recorded the execution; see `scenario_of_run`. Changes of a study apply to all of it but
    the workload.

    Args:
        path: The execution.
        recorded: The scenario in the manifest of its trace.
        base: A scenario whose workload is replaced by the execution.

    >>> base = Scenario(platform="2x4", policy="easy", workload="other.swf")
    >>> make_execution_scenario("runs/a", None, base).workload.path
    'runs/a'
    """
    workload: dict[str, Any] = {"path": Path(path).as_posix(), "inject": ()}
    if base is not None:
        errors = base.workload.prediction_errors
        return base.replace(workload={**workload, "prediction_errors": errors})
    if recorded is None:
        return scenario_of_run(path, inject=())
    try:
        return Scenario.from_manifest({**recorded, "workload": workload})
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"its manifest has no scenario that can be simulated: {error}",
            kind="damaged-file",
            file=path,
            remedy="name one in the study: scenario: scenario.yaml",
        ) from None
