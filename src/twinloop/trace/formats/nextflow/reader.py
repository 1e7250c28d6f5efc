"""Reader of the trace file of Nextflow (`nextflow run -with-trace`).

A line with the names of the fields, which the user chooses, then a line per attempt of a task,
separated by tabs. Source of the meanings: the section on trace files in the documentation of
Nextflow, docs.seqera.io/nextflow/reports. There, `realtime` is the time from start to completion;
it is the run time of the command of the task alone (github.com/nextflow-io/nextflow, issue 6954 and
pull request 3492), without staging and the start of containers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.trace.dependency_graph import list_dependencies
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.nextflow import values
from twinloop.trace.formats.nextflow.dependencies import TaskTimes, assume_dependencies
from twinloop.trace.formats.nextflow.diagram import link_processes, match_processes, read_diagram
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import (
    CellCheck,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    read_lines,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

_DATES: Final = ("submit", "start", "complete")
_LENGTHS: Final = ("duration", "realtime", "time")
_MEMORY: Final = ("peak_rss", "rss", "memory")
_NUMBERS: Final = ("cpus", "attempt", "exit", "vol_ctxt", "inv_ctxt")
_TEXTS: Final = ("task_id", "hash", "native_id", "process", "tag", "name", "status", "queue",
                 "hostname")  # fmt: skip
_FIELDS: Final = (*_TEXTS, *_DATES, *_LENGTHS, *_MEMORY, *_NUMBERS, "%cpu")
#: Fields that a Trace has no column for.
_IGNORED: Final = (
    *("module", "container", "disk", "%mem", "vmem", "peak_vmem", "rchar", "wchar", "syscr"),
    *("syscw", "read_bytes", "write_bytes", "env", "workdir", "script", "scratch"),
    *("error_action", "cpu_model"),
)
#: Fields that no other format has; one of them identifies a trace file.
_DISTINCT: Final = frozenset(
    ("task_id", "native_id", "realtime", "%cpu", "%mem", "peak_rss", "peak_vmem", "rchar", "wchar")
)
_SEPARATORS: Final = ("\t", ",", ";", "|")
#: The largest rounding error of a duration (s).
_ROUNDING: Final = 0.5
_NAME: Final = re.compile(r"^(.*?)(?:\s+\((.*)\))?$", re.DOTALL)


def read(
    path: Path,
    *,
    dag: str | Path | None = None,
    utc_offset: float | None = None,
    strict: bool = False,
) -> Trace:
    """Read the trace file of a run of Nextflow.

    Args:
        path: The trace file, possibly compressed.
        dag: The workflow diagram of the same pipeline, as written by `-with-dag`: DOT, Mermaid or
            HTML. It has edges between processes, from which dependencies between tasks are assumed:
            a task waits for the tasks of the parent process with the same tag, or without such
            tasks for all of them, unless they ended after its submission.
        utc_offset: Hours that the clock of the run is ahead of UTC: dates have no zone, unless they
            are raw numbers. Only the epoch depends on it.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     log = Path(temporary, "trace.txt")
    ...     _ = log.write_text("name\\tstatus\\tsubmit\\tduration\\trealtime\\tpeak_rss\\n"
    ...         "SORT (a)\\tCOMPLETED\\t2024-01-01 00:00:00.500\\t1m 2s\\t1m\\t1.5 KB\\n")
    ...     trace = read(log)
    >>> trace.tasks.select("id", "name", "run_time", "memory_used", "status").row(0)
    ('SORT (a)', 'SORT', 60.0, 1536.0, 'completed')
    """
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    names, rows = _read_rows(path, row_filter)
    columns = {name: str(index) for index, name in enumerate(names) if name in _FIELDS}
    frames = [
        _parse_batch(batch, columns, row_filter, utc_offset or 0.0)
        for batch in batch_rows(rows, len(names))
    ]
    records = pl.concat(frames) if frames else None
    if records is None or records.height == 0:
        raise InputError("has no task that can be read", kind="empty-log", file=path)
    local = records.filter("local").height
    if utc_offset is None:
        tally.note("assumed", "dates have no zone: they were read as UTC", count=local)
    for name in (name for name in names if name not in _FIELDS):
        tally.note("ignored", f"values of the field {name}", count=records.height)
    attempts, epoch_ms = _order_attempts(records, path, tally)
    tasks = _make_tasks(attempts)
    files = [path]
    if dag is not None:
        files.append(Path(dag))
        tasks = _add_parents(tasks, attempts, Path(dag), tally)
    _note_missing(tasks, attempts, dag is not None, tally)
    sources = tuple(describe_source_file(file) for file in files)
    manifest = Manifest(
        source=TraceOrigin(format="nextflow", files=sources, header=tuple(names)),
        epoch_ms=epoch_ms,
        cleaned=tally.cleanings(),
    )
    return Trace(manifest=manifest, tasks=tasks, placements=_make_placements(attempts))


def _read_rows(
    path: Path, row_filter: RowFilter
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    numbered = ((line, text) for line, text in read_lines(path) if text and not text.isspace())
    first = next(numbered, None)
    if first is None:
        raise InputError("is empty", kind="empty-log", file=path)
    split = _split_names(first[1])
    if split is None:
        raise FormatError(
            "the first line does not contain the names of Nextflow fields, including name",
            kind="wrong-format",
            file=path,
            line=1,
            remedy="write it with: nextflow run ... -with-trace",
        )
    separator, names = split
    repeated = [name for row, name in enumerate(names) if name in names[:row]]
    if repeated:
        raise FormatError(
            f"names the field {repeated[0]} twice", kind="wrong-columns", file=path, line=1
        )

    def rows() -> Iterator[tuple[int, list[str]]]:
        for line, text in numbered:
            if not row_filter.is_readable(line, text):
                continue
            cells = text.split(separator)
            if len(cells) == len(names):
                yield line, cells
            else:
                problem = f"has {len(cells)} fields, not {len(names)}"
                row_filter.reject(line, problem, what=f"lines without {len(names)} fields")

    return names, rows()


def _split_names(line: str) -> tuple[str, list[str]] | None:
    """Return the separator and the names of the fields; None if this is no trace file."""
    for separator in _SEPARATORS:
        names = [cell.strip() for cell in line.split(separator)]
        known = [name for name in names if name in _FIELDS or name in _IGNORED]
        has_task = ("name" in names or "process" in names) and not _DISTINCT.isdisjoint(names)
        # Newer versions may have further fields.
        if has_task and len(known) >= max(3, len(names) - 2):
            return separator, names
    return None


def _parse_batch(
    batch: pl.DataFrame, columns: Mapping[str, str], row_filter: RowFilter, utc_offset: float
) -> pl.DataFrame:
    """Convert the fields of a batch to typed columns; missing fields are null."""
    parsed: list[pl.Expr | pl.Series] = []
    checks: list[CellCheck] = []
    for name in _FIELDS:
        if name not in columns:
            parsed.append(pl.lit(None, dtype=_get_dtype(name)).alias(name))
            continue
        column = columns[name]
        value = values.parse_cell(column)
        problem = None
        if name in _DATES:
            dates = values.parse_dates(batch.select(value).to_series(), utc_offset)
            parsed.append(dates.alias(name))
            problem = "is not a date and time"
        elif name in _LENGTHS:
            parsed.append(values.duration_to_seconds(column).alias(name))
            problem = "is not a duration"
        elif name in _MEMORY:
            parsed.append(values.memory_to_bytes(column).alias(name))
            problem = "is not an amount of memory"
        elif name == "%cpu":
            parsed.append(values.percent_to_share(column).alias(name))
            problem = "is not a percentage"
        elif name in _NUMBERS:
            parsed.append(pl.when(value.is_not_null()).then(parse_number(column)).alias(name))
            given = pl.when(value.is_not_null()).then(pl.col(column)).otherwise(pl.lit(""))
            parsed.append(given.alias(f"given {name}"))
            checks.append(make_number_check(f"given {name}", name))
        else:
            parsed.append(value.alias(name))
        if problem:
            checks.append(
                CellCheck(name, problem, value.is_not_null() & pl.col(name).is_null(), column)
            )
    is_local = [
        values.parse_cell(columns[name]).str.contains(r"[^0-9]").fill_null(False)
        for name in _DATES
        if name in columns
    ]
    parsed.append(pl.any_horizontal(*is_local, pl.lit(False)).alias("local"))
    named = [columns[each] for each in ("name", "process") if each in columns]
    is_unnamed = pl.coalesce(*map(values.parse_cell, named)).is_null()
    checks.append(CellCheck("name", "is empty", is_unnamed, named[0]))
    return row_filter.filter_rows(batch.with_columns(parsed), checks).select(
        "line", "local", *_FIELDS
    )


def _get_dtype(name: str) -> type[pl.DataType]:
    if name in _DATES:
        return pl.Int64
    return pl.String if name in _TEXTS else pl.Float64


def _order_attempts(
    records: pl.DataFrame, path: Path, tally: Tally
) -> tuple[pl.DataFrame, int | None]:
    """Add the task and the number of the attempt to each record, and times in s since t = 0."""
    parts = [_NAME.match(name or "") for name in records["name"]]
    split = pl.DataFrame(
        {
            "named_process": [part[1] if part else None for part in parts],
            "named_tag": [part[2] if part else None for part in parts],
        },
        schema={"named_process": pl.String, "named_tag": pl.String},
    )
    # A number in parentheses counts the tasks of a process; it is no tag.
    is_index = pl.col("named_tag").str.contains(r"^[0-9]+$")
    records = records.hstack(split).with_columns(
        name=pl.coalesce("name", pl.concat_str("process", pl.format(" ({})", "tag")), "process"),
        process=pl.coalesce("process", "named_process"),
        tag=pl.coalesce("tag", pl.when(~is_index).then("named_tag")),
        is_cached=(pl.col("status") == "CACHED").fill_null(False),
    )
    ran = records.filter(~pl.col("is_cached"))
    first = ran.select(pl.min_horizontal(*_DATES).min()).item()
    epoch_ms = None if first is None else first // 1000
    zero = 0 if epoch_ms is None else epoch_ms * 1000
    cached = records["is_cached"]
    what = "CACHED tasks, which were not executed in this run: they have no execution"
    tally.note_lines("assumed", what, path.name, records.filter(cached)["line"])
    records = records.with_columns(
        pl.when(~pl.col("is_cached")).then((pl.col(name) - zero) / 1e6).alias(name)
        for name in _DATES
    )
    computed = pl.when(~pl.col("is_cached")).then(pl.col("submit") + pl.col("duration"))
    records = records.with_columns(
        complete=pl.coalesce("complete", computed),
        earliest_end=pl.coalesce("complete", computed - _ROUNDING),
    )
    unknown = records.filter(
        ~pl.col("status").is_in([*values.STATUS_OF, *values.UNFINISHED]).fill_null(True)
    )
    tally.note_lines("ignored", "unknown values of status", path.name, unknown["line"])
    unfinished = records.filter(pl.col("status").is_in(values.UNFINISHED))
    what = "tasks that had not ended: NEW, SUBMITTED or RUNNING"
    tally.note_lines("noticed", what, path.name, unfinished["line"])
    return _join_retries(records, path, tally), epoch_ms


def _join_retries(records: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Number the tasks and their attempts: a retry has the name of an attempt that failed."""
    rows = records.select("name", "status", "submit", "attempt").rows()
    order = sorted(range(len(rows)), key=lambda row: (rows[row][2] is None, rows[row][2] or 0.0))
    task_of, attempt_of = [0] * len(rows), [0] * len(rows)
    failed: dict[str, list[int]] = {}
    retries = []
    count = 0
    for row in order:
        name, status, _, attempt = rows[row]
        waiting = [
            each
            for each in failed.get(name, [])
            if attempt is None or rows[each][3] is None or attempt > rows[each][3]
        ]
        if waiting and (attempt is None or attempt > 1) and status != "CACHED":
            before = waiting[-1]
            failed[name].remove(before)
            task_of[row], attempt_of[row] = task_of[before], attempt_of[before] + 1
            retries.append(row)
        else:
            task_of[row] = count
            count += 1
        if status in ("FAILED", "ABORTED"):
            failed.setdefault(name, []).append(row)
    lines = records["line"][sorted(retries)]
    what = "attempts after a failed one of the same name, joined with its task"
    tally.note_lines("assumed", what, path.name, lines)
    numbered = records.with_columns(
        number=pl.Series(task_of, dtype=pl.Int64), retry=pl.Series(attempt_of, dtype=pl.Int64)
    )
    return _name_tasks(numbered, tally).sort("number", "retry")


def _name_tasks(records: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Name each task; tasks with equal names get the id of their first attempt, or a number."""
    first = records.unique("number", keep="first", maintain_order=True).sort("number")
    repeated = first["name"].is_duplicated()
    tally.note(
        "repaired",
        "tasks with the name of another one: named with their number",
        count=int(repeated.sum()),
        examples=first["name"].filter(repeated).unique(maintain_order=True).to_list(),
    )
    first = first.with_columns(
        task=pl.when(repeated)
        .then(pl.concat_str("name", pl.format(" [{}]", pl.coalesce("task_id", "number"))))
        .otherwise("name")
    )
    again = first["task"].is_duplicated()
    first = first.with_columns(
        task=pl.when(again).then(pl.format("{} #{}", "task", "number")).otherwise("task")
    )
    return records.join(first.select("number", "task"), on="number", how="left")


def _make_tasks(attempts: pl.DataFrame) -> pl.DataFrame:
    """Return a row per task: the first submission, and all other fields of the last attempt."""
    first = attempts.group_by("task", maintain_order=True).agg(first_submit=pl.col("submit").min())
    last = attempts.unique("task", keep="last", maintain_order=True)
    last = last.join(first, on="task", how="left", maintain_order="left")
    ended = pl.col("status").is_in(list(values.STATUS_OF))
    whole = {name: pl.col(name).round().cast(pl.Int64, strict=False) for name in _NUMBERS}
    cached = pl.col("is_cached")
    return last.select(
        id=pl.col("task"),
        name=pl.col("process"),
        queue=pl.col("queue"),
        submit=pl.when(cached).then(0.0).otherwise("first_submit"),
        requested_cores=pl.col("cpus"),
        requested_memory=pl.col("memory"),
        requested_time=pl.col("time"),
        run_time=pl.when(ended).then(pl.col("realtime")),
        cpu_time=pl.when(ended).then(pl.col("%cpu") * pl.col("realtime")),
        memory_used=pl.coalesce("peak_rss", "rss"),
        status=pl.col("status").replace_strict(
            values.STATUS_OF, default=None, return_dtype=pl.String
        ),
        exit_code=whole["exit"],
        voluntary_switches=whole["vol_ctxt"],
        involuntary_switches=whole["inv_ctxt"],
        line=pl.col("line"),
    )


def _make_placements(attempts: pl.DataFrame) -> pl.DataFrame:
    """Return a row per attempt that was executed in this run."""
    executed = attempts.filter(
        ~pl.col("is_cached")
        & (pl.col("start").is_not_null() | pl.col("complete").is_not_null())
        & ~pl.col("status").is_in(["NEW", "SUBMITTED"]).fill_null(False)
    )
    return executed.select(
        task=pl.col("task"),
        attempt=pl.col("retry"),
        machine=pl.col("hostname"),
        cores=pl.col("cpus"),
        start=pl.col("start"),
        end=pl.when(pl.col("status").is_in(list(values.STATUS_OF))).then("complete"),
        reason=pl.col("status").replace_strict(
            values.STATUS_OF, default=None, return_dtype=pl.String
        ),
    )


def _add_parents(
    tasks: pl.DataFrame, attempts: pl.DataFrame, dag: Path, tally: Tally
) -> pl.DataFrame:
    """Add the parents of the tasks; tasks with parents are submitted at t = 0, and ready later."""
    diagram = read_diagram(dag)
    processes = attempts["process"].unique(maintain_order=True).to_list()
    matched = match_processes(diagram.labels, processes)
    if not matched:
        raise InputError(
            f"has no process of the trace, such as '{processes[0]}'",
            kind="unknown-reference",
            file=dag,
            remedy="give the diagram of the same pipeline, written with dag.depth = -1 (default)",
        )
    absent = [name for name in processes if name not in matched.values()]
    what = "processes of the trace that are not in the diagram: their tasks have no dependencies"
    tally.note("noticed", what, count=len(absent), examples=absent)
    others = [label for vertex, label in diagram.labels.items() if vertex not in matched]
    what = "vertices of the diagram that are no process of the trace: passed through"
    tally.note("noticed", what, count=len(others), examples=others)
    known = attempts.group_by("task", maintain_order=True).agg(
        pl.col("process").last(),
        pl.col("tag").last(),
        pl.col("submit").min(),
        # A task that has not ended cannot have been waited for.
        end=pl.when(pl.col("status").last().is_in(values.UNFINISHED))
        .then(float("inf"))
        .otherwise(pl.col("earliest_end").max()),
    )
    times = [TaskTimes(*row) for row in known.select(TaskTimes._fields).rows()]
    parents = assume_dependencies(times, link_processes(diagram, matched), tally)
    column = pl.DataFrame(
        {"id": known["task"], "parents": parents}, schema_overrides={"parents": pl.List(pl.String)}
    )
    tasks = tasks.join(column, on="id", how="left", maintain_order="left")
    graph = list_dependencies(tasks)
    _, cycle = find_blocked_tasks(graph.parents, graph.children, tasks.height)
    if cycle:
        shown = " -> ".join(tasks["id"][row] for row in cycle[:10])
        raise InputError(
            f"the tasks wait for each other: {shown}",
            kind="dependency-cycle",
            file=dag,
            remedy="a process that feeds itself needs tags, or the dates submit and complete",
        )
    waits = pl.col("parents").list.len() > 0
    what = "submissions of tasks with dependencies, which became `ready`; they are submitted at 0 s"
    tally.note("assumed", what, count=tasks.filter(waits & pl.col("submit").is_not_null()).height)
    return tasks.with_columns(
        ready=pl.when(waits).then("submit"), submit=pl.when(waits).then(0.0).otherwise("submit")
    )


def _note_missing(tasks: pl.DataFrame, attempts: pl.DataFrame, has_dag: bool, tally: Tally) -> None:
    """Count what the trace file lacks."""
    count = tasks.height
    if not has_dag:
        what = "tasks of unknown dependencies: a trace file has none (dag adds a diagram)"
        tally.note("noticed", what, count=count)
    tally.note("noticed", "tasks of unknown files: a trace file has none", count=count)
    ran = attempts.filter(~pl.col("is_cached"))
    tally.note("noticed", "executions of unknown machine", count=ran["hostname"].null_count())
    tally.note("noticed", "executions of unknown start", count=ran["start"].null_count())
    tally.note("noticed", "tasks of unknown run time", count=tasks["run_time"].null_count())
    longer = ran.filter(pl.col("complete") - pl.col("start") > pl.col("realtime") + 1.0)
    what = "executions over 1 s longer than their realtime: staging and start of containers"
    tally.note("noticed", what, count=longer.height)


def _recognises(path: Path, start: bytes) -> bool:
    text = start.decode("utf-8-sig", "replace").lstrip()
    lines = text.splitlines()
    return bool(lines) and _split_names(lines[0]) is not None


FORMAT: Format = Format(
    name="nextflow",
    title="Nextflow trace file (trace.txt)",
    recognises=_recognises,
    read=read,
    path_options=("dag",),
)
