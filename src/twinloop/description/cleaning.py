"""Data cleaning notes: what a reader or an operation changed or assumed, with counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop.description.safe_text import escape_name

CleaningKind = Literal[
    "skipped", "removed", "repaired", "invented", "assumed", "ignored", "noticed"
]


#: Largest number of examples in a note.
EXAMPLES: Final = 3
#: The kinds of notes on rows that are missing or differ from their source.
CHANGED: Final = ("skipped", "removed", "repaired")


class Cleaning(BaseModel):
    """A data cleaning note: the action, the number of rows, and the first positions.

    `skipped`: rows that could not be read. `removed`: rows that an operation on the log, or a
    repair, deleted. `repaired`: rows changed. `invented`: values filled in. `assumed`: a unit or
    a meaning that the source does not define. `ignored`: data that a Trace has no column for.
    `noticed`: an anomaly, left unchanged. As text, examples of more rows end with "...".

    >>> print(Cleaning(kind="skipped", what="lines with too few fields", count=2,
    ...                examples=("log.swf:7", "log.swf:9")))
    skipped 2: lines with too few fields (log.swf:7, log.swf:9)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: CleaningKind
    what: str
    count: int = Field(ge=0)
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        is_shortened = len(self.examples) == EXAMPLES < self.count
        shown = (*self.examples, "...") if is_shortened else self.examples
        examples = f" ({', '.join(shown)})" if shown else ""
        return escape_name(f"{self.kind} {self.count:,}: {self.what}{examples}")


def count_rows(notes: Iterable[Cleaning]) -> dict[str, int]:
    """Count the rows of notes by what was done.

    >>> dropped = Cleaning(kind="skipped", what="lines with too few fields", count=2)
    >>> count_rows([dropped, Cleaning(kind="assumed", what="times are in s", count=1)])
    {'skipped: lines with too few fields': 2, 'assumed: times are in s': 1}
    """
    counts: dict[str, int] = {}
    for each in notes:
        action = f"{each.kind}: {each.what}"
        counts[action] = counts.get(action, 0) + each.count
    return counts
