"""The manifest of a Trace: its origin, and the operations applied to it."""

from __future__ import annotations

import platform
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop import __version__
from twinloop.description.cleaning import Cleaning
from twinloop.description.files import SourceFile
from twinloop.trace.tables import SCHEMA_VERSION


class _ManifestModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class TraceOrigin(_ManifestModel):
    """The format and the files that a Trace was read from."""

    format: str
    files: tuple[SourceFile, ...] = ()
    #: The header of the log, line by line, without comment marks.
    header: tuple[str, ...] = ()


class Edit(_ManifestModel):
    """An operation that was applied to a log: its name and parameters."""

    operation: str
    parameters: dict[str, Any] = {}


def _list_program_versions() -> dict[str, str]:
    return {"twinloop": __version__, "python": platform.python_version()}


class Manifest(_ManifestModel):
    """The origin of a Trace, and the operations applied to it.

    >>> Manifest(seed=7).seed
    7
    """

    schema_version: int = SCHEMA_VERSION
    #: Kind of the run: read from a log, recorded, simulated or generated.
    kind: Literal["log", "recorded", "simulated", "generated"] = "log"
    source: TraceOrigin | None = None
    #: The complete scenario of the run, with the hashes of its inputs.
    scenario: dict[str, Any] | None = None
    #: Unix time of t = 0 in milliseconds; null: unknown.
    epoch_ms: int | None = None
    seed: int | None = None
    #: Clock (MHz) of the core whose seconds `usage.cpu` counts; null: that of each node.
    reference_mhz: float | None = None
    #: Nominal sampling period of the recorder (s); null: unknown.
    sampling_period: float | None = None
    #: Versions of the programs that made the trace.
    programs: dict[str, str] = Field(default_factory=_list_program_versions)
    #: Notes on data cleaning by readers, repairs and edits.
    cleaned: tuple[Cleaning, ...] = ()
    edits: tuple[Edit, ...] = ()
    #: Further data about the run.
    facts: dict[str, Any] = {}
