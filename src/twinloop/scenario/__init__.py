"""Scenarios: platform + workload + source + policy + model + seed, one object or one YAML file."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.scenario.commands import Preparation, TaskDescription
    from twinloop.scenario.failures import Failures, failure_intervals
    from twinloop.scenario.model import (
        MODEL_VALUES,
        Contention,
        KindContention,
        LinearContention,
        Model,
    )
    from twinloop.scenario.parts import GeneratorDescription, PolicyDescription, WorkloadDescription
    from twinloop.scenario.prices import Prices
    from twinloop.scenario.replay import measured, replaying, with_service_of
    from twinloop.scenario.scenario import Input, Scenario, load

__all__ = [
    "MODEL_VALUES",
    "Contention",
    "Failures",
    "GeneratorDescription",
    "Input",
    "KindContention",
    "LinearContention",
    "Model",
    "PolicyDescription",
    "Preparation",
    "Prices",
    "Scenario",
    "TaskDescription",
    "WorkloadDescription",
    "failure_intervals",
    "load",
    "measured",
    "replaying",
    "with_service_of",
]

defer_imports(__name__)
