"""Plain values parsed from text, with the line of each, and the size limits of a description."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from twinloop.description.errors import InputError

#: The position of a value in a document: keys and list indices, outermost first.
Address = tuple[str | int, ...]

# Descriptions are written by hand or are topologies, and both are far below these limits.
#: Levels of nesting.
MAX_DEPTH: Final = 64
#: Size of a description file, decompressed (bytes).
MAX_JSON_BYTES: Final = 64 << 20
#: Limits of YAML, whose parser is slow and whose aliases multiply the data: the number of values
#: after the expansion of aliases, and the length of the text (characters).
MAX_YAML_VALUES: Final = 200_000
MAX_YAML_LENGTH: Final = 1 << 20


class ParsedDocument:
    """Plain values, the name of their file, and the line of each value.

    Args:
        data: The plain values.
        file: The name of the file in error messages; None for values in memory.
        find_lines: Computes the line of each value; called when the first line is needed.

    >>> from twinloop.description.text import parse_document
    >>> document = parse_document("clusters:\\n  - hosts: 3\\n")
    >>> document.data
    {'clusters': [{'hosts': 3}]}
    >>> document.line(("clusters", 0, "hosts"))
    2
    """

    def __init__(
        self,
        data: Any,
        file: str | None = None,
        find_lines: Callable[[], dict[Address, int]] = dict,
    ) -> None:
        self.data = data
        self.file = file
        self._find_lines = find_lines

    @cached_property
    def _lines(self) -> dict[Address, int]:
        return self._find_lines()

    def line(self, address: Address) -> int | None:
        """Return the line of a value, or of the innermost value around it that has a line.

        None if no line is known, as for values in memory.
        """
        while address and address not in self._lines:
            address = address[:-1]
        return self._lines.get(address)


def is_representable(number: float) -> bool:
    """Whether a number is finite and, if an integer, fits into 64 bits with its sign."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) < 1 << 63


def make_depth_error(file: str | None) -> InputError:
    """Make the error for data that is nested too deep."""
    return InputError(f"is nested deeper than {MAX_DEPTH} levels", kind="too-large", file=file)


def make_range_error(file: str | None, line: int | None) -> InputError:
    """Make the error for a number that is not `is_representable`."""
    return InputError("is a number out of range", kind="out-of-range", file=file, line=line)
