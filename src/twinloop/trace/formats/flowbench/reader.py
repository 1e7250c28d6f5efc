"""Runs of Pegasus workflows on HTCondor, as FlowBench publishes them: CSV, one line per job.

A job has the times of the workflow manager (`ready`, `submit`, `execute_start`, `execute_end`,
`post_script_end`), those of its stage-in and stage-out with their bytes, its CPU time, its host,
and a label if cores or disk bandwidth of this host were withheld. The parents of the jobs are in a
second file, JSON of the form {"parent": ["child", ...]}.

Source of the fields: the column names of the data set FlowBench (github.com/PoSeiDon-Workflows).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.csv_records import open_table
from twinloop.trace.formats.flowbench.dependencies import read_dependencies
from twinloop.trace.formats.flowbench.host_clocks import HOST_TIMES, align_clocks
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import (
    MAX_LOG_TIME,
    MAX_NUMBER,
    CellCheck,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    parse_text,
    shift_to_first_time,
    split_header,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

#: Times by the clock of the workflow manager.
_MANAGER_TIMES: Final = ("ready", "submit", "execute_start", "execute_end", "post_script_end")
_NUMBERS: Final = {
    "stage_in_bytes": "stage_in_bytes",
    "stage_out_bytes": "stage_out_bytes",
    "kickstart_executables_cpu_time": "cpu_time",
    "kickstart_executables_exitcode": "exit_code",
}
_TEXTS: Final = {
    "": "id",
    "type": "type",
    "anomaly_type": "anomaly",
    "kickstart_user": "user",
    "kickstart_site": "site",
    "kickstart_hostname": "machine",
    "kickstart_transformations": "name",
}
_REQUIRED: Final = ("", "type", "ready", "submit", "execute_start", "execute_end")
#: Columns that follow from others, and the status of the job, which has its exit code.
_DERIVED: Final = frozenset(
    ("wms_delay", "queue_delay", "runtime", "pre_script_delay", "post_script_delay")
    + ("stage_in_delay", "stage_out_delay", "post_script_start", "kickstart_status")
    + ("stage_in_effective_bytes_per_sec", "stage_out_effective_bytes_per_sec")
    + ("kickstart_online_bytes_read_per_second", "kickstart_online_bytes_written_per_second")
)
#: The columns by which a file of this format is recognised.
_SIGNATURE: Final = frozenset(("execute_start", "post_script_end", "kickstart_hostname"))
_NO_ANOMALY: Final = "None"
_NORMAL: Final = "normal"
_NAME: Final = re.compile(r"(?P<workflow>.+)-run(?P<repetition>\d+)\.csv(\.(gz|zst|bz2|xz))?")


def read(path: Path, *, dag: str | Path | None = None, strict: bool = False) -> Trace:
    """Read a run of a workflow in the CSV form of FlowBench.

    With the dependencies, all tasks are submitted at t = 0 in the order of the dependencies' file,
    in which the workflow manager submits tasks that are ready together. Without them, tasks are
    submitted when they were ready.

    Args:
        path: The run, possibly compressed.
        dag: The dependencies: a JSON file with the children of each task, possibly compressed.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> head = ",type,ready,submit,execute_start,execute_end,post_script_end,kickstart_hostname\\n"
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     run, dag = Path(temporary, "tiny-run1.csv"), Path(temporary, "dag.json")
    ...     _ = run.write_text(head + "b,compute,30,35,41,61,66,n1\\na,auxiliary,0,5,6,25,30,n1\\n")
    ...     _ = dag.write_text('{"a": ["b"]}')
    ...     trace = read(run, dag=dag)
    >>> trace.tasks.select("id", "kind", "ready", "run_time", "parents").rows()
    [('a', 'auxiliary', 0.0, 19.0, []), ('b', 'compute', 30.0, 20.0, ['a'])]
    >>> trace.task_times.select("before", "after").rows(), trace.manifest.facts["makespan"]
    ([(5.0, 5.0), (5.0, 5.0)], 66.0)
    """
    tally = Tally()
    jobs = _read_jobs(path, RowFilter(path, tally, strict=strict))
    jobs, epoch_ms = shift_to_first_time(jobs, _MANAGER_TIMES, tally)
    if epoch_ms is not None:
        jobs = jobs.with_columns(pl.col(HOST_TIMES) - epoch_ms / 1000)
    jobs, offsets = align_clocks(jobs, tally)
    files = [path] if dag is None else [path, Path(dag)]
    jobs = _add_parents(jobs, path, None if dag is None else Path(dag), tally)
    _note_missing(jobs, path, tally)
    transfers = _make_transfers(jobs, path, tally)
    manifest = Manifest(
        source=TraceOrigin(
            format="flowbench", files=tuple(describe_source_file(file) for file in files)
        ),
        epoch_ms=epoch_ms,
        cleaned=tally.cleanings(),
        facts=_collect_facts(jobs, path, offsets),
    )
    return Trace(
        manifest=manifest,
        tasks=_make_tasks(jobs, has_parents=dag is not None),
        placements=_make_placements(jobs),
        transfers=transfers,
        task_times=_make_task_times(jobs),
    )


def _read_jobs(path: Path, row_filter: RowFilter) -> pl.DataFrame:
    """Read the lines as typed columns; those that the file does not have are null."""
    names, rows = open_table(path, row_filter, ",")
    missing = [name or "(the first, without a name)" for name in _REQUIRED if name not in names]
    if missing:
        raise InputError(
            f"has no column {', '.join(missing)}",
            kind="wrong-columns",
            file=path,
            remedy="give a CSV file of a run of FlowBench",
        )
    columns = {name: str(index) for index, name in enumerate(names)}
    frames = [_parse_batch(batch, columns, row_filter) for batch in batch_rows(rows, len(names))]
    jobs = pl.concat(frames) if frames else None
    if jobs is None or jobs.height == 0:
        raise InputError("has no task that can be read", kind="empty-log", file=path)
    return jobs


def _parse_batch(
    batch: pl.DataFrame, columns: Mapping[str, str], row_filter: RowFilter
) -> pl.DataFrame:
    times = {name: name for name in (*_MANAGER_TIMES, *HOST_TIMES)}
    checks = [CellCheck("id", "is missing", parse_text(columns[""]).is_null(), columns[""])]
    values = [pl.col("line")]
    for names, limit in ((times, MAX_LOG_TIME), (_NUMBERS, MAX_NUMBER)):
        for name, target in names.items():
            if name in columns:
                checks.append(make_number_check(columns[name], name, limit))
                values.append(parse_number(columns[name]).alias(target))
            else:
                values.append(pl.lit(None, dtype=pl.Float64).alias(target))
    for name, target in _TEXTS.items():
        text = parse_text(columns[name]) if name in columns else pl.lit(None, dtype=pl.String)
        values.append(text.alias(target))
    read = {*times, *_NUMBERS, *_TEXTS, *_DERIVED}
    rows = row_filter.filter_rows(batch, checks)
    for name, column in columns.items():
        if name not in read:
            count = rows.select(parse_text(column).count()).item()
            row_filter.tally.note("ignored", f"values of the column '{name}'", count=count)
    return rows.select(values)


def _add_parents(jobs: pl.DataFrame, path: Path, dag: Path | None, tally: Tally) -> pl.DataFrame:
    """Add the parents and the submission of each task, and sort them by the order of the DAG."""
    if dag is None:
        what = "tasks whose dependencies are not known: submitted when they were ready"
        tally.note("assumed", what, count=jobs.height)
        return jobs.with_columns(
            parents=pl.lit(None, dtype=pl.List(pl.String)), submission=pl.col("ready")
        )
    nodes = read_dependencies(dag, tally)
    known = set(jobs["id"])
    absent = [name for name in nodes if name not in known]
    if len(absent) == len(nodes):
        raise InputError(
            f"has no task of {path.name}", kind="unknown-reference", file=dag, field="dag"
        )
    what = "tasks of the dependencies that are not in the run, left out"
    tally.note("ignored", what, count=len(absent), examples=absent)
    parents = [[name for name in each if name in known] for each in nodes.values()]
    order = pl.DataFrame(
        {"id": list(nodes), "order": range(len(nodes)), "parents": parents},
        schema={"id": pl.String, "order": pl.UInt32, "parents": pl.List(pl.String)},
    )
    jobs = jobs.join(order, on="id", how="left", maintain_order="left")
    alone = jobs.filter(pl.col("order").is_null())
    what = "tasks that the dependencies do not have: submitted when they were ready"
    tally.note_lines("assumed", what, path.name, alone["line"])
    return jobs.sort("order", "line", nulls_last=True).with_columns(
        submission=pl.when(pl.col("order").is_null()).then("ready").otherwise(0.0)
    )


def _note_missing(jobs: pl.DataFrame, path: Path, tally: Tally) -> None:
    """Note what the log does not have."""
    tally.note("assumed", "tasks need one core each: none is recorded", count=jobs.height)
    times = jobs.select(pl.col(_MANAGER_TIMES)).unpivot()["value"].drop_nulls()
    if times.len() and (times == times.round()).all():
        tally.note("noticed", "times in whole seconds", count=times.len())
    for staging, consequence in (
        ("stage_in", "begins with"),
        ("stage_out", "lasts until the end of"),
    ):
        absent = jobs.filter((pl.col("type") == "compute") & pl.col(f"{staging}_start").is_null())
        what = (
            f"tasks of the type compute without a time of {staging}: their computation "
            f"{consequence} their execution"
        )
        tally.note_lines("assumed", what, path.name, absent["line"])
    staged = pl.col("stage_in_bytes").is_not_null() | pl.col("stage_out_bytes").is_not_null()
    what = "tasks whose files have no names: only their bytes are recorded"
    tally.note("noticed", what, count=jobs.filter(staged).height)
    machines = jobs["machine"].drop_nulls().unique(maintain_order=True)
    what = "machines that tasks ran on, but that are not described"
    tally.note("noticed", what, count=machines.len(), examples=machines.head(3))


def _collect_facts(jobs: pl.DataFrame, path: Path, offsets: Mapping[str, float]) -> dict[str, Any]:
    last = jobs.select(pl.max_horizontal("post_script_end", "execute_end").max()).item()
    first = jobs["ready"].min()
    facts: dict[str, Any] = {}
    if last is not None and first is not None:
        facts["makespan"] = last - first
    slow = jobs.filter(pl.col("anomaly") != _NO_ANOMALY).drop_nulls("machine")
    labels = slow["anomaly"].unique(maintain_order=True).sort().to_list()
    match = _NAME.fullmatch(path.name)
    if match is not None:
        facts["labels"] = {
            "workflow": match["workflow"],
            "anomaly": "+".join(labels) or _NORMAL,
            "repetition": match["repetition"],
        }
    if labels:
        pairs = slow.select("machine", "anomaly").unique(maintain_order=True).sort("machine")
        facts["anomalies"] = dict(pairs.iter_rows())
    if offsets:
        facts["clock_offsets"] = dict(offsets)
    return facts


def _make_tasks(jobs: pl.DataFrame, *, has_parents: bool) -> pl.DataFrame:
    parents = pl.col("parents").fill_null([]) if has_parents else pl.col("parents")
    return jobs.select(
        "id",
        "name",
        "user",
        partition="site",
        submit="submission",
        ready="ready",
        requested_cores=pl.lit(1.0),
        run_time=pl.col("execute_end") - pl.col("execute_start"),
        cpu_time="cpu_time",
        kind="type",
        status=_STATUS,
        exit_code=pl.col("exit_code").cast(pl.Int64),
        parents=parents,
        line="line",
    )


_STATUS: Final = (
    pl.when(pl.col("exit_code") == 0)
    .then(pl.lit("completed"))
    .when(pl.col("exit_code") != 0)
    .then(pl.lit("failed"))
)


def _make_placements(jobs: pl.DataFrame) -> pl.DataFrame:
    return jobs.drop_nulls("execute_start").select(
        task="id",
        attempt=pl.lit(0, dtype=pl.Int64),
        machine="machine",
        cores=pl.lit(1.0),
        start="execute_start",
        end="execute_end",
        reason=_STATUS,
    )


def _make_transfers(jobs: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Make the stage-in and the stage-out of each task; their other ends are not recorded."""
    parts = []
    for staging, kind, end in (("stage_in", "read", "to"), ("stage_out", "write", "from")):
        amount, start = f"{staging}_bytes", f"{staging}_start"
        untimed = jobs.filter(pl.col(amount).is_not_null() & pl.col(start).is_null())
        what = f"bytes of {staging} without a time"
        tally.note_lines("ignored", what, path.name, untimed["line"])
        parts.append(
            jobs.drop_nulls(start).select(
                pl.col("machine").alias(end),
                kind=pl.lit(kind),
                subject="id",
                bytes=amount,
                start=start,
                end=f"{staging}_end",
                reason=pl.when(pl.col(f"{staging}_end").is_not_null()).then(pl.lit("completed")),
            )
        )
    return pl.concat(parts, how="diagonal").sort("start", maintain_order=True)


def _make_task_times(jobs: pl.DataFrame) -> pl.DataFrame:
    """Split the wall times: a job that only moves files computes nothing.

    The computation of a job without a time of stage-in begins with its execution, and that of a
    job without a time of stage-out lasts until its end.
    """
    wall = pl.col("execute_end") - pl.col("execute_start")
    stage_in = pl.col("stage_in_end") - pl.col("stage_in_start")
    stage_out = pl.col("stage_out_end") - pl.col("stage_out_start")
    staging = stage_in.fill_null(0.0) + stage_out.fill_null(0.0)
    computes = pl.col("type") == "compute"
    begin = pl.coalesce("stage_in_end", "execute_start")
    between = pl.coalesce("stage_out_start", "execute_end") - begin
    run_time = pl.when(computes).then(between).when(staging > 0).then(0.0).otherwise(wall)
    return jobs.drop_nulls(["execute_start", "execute_end"]).select(
        task="id",
        wall_time=wall,
        run_time=run_time,
        management_time=wall - run_time - staging,
        before=pl.col("submit") - pl.col("ready"),
        after=pl.col("post_script_end") - pl.col("execute_end"),
    )


def _recognises(path: Path, start: bytes) -> bool:
    return set(split_header(start, ",")) >= _SIGNATURE


FORMAT: Format = Format(
    name="flowbench",
    title="run of a Pegasus workflow, by FlowBench (.csv)",
    recognises=_recognises,
    read=read,
    path_options=("dag",),
)
