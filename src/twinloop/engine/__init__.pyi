from .activity_columns import run_columns
from .cloud_service import CloudService, CloudUse, Instance
from .compiled_scenario import CompiledScenario
from .kernel import (
    Activity,
    Cancelled,
    ColumnRun,
    Condition,
    DataStore,
    Environment,
    Event,
    Interrupt,
    InUseError,
    Network,
    Observer,
    Process,
    Recording,
    Resource,
    StalledError,
    Timeout,
    Timer,
    all_of,
    any_of,
)
from .monitoring import Notice
from .run import simulate
from .run_outputs import RunOutputs
from .simulation import Simulation
from .simulation_state import SimulationState
from .store_service import StoreService, StoreTransfer

__all__ = [
    "Activity",
    "Cancelled",
    "CloudService",
    "CloudUse",
    "ColumnRun",
    "CompiledScenario",
    "Condition",
    "DataStore",
    "Environment",
    "Event",
    "InUseError",
    "Instance",
    "Interrupt",
    "Network",
    "Notice",
    "Observer",
    "Process",
    "Recording",
    "Resource",
    "RunOutputs",
    "Simulation",
    "SimulationState",
    "StalledError",
    "StoreService",
    "StoreTransfer",
    "Timeout",
    "Timer",
    "all_of",
    "any_of",
    "run_columns",
    "simulate",
]
