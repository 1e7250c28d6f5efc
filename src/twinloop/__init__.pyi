from . import (
    calibration,
    campaign,
    description,
    engine,
    execution,
    exploration,
    fidelity,
    metrics,
    platform,
    policy,
    report,
    scenario,
    trace,
    workload,
)
from .calibration import Fit, calibrate
from .description import InputError, TwinloopError
from .engine import Simulation, simulate
from .execution import execute
from .exploration import Study, confirm, explore, loop
from .fidelity import Verdict, assess
from .platform import Platform
from .policy import Place, Policy
from .scenario import Model, Scenario, load, replay_scenario
from .trace import Trace, check, read, repair, write
from .workload import Workload
from .workload.generators import generate

__version__: str

__all__ = [
    "Fit",
    "InputError",
    "Model",
    "Place",
    "Platform",
    "Policy",
    "Scenario",
    "Simulation",
    "Study",
    "Trace",
    "TwinloopError",
    "Verdict",
    "Workload",
    "assess",
    "calibrate",
    "calibration",
    "campaign",
    "check",
    "confirm",
    "description",
    "engine",
    "execute",
    "execution",
    "exploration",
    "explore",
    "fidelity",
    "generate",
    "load",
    "loop",
    "metrics",
    "platform",
    "policy",
    "read",
    "repair",
    "replay_scenario",
    "report",
    "scenario",
    "simulate",
    "trace",
    "workload",
    "write",
]
