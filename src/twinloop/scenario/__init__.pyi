from .broker_execution import scenario_of_run
from .commands import Preparation, TaskDescription
from .failures import Failures, compute_failure_intervals
from .model import (
    MODEL_VALUES,
    Contention,
    KindContention,
    LinearContention,
    Model,
)
from .parts import GeneratorDescription, PolicyDescription, WorkloadDescription
from .prices import Prices
from .replay import (
    replay_scenario,
    with_measured_latencies,
    with_measured_run_times,
)
from .scenario import InputFile, Scenario, load

__all__ = [
    "MODEL_VALUES",
    "Contention",
    "Failures",
    "GeneratorDescription",
    "InputFile",
    "KindContention",
    "LinearContention",
    "Model",
    "PolicyDescription",
    "Preparation",
    "Prices",
    "Scenario",
    "TaskDescription",
    "WorkloadDescription",
    "compute_failure_intervals",
    "load",
    "replay_scenario",
    "scenario_of_run",
    "with_measured_latencies",
    "with_measured_run_times",
]
