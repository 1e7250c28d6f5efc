"""Reader of SLURM accounting: the output of `sacct --parsable2`.

A line with the names of the fields, then one line per job and per job step, separated by `|`. The
steps are merged into their job. The user chooses the fields; `JobID` is required.
Source of the meanings: the manual page of sacct, slurm.schedmd.com/sacct.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import parse_unix_us, scale_ticks_expr
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.sacct import values
from twinloop.trace.formats.sacct.samples import read_usage
from twinloop.trace.formats.text_rows import (
    CellCheck,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    read_lines,
    split_header,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.tables import RESOURCES, make_empty_table
from twinloop.trace.trace import Trace

_TIMES: Final = ("Submit", "Start", "End", "Eligible")
_LENGTHS: Final = ("Elapsed", "Timelimit", "TotalCPU")
_NUMBERS: Final = ("ReqCPUS", "AllocCPUS", "NCPUS", "NNodes", "ReqNodes")
_MEMORY: Final = ("ReqMem", "MaxRSS")
_TEXTS: Final = (
    *("JobIDRaw", "JobName", "User", "Group", "Account", "Partition", "NodeList"),
    *("AllocTRES", "ReqTRES"),
)
_FIELDS: Final = ("JobID", *_TIMES, *_LENGTHS, *_NUMBERS, *_MEMORY, *_TEXTS, "State", "ExitCode")
# sacct prints the names in the spelling of the user.
_SPELLING: Final = {name.lower(): name for name in _FIELDS}


def read(
    path: Path,
    *,
    sstat: str | Path | None = None,
    utc_offset: float | None = None,
    strict: bool = False,
) -> Trace:
    """Read the output of `sacct --parsable2`.

    Args:
        path: The output, possibly compressed.
        sstat: Samples of the running jobs, as printed by `sstat --parsable2`, each line preceded
            by a time and a bar. They become the usage.
        utc_offset: Hours that the clock of the cluster is ahead of UTC: sacct prints local times
            without a zone by default. Only the epoch depends on it.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     log = Path(temporary, "jobs.txt")
    ...     _ = log.write_text("JobID|Submit|Start|Elapsed|State|AllocCPUS|MaxRSS\\n"
    ...         "7|2024-01-01T00:00:00|2024-01-01T00:01:00|00:02:00|COMPLETED|4|\\n"
    ...         "7.batch|2024-01-01T00:01:00|2024-01-01T00:01:00|00:02:00|COMPLETED|4|2K\\n")
    ...     trace = read(log)
    >>> trace.tasks.select("id", "run_time", "memory_used", "status").row(0)
    ('7', 120.0, 2048.0, 'completed')
    """
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    names, rows = _read_rows(path, row_filter)
    columns = _find_columns(path, names)
    frames = [
        _parse_batch(batch, columns, row_filter, utc_offset or 0.0)
        for batch in batch_rows(rows, len(names))
    ]
    records = pl.concat(frames) if frames else None
    if records is None or records.height == 0:
        raise InputError("has no job that can be read", kind="empty-log", file=path)
    jobs = _merge_steps(records, path, tally)
    jobs, epoch_ms = _shift_to_epoch(jobs)
    local = jobs.filter("local")
    if utc_offset is None:
        tally.note("assumed", "times have no zone: they were read as UTC", count=local.height)
    unused = [name for name in names if name and name not in columns]
    for name in unused:
        tally.note("ignored", f"values of the field {name}", count=records.height)
    tasks = _make_tasks(jobs, path, tally)
    usage, files = make_empty_table("usage"), [path]
    if sstat is not None:
        if epoch_ms is None:
            raise InputError(
                "has no times, so that samples cannot be assigned to jobs",
                kind="unknown-date",
                file=path,
            )
        files.append(Path(sstat))
        usage = read_usage(
            files[-1],
            _list_executions(jobs),
            epoch_ms=epoch_ms,
            zoned=local.is_empty(),
            utc_offset=utc_offset,
            strict=strict,
            tally=tally,
        )
    sources = tuple(describe_source_file(file) for file in files)
    manifest = Manifest(
        source=TraceOrigin(format="sacct", files=sources, header=tuple(names)),
        epoch_ms=epoch_ms,
        cleaned=tally.cleanings(),
    )
    return Trace(manifest=manifest, tasks=tasks, placements=_make_placements(jobs), usage=usage)


def _read_rows(
    path: Path, row_filter: RowFilter
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    numbered = ((line, text) for line, text in read_lines(path) if text and not text.isspace())
    first = next(numbered, None)
    if first is None:
        raise InputError("is empty", kind="empty-log", file=path)
    names = [_SPELLING.get(cell.strip().lower(), cell.strip()) for cell in first[1].split("|")]

    def rows() -> Iterator[tuple[int, list[str]]]:
        for line, text in numbered:
            if not row_filter.is_readable(line, text):
                continue
            cells = text.split("|")
            if len(cells) == len(names):
                yield line, cells
            else:
                problem = f"has {len(cells)} fields, not {len(names)}"
                row_filter.reject(line, problem, what=f"lines without {len(names)} fields")

    return names, rows()


def _find_columns(path: Path, names: list[str]) -> dict[str, str]:
    """Return the column of each known field in a batch."""
    columns: dict[str, str] = {}
    for index, name in enumerate(names):
        if name in columns:
            raise FormatError(
                f"names the field {name} twice", kind="wrong-columns", file=path, line=1
            )
        if name in _FIELDS:
            columns[name] = str(index)
    too_few = len(columns) < 2
    if "JobID" not in columns and "JobIDRaw" in columns:
        columns["JobID"] = columns["JobIDRaw"]
    if "JobID" not in columns or too_few:
        raise FormatError(
            "the first line does not contain the names of sacct fields, including JobID",
            kind="wrong-format",
            file=path,
            line=1,
            remedy="write it with: sacct --parsable2 --format=JobID,Submit,Start,End,State,...",
        )
    return columns


def _parse_batch(
    batch: pl.DataFrame, columns: Mapping[str, str], row_filter: RowFilter, utc_offset: float
) -> pl.DataFrame:
    """Convert the fields of a batch to typed columns; missing fields are null."""
    parsed: list[pl.Expr | pl.Series] = []
    checks = [CellCheck("JobID", "is empty", pl.col("JobID").is_null(), columns["JobID"])]
    for name in _FIELDS:
        if name not in columns:
            parsed.append(pl.lit(None, dtype=_get_dtype(name)).alias(name))
            continue
        column = columns[name]
        value = values.parse_cell(column)
        is_given = value.is_not_null()
        if name in _TIMES:
            times = parse_unix_us(batch.select(value).to_series(), utc_offset=utc_offset)
            parsed.append(times.alias(name))
            checks.append(
                CellCheck(name, "is not a date and time", is_given & _is_unread(name), column)
            )
            continue
        if name in _LENGTHS:
            limited = is_given & ~value.is_in(values.NO_LIMIT)
            value = values.duration_to_seconds(column)
            checks.append(
                CellCheck(name, "is not a length of time", limited & _is_unread(name), column)
            )
        elif name in _NUMBERS:
            value = parse_number(column)
            checks.append(make_number_check(column, name))
        elif name in _MEMORY:
            bad = is_given & values.memory_to_bytes(name).is_null()
            checks.append(CellCheck(name, "is not an amount of memory", bad, column))
        elif name == "ExitCode":
            value = values.parse_exit_code(column)
            checks.append(
                CellCheck(name, "is not an exit code", is_given & _is_unread(name), column)
            )
        elif name == "State":
            value = values.parse_state(column)
        parsed.append(value.alias(name))
    if "Timelimit" in columns:
        unlimited = batch.filter(pl.col(columns["Timelimit"]).is_in(values.NO_LIMIT))
        what = "time limits UNLIMITED or Partition_Limit, read as unknown"
        row_filter.tally.note("ignored", what, count=unlimited.height)
    zoned = [values.has_time_zone(columns[name]) for name in _TIMES if name in columns]
    parsed.append((~pl.all_horizontal(*zoned, pl.lit(True))).fill_null(False).alias("local"))
    return row_filter.filter_rows(batch.with_columns(parsed), checks).select(
        "line", "local", *_FIELDS
    )


def _is_unread(name: str) -> pl.Expr:
    return pl.col(name).is_null()


def _get_dtype(name: str) -> type[pl.DataType]:
    if name in (*_TIMES, "ExitCode"):
        return pl.Int64
    return pl.Float64 if name in (*_LENGTHS, *_NUMBERS) else pl.String


def _merge_steps(records: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Return a row per record of a job, with memory and CPU time of its steps."""
    base = pl.col("JobID").str.extract(r"^([^.]+)")
    records = records.with_columns(job=base, rss=values.memory_to_bytes("MaxRSS"))
    is_step = pl.col("JobID").str.contains(".", literal=True)
    steps = records.filter(is_step)
    jobs = records.filter(~is_step)
    tally.note("assumed", "job steps, folded into their job", count=steps.height)
    orphans = steps.join(jobs, on="job", how="anti")
    tally.note_lines("skipped", "steps whose job is not in the log", path.name, orphans["line"])
    if jobs.height == 0:
        raise InputError("has job steps only, and no job", kind="empty-log", file=path)
    used = pl.col("TotalCPU")
    of_steps = steps.group_by("job").agg(
        step_rss=pl.col("rss").max(), step_cpu=pl.when(used.null_count() == 0).then(used.sum())
    )
    return (
        jobs.join(of_steps, on="job", how="left", maintain_order="left")
        .with_columns(
            attempt=pl.int_range(pl.len(), dtype=pl.Int64).over("job"),
            rss=pl.max_horizontal("rss", "step_rss"),
            TotalCPU=pl.coalesce("TotalCPU", "step_cpu"),
        )
        .drop("step_rss", "step_cpu")
    )


def _shift_to_epoch(jobs: pl.DataFrame) -> tuple[pl.DataFrame, int | None]:
    first_time = pl.min_horizontal(pl.col(name).min() for name in _TIMES)
    first = jobs.select(pl.coalesce(pl.col("Submit").min(), first_time)).item()
    epoch_ms = None if first is None else first // 1000
    zero = 0 if epoch_ms is None else epoch_ms * 1000
    return jobs.with_columns(
        scale_ticks_expr(pl.col(name) - zero, 1e6) for name in _TIMES
    ), epoch_ms


def _make_tasks(jobs: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Return a row per job: the first submission, and all other fields of its last record."""
    _note_jobs(jobs, path, tally)
    last = jobs.unique("job", keep="last", maintain_order=True)
    first = jobs.group_by("job", maintain_order=True).agg(first_submit=pl.col("Submit").min())
    last = last.join(first, on="job", how="left", maintain_order="left")
    is_final = pl.col("State").is_in(list(values.STATUS_OF_STATE))
    started = pl.col("Start").is_not_null() | (pl.col("Start").count() == 0)
    length = pl.coalesce("Elapsed", pl.col("End") - pl.col("Start"))
    # Without any start, a job that was cancelled while pending has an elapsed time of zero.
    only_elapsed = (pl.col("Start").count() == 0) & (pl.col("Elapsed") > 0)
    nodes, cores = pl.coalesce("ReqNodes", "NNodes"), pl.coalesce("ReqCPUS", "AllocCPUS", "NCPUS")
    basis = values.parse_memory_basis("ReqMem")
    multiplier = pl.when(basis == "n").then(nodes).when(basis == "c").then(cores).otherwise(1.0)
    requested = values.memory_to_bytes("ReqMem", default="M")
    # Memory in TRES, allocated or requested, is for the whole job.
    tres = pl.coalesce("ReqTRES", "AllocTRES").str.extract(r"(?:^|,)mem=([^,]+)")
    last = last.with_columns(tres_memory=tres)
    tres_bytes = values.memory_to_bytes("tres_memory", default="M")
    return last.select(
        id=pl.col("job"),
        name=pl.col("JobName"),
        user=pl.col("User"),
        group=pl.coalesce("Group", "Account"),
        queue=pl.col("Partition"),
        partition=pl.col("Partition"),
        array=pl.col("job").str.extract(r"^([0-9]+)_"),
        submit=pl.coalesce("first_submit", "Submit"),
        ready=pl.col("Eligible"),
        requested_cores=pl.col("ReqCPUS"),
        requested_nodes=nodes.round().cast(pl.Int64, strict=False),
        # Zero requests all memory of a node.
        requested_memory=pl.when(requested > 0)
        .then(requested * multiplier)
        .when(requested.is_null())
        .then(tres_bytes),
        requested_time=pl.col("Timelimit"),
        resources=_parse_resources(last),
        run_time=pl.when(is_final & (pl.col("Start").is_not_null() | only_elapsed)).then(length),
        cpu_time=pl.when(is_final).then(pl.col("TotalCPU")),
        memory_used=pl.col("rss"),
        status=pl.col("State").replace_strict(
            values.STATUS_OF_STATE, default=None, return_dtype=pl.String
        ),
        # sacct prints exit code 0 for a job that was cancelled before it started.
        exit_code=pl.when(is_final & started).then(pl.col("ExitCode")),
        line=pl.col("line"),
    )


def _parse_resources(jobs: pl.DataFrame) -> pl.Series:
    texts = jobs.select(pl.coalesce("ReqTRES", "AllocTRES").alias("tres"))
    # Each distinct list is parsed once.
    distinct = texts["tres"].drop_nulls().unique()
    parsed = pl.Series([values.parse_resources(text) for text in distinct], dtype=RESOURCES)
    known = pl.DataFrame({"tres": distinct, "resources": parsed})
    return texts.join(known, on="tres", how="left", maintain_order="left")["resources"]


def _make_placements(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return a row per record of a job that was started."""
    is_over = pl.col("State").is_in([*values.STATUS_OF_STATE, "REQUEUED"])
    has_several_nodes = pl.col("NodeList").str.contains(r"[\[,]")
    reason = pl.when(pl.col("State").is_in(["PREEMPTED", "REQUEUED"])).then(pl.lit("preempted"))
    status = pl.col("State").replace_strict(
        values.STATUS_OF_STATE, default=None, return_dtype=pl.String
    )
    return jobs.filter(pl.col("Start").is_not_null()).select(
        task=pl.col("job"),
        attempt=pl.col("attempt"),
        machine=pl.when(~has_several_nodes).then(pl.col("NodeList")),
        cores=pl.coalesce("AllocCPUS", "NCPUS"),
        start=pl.col("Start"),
        end=pl.when(is_over).then(pl.coalesce("End", pl.col("Start") + pl.col("Elapsed"))),
        reason=reason.otherwise(status),
    )


def _list_executions(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return a row per record of a job, for the attribution of samples."""
    has_several_nodes = pl.col("NodeList").str.contains(r"[\[,]")
    return jobs.select(
        "job",
        "attempt",
        "Start",
        "End",
        "TotalCPU",
        # sstat identifies a member of a job array by its own number only.
        raw=pl.coalesce(pl.col("JobIDRaw").str.extract(r"^([^.]+)"), "job"),
        cores=pl.coalesce("AllocCPUS", "NCPUS"),
        machine=pl.when(~has_several_nodes).then(pl.col("NodeList")),
    )


def _note_jobs(jobs: pl.DataFrame, path: Path, tally: Tally) -> None:
    state, job = pl.col("State"), pl.col("job")
    known = [*values.STATUS_OF_STATE, *values.UNFINISHED_STATES]
    for kind, what, condition in (
        (
            "assumed",
            "jobs that have not ended: their end is unknown",
            state.is_in(values.UNFINISHED_STATES),
        ),
        ("ignored", "unknown states", ~state.is_in(known)),
        ("assumed", "further records of a job, read as its next attempts", pl.col("attempt") > 0),
        ("assumed", "records of several array members, kept as one task", job.str.contains(r"_\[")),
        ("assumed", "parts of heterogeneous jobs, read as jobs", job.str.contains(r"\+[0-9]+$")),
        ("ignored", "lists of several nodes", pl.col("NodeList").str.contains(r"[\[,]")),
        ("assumed", "memory used is that of the largest process", pl.col("rss") > 0),
        (
            "assumed",
            "requested memory without a unit is in MiB",
            pl.col("ReqMem").str.contains(r"[0-9][nc]?$") & ~pl.col("ReqMem").str.contains("^0"),
        ),
        (
            "assumed",
            "allocated nodes are read as requested nodes, because there is no field ReqNodes",
            pl.col("NNodes").is_not_null() & pl.col("ReqNodes").is_null(),
        ),
        (
            "assumed",
            "the account is read as the group, because there is no field Group",
            pl.col("Account").is_not_null() & pl.col("Group").is_null(),
        ),
    ):
        found = jobs.filter(condition)
        tally.note_lines(kind, what, path.name, found["line"])  # type: ignore[arg-type]


def _recognises(path: Path, start: bytes) -> bool:
    cells = [_SPELLING.get(cell.lower()) for cell in split_header(start, "|")]
    return ("JobID" in cells or "JobIDRaw" in cells) and sum(map(bool, cells)) > 1


FORMAT: Format = Format(
    name="sacct",
    title="SLURM accounting (sacct --parsable2)",
    recognises=_recognises,
    read=read,
    path_options=("sstat",),
)
