"""Records of a table in text (CSV, TSV...): the names in its first line, and its rows."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from twinloop.description.errors import FormatError, InputError
from twinloop.description.separators import find_separator
from twinloop.trace.formats.text_rows import RowFilter, read_lines


def open_table(
    path: Path, row_filter: RowFilter, separator: str | None
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names in the first line, and the rows after it."""
    first = next((text for _, text in read_lines(path) if text.strip()), None)
    if first is None:
        raise InputError("is empty", kind="empty-log", file=path)
    if separator is None:
        separator = find_separator(first)
    elif len(separator) != 1 or separator in '"\r\n':
        raise InputError(
            f"{separator!r} cannot separate cells", kind="wrong-argument", field="separator"
        )
    records = _read_records(path, row_filter, separator)
    line, cells = next(records, (1, []))
    names = [cell.strip() for cell in cells]
    duplicates = sorted(name for name, count in Counter(names).items() if name and count > 1)
    if not any(names) or duplicates:
        problem = (
            f"names the column '{duplicates[0]}' twice" if duplicates else "has no names of columns"
        )
        raise FormatError(problem, kind="wrong-columns", file=path, line=line)

    def rows() -> Iterator[tuple[int, list[str]]]:
        for number, cells in records:
            if len(cells) == len(names):
                yield number, cells
            else:
                problem = f"has {len(cells)} cells, not {len(names)}"
                what = f"lines without {len(names)} cells"
                count = 1 + sum(cell.count("\n") for cell in cells)
                row_filter.reject(number, problem, what=what, count=count)

    return names, rows()


def _read_records(
    path: Path, row_filter: RowFilter, separator: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield records with the line on which they start; a quoted cell may span several lines."""
    reader = csv.reader(
        (text + "\n" for _, text in read_lines(path)), delimiter=separator, strict=True
    )
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):
                raise InputError(
                    "a quoted cell begins here and never ends",
                    kind="malformed-row",
                    file=path,
                    line=start,
                ) from None
            count = max(reader.line_num - start + 1, 1)
            what = "lines whose quotes cannot be read"
            row_filter.reject(start, f"cannot be read: {error}", what=what, count=count)
            continue
        if cells and row_filter.is_readable(start, separator.join(cells)):
            yield start, cells
