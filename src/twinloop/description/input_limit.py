"""The limit of the memory that one input may take, and the setting that raises it.

A small file can contain a very large table: repeated values compress by a factor of thousands. So
each reader estimates the memory that it needs, and rejects an input above the limit before any
memory is allocated for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError

#: The environment variable that sets the limit: a size such as 16GiB, or `none`.
MAX_INPUT_VARIABLE: Final = "TWINLOOP_MAX_INPUT"

#: Memory that any input may take, unless the environment variable sets another limit.
MAX_INPUT_BYTES: Final = 8 << 30
#: Memory that a small file may take, and for a larger file the multiple of its own size. The text
#: of a log compresses by a factor of 5 to 50; a far higher ratio indicates a decompression bomb.
SMALL_INPUT_BYTES: Final = 256 << 20
MAX_EXPANSION_RATIO: Final = 250

_UNITS: Final[dict[str, int]] = {"": 1} | {
    f"{letter}{end}": base ** (power + 1)
    for power, letter in enumerate("KMGT")
    for end, base in (("", 1024), ("B", 1000), ("iB", 1024))
}


def compute_input_limit(path: Path) -> float:
    """Return the memory that the content of a file may take (bytes); infinite if set to `none`."""
    setting = os.environ.get(MAX_INPUT_VARIABLE, "").strip()
    if setting:
        return _parse_size(setting)
    return min(MAX_INPUT_BYTES, max(SMALL_INPUT_BYTES, MAX_EXPANSION_RATIO * path.stat().st_size))


def check_input_limit(path: Path, estimate: float, what: str, bound: float | None = None) -> None:
    """Raise an InputError if the content of a file takes more memory than the limit.

    Args:
        path: The file.
        estimate: Memory that the content takes (bytes).
        what: The size of the content, the start of the message: `has 9 rows`.
        bound: The limit (bytes); by default that of `compute_input_limit`.

    >>> check_input_limit(Path("log.swf"), 3e9, "has 9 rows", bound=1e9)
    Traceback (most recent call last):
    twinloop.InputError: log.swf: has 9 rows, for which about 2.8 GiB of memory are
    needed; the limit for this file is 0.93 GiB (TWINLOOP_MAX_INPUT=3GiB in the environment raises
    it, if you trust the file) [TL0111]
    """
    bound = compute_input_limit(path) if bound is None else bound
    if estimate <= bound:
        return
    raise InputError(
        f"{what}, for which about {_format_size(estimate)} of memory are needed; the limit for "
        f"this file is {_format_size(bound)}",
        kind="too-large",
        file=path,
        remedy=f"{MAX_INPUT_VARIABLE}={int(estimate / (1 << 30)) + 1}GiB in the environment raises "
        "it, if you trust the file",
    )


def check_table_size(path: Path, rows: int, *types: Iterable[Any], listed: int = 0) -> None:
    """Raise an InputError if a table with this number of rows and these columns is too large.

    Args:
        path: The file with the table.
        rows: Number of rows.
        types: Column types of each stage of reading; the widest stage counts.
        listed: Memory of the list values in its rows, in addition (bytes).
    """
    # Polars stores a text as a view of 16 bytes, and a number in at most 8 bytes.
    widths = [[16 if kind in (pl.String, pl.Binary) else 8 for kind in stage] for stage in types]
    widest = max(widths, key=sum)
    what = f"has {rows:,} rows of {len(widest)} columns" + (", with long lists" if listed else "")
    check_input_limit(path, rows * sum(widest) + listed, what)


def _parse_size(setting: str) -> float:
    if setting.lower() == "none":
        return float("inf")
    size = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([KMGT]?(?:i?B)?)", setting)
    unit = None if size is None else "" if size[2] == "B" else size[2]
    if size is None or unit not in _UNITS:
        raise InputError(
            f"{setting!r} is not a size",
            kind="invalid-quantity",
            field=MAX_INPUT_VARIABLE,
            remedy="write a size such as 16GiB, or none",
        )
    return float(size[1]) * float(_UNITS[unit])


def _format_size(size: float) -> str:
    return f"{size / (1 << 30):.2g} GiB" if size < 10 << 30 else f"{size / (1 << 30):,.0f} GiB"
