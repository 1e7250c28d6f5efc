from .arrays import CategoricalColumn, WorkloadArrays
from .columns import COLUMNS
from .fragments import Fragments
from .session_graph import SessionGraph, SessionGraphs
from .sessions import Delimitation, SessionPartition, find_sessions
from .source import Sessions, SourceDescription
from .workload import Missing, Workload

__all__ = [
    "COLUMNS",
    "CategoricalColumn",
    "Delimitation",
    "Fragments",
    "Missing",
    "SessionGraph",
    "SessionGraphs",
    "SessionPartition",
    "Sessions",
    "SourceDescription",
    "Workload",
    "WorkloadArrays",
    "find_sessions",
]
