"""Readings from text tables with named columns: time, watts or joules, node."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.description.separators import find_separator
from twinloop.execution.power.energy_counter import EnergyCounter
from twinloop.execution.power.readings import SCHEMA, Readings, sort_readings
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.text_rows import (
    FIRST_UNIX_TIME,
    MAX_LOG_TIME,
    CellCheck,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    parse_text,
    read_lines,
)

DATETIME: Final = "datetime"
#: Kinds of columns, with the factors of their units to s, W or J.
UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, DATETIME: 1e-6},
    "watts": {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "kW": 1e3},
    "joules": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "kJ": 1e3, "Wh": 3600.0, "kWh": 3.6e6},
    "node": {},
    "source": {},
}
# Lower bounds of Unix times of this century, by unit.
_MIN_UNIX_TIMES: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))


def read_table(
    path: Path,
    columns: Mapping[str, str],
    *,
    units: Mapping[str, str],
    wraps_at: float | None,
    node: str | None,
    utc_offset: float | None,
    strict: bool,
) -> Readings:
    """Read a table, for `read_power`."""
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    names, rows = _read_rows(path, row_filter)
    positions = _find_positions(path, names, columns)
    frames: list[pl.DataFrame] = []
    chosen = dict(units)
    for batch in batch_rows(rows, len(names)):
        if not frames:
            chosen = _choose_units(batch, positions, units, tally)
        frames.append(_convert_batch(batch, positions, chosen, row_filter, utc_offset))
    readings = pl.concat(frames) if frames else None
    if readings is None or readings.height == 0:
        raise InputError(
            "has no reading that can be read", kind="invalid-power-readings", file=path
        )
    if "node" not in positions:
        readings = readings.with_columns(node=pl.lit(node, dtype=pl.String))
    for name in names:
        if name not in columns.values():
            tally.note("ignored", f"values of the column '{name}'", count=readings.height)
    readings, epoch_ms = _make_relative(readings, tally)
    table = sort_readings(readings, path, tally)
    if "joules" in positions:
        table = _accumulate(table, wraps_at, 1 / UNITS["joules"][chosen["joules"]], path, tally)
    return Readings(
        table,
        epoch_ms=epoch_ms,
        files=(describe_source_file(path),),
        cleaned=tally.cleanings(),
    )


def read_header(path: Path) -> list[str]:
    """Read the names in the first line of a table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     file = Path(parent, "power.csv")
    ...     _ = file.write_text("time;watts\\n0;5\\n")
    ...     read_header(file)
    ['time', 'watts']
    """
    first = _read_first_line(path)
    return [cell.strip() for cell in _split_cells(first, find_separator(first)) or []]


def _read_rows(
    path: Path, row_filter: RowFilter
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    names, first = read_header(path), _read_first_line(path)
    separator = find_separator(first)
    duplicates = [name for name in names if names.count(name) > 1]
    if duplicates:
        raise FormatError(
            f"has the column '{duplicates[0]}' more than once",
            kind="wrong-columns",
            file=path,
            line=1,
        )

    def rows() -> Iterator[tuple[int, list[str]]]:
        numbered = ((line, text) for line, text in read_lines(path) if text.strip())
        next(numbered)
        for line, text in numbered:
            if not row_filter.is_readable(line, text):
                continue
            cells = _split_cells(text, separator)
            if cells is None or len(cells) != len(names):
                problem = "cannot be read" if cells is None else f"has {len(cells)} cells"
                what = f"lines that do not have {len(names)} cells"
                row_filter.reject(line, f"{problem}, not {len(names)} cells", what=what)
            else:
                yield line, cells

    return names, rows()


def _read_first_line(path: Path) -> str:
    first = next((text for _, text in read_lines(path) if text.strip()), None)
    if first is None:
        raise InputError("is empty", kind="empty-log", file=path)
    return first


def _split_cells(text: str, separator: str) -> list[str] | None:
    try:
        return next(csv.reader([text], delimiter=separator))
    except csv.Error:
        return None


def _find_positions(path: Path, names: list[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the position of each kind of column as a text, which is its name in a batch."""
    for key, name in columns.items():
        if key not in UNITS:
            remedy = f"one of: {', '.join(UNITS)}"
            raise InputError(
                f"there is no kind of column '{key}'",
                kind="wrong-columns",
                field="columns",
                remedy=remedy,
            )
        if name not in names:
            remedy = f"there are: {', '.join(names)}"
            raise FormatError(
                f"there is no column '{name}'",
                kind="wrong-columns",
                file=path,
                field=key,
                remedy=remedy,
            )
    if "time" not in columns or ("watts" in columns) == ("joules" in columns):
        raise InputError(
            "must name the time, and either the watts or the joules",
            kind="wrong-columns",
            field="columns",
            remedy="columns={'time': ..., 'watts': ...}",
        )
    return {key: str(names.index(name)) for key, name in columns.items()}


def _choose_units(
    batch: pl.DataFrame, positions: Mapping[str, str], given: Mapping[str, str], tally: Tally
) -> dict[str, str]:
    """Return the unit of each column; note the units that were not given."""
    chosen = {}
    for key, unit in given.items():
        if key not in positions or unit not in UNITS[key]:
            remedy = "; ".join(f"{name}: {', '.join(units)}" for name, units in UNITS.items())
            raise InputError(
                f"'{unit}' is not a unit of '{key}'",
                kind="invalid-quantity",
                field="units",
                remedy=remedy,
            )
        chosen[key] = unit
    for key in ("time", "watts", "joules"):
        if key in positions and key not in chosen:
            chosen[key] = (
                _guess_time_unit(batch, positions[key]) if key == "time" else next(iter(UNITS[key]))
            )
            tally.note("assumed", f"the column of the {key} is in {chosen[key]}")
    return chosen


def _guess_time_unit(batch: pl.DataFrame, column: str) -> str:
    numbers = batch.select(parse_number(column).abs()).to_series().drop_nulls()
    median = numbers.median()
    if not isinstance(median, float) or 2 * numbers.len() < batch.height:
        return DATETIME
    return next((unit for minimum, unit in _MIN_UNIX_TIMES if median >= minimum), "s")


def _convert_batch(
    batch: pl.DataFrame,
    positions: Mapping[str, str],
    units: Mapping[str, str],
    row_filter: RowFilter,
    utc_offset: float | None,
) -> pl.DataFrame:
    """Convert a batch to the columns of readings; joules stay in the unit of the counter."""
    time, checks = positions["time"], []
    factor = UNITS["time"][units["time"]]
    if units["time"] == DATETIME:
        texts = batch.select(parse_text(time)).to_series()
        times = parse_unix_us(texts, utc_offset=utc_offset or 0.0)
        if utc_offset is None:
            has_no_zone = texts.drop_nulls().str.contains(r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$").not_()
            what = "times without a zone, read as UTC"
            row_filter.tally.note("assumed", what, count=int(has_no_zone.sum()))
    else:
        checks.append(make_number_check(time, "time", MAX_LOG_TIME / factor))
        times = batch.select(parse_number(time)).to_series()
    checks.append(CellCheck("time", "is not a time", pl.col("t").is_null(), time))
    values = [(times * factor).alias("t").cast(pl.Float64)]
    for key in ("watts", "joules"):
        if key in positions:
            value = parse_number(positions[key])
            checks.append(make_number_check(positions[key], key))
            checks.append(CellCheck(key, "is negative", value < 0, positions[key]))
            values.append(batch.select(value * _get_factor(key, units)).to_series().alias(key))
        else:
            values.append(pl.Series(key, [None], dtype=pl.Float64).new_from_index(0, batch.height))
    for key, default in (("node", None), ("source", "table")):
        name = parse_text(positions[key]) if key in positions else pl.lit(None, dtype=pl.String)
        value = name.fill_null(pl.lit(default, dtype=pl.String))
        values.append(batch.with_columns(value.alias(key))[key])
    converted = batch.with_columns(values)
    return row_filter.filter_rows(converted, checks).select("line", *SCHEMA)


def _get_factor(key: str, units: Mapping[str, str]) -> float:
    return UNITS["watts"][units["watts"]] if key == "watts" else 1.0


def _make_relative(readings: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, int | None]:
    first = float(readings.select(pl.min("t")).item())
    if first < FIRST_UNIX_TIME:
        tally.note("assumed", "times are seconds since t = 0 of the run", count=readings.height)
        return readings, None
    epoch_ms = int(first * 1000 // 1)
    return readings.with_columns(pl.col("t") - epoch_ms / 1000), epoch_ms


def _accumulate(
    readings: pl.DataFrame, wraps_at: float | None, per_joule: float, path: Path, tally: Tally
) -> pl.DataFrame:
    """Convert counters to joules since the first reading, with a row for each gap."""
    rows: list[tuple[object, object, float, float | None, None]] = []
    wraps = 0
    for (node, source), series in readings.group_by("node", "source", maintain_order=True):
        counter = EnergyCounter(wraps_at, per_joule)
        for t, value in series.select("t", "joules").iter_rows():
            if value is None:
                counter.mark_gap()
                rows.append((node, source, t, None, None))
                continue
            resets = counter.resets
            if not counter.add_reading(t, value):
                rows.append((node, source, t, None, None))
                what = (
                    "counters that decreased: a new series, as their range is unknown"
                    if counter.resets > resets
                    else f"counters not read for more than {counter.max_gap:.0f} s: their number "
                    "of wrap-arounds is unknown"
                )
                tally.note("noticed", what, examples=[f"{path.name}: {source} at t = {t:.3f} s"])
            rows.append((node, source, t, counter.joules, None))
        wraps += counter.wraps
    tally.note("noticed", "wrap-arounds of counters", count=wraps)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
