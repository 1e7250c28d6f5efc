"""Values over time: pairs of times and values, or a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.description.quantities import DURATION, quote_value
from twinloop.description.separators import find_separator

#: JSON Schemas of the path of a file, and of pairs.
SERIES_SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string", "minLength": 1},
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": {"type": ["number", "string"]},
        },
    },
)


def read_series(
    value: Any, what: str, read_value: Callable[[Any], float | None], remedies: tuple[str, str]
) -> Any:
    """Read pairs of a time and a value, in the order of the times; a text is the path of a file.

    `read_value` returns None for what is no value, and may raise an `InputError`. The remedies are
    for something that is neither pairs nor a path, and for something that is no pair.

    >>> read_series([["1h", 0.5]], "price", float, ("give pairs", "such as [1h, 0.5]"))
    ((3600.0, 0.5),)
    """
    if isinstance(value, str) and value.strip():
        return value
    if not isinstance(value, list | tuple) or not value:
        raise InputError(
            f"is not a {what}: {quote_value(value)}", kind="wrong-type", remedy=remedies[0]
        )
    pairs = []
    for i, pair in enumerate(value):
        given = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        read = read_value(given[1])
        if read is None:
            raise InputError(
                f"entry {i + 1} must be a time and a {what}, not {quote_value(pair)}",
                kind="wrong-type",
                remedy=remedies[1],
            )
        pairs.append((DURATION.read(given[0]), read))
        if i > 0 and not pairs[i][0] > pairs[i - 1][0]:
            raise InputError(
                f"the time of entry {i + 1} must be after that of the entry before",
                kind="wrong-order",
                remedy="sort the entries by time",
            )
    return tuple(pairs)


def load_series(
    given: str | tuple[tuple[float, float], ...],
    column: str,
    unit: str = "",
    epoch_ms: int | None = None,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the times (s since t = 0) of a series, and its values from each time on.

    A file has a column of this name, and t (s) or unix_ms. Values out of the bounds are refused.

    >>> [each.tolist() for each in load_series(((0.0, 15.0), (3600.0, 18.5)), "temperature")]
    [[0.0, 3600.0], [15.0, 18.5]]
    """
    if not isinstance(given, str):
        times, values = np.array(given, dtype=np.float64).T
        return times, values
    path = Path(given)
    columns = f"{column} ({unit})" if unit else column

    def refuse(problem: str, line: int | None = None, remedy: str = "") -> NoReturn:
        remedy = (
            remedy or f"write a table with the columns {columns} and t (s since t = 0) or unix_ms"
        )
        raise InputError(problem, kind="wrong-columns", file=path, line=line, remedy=remedy)

    try:
        rows = _read_rows(path)
    except (OSError, UnicodeError, csv.Error) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else str(error)
        refuse(f"cannot be read: {reason.splitlines()[0] if reason else 'no data'}")
    first, header = rows.pop(0) if rows else (1, [])
    clock = next((name for name in ("t", "unix_ms") if name in header), None)
    if clock is None or column not in header:
        refuse(f"lacks a column: it has {', '.join(header) or 'none'}", first)
    for name in (clock, column):
        if header.count(name) > 1:
            refuse(f"has more than one column {name}", first)
    for line, cells in rows:
        if len(cells) != len(header):
            count = "1 value" if len(cells) == 1 else f"{len(cells)} values"
            problem = f"has {count} for {len(header)} columns"
            refuse(problem, line, "write a value for each column")
    lines = [line for line, _ in rows]
    indices = {name: header.index(name) for name in (clock, column)}
    table = pl.DataFrame(
        {name: [row[index] for _, row in rows] for name, index in indices.items()},
        schema=dict.fromkeys(indices, pl.String),
    )
    numbers = table.select(pl.col(clock, column).cast(pl.Float64, strict=False))
    for name in (clock, column):
        is_bad = numbers.select((~pl.col(name).is_finite()).fill_null(True))[name]
        if is_bad.any():
            row = int(is_bad.arg_true()[0])
            refuse(f"{name} is not a number: {quote_value(table[name][row])}", lines[row])
    times, values = numbers[clock].to_numpy(), numbers[column].to_numpy()
    if not times.size:
        refuse("has no rows")
    for bound, is_out, side in zip(
        bounds, (values < bounds[0], values > bounds[1]), ("below", "above"), strict=True
    ):
        if is_out.any():
            row = int(np.argmax(is_out))
            given_value = quote_value(table[column][row])
            refuse(f"{column} is {side} {bound:g}: {given_value}", lines[row])
    is_late = np.diff(times) <= 0
    if is_late.any():
        row = int(np.argmax(is_late)) + 1
        refuse("the times must increase", lines[row], "sort the rows by time")
    if clock == "unix_ms":
        if epoch_ms is None:
            raise InputError(
                "is in unix_ms, but the trace has no date of t = 0",
                kind="unknown-date",
                file=path,
                remedy="give t in seconds since t = 0",
            )
        times = (times - epoch_ms) / 1000
    return times, values


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Read the cells of all lines that are not blank, without spaces around them, by line."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = file.readlines()
    header = next((line for line in lines if line.strip()), "")
    reader = csv.reader(lines, delimiter=find_separator(header))
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    return [(line, cells) for line, cells in rows if any(cells)]
