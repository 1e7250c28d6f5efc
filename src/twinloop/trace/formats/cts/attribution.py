"""Which invocation a usage sample belongs to: by node, process id and time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def attribute_samples(samples: pl.DataFrame, invocations: pl.DataFrame) -> pl.Series:
    """For each sample the row of its invocation; null: there is none.

    It is the invocation with the same pid, on the same node, whose time from start to end the
    window of the sample touches; of several, the one that started last before the window ended,
    because that is the one that ran when the sample was taken. One that started just when the
    window ended has it only if nothing else does. Systems use a pid again, so the pid alone does
    not do.
    Nodes are compared only if both sides name any. An end that is not known is taken as never, a
    start that is not known as always.

    >>> invocations = pl.DataFrame({"pid": [7, 7], "node_id": [None, None],
    ...                             "ts_start": [0, 5000], "ts_end": [1000, 9000]})
    >>> samples = pl.DataFrame({"pid": [7, 7, 7, 8], "node_id": [None] * 4,
    ...                         "ts_ms": [500, 6000, 3000, 500], "dt_ms": [500, 500, 500, 500]})
    >>> attribute_samples(samples, invocations).to_list()
    [0, 1, None, None]
    """
    nodes = _nodes(samples["node_id"], invocations["node_id"])
    runs = _Runs(invocations.with_columns(node=nodes[1]))
    windows = samples.select(
        "pid",
        node=nodes[0],
        begin=pl.col("ts_ms") - pl.col("dt_ms").fill_null(0).clip(0),
        end="ts_ms",
    )
    found = [runs.touched_by(part) for part in windows.iter_slices(_ROWS)]
    return pl.concat(found) if found else pl.Series(dtype=pl.UInt32)


# So many samples at once: what is needed on the way takes little memory beside the samples.
_ROWS = 1 << 17

_EARLIEST, _LATEST = -(1 << 62), 1 << 62
_NONE = 2**32 - 1
_PROCESS = ("pid", "node")


def _nodes(of_samples: pl.Series, of_invocations: pl.Series) -> tuple[pl.Series, pl.Series]:
    """A number for each node, also for the unknown one; the same for all if nodes do not count."""
    both = pl.concat([of_samples, of_invocations], rechunk=False)
    if any(side.null_count() == side.len() for side in (of_samples, of_invocations)):
        numbers = pl.zeros(both.len(), dtype=pl.UInt32, eager=True)
    else:
        numbers = both.cast(pl.Categorical).to_physical().fill_null(_NONE)
    return numbers.head(of_samples.len()), numbers.slice(of_samples.len())


class _Runs:
    """Invocations in the order of their starts."""

    def __init__(self, invocations: pl.DataFrame) -> None:
        runs = (
            invocations.select(
                *_PROCESS,
                start=pl.col("ts_start").fill_null(_EARLIEST),
                end=pl.col("ts_end").fill_null(_LATEST),
            )
            # One that ends before it starts is a fault of its own; its samples are still its own.
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
        of_process = runs.select(
            before=pl.col("run").shift(1).over(_PROCESS).fill_null(_NONE),
            latest=pl.col("end").cum_max().over(_PROCESS),
        )
        self._before = of_process["before"].to_numpy()
        self._latest = of_process["latest"].to_numpy()

    def touched_by(self, windows: pl.DataFrame) -> pl.Series:
        """For each window the invocation that it touches, of several the one that started last.

        Runs of one process hardly ever overlap, so that the last one that started settles nearly
        every window. If it ended too early, those before it are tried, as long as one of them may
        have ended later.
        """
        run = self._settled(windows, until_end=False)
        open_ = run == _NONE
        if open_.any():
            run[open_] = self._settled(windows.filter(open_), until_end=True)
        found = pl.Series(run)
        return self._invocations.gather(found.set(found == _NONE, None))

    def _settled(self, windows: pl.DataFrame, *, until_end: bool) -> NDArray[np.uint32]:
        run = self._last_started(windows, until_end=until_end)
        begin = windows["begin"].fill_null(_LATEST).to_numpy()
        left = np.flatnonzero(run != _NONE)
        while left.size:
            left = left[self._ends[run[left]] < begin[left]]
            hopeless = self._latest[run[left]] < begin[left]
            run[left[hopeless]] = _NONE
            left = left[~hopeless]
            run[left] = self._before[run[left]]
        return run

    def _last_started(self, windows: pl.DataFrame, *, until_end: bool) -> NDArray[np.uint32]:
        """For each window the last run of its process that started before it ended, if any.

        `until_end`: or just when it ended.
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
