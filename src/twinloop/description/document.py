"""Plain values parsed from text, with the line of each, and the size limits of a description."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from twinloop.description.errors import InputError

#: The position of a value in a document: keys and list indices, outermost first.
Address = tuple[str | int, ...]

# Descriptions are written by hand or are topologies, and both are far below these limits. YAML has
# the lower ones because its parser is slow and its aliases multiply the data.
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 200_000
MAX_YAML_BYTES: Final = 1 << 20
MAX_JSON_BYTES: Final = 64 << 20


class ParsedDocument:
    """Plain values, the name of their file, and the line of each value.

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
        lines: Callable[[], dict[Address, int]] = dict,
    ) -> None:
        self.data = data
        self.file = file
        self._find_lines = lines

    @cached_property
    def _lines(self) -> dict[Address, int]:
        return self._find_lines()

    def line(self, address: Address) -> int | None:
        """Return the line of a value, or of the innermost existing value around it."""
        while address and address not in self._lines:
            address = address[:-1]
        return self._lines.get(address)


def is_representable(number: float) -> bool:
    """Whether a number is finite and, if an integer, fits into 64 bits."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) < 1 << 63


def make_depth_error(file: str | None) -> InputError:
    """Make the error for data that is nested too deep."""
    return InputError(f"is nested deeper than {MAX_DEPTH} levels", kind="too-large", file=file)


def make_range_error(file: str | None, line: int | None) -> InputError:
    """Make the error for a number that no field can hold."""
    return InputError("is a number out of range", kind="out-of-range", file=file, line=line)
