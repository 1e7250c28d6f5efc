"""Data cleaning: what a reader skipped, repaired, invented or assumed, counted with examples."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop.description.safe_text import escape_name

CleaningKind = Literal[
    "skipped", "removed", "repaired", "invented", "assumed", "ignored", "noticed"
]


#: How many places of one thing are named as examples.
EXAMPLES: Final = 3


class Cleaning(BaseModel):
    """One kind of data cleaning: what was done, how often, and the first places.

    `skipped`: rows that could not be read. `removed`: rows that an operation on the log, or a
    repair, left out. `repaired`: rows changed. `invented`: values made up. `assumed`: a
    unit or a meaning that the source does not say. `ignored`: something with no place in a Trace.
    `noticed`: something odd, left as it is.

    >>> print(Cleaning(kind="skipped", what="lines with too few fields", count=2,
    ...                examples=("log.swf:7", "log.swf:9")))
    skipped 2: lines with too few fields (log.swf:7, log.swf:9)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CleaningKind
    what: str
    count: int = Field(ge=0)
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({', '.join(self.examples)})" if self.examples else ""
        return escape_name(f"{self.kind} {self.count:,}: {self.what}{where}")
