"""The names of the discrete-event kernel, which is native."""

from __future__ import annotations

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

__all__ = [
    "Activity",
    "Cancelled",
    "ColumnRun",
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
    "StalledError",
    "Timeout",
    "Timer",
    "all_of",
    "any_of",
]

# Errors and representations show the module that users import the names from.
for _public in map(globals().get, __all__):
    if isinstance(_public, type):
        _public.__module__ = "twinloop.engine"
