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
    sieve = RowFilter(path, tally, strict=strict)
    found = list(_readings(path, sieve, utc_offset))
    there = list(dict.fromkeys(reading.source for reading in found))
    if not there:
        raise FormatError(
            "has no reading of power in a supported format",
            kind="invalid-power-readings",
            file=path,
            remedy="supported are ipmitool dcmi power reading, ipmitool sensor, ipmitool sdr, "
            "sensors, and tables with columns={'time': ..., 'watts': ...}",
        )
    chosen = _chosen(path, there, sensors)
    for name in there:
        if name not in chosen:
            count = sum(reading.source == name for reading in found)
            tally.note("ignored", f"readings of the sensor '{name}'", count=count)
    kept = [reading for reading in found if reading.source in chosen]
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


def _chosen(path: Path, there: Sequence[str], asked: Sequence[str] | None) -> Sequence[str]:
    if asked is None and len(there) > 1:
        raise InputError(
            f"has {len(there)} sensors of power, and some may be parts of others: "
            f"{', '.join(there)}",
            kind="invalid-power-readings",
            file=path,
            field="sensors",
            remedy=f"choose those to add up: sensors=[{there[0]!r}]",
        )
    for name in asked or ():
        if name not in there:
            remedy = f"there are: {', '.join(there)}"
            raise InputError(
                f"there is no sensor '{name}'",
                kind="invalid-power-readings",
                file=path,
                field="sensors",
                remedy=remedy,
            )
    return there if asked is None else asked


def _readings(path: Path, sieve: RowFilter, utc_offset: float | None) -> Iterator[_SensorReading]:
    """Yield every reading with its time; a block of DCMI that is deactivated has none."""
    now: float | None = None
    chip = ""
    waiting: _SensorReading | None = None
    for line, text in read_lines(path):
        if not text.strip() or not sieve.is_readable(line, text):
            continue
        stamp = _stamp(text, utc_offset, sieve.tally)
        if stamp is not None:
            now, text = stamp
        if _DCMI_OFF.match(text):
            waiting = None
            what = "readings of a meter that is deactivated"
            sieve.tally.note("ignored", what, examples=[f"{path.name}:{line}"])
            continue
        found = _watts(text, chip)
        if found is None:
            if _CHIP.match(text.strip()):
                chip = f"{text.strip()}/"
            elif text.strip() and not _DCMI_REST.match(text):
                sieve.tally.note("ignored", "lines without a reading of power")
            continue
        source, watts = found
        if now is None:
            raise InputError(
                "has no time before it",
                kind="invalid-power-readings",
                file=path,
                line=line,
                remedy="write one before each reading: (date +%s; ipmitool dcmi power reading)",
            )
        if watts is not None and watts >= IMPOSSIBLE_WATTS:
            what = "readings of a megawatt and more: no reading"
            sieve.tally.note("ignored", what, examples=[f"{path.name}:{line}"])
            watts = None
        if waiting is not None:
            yield waiting
        waiting = _SensorReading(line, now, source, watts)
    if waiting is not None:
        yield waiting


def _watts(text: str, chip: str) -> tuple[str, float | None] | None:
    """The sensor of a line and its watts (None: no value); None: no line of power."""
    if found := _DCMI.match(text):
        return DCMI, float(found[1])
    if "|" in text:
        cells = [cell.strip() for cell in text.split("|")]
        for before, cell in pairwise(cells):
            if found := _CELL.match(cell):
                return cells[0], float(found[1])
            if cell == "Watts":
                value = _CELL.match(f"{before} Watts")
                return cells[0], float(value[1]) if value else None
        return None
    if not _DCMI_REST.match(text) and (found := _LABEL.match(text)):
        return chip + found[1].strip(), float(found[2]) * _PREFIX[found[3]]
    return None


def _stamp(text: str, utc_offset: float | None, tally: Tally) -> tuple[float, str] | None:
    """The Unix time at the begin of a line, and the rest of the line."""
    if found := _UNIX.match(text):
        milli = found[1].isdecimal() and len(found[1]) == 13
        return float(found[1]) / (1000 if milli else 1), found[2]
    if not (found := _ISO.match(text)):
        return None
    try:
        moment = datetime.fromisoformat(found[1].replace(",", "."))
    except ValueError:
        return None
    if moment.tzinfo is None:
        if utc_offset is None:
            tally.note("assumed", "times without a zone, read as UTC")
        moment = moment.replace(tzinfo=UTC) - timedelta(hours=utc_offset or 0.0)
    unix = moment.timestamp()
    return (unix, found[2]) if unix >= FIRST_UNIX_TIME else None
