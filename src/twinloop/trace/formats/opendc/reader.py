"""Reader of the workload tables of OpenDC: `tasks.parquet` and `fragments.parquet` in one folder.

Tasks have a submission, a duration and a demand; fragments are consecutive periods of constant CPU
usage. There are no start times: the fragments of a task are placed one after another from its
submission. Older folders have `meta.parquet` and `trace.parquet`, and older column names. Durations
are milliseconds, CPU is MHz, memory is KiB. The nodes are read from a
`topology.json` in the same folder.
Source of names, types and units: OpenDC's schemas (github.com/atlarge-research/opendc).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.description.files import describe_source_file
from twinloop.description.plugins import load_component
from twinloop.trace.formats import parquet
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import scale_ticks, scale_ticks_expr
from twinloop.trace.formats.opendc.consistency import note_inconsistencies
from twinloop.trace.formats.opendc.topology import (
    TOPOLOGY_FILE,
    TopologySummary,
    read_topology_summary,
)
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import MAX_LOG_TIME, MAX_NUMBER
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.tables import RESOURCES, make_empty_table
from twinloop.trace.trace import Trace

#: The two files of a folder, with their current and their older names.
PAIRS: Final = (("tasks.parquet", "fragments.parquet"), ("meta.parquet", "trace.parquet"))

TASK_COLUMNS: Final = {
    "id": ("id",),
    "submission_time": ("submission_time", "submissionTime", "start_time"),
    "stop_time": ("stop_time", "endTime"),
    "duration": ("duration",),
    "cpu_count": ("cpu_count", "maxCores"),
    "cpu_capacity": ("cpu_capacity",),
    "mem_capacity": ("mem_capacity", "requiredMemory"),
    "name": ("name",),
    "gpu_count": ("gpu_count",),
    "parents": ("parents",),
    "children": ("children",),
    "deadline": ("deadline",),
}
FRAGMENT_COLUMNS: Final = {
    "id": ("id",),
    "duration": ("duration",),
    "cpu_usage": ("cpu_usage", "cpuUsage"),
}
KB: Final = 1024.0


def read(path: Path, *, reference_mhz: float | None = None, strict: bool = False) -> Trace:
    """Read a workload of OpenDC.

    Args:
        path: The folder, or its `tasks.parquet`.
        reference_mhz: Clock (MHz) of the core whose seconds `usage.cpu` counts. By default that
            of the fastest core in a `topology.json` beside the tables, else the MHz per core that
            most tasks request.
        strict: Raise at the first row that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     pl.DataFrame({"id": [1], "submission_time": [1000], "duration": [60_000],
    ...                   "cpu_count": [2], "cpu_capacity": [4000.0], "mem_capacity": [8]}
    ...                  ).write_parquet(temporary + "/tasks.parquet")
    ...     pl.DataFrame({"id": [1, 1], "duration": [20_000, 40_000], "cpu_usage": [2000.0, 1000.0]}
    ...                  ).write_parquet(temporary + "/fragments.parquet")
    ...     trace = read(Path(temporary))
    >>> trace.usage.select("task", "t", "dt", "cpu").rows()
    [('1', 20.0, 20.0, 20.0), ('1', 60.0, 40.0, 20.0)]
    """
    if reference_mhz is not None and not 0 < reference_mhz < MAX_NUMBER:
        raise InputError(
            f"{reference_mhz} is not a clock in MHz",
            kind="unknown-core-speed",
            field="reference_mhz",
        )
    task_file, fragment_file = _find_files(path)
    tally = Tally()
    row_filter = _TableFilter(tally, strict)
    tasks = _read_tasks(task_file, row_filter)
    epoch_ms = int(tasks["submission_time"].min() // 1)  # type: ignore[operator, arg-type]
    topology = read_topology_summary(task_file.parent, tally)
    nodes = (
        make_empty_table("nodes")
        if topology is None
        else _read_nodes(task_file.parent / TOPOLOGY_FILE, tally)
    )
    facts = {} if topology is None else {"opendc": {"topology": topology.document}}
    mhz = _choose_reference(reference_mhz, topology, tasks, task_file, tally)
    fragments = _read_fragments(fragment_file, tasks, row_filter)
    note_inconsistencies(tasks, fragments, topology, task_file.name, tally)
    usage = _make_usage(fragments, tasks, epoch_ms, mhz)
    del fragments
    for file, columns in ((task_file, TASK_COLUMNS), (fragment_file, FRAGMENT_COLUMNS)):
        for name in parquet.list_other_columns(file, columns):
            tally.note("ignored", f"the column {name} of {file.name}")
    manifest = Manifest(
        source=TraceOrigin(
            format="opendc",
            files=(describe_source_file(task_file), describe_source_file(fragment_file)),
        ),
        epoch_ms=epoch_ms,
        reference_mhz=mhz,
        cleaned=tally.cleanings(),
        facts=facts,
    )
    return Trace(manifest=manifest, tasks=_make_tasks(tasks, epoch_ms), usage=usage, nodes=nodes)


class _TableFilter:
    """A filter that removes and counts rows of a table; in strict mode, the first one raises."""

    def __init__(self, tally: Tally, strict: bool) -> None:
        self.tally = tally
        self.strict = strict

    def remove(self, frame: pl.DataFrame, bad: pl.Expr, what: str, file: Path) -> pl.DataFrame:
        mask = bad.fill_null(False)
        rows = frame.filter(mask)
        if rows.height == 0:
            return frame
        self._note(rows, what, file)
        return frame.filter(~mask)

    def clear_out_of_range(
        self, frame: pl.DataFrame, file: Path, limits: dict[str, float]
    ) -> pl.DataFrame:
        """Replace numbers that are not finite or too large by null."""
        for name, limit in limits.items():
            in_range = pl.col(name).is_null() | pl.col(name).is_between(-limit, limit)
            rows = frame.filter(~in_range)
            if rows.height:
                self._note(rows, f"values of {name} that are not finite or too large", file)
                frame = frame.with_columns(pl.when(in_range).then(pl.col(name)))
        return frame

    def _note(self, rows: pl.DataFrame, what: str, file: Path) -> None:
        if self.strict:
            raise InputError(
                f"is one of {rows.height:,} {what}",
                kind="invalid-value",
                file=file,
                line=rows["line"][0],
            )
        self.tally.note_lines("skipped", what, file.name, rows["line"])


def _find_files(path: Path) -> tuple[Path, Path]:
    folder = path if path.is_dir() else path.parent
    for tasks, fragments in PAIRS:
        matches = path.is_dir() or path.name in (tasks, fragments)
        if matches and (folder / tasks).is_file() and (folder / fragments).is_file():
            return folder / tasks, folder / fragments
    raise InputError(
        "is not a workload of OpenDC: tasks.parquet and fragments.parquet must be in one folder",
        kind="wrong-format",
        file=path,
    )


def _read_tasks(file: Path, row_filter: _TableFilter) -> pl.DataFrame:
    """Read the tasks: times in ms since 1970, columns by the current names of OpenDC."""
    raw = parquet.load_columns(file, TASK_COLUMNS, required=("id", "submission_time", "cpu_count"))
    if "duration" not in raw.columns and "stop_time" not in raw.columns:
        parquet.load_columns(file, TASK_COLUMNS, required=("duration",))
    parts = [pl.col("line"), parquet.cast_text(raw, "id", file)]
    for name in ("submission_time", "stop_time", "duration", "deadline"):
        if name in raw.columns:
            parts.append(parquet.cast_milliseconds(raw, name, file))
    for name in ("cpu_count", "cpu_capacity", "mem_capacity", "gpu_count"):
        if name in raw.columns:
            parts.append(parquet.cast_number(raw, name, file))
    for name in ("parents", "children"):
        if name in raw.columns:
            parts.append(parquet.cast_text_lists(raw, name, file))
    if "name" in raw.columns:
        parts.append(parquet.cast_text(raw, "name", file))
    tasks = raw.select(parts)
    numbers = [name for name, dtype in tasks.schema.items() if dtype == pl.Float64]
    times = ("submission_time", "stop_time", "duration", "deadline")
    tasks = row_filter.clear_out_of_range(
        tasks,
        file,
        {name: MAX_LOG_TIME * 1000 if name in times else MAX_NUMBER for name in numbers},
    )
    tasks = row_filter.remove(tasks, pl.col("id").is_null(), "tasks without an id", file)
    if "stop_time" in tasks.columns:
        span = pl.col("stop_time") - pl.col("submission_time")
        old = pl.col("duration") if "duration" in tasks.columns else None
        tasks = tasks.with_columns(duration=span if old is None else pl.coalesce(old, span))
    if tasks["submission_time"].drop_nulls().is_empty():
        raise InputError("has no task with a submission time", kind="empty-log", file=file)
    return tasks


def _read_fragments(file: Path, tasks: pl.DataFrame, row_filter: _TableFilter) -> pl.DataFrame:
    """Read the fragments with the row of their task: line, task, duration in ms and cpu_usage."""
    task_rows = (
        tasks.filter(pl.col("submission_time").is_not_null())
        .with_row_index("task")
        .unique("id", keep="first")
        .select("id", "task")
    )
    converters: dict[str, Callable[[pl.DataFrame], pl.Series]] = {
        "id": lambda raw: _look_up_rows(
            raw.select(parquet.cast_text(raw, "id", file)).to_series(), task_rows
        ),
        "duration": lambda raw: raw.select(
            parquet.cast_milliseconds(raw, "duration", file)
        ).to_series(),
        "cpu_usage": lambda raw: raw.select(
            parquet.cast_number(raw, "cpu_usage", file)
        ).to_series(),
    }
    # This table is large and mostly ids, so its columns are converted in pieces.
    columns = [
        parquet.convert_column(file, FRAGMENT_COLUMNS, tuple(converters), name, convert)
        for name, convert in converters.items()
    ]
    fragments = pl.DataFrame(columns).rename({"id": "task"}).with_row_index("line", offset=1)
    del columns
    fragments = row_filter.clear_out_of_range(
        fragments, file, {"duration": MAX_LOG_TIME * 1000, "cpu_usage": MAX_NUMBER}
    )
    bad = pl.col("duration").is_null() | (pl.col("duration") < 0)
    fragments = row_filter.remove(fragments, bad, "fragments without a possible duration", file)
    unknown = pl.col("task").is_null()
    return row_filter.remove(fragments, unknown, "fragments of no task with a submission", file)


def _look_up_rows(ids: pl.Series, task_rows: pl.DataFrame) -> pl.Series:
    """Look up the `task` of each id in `task_rows`; null if there is none."""
    # Fragments of one task are mostly adjacent, so each run of equal ids is looked up once.
    begins = pl.Series([True] * min(ids.len(), 1), dtype=pl.Boolean)
    begins.append(ids[1:].ne_missing(ids[:-1]))
    runs = pl.DataFrame({"id": ids.filter(begins)})
    runs = runs.join(task_rows, on="id", how="left", maintain_order="left")
    # The sum counts runs from 1, so the first element is null.
    tasks = pl.concat([runs["task"].clear(1), runs["task"]])
    return tasks.gather(begins.cum_sum())


def _sum_durations(durations: pl.Series, tasks: pl.Series) -> NDArray[np.float64]:
    """Compute for each fragment the sum of the durations of its task up to its end."""
    rows, lengths = tasks.to_numpy(), durations.to_numpy()
    first = np.flatnonzero(np.concatenate([[True] * min(rows.size, 1), rows[1:] != rows[:-1]]))
    if np.unique(rows[first]).size < first.size:
        both = pl.DataFrame({"task": tasks, "duration": durations})
        sums = both.select(pl.col("duration").cum_sum().over("task")).to_series()
        return sums.to_numpy(writable=True)
    total = np.cumsum(lengths)
    total -= np.repeat(total[first] - lengths[first], np.diff(first, append=total.size))
    return total


def _choose_reference(
    given: float | None,
    topology: TopologySummary | None,
    tasks: pl.DataFrame,
    file: Path,
    tally: Tally,
) -> float:
    if given is not None:
        return given
    if topology is not None and topology.mhz is not None:
        what = f"the reference clock is {topology.mhz:g} MHz, the fastest core of the topology"
        tally.note("assumed", what)
        return topology.mhz
    if "cpu_capacity" in tasks.columns:
        clock = pl.col("cpu_capacity") / pl.col("cpu_count")
        clocks = tasks.filter(pl.col("cpu_count") > 0).select(clock.alias("mhz"))
        common = clocks.filter(pl.col("mhz") > 0)["mhz"].value_counts().sort("count", "mhz")
        if common.height:
            mhz = float(common["mhz"][-1])
            what = f"the reference clock is {mhz:g} MHz, the most common request per core"
            tally.note("assumed", what)
            return mhz
    raise InputError(
        "has no information on the clock of a core",
        kind="unknown-core-speed",
        file=file,
        field="cpu_capacity",
        remedy="give reference_mhz",
    )


def _read_nodes(topology: Path, tally: Tally) -> pl.DataFrame:
    # The platform package is a higher layer, so it is imported by name, when it is used.
    description = load_component("platform")
    try:
        nodes: pl.DataFrame = description.load(topology).nodes()
    except InputError as error:
        what = f"the nodes of the topology beside the tables: {error.problem}"
        tally.note("ignored", what, examples=[TOPOLOGY_FILE])
        return make_empty_table("nodes")
    return nodes


def _make_usage(
    fragments: pl.DataFrame, tasks: pl.DataFrame, epoch_ms: int, mhz: float
) -> pl.DataFrame:
    """Convert the fragments to samples; columns are dropped after use, to save memory."""
    submitted = tasks.filter(pl.col("submission_time").is_not_null())
    rows = fragments.drop_in_place("task")
    durations = fragments.drop_in_place("duration")
    ends = _sum_durations(durations, rows)
    ends += (submitted["submission_time"] - epoch_ms).to_numpy()[rows.to_numpy()]
    ends /= 1000.0
    t, dt = pl.Series(ends), scale_ticks(durations)
    del durations
    cpu_mhz = fragments.drop_in_place("cpu_usage")
    cpu = cpu_mhz.to_numpy() / mhz
    cpu *= dt.to_numpy()
    used = pl.Series(cpu).fill_nan(None) if cpu_mhz.null_count() else pl.Series(cpu)
    del cpu_mhz
    task = submitted["id"].gather(rows)
    return pl.DataFrame({"task": task, "t": t, "dt": dt, "cpu": used, "line": fragments["line"]})


def _make_tasks(tasks: pl.DataFrame, epoch_ms: int) -> pl.DataFrame:
    columns = {
        "id": pl.col("id"),
        "submit": scale_ticks_expr(pl.col("submission_time") - epoch_ms),
        "requested_cores": pl.col("cpu_count"),
        "run_time": scale_ticks_expr(pl.col("duration")),
        "line": pl.col("line"),
    }
    available = tasks.columns
    if "name" in available:
        columns["name"] = pl.col("name")
    if "cpu_capacity" in available:
        columns["requested_mhz"] = pl.col("cpu_capacity")
    if "mem_capacity" in available:
        columns["requested_memory"] = pl.col("mem_capacity") * KB
    if "deadline" in available:
        # OpenDC writes -1 for none.
        known = pl.col("deadline") >= 0
        columns["deadline"] = pl.when(known).then(scale_ticks_expr(pl.col("deadline") - epoch_ms))
    if "gpu_count" in available:
        gpu = pl.struct(pl.lit("gpu").alias("name"), pl.col("gpu_count").alias("amount"))
        gpus = pl.concat_list(gpu).cast(RESOURCES)
        columns["resources"] = pl.when(pl.col("gpu_count") > 0).then(gpus)
    if "parents" in available:
        columns["parents"] = pl.col("parents")
    return tasks.select(**columns)


def _recognises(path: Path, start: bytes) -> bool:
    if path.is_dir():
        return any((path / a).is_file() and (path / b).is_file() for a, b in PAIRS)
    names = {name for pair in PAIRS for name in pair}
    return path.name in names and start.startswith(parquet.MAGIC) and _recognises(path.parent, b"")


def _list_related_files(path: Path) -> list[Path]:
    """List the other table of a pair and the topology, if they exist in the folder of a file."""
    pair = next((pair for pair in PAIRS if path.name in pair), ())
    other = [name for name in (*pair, *((TOPOLOGY_FILE,) if pair else ())) if name != path.name]
    return [path.with_name(name) for name in other if path.with_name(name).is_file()]


FORMAT: Format = Format(
    name="opendc",
    title="OpenDC workload (tasks.parquet and fragments.parquet)",
    recognises=_recognises,
    read=read,
    related_files=_list_related_files,
)
