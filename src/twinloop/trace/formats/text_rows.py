"""Reading of text logs in batches of rows, with a filter for unreadable lines.

Only one line and one batch of rows are in memory as text; a batch is converted to columns before
the next one is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import iterate_text_chunks
from twinloop.trace.formats.cleaning_counts import Tally

MAX_LINE_BYTES = 16 << 20
BATCH_ROWS = 1 << 14
BATCH_CELLS = 1 << 22

#: Larger numbers are rejected as errors. Products of three accepted numbers are finite.
MAX_NUMBER = 1e18
#: Largest distance of a time from t = 0 or from 1970, in seconds (3,000 years): with larger times
#: in a log, the others would lose their milliseconds.
MAX_LOG_TIME = 1e11
#: The first Unix time with ten digits (2001); no log counts so many seconds from its own start.
FIRST_UNIX_TIME = 1e9

_UNREADABLE = re.compile("[\x00\udc80-\udcff]")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text, numbered from 1, without their ends (``\n``, ``\r\n``, ``\r``).

    Bytes that are not UTF-8 become surrogates, which `has_unreadable_bytes` detects.
    """
    number = 0
    carry = b""
    for chunk in iterate_text_chunks(path):
        block = carry + chunk
        # A final '\r' may be the first half of a '\r\n'.
        cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        carry = block[cut:]
        if len(carry) > MAX_LINE_BYTES:
            raise InputError(
                f"is longer than {MAX_LINE_BYTES:,} bytes: this is not a text log",
                kind="malformed-row",
                file=path,
                line=number + block.count(b"\n", 0, cut) + 1,
            )
        for raw in block[:cut].splitlines():
            number += 1
            yield number, _decode(raw, number)
    for raw in carry.splitlines():
        number += 1
        yield number, _decode(raw, number)


def has_unreadable_bytes(text: str) -> bool:
    r"""Whether a text contains a NUL, or bytes that are not UTF-8.

    >>> has_unreadable_bytes("J\xfcrgen"), has_unreadable_bytes("a\x00b")
    (False, True)
    """
    return _UNREADABLE.search(text) is not None


def split_header(start: bytes, separator: str) -> list[str]:
    """Split the first line of a text into cells, without surrounding blanks.

    >>> split_header(b"JobID|User\\n1|a", "|")
    ['JobID', 'User']
    """
    text = start.decode("utf-8-sig", "replace").lstrip()
    first = text.splitlines()[0] if text else ""
    return [cell.strip() for cell in first.split(separator)]


def batch_rows(rows: Iterable[tuple[int, Sequence[str]]], width: int) -> Iterator[pl.DataFrame]:
    """Yield batches of rows as frames with text columns `0`, `1`... and the column `line`."""
    numbers: list[int] = []
    cells: list[Sequence[str]] = []
    max_rows = max(1, min(BATCH_ROWS, BATCH_CELLS // max(width, 1)))
    for number, row in rows:
        numbers.append(number)
        cells.append(row)
        if len(cells) == max_rows:
            yield _make_frame(numbers, cells, width)
            numbers, cells = [], []
    if cells:
        yield _make_frame(numbers, cells, width)


class CellCheck(NamedTuple):
    """A check of one field: the problem, and the expression that is true for bad cells."""

    field: str
    problem: str
    bad: pl.Expr
    #: The column whose text the error shows.
    column: str


class RowFilter:
    """A filter that removes and counts unreadable lines; in strict mode, the first one raises."""

    def __init__(self, path: Path, tally: Tally, *, strict: bool) -> None:
        self.path = path
        self.tally = tally
        self.strict = strict

    def reject(self, number: int, problem: str, *, what: str, count: int = 1) -> None:
        """Skip a line (or `count` lines from it on) that `what` describes."""
        if self.strict:
            raise InputError(problem, kind="invalid-value", file=self.path, line=number)
        self.tally.note("skipped", what, count=count, examples=[f"{self.path.name}:{number}"])

    def is_readable(self, number: int, text: str) -> bool:
        """Whether a line is readable text; otherwise it is skipped."""
        if not has_unreadable_bytes(text):
            return True
        if "\x00" in text:
            self.reject(number, "has a NUL byte", what="lines with a NUL byte")
        else:
            self.reject(number, "is not UTF-8", what="lines that are not UTF-8")
        return False

    def filter_rows(self, frame: pl.DataFrame, checks: Sequence[CellCheck]) -> pl.DataFrame:
        """Return the rows of a batch that pass all checks."""
        if not checks:
            return frame
        marked = frame.with_columns(
            pl.coalesce(
                [
                    pl.when(check.bad.fill_null(False)).then(pl.lit(index, dtype=pl.UInt32))
                    for index, check in enumerate(checks)
                ]
            ).alias("failed")
        )
        failed = marked.filter(pl.col("failed").is_not_null())
        if failed.height and self.strict:
            row = failed.row(0, named=True)
            check = checks[row["failed"]]
            value = row[check.column][:80]
            raise InputError(
                f"{value!r} {check.problem}",
                kind="invalid-value",
                file=self.path,
                line=row["line"],
                field=check.field,
            )
        for (index,), group in failed.group_by("failed", maintain_order=True):
            check = checks[int(index)]
            what = f"lines whose {check.field} {check.problem}"
            self.tally.note_lines("skipped", what, self.path.name, group["line"])
        return marked.filter(pl.col("failed").is_null()).drop("failed")


def parse_number(column: str) -> pl.Expr:
    """Parse a text column as numbers; null if a cell is not a number."""
    return _strip(column).cast(pl.Float64, strict=False)


def make_number_check(column: str, field: str, limit: float = MAX_NUMBER) -> CellCheck:
    """Make a check for cells that are neither empty nor a number in range."""
    value = parse_number(column)
    is_valid = value.is_finite().fill_null(False) & (value.abs() <= limit)
    problem = "is not a number in range" if limit == MAX_NUMBER else "is not a time in range"
    return CellCheck(field, problem, _strip(column).ne("") & ~is_valid, column)


def parse_text(column: str) -> pl.Expr:
    """Strip a text column; null if a cell is empty."""
    stripped = _strip(column)
    return pl.when(stripped.ne("")).then(stripped)


def shift_to_first_time(
    frame: pl.DataFrame, times: Sequence[str], tally: Tally
) -> tuple[pl.DataFrame, int | None]:
    """Shift Unix times so that the first is t = 0; return the frame and the epoch in ms.

    Times of logs that do not use Unix times are not shifted.
    """
    first = frame.select(pl.min_horizontal(pl.col(name).min() for name in times)).item()
    if first is None or first < FIRST_UNIX_TIME:
        return frame, None
    epoch_ms = int(first * 1000 // 1)
    tally.note("assumed", "times are Unix seconds: t = 0 is the first of them", count=frame.height)
    return frame.with_columns(pl.col(name) - epoch_ms / 1000 for name in times), epoch_ms


def _strip(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars()


def _decode(raw: bytes, number: int) -> str:
    text = raw.decode("utf-8", "surrogateescape")
    return text.removeprefix("\ufeff") if number == 1 else text


def _make_frame(numbers: list[int], cells: list[Sequence[str]], width: int) -> pl.DataFrame:
    columns = list(zip(*cells, strict=True))
    return pl.DataFrame(
        [pl.Series("line", numbers, dtype=pl.UInt32)]
        + [pl.Series(str(index), columns[index], dtype=pl.String) for index in range(width)]
    )
