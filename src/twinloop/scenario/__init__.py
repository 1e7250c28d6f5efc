"""Scenarios: platform + workload + source + policy + model + seed, one object or one YAML file."""

from twinloop.scenario.model import Contention, KindContention, LinearContention, Model
from twinloop.scenario.parts import (
    POLICIES,
    GeneratorDescription,
    PolicyDescription,
    WorkloadDescription,
)
from twinloop.scenario.scenario import Input, Scenario, load

__all__ = [
    "POLICIES",
    "Contention",
    "GeneratorDescription",
    "Input",
    "KindContention",
    "LinearContention",
    "Model",
    "PolicyDescription",
    "Scenario",
    "WorkloadDescription",
    "load",
]
