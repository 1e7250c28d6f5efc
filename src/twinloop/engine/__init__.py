"""Simulators: clusters from a scenario, and the discrete-event kernel below them."""

from twinloop._core import (
    Activity,
    Cancelled,
    ColumnRun,
    Condition,
    DataStore,
    Environment,
    Event,
    Interrupt,
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
from twinloop.description.errors import InUseError
from twinloop.engine.activity_columns import run_columns
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.run import simulate
from twinloop.engine.run_outputs import RunOutputs
from twinloop.engine.simulation import Simulation
from twinloop.engine.simulation_state import SimulationState

__all__ = [
    "Activity",
    "Cancelled",
    "ColumnRun",
    "CompiledScenario",
    "Condition",
    "DataStore",
    "Environment",
    "Event",
    "InUseError",
    "Interrupt",
    "Network",
    "Observer",
    "Process",
    "Recording",
    "Resource",
    "RunOutputs",
    "Simulation",
    "SimulationState",
    "StalledError",
    "Timeout",
    "Timer",
    "all_of",
    "any_of",
    "run_columns",
    "simulate",
]

# Errors and representations show the public module, not the extension.
for _public in map(globals().get, __all__):
    if isinstance(_public, type):
        _public.__module__ = __name__
