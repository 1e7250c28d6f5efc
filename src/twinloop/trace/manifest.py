"""The manifest of a Trace: where it came from, and what was done to it."""

from __future__ import annotations

import platform
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop import __version__
from twinloop.description.cleaning import Cleaning
from twinloop.description.files import SourceFile
from twinloop.trace.tables import SCHEMA_VERSION


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TraceOrigin(_Part):
    """What a Trace was made from."""

    format: str
    files: tuple[SourceFile, ...] = ()
    #: What the files say of themselves: the header of a log, line by line, without its mark.
    header: tuple[str, ...] = ()


class Edit(_Part):
    """One operation on a log: its name and what it was given."""

    operation: str
    parameters: dict[str, Any] = {}


def _programs() -> dict[str, str]:
    return {"twinloop": __version__, "python": platform.python_version()}


class Manifest(_Part):
    """Where a Trace came from, and all that was done to it since.

    >>> Manifest(seed=7).seed
    7
    """

    schema_version: int = SCHEMA_VERSION
    #: What kind of run this is: read from a log, recorded, simulated or generated.
    kind: Literal["log", "recorded", "simulated", "generated"] = "log"
    source: TraceOrigin | None = None
    #: The scenario that produced it, whole, with the hashes of its inputs.
    scenario: dict[str, Any] | None = None
    #: Unix time of t = 0 in milliseconds; null: not known.
    epoch_ms: int | None = None
    seed: int | None = None
    #: Clock of the core whose seconds `usage.cpu` counts; null: the node's own.
    reference_mhz: float | None = None
    #: Length of the sampling window that the recorder aimed at.
    sampling_period: float | None = None
    programs: dict[str, str] = Field(default_factory=_programs)
    cleaned: tuple[Cleaning, ...] = ()
    edits: tuple[Edit, ...] = ()
    #: Anything else worth keeping that is not a table.
    facts: dict[str, Any] = {}
