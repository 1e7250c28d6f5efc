"""Reader of samples of running jobs: repeated output of `sstat --parsable2` with times.

A line per running job step: the time, the step, the mean CPU time and resident memory of the tasks
of the step, and the number of its tasks. The CPU time is cumulative since the start of the step, so
usage between two samples is their difference; the steps of a job are summed. Source of the
meanings: the manual page of sstat, slurm.schedmd.com/sstat.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import require_input
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.sacct import values
from twinloop.trace.formats.text_rows import (
    MAX_LOG_TIME,
    CellCheck,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    parse_text,
    read_lines,
)
from twinloop.trace.tables import TABLES

#: The fields of a line if there is no header.
FIELDS: Final[tuple[str, ...]] = ("Time", "JobID", "AveCPU", "AveRSS", "MaxRSS", "NTasks")
_REQUIRED: Final = ("JobID", "AveCPU", "NTasks")
_SPELLING: Final = {name.lower(): name for name in FIELDS}
#: sacct truncates to whole seconds, so that a job may have ended up to one second later.
_RESOLUTION_S: Final = 1.0


def read_usage(
    path: Path,
    jobs: pl.DataFrame,
    *,
    epoch_ms: int,
    zoned: bool,
    utc_offset: float | None,
    strict: bool,
    tally: Tally,
) -> pl.DataFrame:
    """Read samples as the usage of jobs.

    Args:
        path: The samples, possibly compressed.
        jobs: A row per record of a job: `job`, `raw` (its number), `attempt`, `Start` and `End` in
            seconds since t = 0, `TotalCPU`, `cores`, `machine`.
        epoch_ms: Unix time of t = 0.
        zoned: Whether the times of all jobs have a zone.
        utc_offset: Hours that times without a zone are ahead of UTC.
        strict: Raise at the first line that cannot be read.
        tally: Counts.
    """
    require_input(path)
    row_filter = RowFilter(path, tally, strict=strict)
    names, rows = _read_rows(path, row_filter)
    columns = {name: str(names.index(name)) for name in FIELDS if name in names}
    frames = [
        _parse_batch(batch, columns, row_filter, utc_offset)
        for batch in batch_rows(rows, len(names))
    ]
    if not frames:
        raise InputError("has no sample", kind="empty-log", file=path)
    samples = pl.concat(frames)
    _check_one_clock(path, samples, zoned, utc_offset)
    for name in names:
        if name not in columns or name == "MaxRSS":
            tally.note(
                "ignored", f"values of the field {name} of {path.name}", count=samples.height
            )
    samples = samples.with_columns(t=pl.col("unix") - epoch_ms / 1000)
    samples = _join_jobs(samples, jobs, path, tally)
    windows = _compute_windows(samples, path, tally)
    usage = pl.concat([windows, _compute_last_windows(windows, jobs, tally)], how="diagonal")
    usage = usage.filter(~pl.col("decreased")).sort("job", "t").rename({"job": "task"})
    return usage.select(name for name in TABLES["usage"] if name in usage.columns)


def _read_rows(
    path: Path, row_filter: RowFilter
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    numbered = ((line, text) for line, text in read_lines(path) if text.strip())
    first = next(numbered, None)
    if first is None:
        raise InputError("is empty", kind="empty-log", file=path)
    cells = [cell.strip() for cell in first[1].split("|")]
    headed = "jobid" in (cell.lower() for cell in cells)
    names = [_SPELLING.get(cell.lower(), cell) for cell in cells] if headed else list(FIELDS)
    if headed:
        names[0] = "Time"
    missing = [name for name in _REQUIRED if name not in names]
    if missing or len(set(names)) < len(names) or len(names) != len(cells):
        raise FormatError(
            f"has {len(cells)} fields, which are not a time and {', '.join(FIELDS[1:])}",
            kind="wrong-format",
            file=path,
            line=first[0],
            remedy="put a time and '|' before each line of: sstat --allsteps --parsable2 "
            f"--noheader --format={','.join(FIELDS[1:])}",
        )

    def rows() -> Iterator[tuple[int, list[str]]]:
        if not headed:
            yield first[0], cells
        for line, text in numbered:
            row = text.split("|")
            if not row_filter.is_readable(line, text):
                continue
            if len(row) == len(names):
                yield line, row
            else:
                problem = f"has {len(row)} fields, not {len(names)}"
                row_filter.reject(line, problem, what=f"lines without {len(names)} fields")

    return names, rows()


def _parse_batch(
    batch: pl.DataFrame, columns: Mapping[str, str], row_filter: RowFilter, utc_offset: float | None
) -> pl.DataFrame:
    time, job, cpu, tasks = (columns[name] for name in ("Time", "JobID", "AveCPU", "NTasks"))
    texts = batch.select(parse_text(time)).to_series()
    dates = parse_unix_us(texts, utc_offset=utc_offset or 0.0).alias("dates")
    clock = pl.coalesce(parse_number(time), pl.col("dates") / 1e6)
    memory = (
        values.memory_to_bytes(columns["AveRSS"])
        if "AveRSS" in columns
        else pl.lit(None, pl.Float64)
    )
    has_zone = values.has_time_zone(time) | parse_number(time).is_not_null()
    batch = batch.with_columns(dates).with_columns(
        unix=clock,
        zoned=has_zone,
        raw=values.parse_cell(job).str.extract(r"^([^.]+)"),
        step=values.parse_cell(job).str.extract(r"\.(.+)$").fill_null(""),
        cpu=values.duration_to_seconds(cpu) * parse_number(tasks),
        rss=memory * parse_number(tasks),
    )
    bad_time = pl.col("unix").is_null() | ~(pl.col("unix").abs() <= MAX_LOG_TIME)
    checks = [
        CellCheck("time", "is not a time", bad_time, time),
        CellCheck("JobID", "is empty", pl.col("raw").is_null(), job),
        CellCheck(
            "AveCPU",
            "is not a length of time",
            values.parse_cell(cpu).is_not_null() & values.duration_to_seconds(cpu).is_null(),
            cpu,
        ),
        make_number_check(tasks, "NTasks"),
    ]
    if "AveRSS" in columns:
        rss = columns["AveRSS"]
        bad = values.parse_cell(rss).is_not_null() & values.memory_to_bytes(rss).is_null()
        checks.append(CellCheck("AveRSS", "is not an amount of memory", bad, rss))
    return row_filter.filter_rows(batch, checks).select(
        "line", "unix", "zoned", "raw", "step", "cpu", "rss"
    )


def _check_one_clock(
    path: Path, samples: pl.DataFrame, zoned: bool, utc_offset: float | None
) -> None:
    if utc_offset is not None or samples.is_empty():
        return
    other = samples.filter(pl.col("zoned") != zoned)
    if other.height:
        problem = (
            "its time has no zone, but the times of the jobs do"
            if zoned
            else "its time has a zone, but the times of the jobs do not"
        )
        raise InputError(
            problem,
            kind="unknown-date",
            file=path,
            line=other["line"][0],
            remedy="give the hours that the clock of the cluster is ahead of UTC: utc_offset=; "
            "or run sacct with SLURM_TIME_FORMAT=%FT%T%z",
        )


def _join_jobs(samples: pl.DataFrame, jobs: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Join the samples with the attempt of their job that was running."""
    incomplete = samples.filter(pl.col("cpu").is_null())
    what = "samples without AveCPU or NTasks"
    tally.note_lines("ignored", what, path.name, incomplete["line"])
    samples = samples.filter(pl.col("cpu").is_not_null())
    numbers = jobs.select("raw", "job").unique("raw", keep="first", maintain_order=True)
    unknown = samples.join(numbers, on="raw", how="anti", maintain_order="left")
    what = "samples of jobs that are not in the log"
    tally.note_lines("ignored", what, path.name, unknown["line"])
    attempts = jobs.select("job", "attempt", "machine", "Start", "End")
    attempts = attempts.drop_nulls("Start").sort("Start")
    joined = (
        samples.join(numbers, on="raw", maintain_order="left")
        .sort("t", maintain_order=True)
        .join_asof(
            attempts,
            left_on="t",
            right_on="Start",
            by="job",
            check_sortedness=False,
            coalesce=False,
        )
    )
    end = pl.col("End").fill_null(float("inf"))
    inside = (pl.col("t") > pl.col("Start")) & (pl.col("t") <= end + _RESOLUTION_S)
    outside = joined.filter(~inside.fill_null(False))
    what = "samples outside the execution of their job"
    tally.note_lines("ignored", what, path.name, outside["line"].sort())
    joined = joined.filter(inside).with_columns(t=pl.min_horizontal("t", end))
    return joined.filter(pl.col("t") > pl.col("Start"))


def _compute_windows(samples: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Compute the usage of each job between two samples, summed over its steps."""
    step, job = ["job", "attempt", "step"], ["job", "attempt"]
    samples = samples.sort(*step, "t", "line")
    duplicates = samples.filter(pl.struct(*step, "t").is_last_distinct().not_())
    what = "samples of a step that another one of the same time follows"
    tally.note_lines("removed", what, path.name, duplicates["line"].sort())
    samples = samples.unique([*step, "t"], keep="last", maintain_order=True)
    used = pl.col("cpu") - pl.col("cpu").shift(1).over(step).fill_null(0.0)
    samples = samples.with_columns(used=used)
    decreased = samples.filter(pl.col("used") < 0)
    what = "samples of a step with less CPU time than before: their windows are left out"
    tally.note_lines("noticed", what, path.name, decreased["line"].sort())
    rss = pl.when(pl.col("rss").null_count() == 0).then(pl.col("rss").sum())
    windows = (
        samples.group_by(*job, "t", maintain_order=True)
        .agg(
            pl.col("Start", "machine").first(),
            cpu=pl.col("used").sum(),
            rss=rss,
            decreased=(pl.col("used") < 0).any(),
            line=pl.col("line").min(),
        )
        .sort(*job, "t")
    )
    before = pl.col("t").shift(1).over(job)
    return windows.with_columns(dt=pl.col("t") - pl.coalesce(before, "Start"))


def _compute_last_windows(windows: pl.DataFrame, jobs: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Compute the usage from the last sample of a job to its end, from the accounting."""
    sampled = windows.group_by("job").agg(
        last=pl.col("t").max(), sampled_cpu=pl.col("cpu").sum(), complete=~pl.col("decreased").any()
    )
    single_attempts = jobs.filter(pl.len().over("job") == 1).drop_nulls(["End", "TotalCPU"])
    rest = single_attempts.join(sampled, on="job").filter(
        "complete", pl.col("End") > pl.col("last")
    )
    rest_cpu, length = pl.col("TotalCPU") - pl.col("sampled_cpu"), pl.col("End") - pl.col("last")
    max_cpu = (pl.col("cores") * length).fill_null(float("inf"))
    fits = (rest_cpu >= 0) & (rest_cpu <= max_cpu)
    rest = rest.with_columns(t="End", cpu=rest_cpu, dt=length, fits=fits)
    what = "jobs whose samples contradict TotalCPU: their end has no usage"
    contradicting = rest.filter(~pl.col("fits"))
    tally.note("noticed", what, count=contradicting.height, examples=contradicting["job"].head(3))
    rest = rest.filter("fits")
    what = "usage from the last sample to the end of a job: TotalCPU minus the samples"
    tally.note("assumed", what, count=rest.height, examples=rest["job"].head(3))
    return rest.select("job", "machine", "t", "dt", "cpu", pl.lit(False).alias("decreased"))
