from .arrays import CategoricalColumn, WorkloadArrays
from .columns import COLUMNS
from .delimitation import Delimitation
from .fragments import Fragments
from .injection import INJECTION_KEYS, PRESETS, inject, resolve_injection
from .session_graph import SessionGraph, SessionGraphs
from .sessions import SessionPartition, find_sessions
from .source import FinishedTask, NewTask, Source, SubmittedTask, WorkloadView
from .source_description import Sessions, SourceDescription
from .source_registry import resolve_source
from .workload import Missing, Workload

__all__ = [
    "COLUMNS",
    "INJECTION_KEYS",
    "PRESETS",
    "CategoricalColumn",
    "Delimitation",
    "FinishedTask",
    "Fragments",
    "Missing",
    "NewTask",
    "SessionGraph",
    "SessionGraphs",
    "SessionPartition",
    "Sessions",
    "Source",
    "SourceDescription",
    "SubmittedTask",
    "Workload",
    "WorkloadArrays",
    "WorkloadView",
    "find_sessions",
    "inject",
    "resolve_injection",
    "resolve_source",
]
