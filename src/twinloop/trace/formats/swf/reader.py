"""Reader of SWF logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop._core import SwfParser
from twinloop.description.errors import FormatError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats import native
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.swf.header import parse_header
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

#: The fields in their order, with their names in messages.
FIELDS: Final = (
    *("job number", "submit time", "wait time", "run time", "allocated processors"),
    *("average CPU time", "used memory", "requested processors", "requested time"),
    *("requested memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding job", "think time"),
)
KB: Final = 1024
STATUS: Final = {1: "completed", 0: "failed", 5: "cancelled"}

# Status codes of partial executions: the job continues, completed or failed.
CONTINUES, COMPLETES, FAILS = 2, 3, 4
PART_REASON: Final = {CONTINUES: "preempted", COMPLETES: "completed", FAILS: "failed"}
_STATUS_OF_LAST_PART: Final = {COMPLETES: 1, FAILS: 0}

# The number of processors to which a value per processor refers.
USED_PROCESSORS: Final = (
    pl.when(pl.col("allocated") > 0)
    .then(pl.col("allocated"))
    .when(pl.col("requested") > 0)
    .then(pl.col("requested"))
)
REQUESTED_PROCESSORS: Final = (
    pl.when(pl.col("requested") > 0)
    .then(pl.col("requested"))
    .when(pl.col("allocated") > 0)
    .then(pl.col("allocated"))
)


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a log in the Standard Workload Format.

    Args:
        path: The log, possibly compressed.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     log = Path(temporary, "log.swf")
    ...     _ = log.write_text("1 0 5 60 4 -1 -1 4 90 -1 1 7 1 -1 0 -1 -1 -1")
    ...     trace = read(log)
    >>> trace.tasks.select("id", "user", "queue", "run_time", "status").row(0)
    ('1', '7', '0', 60.0, 'completed')
    >>> trace.placements.select("cores", "start", "end").row(0)
    (4.0, 5.0, 65.0)
    """
    tally = Tally()
    parser = SwfParser()
    records = native.parse_text_file(path, parser, FIELDS, strict=strict, tally=tally)
    header = _decode_header(parser.header, tally)
    if not records.height and not header:
        raise FormatError("has no record and no header of an SWF log", kind="empty-log", file=path)
    if not records.height:
        tally.note("noticed", "the log has no job, only a header")
    facts = parse_header(header)
    if facts.get("max_records", records.height) != records.height:
        tally.note(
            "noticed",
            f"MaxRecords is {facts['max_records']:,}, but the log has {records.height:,} records",
        )
    _note_ignored(records, path.name, tally)
    jobs, parts = _split_records(records, tally)
    start = facts.get("unix_start_time")
    tasks = _make_tasks(jobs)
    return Trace(
        tasks=tasks,
        placements=_make_placements(jobs, tasks, parts),
        manifest=Manifest(
            source=TraceOrigin(
                format="swf", files=(describe_source_file(path),), header=tuple(header)
            ),
            epoch_ms=None if start is None else 1000 * start,
            cleaned=tally.cleanings(),
            facts={"swf": facts} if facts else {},
        ),
    )


def _note_ignored(records: pl.DataFrame, file: str, tally: Tally) -> None:
    has_used = pl.col("cpu_time").is_not_null() | pl.col("memory").is_not_null()
    has_requested = pl.col("requested_memory").is_not_null()
    for what, condition in {
        "status codes that the format does not have": ~pl.col("status").is_between(0, 5),
        "waits of jobs whose submission is unknown": (
            pl.col("wait").is_not_null()
            & pl.col("submit").is_null()
            & ~pl.col("status").is_between(CONTINUES, FAILS).fill_null(False)
        ),
        "CPU time or memory per processor where the processors are unknown": (
            (has_used & USED_PROCESSORS.is_null())
            | (has_requested & REQUESTED_PROCESSORS.is_null())
        ),
    }.items():
        lines = records.filter(condition)["line"]
        tally.note_lines("ignored", what, file, lines)


def _decode_header(header: list[bytes], tally: Tally) -> list[str]:
    lines = []
    for line in header:
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            lines.append(line.decode("latin-1"))
            tally.note("assumed", "header lines that are not UTF-8 are Latin-1")
    return lines


def _split_records(records: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the records into jobs and partial executions.

    By the standard, a job with partial executions also has a summary record; a missing one is
    derived from the partial executions.
    """
    is_part = pl.col("status").is_between(CONTINUES, FAILS).fill_null(False)
    parts = records.filter(is_part)
    if not parts.height:
        return records, parts
    jobs = records.filter(~is_part)
    known = pl.any_horizontal(pl.col("cpu_time", "memory").is_not_null())
    tally.note(
        "ignored",
        "CPU time and memory of partial executions; those of their jobs are kept",
        count=parts.filter(known).height,
    )
    summaries = (
        parts.join(jobs, on="job", how="anti", nulls_equal=True)
        .group_by("job", maintain_order=True)
        .agg(
            pl.exclude("job", "run_time", "status").first(),
            pl.when(pl.col("run_time").null_count() == 0).then(pl.col("run_time").sum()),
            pl.col("status").last().replace_strict(_STATUS_OF_LAST_PART, default=None),
        )
        .select(records.columns)
    )
    tally.note(
        "invented",
        "summaries of jobs that have only partial executions: the run times added up",
        count=summaries.height,
    )
    return pl.concat([jobs, summaries]).sort("line"), parts


def _numbers_to_text(numbers: pl.Series) -> pl.Series:
    """Convert numbers to text; if they are small, each distinct number is formatted once."""
    maximum = numbers.max()
    if isinstance(maximum, int) and maximum < numbers.len():
        return pl.int_range(maximum + 1, eager=True).cast(pl.String).gather(numbers)
    return numbers.cast(pl.String)


def _decode_statuses(codes: pl.Series, meanings: Mapping[int, str]) -> pl.Series:
    table = pl.Series([meanings.get(code) for code in range(max(meanings) + 1)], dtype=pl.String)
    return table.gather(codes.set(codes >= table.len(), None))


def _make_tasks(jobs: pl.DataFrame) -> pl.DataFrame:
    return jobs.select(
        id=jobs["job"].cast(pl.String),
        name=_numbers_to_text(jobs["executable"]),
        user=_numbers_to_text(jobs["user"]),
        group=_numbers_to_text(jobs["group"]),
        queue=_numbers_to_text(jobs["queue"]),
        partition=_numbers_to_text(jobs["partition"]),
        submit="submit",
        requested_cores="requested",
        requested_memory=pl.col("requested_memory") * KB * REQUESTED_PROCESSORS,
        requested_time="requested_time",
        run_time="run_time",
        cpu_time=pl.col("cpu_time") * USED_PROCESSORS,
        memory_used=pl.col("memory") * KB * USED_PROCESSORS,
        status=_decode_statuses(jobs["status"], STATUS),
        parents=pl.when(pl.col("preceding").is_not_null()).then(
            pl.concat_list(pl.col("preceding").cast(pl.String))
        ),
        think_time="think_time",
        line="line",
    )


def _make_placements(jobs: pl.DataFrame, tasks: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("submit") + pl.col("wait")
    placements = jobs.select(
        task=tasks["id"],
        attempt=pl.lit(0, pl.Int64),
        cores=pl.col("allocated"),
        start=start,
        end=start + pl.col("run_time"),
        reason=tasks["status"],
    )
    recorded = pl.col("cores").is_not_null() | pl.col("start").is_not_null()
    if not parts.height:
        return placements.filter(recorded)
    executions = _compute_part_times(parts)
    whole = placements.filter(recorded).join(executions, on="task", how="anti")
    return pl.concat([whole, executions])


def _compute_part_times(parts: pl.DataFrame) -> pl.DataFrame:
    """Compute the times of partial executions: each wait counts from the previous end."""
    starts: list[float | None] = []
    ends: list[float | None] = []
    last_ends: dict[int | None, float | None] = {}
    for job, submit, wait, run_time in parts.select("job", "submit", "wait", "run_time").rows():
        since = last_ends.get(job, submit)
        start = None if since is None or wait is None else since + wait
        last_ends[job] = None if start is None or run_time is None else start + run_time
        starts.append(start)
        ends.append(last_ends[job])
    return parts.select(
        task=pl.col("job").cast(pl.String),
        attempt=pl.int_range(pl.len()).over("job"),
        cores=pl.col("allocated"),
        start=pl.Series(starts, dtype=pl.Float64),
        end=pl.Series(ends, dtype=pl.Float64),
        reason=_decode_statuses(parts["status"], PART_REASON),
    )
