"""Attribution of usage samples to invocations by node, process id and time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def attribute_samples(samples: pl.DataFrame, invocations: pl.DataFrame) -> pl.Series:
    """Find the row of the invocation of each sample; null if there is none.

    It is the invocation with the same pid, on the same node, whose interval from start to end
    overlaps the window of the sample; of several, the last that started before the end of the
    window, because it was running when the sample was taken. An invocation that started exactly at
    the end of the window is used only if there is no other. The pid alone is not sufficient,
    because systems reuse pids.
    Nodes are compared only if both tables have any. An unknown end is infinitely late, an unknown
    start infinitely early.

    >>> invocations = pl.DataFrame({"pid": [7, 7], "node_id": [None, None],
    ...                             "ts_start": [0, 5000], "ts_end": [1000, 9000]})
    >>> samples = pl.DataFrame({"pid": [7, 7, 7, 8], "node_id": [None] * 4,
    ...                         "ts_ms": [500, 6000, 3000, 500], "dt_ms": [500, 500, 500, 500]})
    >>> attribute_samples(samples, invocations).to_list()
    [0, 1, None, None]
    """
    nodes = _encode_nodes(samples["node_id"], invocations["node_id"])
    runs = _Runs(invocations.with_columns(node=nodes[1]))
    windows = samples.select(
        "pid",
        node=nodes[0],
        begin=pl.col("ts_ms") - pl.col("dt_ms").fill_null(0).clip(0),
        end="ts_ms",
    )
    rows = [runs.find_overlapping(part) for part in windows.iter_slices(_BATCH_ROWS)]
    return pl.concat(rows) if rows else pl.Series(dtype=pl.UInt32)


# Number of samples per batch, which limits the memory of intermediate results.
_BATCH_ROWS = 1 << 17

_EARLIEST, _LATEST = -(1 << 62), 1 << 62
_NONE = 2**32 - 1
_PROCESS = ("pid", "node")


def _encode_nodes(
    sample_nodes: pl.Series, invocation_nodes: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """Encode nodes, including the unknown one, as numbers; all equal if nodes are not compared."""
    nodes = pl.concat([sample_nodes, invocation_nodes], rechunk=False)
    if any(side.null_count() == side.len() for side in (sample_nodes, invocation_nodes)):
        numbers = pl.zeros(nodes.len(), dtype=pl.UInt32, eager=True)
    else:
        numbers = nodes.cast(pl.Categorical).to_physical().fill_null(_NONE)
    return numbers.head(sample_nodes.len()), numbers.slice(sample_nodes.len())


class _Runs:
    """Invocations sorted by their starts."""

    def __init__(self, invocations: pl.DataFrame) -> None:
        runs = (
            invocations.select(
                *_PROCESS,
                start=pl.col("ts_start").fill_null(_EARLIEST),
                end=pl.col("ts_end").fill_null(_LATEST),
            )
            # If the end is before the start (which the rule lifecycle-order reports), they are
            # exchanged.
            .with_columns(
                start=pl.min_horizontal("start", "end"), end=pl.max_horizontal("start", "end")
            )
            .with_row_index("invocation")
            .drop_nulls("pid")
            .sort("start", maintain_order=True)
            .with_row_index("run")
        )
        self._starts = runs.select(*_PROCESS, "start", "run").set_sorted("start")
        self._invocations = runs["invocation"]
        self._ends = runs["end"].to_numpy()
        by_process = runs.select(
            before=pl.col("run").shift(1).over(_PROCESS).fill_null(_NONE),
            latest=pl.col("end").cum_max().over(_PROCESS),
        )
        self._previous = by_process["before"].to_numpy()
        self._latest_end = by_process["latest"].to_numpy()

    def find_overlapping(self, windows: pl.DataFrame) -> pl.Series:
        """Find the invocation that each window overlaps, of several the last started.

        Runs of one process hardly ever overlap, so that the last started run is nearly always the
        right one. If it ended before the window, earlier runs are tried as long as one of them may
        have ended later.
        """
        run = self._find_runs(windows, until_end=False)
        unmatched = run == _NONE
        if unmatched.any():
            run[unmatched] = self._find_runs(windows.filter(unmatched), until_end=True)
        runs = pl.Series(run)
        return self._invocations.gather(runs.set(runs == _NONE, None))

    def _find_runs(self, windows: pl.DataFrame, *, until_end: bool) -> NDArray[np.uint32]:
        run = self._find_last_started(windows, until_end=until_end)
        begin = windows["begin"].fill_null(_LATEST).to_numpy()
        pending = np.flatnonzero(run != _NONE)
        while pending.size:
            pending = pending[self._ends[run[pending]] < begin[pending]]
            impossible = self._latest_end[run[pending]] < begin[pending]
            run[pending[impossible]] = _NONE
            pending = pending[~impossible]
            run[pending] = self._previous[run[pending]]
        return run

    def _find_last_started(self, windows: pl.DataFrame, *, until_end: bool) -> NDArray[np.uint32]:
        """Find the last run of the process of each window that started before its end, if any.

        `until_end`: or exactly at its end.
        """
        usable = windows.select(*_PROCESS, "end").with_row_index("window")
        if windows["end"].null_count() or windows["pid"].null_count():
            usable = usable.drop_nulls()
        if not usable["end"].is_sorted():
            usable = usable.sort("end", maintain_order=True)
        matched = usable.set_sorted("end").join_asof(
            self._starts,
            left_on="end",
            right_on="start",
            by=_PROCESS,
            strategy="backward",
            allow_exact_matches=until_end,
            check_sortedness=False,
        )
        run = np.full(windows.height, _NONE, dtype=np.uint32)
        run[matched["window"].to_numpy()] = matched["run"].fill_null(_NONE).to_numpy()
        return run
