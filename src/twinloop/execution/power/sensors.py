"""Readings from the output of `ipmitool` and `sensors`, with a time before each.

Supported are `ipmitool dcmi power reading`, the tables of `ipmitool sensor` and `ipmitool sdr`, and
the lines with watts of `sensors` (lm-sensors). Their own times are those of a management
controller, which are often wrong, so each reading needs a time before it: Unix time or ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.execution.power.readings import SCHEMA, Readings, sort_readings
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.text_rows import FIRST_UNIX_TIME, RowFilter, read_lines

DCMI: Final = "dcmi"
#: lm-sensors shows a meter without a value as 2^32 - 1 microwatts, "4.29 MW".
IMPOSSIBLE_WATTS: Final = 1e6

_UNIX = re.compile(r"^\s*([0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{13})(?=[\s,;:|]|$)[\s,;:|]*(.*)$")
_ISO = re.compile(
    r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?)(?=[\s,;:|]|$)[\s,;:|]*(.*)$"
)
_DCMI = re.compile(r"^\s*Instantaneous power reading:\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*W")
_DCMI_OFF = re.compile(r"^\s*Power reading state is:\s*deactivated")
_DCMI_REST = re.compile(r"^\s*(?:Minimum|Maximum|Average power reading) .*W")
_CELL = re.compile(r"^([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*Watts$")
_LABEL = re.compile(r"^([^:|]{1,60}):\s+([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([umkM]?)W\b")
_CHIP = re.compile(r"^[\w.]+-[\w.]+-[\w.:]+$")
_PREFIX: Final = {"": 1.0, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6}


class _SensorReading(NamedTuple):
    line: int
    unix: float
    source: str
    watts: float | None


def read_sensors(
    path: Path,
    sensors: Sequence[str] | None,
    *,
    node: str | None,
    utc_offset: float | None,
    strict: bool,
) -> Readings:
    """Read the output of tools, for `read_power`."""
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    readings = list(_find_readings(path, row_filter, utc_offset))
    sources = list(dict.fromkeys(reading.source for reading in readings))
    if not sources:
        raise FormatError(
            "has no reading of power in a supported format",
            kind="invalid-power-readings",
            file=path,
            remedy="supported are ipmitool dcmi power reading, ipmitool sensor, ipmitool sdr, "
            "sensors, and tables with columns={'time': ..., 'watts': ...}",
        )
    chosen = _choose_sensors(path, sources, sensors)
    for name in sources:
        if name not in chosen:
            count = sum(reading.source == name for reading in readings)
            tally.note("ignored", f"readings of the sensor '{name}'", count=count)
    kept = [reading for reading in readings if reading.source in chosen]
    epoch_ms = int(min(reading.unix for reading in kept) * 1000 // 1)
    rows = [
        (node, reading.source, reading.unix - epoch_ms / 1000, None, reading.watts, reading.line)
        for reading in kept
    ]
    table = pl.DataFrame(rows, schema={**SCHEMA, "line": pl.UInt32}, orient="row")
    return Readings(
        sort_readings(table, path, tally),
        epoch_ms=epoch_ms,
        files=(describe_source_file(path),),
        cleaned=tally.cleanings(),
    )


def _choose_sensors(
    path: Path, sources: Sequence[str], requested: Sequence[str] | None
) -> Sequence[str]:
    if requested is None and len(sources) > 1:
        raise InputError(
            f"has {len(sources)} sensors of power, and some may be parts of others: "
            f"{', '.join(sources)}",
            kind="invalid-power-readings",
            file=path,
            field="sensors",
            remedy=f"choose those to add up: sensors=[{sources[0]!r}]",
        )
    for name in requested or ():
        if name not in sources:
            remedy = f"there are: {', '.join(sources)}"
            raise InputError(
                f"there is no sensor '{name}'",
                kind="invalid-power-readings",
                file=path,
                field="sensors",
                remedy=remedy,
            )
    return sources if requested is None else requested


def _find_readings(
    path: Path, row_filter: RowFilter, utc_offset: float | None
) -> Iterator[_SensorReading]:
    """Yield every reading with its time; a block of DCMI that is deactivated has none."""
    now: float | None = None
    chip = ""
    pending: _SensorReading | None = None
    for line, text in read_lines(path):
        if not text.strip() or not row_filter.is_readable(line, text):
            continue
        time_and_rest = _parse_time(text, utc_offset, row_filter.tally)
        if time_and_rest is not None:
            now, text = time_and_rest
        if _DCMI_OFF.match(text):
            pending = None
            what = "readings of a meter that is deactivated"
            row_filter.tally.note("ignored", what, examples=[f"{path.name}:{line}"])
            continue
        source_and_watts = _parse_watts(text, chip)
        if source_and_watts is None:
            if _CHIP.match(text.strip()):
                chip = f"{text.strip()}/"
            elif text.strip() and not _DCMI_REST.match(text):
                row_filter.tally.note("ignored", "lines without a reading of power")
            continue
        source, watts = source_and_watts
        if now is None:
            raise InputError(
                "has no time before it",
                kind="invalid-power-readings",
                file=path,
                line=line,
                remedy="write one before each reading: (date +%s; ipmitool dcmi power reading)",
            )
        if watts is not None and watts >= IMPOSSIBLE_WATTS:
            what = "readings of a megawatt and more, which mean that there is no value"
            row_filter.tally.note("ignored", what, examples=[f"{path.name}:{line}"])
            watts = None
        if pending is not None:
            yield pending
        pending = _SensorReading(line, now, source, watts)
    if pending is not None:
        yield pending


def _parse_watts(text: str, chip: str) -> tuple[str, float | None] | None:
    """Return the sensor of a line and its watts; None if the line is not about power.

    The watts are None if the line has no value.
    """
    if match := _DCMI.match(text):
        return DCMI, float(match[1])
    if "|" in text:
        cells = [cell.strip() for cell in text.split("|")]
        for before, cell in pairwise(cells):
            if match := _CELL.match(cell):
                return cells[0], float(match[1])
            if cell == "Watts":
                value = _CELL.match(f"{before} Watts")
                return cells[0], float(value[1]) if value else None
        return None
    if not _DCMI_REST.match(text) and (match := _LABEL.match(text)):
        return chip + match[1].strip(), float(match[2]) * _PREFIX[match[3]]
    return None


def _parse_time(text: str, utc_offset: float | None, tally: Tally) -> tuple[float, str] | None:
    """Return the Unix time at the beginning of a line, and the rest; None if there is no time."""
    if match := _UNIX.match(text):
        is_milliseconds = match[1].isdecimal() and len(match[1]) == 13
        return float(match[1]) / (1000 if is_milliseconds else 1), match[2]
    if not (match := _ISO.match(text)):
        return None
    try:
        moment = datetime.fromisoformat(match[1].replace(",", "."))
    except ValueError:
        return None
    if moment.tzinfo is None:
        if utc_offset is None:
            tally.note("assumed", "times without a zone, read as UTC")
        moment = moment.replace(tzinfo=UTC) - timedelta(hours=utc_offset or 0.0)
    unix = moment.timestamp()
    return (unix, match[2]) if unix >= FIRST_UNIX_TIME else None
