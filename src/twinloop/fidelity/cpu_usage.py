"""Assessment of the CPU usage of each task, relative to its own start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.criteria import Criteria, format_bound
from twinloop.fidelity.verdict import Finding, judge_figure
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count

Counts = npt.NDArray[np.int64]
#: Windows that are covered by less than this share are not known.
COVERED = 0.99
#: Maximum number of windows of a run; with more, the windows are made longer.
MOST_WINDOWS = 10_000_000
_PEARSON = "Pearson correlation over the windows of all tasks, each since its own start"
_SMAPE = "mean of 2 |twin - real| / (|twin| + |real|) over the same windows, 0 / 0 = 0"
_RMSE = "root mean square of twin - real over the same windows, over the median of the real"
EMPTY = pl.DataFrame(
    schema={"task": pl.String, "t": pl.Float64, "real": pl.Float64, "twin": pl.Float64}
)


def resample_usage(windows: pl.DataFrame, sizes: Counts, step: float) -> Floats:
    """Resample CPU usage to windows of `step` since the start of each task, task by task.

    CPU time is assumed to be constant within its sampling window, so each new window receives it in
    proportion to the overlap. Incompletely covered windows are NaN.

    Args:
        windows: Windows as in `ComparedRun.windows`, with the index of each `task`.
        sizes: Number of new windows of each task.
        step: Length of the new windows (s).

    >>> windows = pl.DataFrame({"task": [0, 0], "stream": [0, 0], "begin": [0.0, 1.5],
    ...                         "end": [1.5, 2.0], "rate": [1.0, 3.0]})
    >>> resample_usage(windows, np.array([3]), 1.0).tolist()
    [1.0, 2.0, nan]
    """
    begin, end = (windows[name].to_numpy() / step for name in ("begin", "end"))
    first = np.floor(begin).astype(np.int64)
    pieces = np.ceil(end).astype(np.int64) - first
    row = np.repeat(np.arange(windows.height), pieces)
    index = first[row] + np.arange(row.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    inside = np.minimum(end[row], index + 1) - np.maximum(begin[row], index)
    task = windows["task"].to_numpy()
    cell = _offsets(sizes)[task][row] + index
    cores = np.bincount(cell, windows["rate"].to_numpy()[row] * inside, int(sizes.sum()))
    known = np.zeros(cores.size)
    # Processes of a task may start at different times: a window is covered if one of them is.
    stream = _streams(windows)[row]
    for number in range(int(stream.max(initial=-1)) + 1):
        rows = stream == number
        np.maximum(known, np.bincount(cell[rows], inside[rows], known.size), out=known)
    return np.where(known >= COVERED, cores, np.nan)


def assess_usage(
    real: ComparedRun, twin: ComparedRun, criteria: Criteria, k: float = 1.0
) -> Iterator[Finding]:
    """Assess the CPU usage; `k` is a factor on the real usage.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> {found.note for found in assess_usage(*sides, Criteria())}
    {'the real run and the twin have no CPU usage'}
    """
    asked = criteria.usage
    without = [side.label for side in (real, twin) if not side.trace.usage.height]
    if without:
        have = "have" if len(without) > 1 else "has"
        remedy = " (record it with twinloop simulate --usage 1s)" if without == [twin.label] else ""
        note = f"{' and '.join(without)} {have} no CPU usage{remedy}"
        yield from _not_assessable(criteria, note, EMPTY)
        return
    pairs, unit, notes = pair_usage(real, twin, asked.step)
    if pairs.height < asked.least_pairs:
        text = (
            f"{format_count(pairs.height, 'window')} known whole in both; needs {asked.least_pairs}"
        )
        yield from _not_assessable(criteria, "; ".join([text, *notes]), pairs)
        return
    pairs = pairs.with_columns(pl.col("real") * k)
    a, b = (pairs[name].to_numpy() for name in ("real", "twin"))
    spread = float(a.std() / a.mean()) if a.mean() > 0 else 0.0
    about = {"pairs": float(a.size), "tasks": float(pairs["task"].n_unique()), "variation": spread}
    text = "; ".join(notes)
    limit = format_bound(True, asked.pearson, "")
    if spread < asked.variation:
        why = f"the real usage varies by {spread * 100:.2g} %; needs {asked.variation * 100:g} %"
        yield Finding(
            "cpu usage", "Pearson r", None, limit, "not assessable", _PEARSON,
            "; ".join([why, *notes]), asked.pearson, figures=about, series=pairs,
        )  # fmt: skip
    else:
        r = correlation(a, b)
        odd = [] if r is not None else ["the usage of the twin is constant: r taken as 0"]
        r = 0.0 if r is None else r
        yield Finding(
            "cpu usage", "Pearson r", r, limit, judge_figure(r, asked.pearson, least=True),
            _PEARSON, "; ".join([*odd, *notes]), asked.pearson, figures=about, series=pairs,
        )  # fmt: skip
    error = smape(a, b)
    yield Finding(
        "cpu usage", "sMAPE", error, format_bound(False, asked.smape, "share", strict=True),
        judge_figure(error, asked.smape, strict=True), _SMAPE, text, asked.smape, "share",
        figures=about, series=pairs,
    )  # fmt: skip
    middle = float(np.median(a))
    rmse = float(np.sqrt(((b - a) ** 2).mean()))
    about = {**about, f"rmse_{unit}": rmse, f"median_{unit}": middle}
    limit = format_bound(False, asked.rmse, "share")
    if middle <= 0:
        yield Finding(
            "cpu usage", "RMSE / median", None, limit, "not assessable", _RMSE,
            "; ".join(["the median of the real usage is 0", *notes]), asked.rmse, "share",
            figures=about, series=pairs,
        )  # fmt: skip
        return
    yield Finding(
        "cpu usage", "RMSE / median", rmse / middle, limit, judge_figure(rmse / middle, asked.rmse),
        _RMSE, text, asked.rmse, "share", figures=about, series=pairs,
    )  # fmt: skip


def smape(a: Floats, b: Floats) -> float:
    """Compute the symmetric mean absolute percentage error (sMAPE) as a share.

    The mean of 2 |a - b| / (|a| + |b|), with 0 / 0 = 0.

    >>> smape(np.array([1.0, 0.0]), np.array([3.0, 0.0]))
    0.5
    """
    sums = np.abs(a) + np.abs(b)
    parts = np.divide(2 * np.abs(a - b), sums, out=np.zeros_like(sums), where=sums > 0)
    return float(parts.mean())


def correlation(a: Floats, b: Floats) -> float | None:
    """Compute Pearson's correlation; None if one of the series is constant.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    1.0
    """
    x, y = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    tiny = any(
        np.sqrt(float(part @ part) / part.size) <= 1e-9 * np.abs(whole).max(initial=0.0)
        for part, whole in ((x, a), (y, b))
    )
    return None if tiny or scale <= 0 else float(np.clip((x @ y) / scale, -1.0, 1.0))


def pair_usage(
    real: ComparedRun, twin: ComparedRun, step: float
) -> tuple[pl.DataFrame, str, list[str]]:
    """Pair the usage of both runs in the same windows; return the pairs, their unit and notes.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> pairs, unit, notes = pair_usage(*sides, 1.0)
    >>> pairs.height, unit
    (0, 'cores')
    """
    a, b = (side.windows for side in (real, twin))
    tasks = a.select("task").unique().join(b.select("task").unique(), on="task").sort("task")
    tasks = tasks.with_columns(number=pl.int_range(pl.len(), dtype=pl.Int64))
    a, b = (side.join(tasks, on="task").with_columns(task="number") for side in (a, b))
    last = pl.concat([a, b]).group_by("task").agg(pl.col("end").max()).sort("task")["end"]
    notes = []
    wanted = step
    while float((last / step).sum()) > MOST_WINDOWS:
        step *= 2
    if step != wanted:
        notes.append(f"windows of {step:g} s: of {wanted:g} s there are too many")
    sizes = np.ceil(last.to_numpy() / step).astype(np.int64)
    one, other = (resample_usage(side, sizes, step) for side in (a, b))
    both = np.flatnonzero(~(np.isnan(one) | np.isnan(other)))
    offsets = _offsets(sizes)
    task = np.searchsorted(offsets, both, side="right") - 1
    unit, clocks = _unit(real, twin)
    pairs = pl.DataFrame(
        {
            "task": tasks["task"].gather(task),
            "t": (both - offsets[task]) * step,
            "real": one[both] * clocks[0],
            "twin": other[both] * clocks[1],
        },
        schema=EMPTY.schema,
    )
    if unit == "mhz":
        notes.append(f"in MHz: seconds of {clocks[0]:g} MHz and of {clocks[1]:g} MHz")
    with_usage = len({*real.windows["task"].unique(), *twin.windows["task"].unique()})
    if apart := with_usage - np.unique(task).size:
        notes.append(f"{format_count(apart, 'task')} with usage have no whole window in both")
    return pairs, unit, notes


def _offsets(sizes: Counts) -> Counts:
    """Return the offset of the first window of each task."""
    found: Counts = np.cumsum(sizes) - sizes
    return found


def _streams(windows: pl.DataFrame) -> Counts:
    """Return the index of the process of each window within its task, from 0."""
    if not windows.height:
        return np.empty(0, dtype=np.int64)
    rank = pl.col("stream").rank("dense").over("task")
    found: Counts = (windows.select(rank.cast(pl.Int64))["stream"] - 1).to_numpy()
    return found


def _unit(real: ComparedRun, twin: ComparedRun) -> tuple[str, tuple[float, float]]:
    """Return the unit of usage: cores, or MHz if the reference clocks differ."""
    a, b = (side.trace.manifest.reference_mhz for side in (real, twin))
    return ("cores", (1.0, 1.0)) if a is None or b is None or a == b else ("mhz", (a, b))


def _not_assessable(criteria: Criteria, note: str, series: pl.DataFrame) -> Iterator[Finding]:
    asked = criteria.usage
    for name, threshold, limit, unit, method in (
        ("Pearson r", format_bound(True, asked.pearson, ""), asked.pearson, "", _PEARSON),
        (
            "sMAPE",
            format_bound(False, asked.smape, "share", strict=True),
            asked.smape,
            "share",
            _SMAPE,
        ),
        ("RMSE / median", format_bound(False, asked.rmse, "share"), asked.rmse, "share", _RMSE),
    ):
        yield Finding(
            "cpu usage", name, None, threshold, "not assessable", method, note, limit, unit,
            series=series,
        )  # fmt: skip
