from .broker_execution import scenario_of_run
from .commands import Preparation, TaskDescription
from .detail import Detail, Submission, find_inactive_parameters
from .failures import Failures, compute_failure_intervals
from .model import (
    MODEL_VALUES,
    Contention,
    KindContention,
    LinearContention,
    Model,
)
from .parts import PolicyDescription, WorkloadDescription
from .prices import Prices
from .replay import (
    replay_scenario,
    with_measured_latencies,
    with_measured_run_times,
)
from .scenario import InputFile, Scenario, load
from .workflow_execution import workflow_scenario_of_run
from .workflows import GeneratorDescription, WorkflowDescription

__all__ = [
    "MODEL_VALUES",
    "Contention",
    "Detail",
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
    "Submission",
    "TaskDescription",
    "WorkflowDescription",
    "WorkloadDescription",
    "compute_failure_intervals",
    "find_inactive_parameters",
    "load",
    "replay_scenario",
    "scenario_of_run",
    "with_measured_latencies",
    "with_measured_run_times",
    "workflow_scenario_of_run",
]
