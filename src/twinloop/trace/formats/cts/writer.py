"""Writer of folders in the Core Trace Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically, write_folder_atomically
from twinloop.description.replacement import read_file_list, write_file_list
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.cts.nodes import NODES_FILE
from twinloop.trace.formats.cts.reader import COMPRESSIONS, INVOCATIONS_FILE, SAMPLES_FILE
from twinloop.trace.formats.cts.units import KB, MB, to_milliseconds, to_whole_units
from twinloop.trace.formats.format_limits import note_unsupported_columns, number_tasks
from twinloop.trace.trace import Trace

_BATCH_ROWS: Final = 1 << 16
_SUPPORTED: Final = {
    "tasks": ("id", "submit", "status", "exit_code", "pid", "run_time", "line"),
    "placements": ("task", "attempt", "machine", "start", "end", "reason"),
    "usage": ("task", "machine", "pid", "t", "dt", "cpu", "rss", "line"),
    "nodes": ("node", "cores", "mhz", "memory"),
}
_EXIT_STATUS: Final = {"completed": 0, "failed": 1}

#: Tolerance of whole milliseconds, for the rounding errors of sums.
ROUNDING_TOLERANCE_MS: Final = 1e-6


def write(trace: Trace, path: Path, *, compression: str | None = None) -> Iterable[Cleaning]:
    """Write a folder in the Core Trace Schema, atomically.

    Args:
        trace: The trace.
        path: The folder; an existing one is replaced if this function wrote it.
        compression: None, "gz" or "zst", for the two files of JSON Lines.

    >>> import tempfile
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.5], "user": ["ann"]}))
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     notes = write(trace, Path(temporary, "run.cts"))
    ...     print(Path(temporary, "run.cts", "invocations.jsonl").read_text().rstrip())
    {"trace_id":"a","pid":1,"ts_enqueue":500,"ts_start":null,...,"exit_status":null}
    >>> print(*notes, sep="\\n")
    ignored 1: tasks: user
    assumed 1: t = 0 is 1970-01-01: the epoch of the trace is unknown
    invented 1: process ids of tasks
    """
    if compression is not None and compression not in COMPRESSIONS:
        raise InputError(
            f"'{compression}' is not a compression",
            kind="not-a-choice",
            remedy="None, 'gz' or 'zst'",
        )
    tally = Tally()
    note_unsupported_columns(trace, tally, **_SUPPORTED)
    epoch = trace.manifest.epoch_ms
    if epoch is None:
        tally.note("assumed", "t = 0 is 1970-01-01: the epoch of the trace is unknown")
    source = trace.manifest.source
    is_foreign = source is None or source.format != "cts"
    tasks = _add_pids(number_tasks(trace), trace.usage, tally, every=is_foreign)
    invocations = _make_invocations(tasks, trace.placements, epoch or 0, tally)
    usage = _add_sizes(trace.usage, tasks, tally) if is_foreign else trace.usage
    samples = _make_samples(usage, tasks, epoch or 0, tally)
    nodes = _make_nodes(trace.nodes, tally)
    suffix = "" if compression is None else COMPRESSIONS[compression]
    with write_folder_atomically(path, read_file_list) as folder:
        for name, frame in ((INVOCATIONS_FILE, invocations), (SAMPLES_FILE, samples)):
            with write_atomically(folder / f"{name}{suffix}") as stream:
                for begin in range(0, frame.height, _BATCH_ROWS):
                    stream.write(frame.slice(begin, _BATCH_ROWS).write_ndjson().encode())
        with write_atomically(folder / NODES_FILE) as stream:
            stream.write(json.dumps(nodes, indent=2, ensure_ascii=False).encode() + b"\n")
        write_file_list(folder, "cts")
    return tally.cleanings()


def _add_pids(
    tasks: pl.DataFrame, usage: pl.DataFrame, tally: Tally, *, every: bool
) -> pl.DataFrame:
    """Add a pid for each task whose samples have none, so that readers can attribute them.

    If the trace is from another format, every task gets a pid, which the schema requires.
    """
    without_pid = usage.filter(pl.col("pid").is_null() & pl.col("task").is_not_null())
    needed = pl.col("pid").is_null()
    if not every:
        needed &= pl.col("id").is_in(without_pid["task"].unique().implode())
    pids = [pid for pid in (tasks["pid"].max(), usage["pid"].max(), 0) if isinstance(pid, int)]
    tally.note("invented", "process ids of tasks", count=tasks.filter(needed).height)
    unknown = tasks.filter(pl.col("pid").is_null() & ~needed).height
    tally.note("noticed", "tasks without a process id, which the schema requires", count=unknown)
    return tasks.with_columns(
        pid=pl.when(needed).then(max(pids) + needed.cum_sum()).otherwise("pid").cast(pl.Int64)
    )


def _make_invocations(
    tasks: pl.DataFrame, placements: pl.DataFrame, epoch: int, tally: Tally
) -> pl.DataFrame:
    last = placements.sort("attempt", maintain_order=True).unique(
        "task", keep="last", maintain_order=True
    )
    tally.note(
        "ignored",
        "placements of a task besides its last",
        count=placements.height - last.height,
    )
    rows = tasks.join(last, left_on="id", right_on="task", how="left", maintain_order="left")
    lost = pl.col("run_time").is_not_null() & (pl.col("start").is_null() | pl.col("end").is_null())
    tally.note("ignored", "tasks: run_time without start", count=rows.filter(lost).height)
    code = pl.coalesce(
        "exit_code",
        pl.col("status").replace_strict(_EXIT_STATUS, default=None, return_dtype=pl.Int64),
    )
    invented = pl.col("exit_code").is_null() & code.is_not_null()
    what = "exit statuses: 0 where a task completed, 1 where it failed"
    tally.note("invented", what, count=rows.filter(invented).height)
    implied = pl.when(code == 0).then(pl.lit("completed")).when(code != 0).then(pl.lit("failed"))
    lost_status = pl.col("status").is_not_null() & ~pl.col("status").eq_missing(implied)
    tally.note("ignored", "tasks: status", count=rows.filter(lost_status).height)
    return rows.select(
        pl.col("id").alias("trace_id"),
        "pid",
        to_milliseconds(rows["submit"], "submissions", tally, zero=epoch).alias("ts_enqueue"),
        to_milliseconds(rows["start"], "starts", tally, zero=epoch).alias("ts_start"),
        to_milliseconds(rows["end"], "ends", tally, zero=epoch).alias("ts_end"),
        pl.col("machine").alias("node_id"),
        code.alias("exit_status"),
    )


def _add_sizes(usage: pl.DataFrame, tasks: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Add a resident size for each sample of a task, which the schema requires.

    It is unknown for a sample at the end of a process. It is taken from the nearest sample before
    or after it or, if there is none, from the peak of the task, so that no peak increases.
    """
    unknown = pl.col("rss").is_null() & pl.col("task").is_not_null()
    if not usage.filter(unknown).height:
        return usage
    sized = usage.join(
        tasks.select(task="id", peak="memory_used"), on="task", how="left", maintain_order="left"
    ).with_columns(
        pl.when(unknown)
        .then(
            pl.coalesce(
                pl.col("rss").forward_fill().over("task", order_by="t"),
                pl.col("rss").backward_fill().over("task", order_by="t"),
                "peak",
            )
        )
        .otherwise("rss")
        .alias("rss")
    )
    still_unknown = sized.filter(unknown).height
    what = "resident sizes of samples, from the nearest sample or the peak of the task"
    tally.note("invented", what, count=usage.filter(unknown).height - still_unknown)
    tally.note(
        "noticed", "samples without a resident size, which the schema requires", count=still_unknown
    )
    return sized.drop("peak")


def _make_samples(
    usage: pl.DataFrame, tasks: pl.DataFrame, epoch: int, tally: Tally
) -> pl.DataFrame:
    if usage["pid"].null_count():
        pids = tasks.select(task="id", task_pid="pid")
        usage = usage.join(pids, on="task", how="left", maintain_order="left")
        usage = usage.with_columns(pid=pl.coalesce("pid", "task_pid"))
    end = to_milliseconds(usage["t"], "ends of samples", tally, zero=epoch)
    length = to_milliseconds(usage["dt"], "lengths of samples", tally)
    # Both ends of a window are rounded, so that adjacent windows stay adjacent.
    begin = to_milliseconds(usage["t"] - usage["dt"], "begins of samples", Tally(), zero=epoch)
    rounded = (usage["dt"] * 1e3 - length).abs() > ROUNDING_TOLERANCE_MS
    return usage.select(
        end.alias("ts_ms"),
        "pid",
        pl.coalesce(pl.when(rounded).then(end - begin), length).alias("dt_ms"),
        to_milliseconds(usage["cpu"], "CPU times of samples", tally).alias("cpu_ms"),
        to_whole_units(usage["rss"], KB, "resident sizes", tally).alias("rss_kb"),
        pl.col("machine").alias("node_id"),
    )


def _make_nodes(nodes: pl.DataFrame, tally: Tally) -> list[dict[str, Any]]:
    return nodes.select(
        pl.col("node").alias("node_id"),
        to_whole_units(nodes["cores"], 1, "cores of nodes", tally).alias("cpu_cores"),
        to_whole_units(nodes["memory"], MB, "memory of nodes", tally).alias("mem_mb"),
        to_whole_units(nodes["mhz"], 1, "clocks of nodes", tally).alias("cpu_freq_mhz"),
    ).to_dicts()
