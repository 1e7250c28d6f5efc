"""The event-level simulator: time, resources that are shared, activities, and processes."""

from twinloop._core import (
    Activity,
    Cancelled,
    ColumnRun,
    Condition,
    Environment,
    Event,
    Interrupt,
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
from twinloop.engine.columns import run_columns

__all__ = [
    "Activity",
    "Cancelled",
    "ColumnRun",
    "Condition",
    "Environment",
    "Event",
    "Interrupt",
    "Observer",
    "Process",
    "Recording",
    "Resource",
    "StalledError",
    "Timeout",
    "Timer",
    "all_of",
    "any_of",
    "run_columns",
]

# Errors and representations name the public place, not the extension.
for _public in map(globals().get, __all__):
    if isinstance(_public, type):
        _public.__module__ = __name__
