"""The Grid Workloads Format: text, 29 fields a line, as the Grid Workloads Archive gives its logs.

Lines that start with `#` are comments; an unknown field is -1. Fields are separated by tabs or
blanks; a first line that names the fields (then separated by commas) is supported as well, with the
further fields `WorkflowID` and `Dependencies` of workflow logs. Times are seconds, memory is
kilobytes per processor, CPU time is the mean over the processors.

Source of the field list: the archive's description of the format, gwa.ewi.tudelft.nl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import (
    MAX_LOG_TIME,
    MAX_NUMBER,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    parse_text,
    read_lines,
    shift_to_first_time,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

FIELDS: Final = (
    *("JobID", "SubmitTime", "WaitTime", "RunTime", "NProc", "UsedCPUTime", "UsedMemory"),
    *("ReqNProcs", "ReqTime", "ReqMemory", "Status", "UserID", "GroupID", "ExecutableID"),
    *("QueueID", "PartitionID", "OrigSiteID", "LastRunSiteID", "JobStructure"),
    *("JobStructureParams", "UsedNetwork", "UsedLocalDiskSpace", "UsedResources", "ReqPlatform"),
    *("ReqNetwork", "ReqLocalDiskSpace", "ReqResources", "VOID", "ProjectID"),
)
_ALTERNATIVE_NAMES: Final = {"NProcs": "NProc", "AverageCPUTimeUsed": "UsedCPUTime"}
_TIMES: Final = ("SubmitTime", "WaitTime", "RunTime", "ReqTime")
_NUMBERS: Final = ("NProc", "UsedCPUTime", "UsedMemory", "ReqNProcs", "ReqMemory", "Status")
_TEXTS: Final = ("JobID", "UserID", "GroupID", "ExecutableID", "QueueID", "PartitionID")
_STRUCTURE: Final = ("JobStructure", "JobStructureParams", "WorkflowID", "Dependencies")
_STATUSES: Final = {1.0: "completed", 0.0: "failed", 5.0: "cancelled"}
_KB: Final = 1024
_HEADER_LINES: Final = 1000


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a log in the Grid Workloads Format.

    Args:
        path: The log, possibly compressed.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     log = Path(temporary, "tiny.gwf")
    ...     _ = log.write_text("# a log\\n7 10 5 60 2 50 -1 2" + " -1" * 21 + "\\n")
    ...     read(log).placements.select("task", "start", "end", "cores").row(0)
    ('7', 15.0, 75.0, 2.0)
    """
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    header: list[str] = []
    columns, rows = _read_rows(path, row_filter, header)
    width = max(columns.values()) + 1
    frames = [_parse_batch(batch, columns, row_filter) for batch in batch_rows(rows, width)]
    jobs = pl.concat(frames) if frames else None
    if jobs is None or jobs.height == 0:
        raise InputError("has no job that can be read", kind="empty-log", file=path)
    jobs, epoch_ms = shift_to_first_time(jobs, ["SubmitTime"], tally)
    _note_ignored(jobs, path, tally)
    manifest = Manifest(
        source=TraceOrigin(format="gwf", files=(describe_source_file(path),), header=tuple(header)),
        epoch_ms=epoch_ms,
        cleaned=tally.cleanings(),
    )
    return Trace(manifest=manifest, tasks=_make_tasks(jobs), placements=_make_placements(jobs))


def _read_rows(
    path: Path, row_filter: RowFilter, header: list[str]
) -> tuple[dict[str, int], Iterator[tuple[int, list[str]]]]:
    """Return the column of each field, and the rows; comment lines are added to `header`."""
    content = _read_content(path, row_filter, header)
    first = next(content, None)
    if first is None:
        raise InputError("has no job", kind="empty-log", file=path)
    named_columns = _parse_field_names(first[1])
    if named_columns is not None:
        return named_columns, _split_cells(content, row_filter, len(named_columns), separator=",")
    columns = {name: index for index, name in enumerate(FIELDS)}

    def iterate_content() -> Iterator[tuple[int, str]]:
        yield first
        yield from content

    return columns, _split_cells(iterate_content(), row_filter, len(FIELDS), separator=None)


def _read_content(
    path: Path, row_filter: RowFilter, header: list[str]
) -> Iterator[tuple[int, str]]:
    for line, text in read_lines(path):
        if text.startswith("#"):
            if len(header) < _HEADER_LINES and row_filter.is_readable(line, text):
                header.append(text[1:].strip())
        elif text and not text.isspace() and row_filter.is_readable(line, text):
            yield line, text


def _split_cells(
    content: Iterator[tuple[int, str]], row_filter: RowFilter, width: int, separator: str | None
) -> Iterator[tuple[int, list[str]]]:
    for line, text in content:
        if separator is None and "\t" in text:
            cells = text.rstrip("\t").split("\t")
        else:
            cells = text.split(separator)
        if len(cells) == width + 1 and separator is None:
            # Some logs of the archive have an undocumented 30th field.
            where = f"{row_filter.path.name}:{line}"
            row_filter.tally.note("ignored", "fields after the 29th", examples=[where])
            del cells[width:]
        if len(cells) != width:
            row_filter.reject(
                line,
                f"has {len(cells)} fields, not {width}",
                what=f"lines without {width} fields",
            )
        else:
            yield line, cells


def _parse_field_names(text: str) -> dict[str, int] | None:
    cells = [cell.strip() for cell in text.split(",")]
    names = [_ALTERNATIVE_NAMES.get(cell, cell) for cell in cells]
    if len(set(names)) == len(names) and {"JobID", "SubmitTime", "RunTime"} <= set(names):
        return {name: index for index, name in enumerate(names)}
    return None


def _parse_batch(
    batch: pl.DataFrame, columns: Mapping[str, int], row_filter: RowFilter
) -> pl.DataFrame:
    """Convert the fields of a batch to typed columns; -1 becomes null."""
    checks = [
        make_number_check(str(columns[name]), name, MAX_LOG_TIME if name in _TIMES else MAX_NUMBER)
        for name in (*_TIMES, *_NUMBERS)
        if name in columns
    ]
    batch = row_filter.filter_rows(batch, checks)
    parts = [pl.col("line")]
    for name in (*_TIMES, *_NUMBERS):
        value = (
            parse_number(str(columns[name])) if name in columns else pl.lit(None, dtype=pl.Float64)
        )
        parts.append(pl.when(value != -1).then(value).alias(name))
    known = (*_TIMES, *_NUMBERS, *_TEXTS, *_STRUCTURE)
    for name in (*_TEXTS, *_STRUCTURE, *(name for name in FIELDS if name not in known)):
        if name in columns:
            text = parse_text(str(columns[name]))
            parts.append(pl.when(text != "-1").then(text).alias(name))
        else:
            parts.append(pl.lit(None, dtype=pl.String).alias(name))
    return batch.select(parts)


def _make_tasks(jobs: pl.DataFrame) -> pl.DataFrame:
    allocated, requested = pl.col("NProc"), pl.col("ReqNProcs")
    status = pl.col("Status").replace_strict(_STATUSES, default=None, return_dtype=pl.String)
    parents = pl.col("Dependencies").str.split(" ").list.filter(pl.element() != "")
    return jobs.select(
        id=pl.col("JobID"),
        name=pl.col("ExecutableID"),
        user=pl.col("UserID"),
        group=pl.col("GroupID"),
        queue=pl.col("QueueID"),
        partition=pl.col("PartitionID"),
        array=pl.when(pl.col("JobStructure").str.to_lowercase() == "bot").then(
            pl.col("JobStructureParams")
        ),
        submit=pl.col("SubmitTime"),
        requested_cores=requested,
        requested_memory=pl.col("ReqMemory") * _KB * pl.coalesce(requested, allocated),
        requested_time=pl.col("ReqTime"),
        run_time=pl.col("RunTime"),
        cpu_time=pl.col("UsedCPUTime") * allocated,
        memory_used=pl.col("UsedMemory") * _KB * pl.coalesce(allocated, requested),
        status=status,
        parents=parents,
        line=pl.col("line"),
    )


def _make_placements(jobs: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("SubmitTime") + pl.col("WaitTime")
    return jobs.select(
        task=pl.col("JobID"),
        attempt=pl.lit(0, dtype=pl.Int64),
        cores=pl.col("NProc"),
        start=start,
        end=start + pl.col("RunTime"),
        reason=pl.col("Status").replace_strict(_STATUSES, default=None, return_dtype=pl.String),
    )


def _note_ignored(jobs: pl.DataFrame, path: Path, tally: Tally) -> None:
    unknown = jobs.filter(~pl.col("Status").is_in(list(_STATUSES)))
    what = "values of Status that are not 0, 1 or 5"
    tally.note_lines("ignored", what, path.name, unknown["line"])
    kept = (*_TIMES, *_NUMBERS, *_TEXTS, *_STRUCTURE)
    for name in (*(name for name in FIELDS if name not in kept), "WorkflowID", "JobStructure"):
        values = jobs[name].drop_nulls()
        if name == "JobStructure":
            values = values.filter(~values.str.to_lowercase().is_in(["bot", "unitary"]))
        tally.note("ignored", f"values of {name}", count=len(values))


def _recognises(path: Path, start: bytes) -> bool:
    text = start.decode("utf-8", "replace")
    # The last line may be truncated.
    lines = text.splitlines()[:-1] if len(start) >= 1 << 16 else text.splitlines()
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        if _parse_field_names(line) is not None:
            return True
        cells = line.split("\t") if "\t" in line else line.split()
        numeric = [cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in cells[1:6]]
        return len(cells) in (len(FIELDS), len(FIELDS) + 1) and all(numeric)
    return False


FORMAT: Format = Format(
    name="gwf",
    title="Grid Workloads Format (.gwf)",
    recognises=_recognises,
    read=read,
)
