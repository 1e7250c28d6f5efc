"""Reader of tables in text (CSV, TSV...) with a map of their columns.

A column map has names of Twinloop as keys (the columns of the table `tasks`, and `start`, `end`,
`wait`, `machine` and `allocated_cores` of the execution) and column names of the file as values.
Without a map, the columns of the file with such names are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.description.separators import SEPARATORS
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import scale_ticks_expr
from twinloop.trace.formats.csv_map.values import (
    DATETIME,
    PLACEMENT_COLUMNS,
    TARGETS,
    Target,
    clear_unknown_statuses,
    list_time_columns,
)
from twinloop.trace.formats.csv_records import open_table
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import (
    RowFilter,
    batch_rows,
    shift_to_first_time,
    split_header,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

#: Short names of frequent columns.
SHORT_NAMES: Final = {
    "cores": "requested_cores",
    "nodes": "requested_nodes",
    "memory": "requested_memory",
    "time_limit": "requested_time",
}


def read(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    separator: str | None = None,
    strict: bool = False,
) -> Trace:
    """Read tasks from a table in text whose first line names the columns.

    Args:
        path: The table, possibly compressed.
        columns: For each column of `tasks`, or `start`, `end`, `wait`, `machine`,
            `allocated_cores` (key), the column of the file (value). `cores`, `nodes`, `memory` and
            `time_limit` are short for the requested ones.
        units: The unit of a key of `columns`: s, ms, us, ns, min, h or datetime for times; B, KB,
            MB, GB, TB, KiB, MiB, GiB, TiB for memory. The default is bytes, seconds, or date-times
            if the column contains them; that choice is noted.
        separator: The character between two cells; by default the most frequent in the first line.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     table = Path(temporary, "jobs.csv")
    ...     _ = table.write_text("JobID,When,NCPUS\\n7,2024-01-01T00:00:10Z,4\\n")
    ...     trace = read(table, columns={"id": "JobID", "submit": "When", "cores": "NCPUS"})
    >>> trace.tasks.select("id", "submit", "requested_cores").row(0), trace.manifest.epoch_ms
    (('7', 0.0, 4.0), 1704067210000)
    """
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    names, rows = open_table(path, row_filter, separator)
    targets = _make_targets(path, names, columns, units or {})
    frames: list[pl.DataFrame] = []
    for batch in batch_rows(rows, len(names)):
        if not frames:
            targets = [target.choose_unit(batch, tally) for target in targets]
            _check_one_clock(path, targets)
        checks = [check for target in targets if (check := target.check()) is not None]
        values = batch.with_columns(target.parse(batch) for target in targets)
        target_names = [target.name for target in targets]
        frames.append(row_filter.filter_rows(values, checks).select("line", *target_names))
    jobs = pl.concat(frames) if frames else None
    if jobs is None or jobs.height == 0:
        raise InputError("has no row that can be read", kind="empty-log", file=path)
    fields = {target.field for target in targets}
    for name in names:
        if name not in fields:
            tally.note("ignored", f"values of the column '{name}'", count=jobs.height)
    jobs, epoch_ms = _shift_to_epoch(clear_unknown_statuses(jobs, path.name, tally), targets, tally)
    tasks, placements = _make_tables(jobs)
    manifest = Manifest(
        source=TraceOrigin(format="csv", files=(describe_source_file(path),), header=tuple(names)),
        epoch_ms=epoch_ms,
        cleaned=tally.cleanings(),
    )
    return Trace(manifest=manifest, tasks=tasks, placements=placements)


def _make_targets(
    path: Path, names: list[str], columns: Mapping[str, str] | None, units: Mapping[str, str]
) -> list[Target]:
    """Make the target of each mapped column, with its unit if one is given."""
    if columns is None:
        columns = {name: name for name in names if SHORT_NAMES.get(name, name) in TARGETS}
        if not {"id", "submit"} & set(columns):
            raise FormatError(
                "has no column with a known name, and no map of columns was given",
                kind="wrong-columns",
                file=path,
                remedy=f"map the columns: columns={{'id': ...}}; there are: {', '.join(names)}",
            )
    targets: dict[str, Target] = {}
    for key, field in columns.items():
        name = SHORT_NAMES.get(key, key)
        if name not in TARGETS:
            raise InputError(
                f"a column cannot be read as '{key}'",
                kind="wrong-columns",
                field="columns",
                remedy=f"one of: {', '.join((*TARGETS, *SHORT_NAMES))}",
            )
        if field not in names:
            raise InputError(
                f"there is no column '{field}'",
                kind="wrong-columns",
                file=path,
                field=key,
                remedy=f"there are: {', '.join(names)}",
            )
        if name in targets:
            raise InputError(f"'{name}' is mapped twice", kind="wrong-columns", field="columns")
        targets[name] = Target(name, field, str(names.index(field)), None)
    if not targets:
        raise InputError("maps no column", kind="wrong-columns", field="columns")
    for key, unit in units.items():
        name = SHORT_NAMES.get(key, key)
        if name not in targets:
            raise InputError(
                f"gives a unit of '{key}', which is not mapped", kind="wrong-columns", field="units"
            )
        target = Target(name, targets[name].field, targets[name].column, unit)
        if unit not in target.units():
            allowed = ", ".join(target.units()) or "none"
            raise InputError(
                f"'{unit}' is not a unit of {key}",
                kind="invalid-quantity",
                field="units",
                remedy=allowed,
            )
        targets[name] = target
    return list(targets.values())


def _check_one_clock(path: Path, targets: Sequence[Target]) -> None:
    dates, numbers = list_time_columns(targets, DATETIME), list_time_columns(targets, "s")
    if dates and numbers:
        raise InputError(
            f"{dates[0]} is a date and time, but {numbers[0]} is a number: two clocks",
            kind="unknown-date",
            file=path,
            remedy="give all points in time the same way, or leave one out",
        )


def _shift_to_epoch(
    jobs: pl.DataFrame, targets: Sequence[Target], tally: Tally
) -> tuple[pl.DataFrame, int | None]:
    """Convert times to seconds since t = 0; return the jobs and the epoch in ms."""
    dates = list_time_columns(targets, DATETIME)
    if not dates:
        numbers = list_time_columns(targets, "s")
        return shift_to_first_time(jobs, numbers, tally) if numbers else (jobs, None)
    first = jobs.select(pl.min_horizontal(pl.col(name).min() for name in dates)).item()
    epoch_ms = 0 if first is None else first // 1000
    jobs = jobs.with_columns(
        scale_ticks_expr(pl.col(name) - epoch_ms * 1000, 1e6) for name in dates
    )
    return jobs, None if first is None else epoch_ms


def _make_tables(jobs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    task_columns = [name for name in jobs.columns if name not in PLACEMENT_COLUMNS]
    placed = any(name in jobs.columns for name in PLACEMENT_COLUMNS)
    jobs = jobs.with_columns(
        pl.lit(None, dtype=pl.String if name in ("id", "machine", "status") else pl.Float64).alias(
            name
        )
        for name in ("id", "submit", "run_time", "status", *PLACEMENT_COLUMNS)
        if name not in jobs.columns
    )
    start = pl.coalesce("start", pl.col("submit") + pl.col("wait"))
    end = pl.coalesce("end", start + pl.col("run_time"))
    run_time = pl.coalesce("run_time", pl.col("end") - start)
    tasks = jobs.with_columns(run_time=run_time).select({*task_columns, "run_time"})
    if not placed:
        return tasks, jobs.clear().select(task=pl.col("id"))
    return tasks, jobs.select(
        task=pl.col("id"),
        attempt=pl.lit(0, dtype=pl.Int64),
        machine=pl.col("machine"),
        cores=pl.col("allocated_cores"),
        start=start,
        end=end,
        reason=pl.col("status"),
    )


def _recognises(path: Path, start: bytes) -> bool:
    cells = [set(split_header(start, separator)) for separator in SEPARATORS]
    return any({"id", "submit"} <= names for names in cells)


FORMAT: Format = Format(
    name="csv",
    title="a table in text (CSV, TSV), with a map of its columns",
    recognises=_recognises,
    read=read,
)
