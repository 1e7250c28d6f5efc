"""The memory that one input may take: a bound for every reader, and the setting that lifts it.

A small file can stand for a very large table: repeated values shrink by a factor of thousands. So
each reader estimates what it is about to hold, and refuses what is beyond the bound before memory
is taken for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError

#: The environment variable that sets the bound: a size such as 16GiB, or `none`.
MAX_INPUT_VARIABLE: Final = "TWINLOOP_MAX_INPUT"

#: What any input may take.
MAX_INPUT_BYTES: Final = 8 << 30
#: What a small file may take, and how many times its own size a larger one may. The text of a log
#: shrinks by a factor of 5 to 50; what grows by more than this was made to fill a memory.
SMALL_INPUT_BYTES: Final = 256 << 20
MAX_EXPANSION_RATIO: Final = 250

_UNITS: Final[dict[str, int]] = {"": 1} | {
    f"{letter}{end}": base ** (power + 1)
    for power, letter in enumerate("KMGT")
    for end, base in (("", 1024), ("B", 1000), ("iB", 1024))
}


def compute_input_limit(path: Path) -> float:
    """Bytes of memory that this file may take."""
    said = os.environ.get(MAX_INPUT_VARIABLE, "").strip()
    if said:
        return _parse(said)
    return min(MAX_INPUT_BYTES, max(SMALL_INPUT_BYTES, MAX_EXPANSION_RATIO * path.stat().st_size))


def check_input_limit(path: Path, estimate: float, what: str, bound: float | None = None) -> None:
    """Raise an InputError if what is read from a file takes more memory than the bound.

    >>> check_input_limit(Path("log.swf"), 3e9, "has 9 rows", bound=1e9)
    Traceback (most recent call last):
    twinloop.InputError: log.swf: has 9 rows, for which about 2.8 GiB of memory are
    needed; the bound for this file is 0.93 GiB (TWINLOOP_MAX_INPUT=3GiB in the environment lifts
    it, if you trust the file)
    """
    bound = compute_input_limit(path) if bound is None else bound
    if estimate <= bound:
        return
    raise InputError(
        f"{what}, for which about {_shown(estimate)} of memory are needed; the bound for this file "
        f"is {_shown(bound)}",
        file=path,
        remedy=f"{MAX_INPUT_VARIABLE}={int(estimate / (1 << 30)) + 1}GiB in the environment lifts "
        "it, if you trust the file",
    )


def check_table_size(path: Path, rows: int, *types: Iterable[Any], listed: int = 0) -> None:
    """Raise an InputError if a table of so many rows, with columns of these types, is too large.

    Args:
        path: The file that holds it.
        rows: Its number of rows.
        types: The types of its columns, as they are held one after the other: the largest counts.
        listed: What the values of lists in its rows take besides (bytes).
    """
    widths = [[16 if each in (pl.String, pl.Binary) else 8 for each in held] for held in types]
    widest = max(widths, key=sum)
    what = f"has {rows:,} rows of {len(widest)} columns" + (", with long lists" if listed else "")
    check_input_limit(path, rows * sum(widest) + listed, what)


def _parse(said: str) -> float:
    if said.lower() == "none":
        return float("inf")
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([KMGT]?(?:i?B)?)", said)
    unit = None if found is None else found[2].removesuffix("B") if found[2] == "B" else found[2]
    if found is None or unit not in _UNITS:
        raise InputError(
            f"{said!r} is no size", field=MAX_INPUT_VARIABLE, remedy="such as 16GiB, or none"
        )
    return float(found[1]) * float(_UNITS[unit])


def _shown(size: float) -> str:
    return f"{size / (1 << 30):.2g} GiB" if size < 10 << 30 else f"{size / (1 << 30):,.0f} GiB"
