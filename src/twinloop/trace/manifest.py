"""The manifest of a Trace: where it came from, and what was done to it."""

from __future__ import annotations

import platform
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop import __version__
from twinloop.description.safe_text import escape_name
from twinloop.trace.tables import SCHEMA_VERSION

CleaningKind = Literal[
    "skipped", "removed", "repaired", "invented", "assumed", "ignored", "noticed"
]


#: How many places of one thing are named as examples.
EXAMPLES: Final = 3


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Cleaning(_Part):
    """One thing that was not taken as it stood, how often, and the first places.

    `skipped`: rows that could not be read. `removed`: rows that an operation on the log, or a
    repair, left out. `repaired`: rows changed. `invented`: values made up. `assumed`: a
    unit or a meaning that the source does not say. `ignored`: something with no place in a Trace.
    `noticed`: something odd, left as it is.

    >>> print(Cleaning(kind="skipped", what="lines with too few fields", count=2,
    ...                examples=("log.swf:7", "log.swf:9")))
    skipped 2: lines with too few fields (log.swf:7, log.swf:9)
    """

    kind: CleaningKind
    what: str
    count: int = Field(ge=0)
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({', '.join(self.examples)})" if self.examples else ""
        return escape_name(f"{self.kind} {self.count:,}: {self.what}{where}")


class SourceFile(_Part):
    """A file that a Trace was read from."""

    name: str
    size: int
    sha256: str


class Source(_Part):
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
    source: Source | None = None
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
