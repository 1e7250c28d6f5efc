"""Traces: what happened, real or simulated; read, checked, changed, written."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.description.errors import (
        DamagedTraceError,
        FormatError,
        InputError,
        TwinloopError,
    )
    from twinloop.trace import edit
    from twinloop.trace.formats import Format, known_formats, read, recognise, write
    from twinloop.trace.manifest import Cleaning, Edit, Manifest, Source, SourceFile
    from twinloop.trace.quality import Audit, QualityError, check
    from twinloop.trace.quality.repairs import repair
    from twinloop.trace.summary import Summary, load_over_time
    from twinloop.trace.tables import SCHEMA_VERSION, STATUSES, TABLES, Column
    from twinloop.trace.trace import Trace

__all__ = [
    "SCHEMA_VERSION",
    "STATUSES",
    "TABLES",
    "Audit",
    "Cleaning",
    "Column",
    "DamagedTraceError",
    "Edit",
    "Format",
    "FormatError",
    "InputError",
    "Manifest",
    "QualityError",
    "Source",
    "SourceFile",
    "Summary",
    "Trace",
    "TwinloopError",
    "check",
    "edit",
    "known_formats",
    "load_over_time",
    "read",
    "recognise",
    "repair",
    "write",
]

defer_imports(__name__)
