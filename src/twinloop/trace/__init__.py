"""Traces: what happened, real or simulated; read, checked, changed, written."""

from twinloop.trace.errors import DamagedTraceError, FormatError, InputError, TwinloopError
from twinloop.trace.formats import Format, formats, read, recognise, write
from twinloop.trace.manifest import Cleaning, Edit, Manifest, Source, SourceFile
from twinloop.trace.tables import SCHEMA_VERSION, STATUSES, TABLES, Column
from twinloop.trace.trace import Trace

__all__ = [
    "SCHEMA_VERSION",
    "STATUSES",
    "TABLES",
    "Cleaning",
    "Column",
    "DamagedTraceError",
    "Edit",
    "Format",
    "FormatError",
    "InputError",
    "Manifest",
    "Source",
    "SourceFile",
    "Trace",
    "TwinloopError",
    "formats",
    "read",
    "recognise",
    "write",
]
