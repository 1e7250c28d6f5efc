"""Characters that separate the cells of tables in text."""

from __future__ import annotations

from typing import Final

SEPARATORS: Final = (",", "\t", ";", "|")


def find_separator(header: str) -> str:
    """Find the separator of a table: the most frequent in its first line.

    >>> find_separator("t;price"), find_separator("t")
    (';', ',')
    """
    return max(SEPARATORS, key=header.count)
