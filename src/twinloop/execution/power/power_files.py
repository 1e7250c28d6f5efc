"""Power measurements of other tools, read from files and added to a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from twinloop.description.cleaning import EXAMPLES
from twinloop.description.errors import InputError
from twinloop.description.files import require_input
from twinloop.execution.power.power_table import reconstruct_with_notes
from twinloop.execution.power.readings import Readings
from twinloop.execution.power.sensors import read_sensors
from twinloop.execution.power.text_table import UNITS, read_header, read_table
from twinloop.trace.edit.time_shift import TIME_COLUMNS
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.manifest import Edit
from twinloop.trace.trace import Trace, require_trace


def read_power(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    wraps_at: float | None = None,
    node: str | None = None,
    sensors: Sequence[str] | None = None,
    utc_offset: float | None = None,
    strict: bool = False,
) -> Readings:
    """Read power or energy from a text table, or from the output of `ipmitool` or `sensors`.

    Args:
        path: The file, possibly compressed.
        columns: For a table, the column names (values) of the `time`, the `watts` or the `joules`
            of a counter, the `node` and the `source` (keys). Not needed for a table whose columns
            have these names.
        units: Units of `time` (s, ms, us, ns, datetime), `watts` (W, mW, uW, kW) and `joules` (J,
            mJ, uJ, kJ, Wh, kWh). The defaults are W and J; the default for times follows from
            their size. Defaults are noted. Times below 1e9 s are relative to t = 0 of the run.
        wraps_at: Range at which a counter wraps around, in its unit; None if it does not.
        node: The node of the measurements, if no column has it; None for all nodes together.
        sensors: For the output of a tool with several sensors, the sensors to add up.
        utc_offset: Offset from UTC of times without a time zone (hours).
        strict: Whether to raise an error at the first line that cannot be read, instead of leaving
            it out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     log = Path(parent, "power.txt")
    ...     _ = log.write_text("1700000000\\n  Instantaneous power reading:  176 Watts\\n"
    ...                        "1700000005\\n  Instantaneous power reading:  180 Watts\\n")
    ...     readings = read_power(log, node="n1")
    >>> readings.table.select("source", "t", "watts").rows(), readings.epoch_ms
    ([('dcmi', 0.0, 176.0), ('dcmi', 5.0, 180.0)], 1700000000000)
    """
    path = Path(path)
    require_input(path)
    if columns is None:
        names = read_header(path)
        if "time" in names and ("watts" in names or "joules" in names):
            columns = {name: name for name in names if name in UNITS}
    if columns is None:
        for option, value in (("units", units), ("wraps_at", wraps_at)):
            if value is not None:
                raise InputError(
                    "is for tables only; this file is not a table with known columns",
                    kind="conflicting-fields",
                    file=path,
                    field=option,
                    remedy="name the columns of a table with columns=",
                )
        return read_sensors(path, sensors, node=node, utc_offset=utc_offset, strict=strict)
    if sensors is not None:
        raise InputError(
            "is for the output of tools, not for tables",
            kind="conflicting-fields",
            file=path,
            field="sensors",
        )
    if node is not None and "node" in columns:
        raise InputError(
            "cannot be combined with a column of nodes",
            kind="conflicting-fields",
            file=path,
            field="node",
        )
    return read_table(
        path,
        columns,
        units=units or {},
        wraps_at=wraps_at,
        node=node,
        utc_offset=utc_offset,
        strict=strict,
    )


def with_power(trace: Trace, readings: Readings, *, end: float | None = None) -> Trace:
    """Add the power of these readings to a trace, from t = 0 to the end of the run.

    Args:
        trace: A trace without power. If the readings have absolute times, it must have an epoch.
        readings: Readings of `read_power`, or `Readings.from_passes` of a run.
        end: End of the run (s); by default the last time in its tables.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [3.0]}))
    >>> passes = [(float(t), [[None, "package-0", 50.0 * t, None]]) for t in range(5)]
    >>> with_power(trace, Readings.from_passes(passes)).power["watts"].to_list()
    [50.0, 50.0, 50.0]
    """
    trace = require_trace(trace)
    if trace.power.height:
        raise InputError(
            "has power already",
            kind="invalid-power-readings",
            field="trace",
            remedy="remove it first: trace.replace(power=trace.power.clear())",
        )
    readings = _convert_to_run_time(trace, readings)
    run_end = _find_end(trace) if end is None else end
    tally = Tally()
    table = readings.table
    outside = table.filter((pl.col("t") < 0) | (pl.col("t") > run_end))
    if table.height and outside.height == table.height:
        first, last = (round(t) for t in table.select(a=pl.min("t"), b=pl.max("t")).row(0))
        raise InputError(
            f"from t = {first} s to {last} s lies outside the run, which ends at {run_end:.0f} s",
            kind="invalid-power-readings",
            field="readings",
            remedy="check the time zone (utc_offset) and the epoch of the trace",
        )
    examples = [f"t = {t:.3f} s" for t in outside["t"].head(EXAMPLES)]
    what = "readings of power outside the run"
    tally.note("removed", what, count=outside.height, examples=examples)
    nodes = trace.nodes["node"]
    unknown_nodes = [name for name in dict.fromkeys(table["node"]) if name is not None]
    unknown_nodes = [name for name in unknown_nodes if nodes.len() and name not in nodes]
    what = "nodes with power that are not in the trace"
    tally.note("noticed", what, count=len(unknown_nodes), examples=unknown_nodes)
    power, notes = reconstruct_with_notes(readings, 0.0, run_end)
    return trace.replace(power=power).with_manifest(
        cleaned=(*readings.cleaned, *tally.cleanings(), *notes),
        edit=Edit(
            operation="with_power",
            parameters={
                "files": [file.model_dump() for file in readings.files],
                "sources": [list(source) for source in readings.sources],
            },
        ),
    )


def _convert_to_run_time(trace: Trace, readings: Readings) -> Readings:
    if readings.epoch_ms is None:
        return readings
    epoch_ms = trace.manifest.epoch_ms
    if epoch_ms is None:
        raise InputError(
            "has absolute times, but the trace has no epoch",
            kind="unknown-date",
            field="readings",
            remedy="give times in seconds since t = 0, or a trace with an epoch",
        )
    shifted = pl.col("t") + (readings.epoch_ms - epoch_ms) / 1000
    return Readings(readings.table.with_columns(shifted), None, readings.files, readings.cleaned)


def _find_end(trace: Trace) -> float:
    """Return the last time in the tables of a trace (s); infinite if there is none."""
    tables = trace.tables
    last_times = [
        tables[table][name].max()
        for table, names in TIME_COLUMNS.items()
        if table not in ("tasks", "power")
        for name in names
    ]
    return max((float(t) for t in last_times if isinstance(t, float)), default=math.inf)
