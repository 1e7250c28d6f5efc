from .commands import Preparation, TaskDescription
from .failures import Failures, failure_intervals
from .model import MODEL_VALUES, Contention, KindContention, LinearContention, Model
from .parts import GeneratorDescription, PolicyDescription, WorkloadDescription
from .prices import Prices
from .replay import measured, replaying, with_service_of
from .scenario import Input, Scenario, load

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
