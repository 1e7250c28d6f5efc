from . import edit
from .formats import Format, list_formats, read, recognise, write
from .manifest import Edit, Manifest, TraceOrigin
from .quality import Audit, QualityError, check
from .quality.repairs import repair
from .summary import Summary, compute_load_over_time
from .tables import SCHEMA_VERSION, STATUSES, TABLES, Column
from .trace import Trace

__all__ = [
    "SCHEMA_VERSION",
    "STATUSES",
    "TABLES",
    "Audit",
    "Column",
    "Edit",
    "Format",
    "Manifest",
    "QualityError",
    "Summary",
    "Trace",
    "TraceOrigin",
    "check",
    "compute_load_over_time",
    "edit",
    "list_formats",
    "read",
    "recognise",
    "repair",
    "write",
]
