"""Plain values that know the line they stand on, and the bounds of what a description can be."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from twinloop.description.errors import InputError

#: Where a value stands in a document: names of keys and positions in lists, from the outside in.
Address = tuple[str | int, ...]

# A description is written by hand or is a topology; far beyond these it is something else. YAML
# has the narrow bounds because its parser is slow and its aliases multiply.
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 200_000
MAX_YAML_BYTES: Final = 1 << 20
MAX_JSON_BYTES: Final = 64 << 20


class ParsedDocument:
    """Plain values, the file they came from, and the line of each.

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
        """The line of the value, or of the nearest one around it where that is not there."""
        while address and address not in self._lines:
            address = address[:-1]
        return self._lines.get(address)


def is_representable(number: float) -> bool:
    """Whether a number is finite and, if whole, of 64 bits."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) < 1 << 63


def make_depth_error(file: str | None) -> InputError:
    """The refusal of what is nested too deep."""
    return InputError(f"is nested deeper than {MAX_DEPTH} levels", file=file)


def make_range_error(file: str | None, line: int | None) -> InputError:
    """The refusal of a number that no field could hold."""
    return InputError("is a number beyond all bounds", file=file, line=line)
