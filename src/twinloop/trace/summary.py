"""Summary statistics of a trace: counts, distributions, and the load over time."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict

from twinloop.trace.capacity import compute_capacity
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace
from twinloop.trace.workflow_summary import FileSummary, GraphSummary, list_missing_facts

_Floats = npt.NDArray[np.float64]


class Spread(BaseModel):
    """Order statistics and mean of one quantity over the rows where it is known."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    known: int
    minimum: float
    median: float
    mean: float
    p95: float
    maximum: float

    @classmethod
    def from_values(cls, values: pl.Series) -> Spread | None:
        """Compute the statistics of a column; None if it has no finite value."""
        known = values.drop_nulls().to_numpy()
        known = known[np.isfinite(known)]
        if not known.size:
            return None
        low, median, p95, high = np.quantile(known, (0.0, 0.5, 0.95, 1.0))
        return cls(
            known=known.size,
            minimum=low,
            median=median,
            mean=known.mean(),
            p95=p95,
            maximum=high,
        )


class Summary(BaseModel):
    """Summary of a trace. Times in seconds, memory in bytes; None: unknown.

    >>> import polars as pl
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "user": ["x", "x"],
    ...     "submit": [0.0, 60.0], "requested_cores": [2.0, 4.0], "run_time": [10.0, 20.0]}))
    >>> summary = Summary.from_trace(trace)
    >>> summary.tasks, summary.users, summary.core_seconds
    (2, 1, 100.0)
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    format: str | None
    kind: str
    #: Date and time of t = 0 in UTC.
    epoch: str | None
    #: Number of rows of every non-empty table.
    rows: dict[str, int]
    tasks: int
    users: int
    groups: int
    queues: int
    statuses: dict[str, int]
    with_parents: int
    first_submit: float | None
    last_submit: float | None
    last_end: float | None
    cores: Spread | None
    run_time: Spread | None
    wait: Spread | None
    requested_time: Spread | None
    #: Requested memory; the used memory of tasks that requested none.
    memory: Spread | None
    #: Sum of cores times run time over the tasks for which both are known.
    core_seconds: float
    #: Cores of all nodes, or of the machine according to the header of the log.
    capacity: float | None
    #: core_seconds divided by capacity times the time from the first submission to the last.
    offered_load: float | None
    #: Sampling period of the manifest (s) or, if unknown, the mean length of the windows.
    sampling_period: float | None
    #: Energy of all nodes, by their common power if it was recorded, else by that of each node.
    energy_joules: float | None
    #: Size of all files.
    data_bytes: float | None
    #: The graph of the dependencies; None: no task has parents in the trace.
    graph: GraphSummary | None
    #: The files and their sizes; None: no files.
    files: FileSummary | None
    #: Bytes of the recorded transfers by their kind; unknown sizes count as 0.
    transferred_bytes: dict[str, float]
    #: What a simulation of this workflow lacks, with numbers of tasks or files.
    missing: dict[str, int]

    @classmethod
    def from_trace(cls, trace: Trace) -> Summary:
        """Compute the summary of a trace."""
        tasks, manifest = trace.tasks, trace.manifest
        runs = collect_runs(trace)
        submit = tasks["submit"].drop_nulls()
        ends = trace.placements["end"].drop_nulls()
        core_seconds = float((runs["processors"] * runs["run_time"]).sum())
        capacity = compute_capacity(trace)
        span = float(np.ptp(submit.to_numpy())) if len(submit) else 0.0
        statuses = tasks["status"].value_counts(sort=True).rows()
        power = trace.power
        total = power.filter(pl.col("node").is_null())
        power = total if total.height else power
        usage_dt = trace.usage["dt"].drop_nulls()
        with_parents = int((tasks["parents"].list.len() > 0).sum())
        has_files = trace.files.height or trace.task_files.height
        return cls(
            format=manifest.source.format if manifest.source else None,
            kind=manifest.kind,
            epoch=_format_date(manifest.epoch_ms),
            rows={name: frame.height for name, frame in trace.tables.items() if frame.height},
            tasks=tasks.height,
            users=tasks["user"].drop_nulls().n_unique(),
            groups=tasks["group"].drop_nulls().n_unique(),
            queues=tasks["queue"].drop_nulls().n_unique(),
            statuses={status or "unknown": count for status, count in statuses},
            with_parents=with_parents,
            first_submit=_number_or_none(submit.min()),
            last_submit=_number_or_none(submit.max()),
            last_end=_number_or_none(ends.max()),
            cores=Spread.from_values(runs["processors"]),
            run_time=Spread.from_values(runs["run_time"]),
            wait=Spread.from_values(runs["wait"]),
            requested_time=Spread.from_values(tasks["requested_time"]),
            memory=Spread.from_values(
                tasks.select(pl.coalesce("requested_memory", "memory_used"))[:, 0]
            ),
            core_seconds=core_seconds,
            capacity=capacity,
            offered_load=core_seconds / (capacity * span) if capacity and span > 0 else None,
            sampling_period=manifest.sampling_period or _number_or_none(usage_dt.mean()),
            energy_joules=float((power["watts"] * power["dt"]).sum()) if power.height else None,
            data_bytes=float(trace.files["size"].sum()) if trace.files.height else None,
            graph=GraphSummary.from_trace(trace) if with_parents else None,
            files=FileSummary.from_trace(trace) if has_files else None,
            transferred_bytes=_sum_transfers(trace),
            missing=list_missing_facts(trace),
        )


def compute_load_over_time(trace: Trace, bins: int = 100) -> pl.DataFrame:
    """Compute the load of a trace over time, in bins of equal length.

    The bins reach from the first to the last submission, end of an execution or sample. If all of
    these are at one instant, there is one bin of one second.

    Columns: `t` (begin of the bin), `dt`, `submitted` (tasks), `offered` (core-seconds of work
    submitted per second), `running` (mean cores in use by placements; null if no placement has both
    times), `used` (mean CPU use of the samples, in cores; null if there are no samples). A
    placement with unknown cores counts with those of its task; a task of unknown size counts as
    one core.

    >>> import polars as pl
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "requested_cores": [2.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [5.0], "end": [10.0]}))
    >>> compute_load_over_time(trace, bins=2)["running"].to_list()
    [0.0, 2.0]
    """
    runs = collect_runs(trace).with_columns(cores=pl.col("processors").fill_null(1.0))
    work = runs.drop_nulls("submit")
    sizes = runs.select("id", "cores").unique("id", keep="first")
    placements = (
        trace.placements.filter(pl.col("start").is_finite() & pl.col("end").is_finite())
        .join(sizes, left_on="task", right_on="id", how="left", suffix="_requested")
        .select("start", "end", cores=pl.coalesce("cores", "cores_requested", 1.0))
    )
    usage = trace.usage.filter(
        pl.col("t").is_finite() & pl.col("dt").is_finite() & pl.col("cpu").is_finite()
    )
    columns = [work["submit"], placements["end"], usage["t"]]
    times = np.concatenate([column.to_numpy() for column in columns])
    if not times.size or bins < 1:
        return pl.DataFrame(schema=dict.fromkeys(_LOAD_COLUMNS, pl.Float64))
    first, last = times.min(), times.max()
    # Narrower bins would have widths that consist mostly of rounding errors.
    if last - first <= bins * max(1e-9, 2.0**-40 * max(-first, last)):
        last, bins = first + 1.0, 1
    edges = np.linspace(first, last, bins + 1)
    width = edges[1] - edges[0]
    submit = work["submit"].to_numpy()
    demand = (work["cores"] * work["run_time"]).fill_null(0.0).to_numpy()
    count, _ = np.histogram(submit, edges)
    offered, _ = np.histogram(submit, edges, weights=demand)
    frame = pl.DataFrame(
        {"t": edges[:-1], "dt": np.full(bins, width), "submitted": count, "offered": offered}
    ).with_columns(pl.col("offered") / width, pl.col("submitted").cast(pl.Float64))
    unknown = pl.lit(None, dtype=pl.Float64)
    return frame.with_columns(
        running=_compute_bin_means(
            placements["start"].to_numpy(),
            placements["end"].to_numpy(),
            placements["cores"].to_numpy(),
            edges,
        )
        if placements.height
        else unknown,
        used=_compute_bin_means(
            (usage["t"] - usage["dt"]).to_numpy(),
            usage["t"].to_numpy(),
            (usage["cpu"] / usage["dt"]).to_numpy(),
            edges,
        )
        if usage.height
        else unknown,
    )


_LOAD_COLUMNS = ("t", "dt", "submitted", "offered", "running", "used")


def _compute_bin_means(start: _Floats, end: _Floats, height: _Floats, edges: _Floats) -> pl.Series:
    """Compute the mean over each bin of a sum of boxes with `height` from `start` to `end`."""
    keep = (end > start) & np.isfinite(height)
    start, end, height = start[keep], end[keep], height[keep]
    times = np.concatenate([start, end])
    step = np.concatenate([height, -height])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(step[order])
    # The integral is linear between events.
    integral = (
        np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))]) if times.size else times
    )
    if not times.size:
        return pl.Series(np.zeros(edges.size - 1))
    return pl.Series(np.maximum(np.diff(np.interp(edges, times, integral)), 0.0) / np.diff(edges))


def _sum_transfers(trace: Trace) -> dict[str, float]:
    sums = trace.transfers.group_by("kind", maintain_order=True).agg(pl.col("bytes").sum())
    return {kind or "unknown": amount for kind, amount in sums.rows()}


def _number_or_none(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _format_date(epoch_ms: int | None) -> str | None:
    if epoch_ms is None:
        return None
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None
