"""What is to run and who submits it: tasks with their demand, and sources."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.workload.arrays import Names, WorkloadArrays
    from twinloop.workload.columns import COLUMNS
    from twinloop.workload.fragments import Fragments
    from twinloop.workload.session_graph import SessionGraph, SessionGraphs
    from twinloop.workload.sessions import Delimitation, SessionPartition, find_sessions
    from twinloop.workload.source import Sessions, SourceDescription
    from twinloop.workload.workload import Missing, Workload

__all__ = [
    "COLUMNS",
    "Delimitation",
    "Fragments",
    "Missing",
    "Names",
    "SessionGraph",
    "SessionGraphs",
    "SessionPartition",
    "Sessions",
    "SourceDescription",
    "Workload",
    "WorkloadArrays",
    "find_sessions",
]

defer_imports(__name__)
