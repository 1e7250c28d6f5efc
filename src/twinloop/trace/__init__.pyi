from . import edit
from .formats import Format, known_formats, read, recognise, write
from .manifest import Edit, Manifest, Source
from .quality import Audit, QualityError, check
from .quality.repairs import repair
from .summary import Summary, load_over_time
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
    "Source",
    "Summary",
    "Trace",
    "check",
    "edit",
    "known_formats",
    "load_over_time",
    "read",
    "recognise",
    "repair",
    "write",
]
