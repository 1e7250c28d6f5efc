"""Parquet files of other programs: columns by alternative names, cast to the wanted types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import require_input
from twinloop.description.input_limit import check_table_size
from twinloop.trace.formats.clock import scale_ticks_expr
from twinloop.trace.parquet import estimate_list_bytes, read_parquet_schema, scan_parquet

MAGIC = b"PAR1"

#: Limits for the conversion of a column in pieces: number of pieces, rows of a piece.
MAX_PIECES = 32
MIN_PIECE_ROWS = 1 << 16


def load_columns(
    path: Path, names: Mapping[str, Sequence[str]], required: Sequence[str]
) -> pl.DataFrame:
    """Load the named columns of a file, and `line`, the row from 1.

    Args:
        path: The file.
        names: For each column, the alternative names in a file.
        required: The columns that must exist.
    """
    with _name_file_in_errors(path):
        scan, _ = _scan(path, names, required)
        frame = scan.collect()
    return frame.with_row_index("line", offset=1)


def convert_column(
    path: Path,
    names: Mapping[str, Sequence[str]],
    required: Sequence[str],
    name: str,
    convert: Callable[[pl.DataFrame], pl.Series],
) -> pl.Series:
    """Convert one column of a file, found as `load_columns` does, to numbers.

    The conversion is done in pieces, so that a large column is never in memory as a whole, only the
    result. `convert` gets a frame with the column `name` and returns numbers.
    """
    with _name_file_in_errors(path):
        scan, rows = _scan(path, names, required)
    step = max(MIN_PIECE_ROWS, -(-rows // MAX_PIECES))
    result, unknown = None, np.zeros(rows, dtype=bool)
    # An empty table has one piece, for the types.
    for begin in range(0, max(rows, 1), step):
        with _name_file_in_errors(path):
            piece = scan.select(name).slice(begin, step).collect()
        part = convert(piece)
        if result is None:
            result = np.zeros(rows, dtype=part.clear().to_numpy().dtype)
        result[begin : begin + step] = part.fill_null(0).to_numpy()
        unknown[begin : begin + step] = part.is_null().to_numpy()
    numbers = pl.Series(name, result)
    return numbers.set(pl.Series(unknown), None) if unknown.any() else numbers


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Convert errors while a file is read to an InputError that names the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"cannot be read as Parquet: {text}", kind="damaged-file", file=path
        ) from None


def _scan(
    path: Path, names: Mapping[str, Sequence[str]], required: Sequence[str]
) -> tuple[pl.LazyFrame, int]:
    """Scan the named columns lazily; return them and the number of rows."""
    require_input(path)
    with path.open("rb") as stream:
        start = stream.read(len(MAGIC))
    if start != MAGIC:
        raise FormatError("is not a Parquet file", kind="wrong-format", file=path)
    scan = scan_parquet(path)
    schema = scan.collect_schema()
    chosen = {
        name: next((other for other in others if other in schema), None)
        for name, others in names.items()
    }
    for name in required:
        if chosen[name] is None:
            raise FormatError(
                f"has no column '{name}'",
                kind="wrong-columns",
                file=path,
                remedy=f"it has: {', '.join(schema.names())}",
            )
    parts = [pl.col(other).alias(name) for name, other in chosen.items() if other is not None]
    rows = scan.select(pl.len()).collect().item()
    columns = scan.select(parts)
    selected = {other: schema[other] for other in chosen.values() if other is not None}
    check_table_size(path, rows, selected.values(), listed=estimate_list_bytes(path, selected))
    return columns, rows


def list_other_columns(path: Path, names: Mapping[str, Sequence[str]]) -> list[str]:
    """List the columns of a file that are not in `names`."""
    known = {other for others in names.values() for other in others}
    return [name for name in read_parquet_schema(path) if name not in known]


def cast_text(frame: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Cast a column of identifiers, whole numbers or text, to text."""
    dtype = frame.schema[name]
    if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Null)):
        raise _make_type_error(path, name, dtype, "text or whole numbers")
    return pl.col(name).cast(pl.String)


def cast_text_lists(frame: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Cast a column of lists of identifiers to lists of text."""
    dtype = frame.schema[name]
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    if dtype != pl.Null and not (
        inner is not None and (inner.is_integer() or inner in (pl.String, pl.Null))
    ):
        raise _make_type_error(path, name, dtype, "lists of text or whole numbers")
    return pl.col(name).cast(pl.List(pl.String))


def cast_number(frame: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Cast a column of numbers to float64."""
    dtype = frame.schema[name]
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise _make_type_error(path, name, dtype, "numbers")
    return pl.col(name).cast(pl.Float64)


def cast_milliseconds(frame: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Cast a column of durations, or of times since 1970, to milliseconds (float64)."""
    dtype = frame.schema[name]
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        ticks = pl.col(name).cast(pl.Int64)
        if dtype.time_unit == "ms":
            return ticks.cast(pl.Float64)
        # Nanoseconds since 1970 exceed the precision of float64.
        return scale_ticks_expr(ticks // 1000 if dtype.time_unit == "ns" else ticks)
    if dtype == pl.Date:
        return pl.col(name).cast(pl.Datetime("ms")).cast(pl.Int64).cast(pl.Float64)
    return cast_number(frame, name, path)


def _make_type_error(path: Path, name: str, dtype: pl.DataType, wanted: str) -> InputError:
    return FormatError(
        f"is of type {dtype}, not {wanted}", kind="wrong-columns", file=path, field=name
    )
