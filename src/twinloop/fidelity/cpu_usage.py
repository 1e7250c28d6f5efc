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
#: Minimum share of a window that samples must cover; the usage of other windows is unknown.
MIN_COVERAGE = 0.99
#: Maximum number of windows of all tasks; if there are more, the windows are made longer.
MAX_WINDOWS = 10_000_000
_PEARSON_METHOD = "Pearson correlation over the windows of all tasks, each since its own start"
_SMAPE_METHOD = "mean of 2 |twin - real| / (|twin| + |real|) over the same windows, 0 / 0 = 0"
_RMSE_METHOD = "root mean square of twin - real over the same windows, over the median of the real"
NO_PAIRS = pl.DataFrame(
    schema={"task": pl.String, "t": pl.Float64, "real": pl.Float64, "twin": pl.Float64}
)


def resample_usage(windows: pl.DataFrame, sizes: Counts, step: float) -> Floats:
    """Resample CPU usage to windows of `step` since the start of each task, task by task.

    CPU usage is assumed to be constant within its sampling window, so each new window receives CPU
    time in proportion to the overlap. Incompletely covered windows are NaN.

    Args:
        windows: Windows as in `ComparedRun.windows`, with the index of the task as `task`.
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
    cell = _find_offsets(sizes)[task][row] + index
    cores = np.bincount(cell, windows["rate"].to_numpy()[row] * inside, int(sizes.sum()))
    coverage = np.zeros(cores.size)
    # Processes of a task may start at different times: a window is covered if the samples of one
    # process cover it.
    stream = _number_streams(windows)[row]
    for number in range(int(stream.max(initial=-1)) + 1):
        rows = stream == number
        np.maximum(coverage, np.bincount(cell[rows], inside[rows], coverage.size), out=coverage)
    return np.where(coverage >= MIN_COVERAGE, cores, np.nan)


def assess_usage(
    real: ComparedRun, twin: ComparedRun, criteria: Criteria, k: float = 1.0
) -> Iterator[Finding]:
    """Assess the CPU usage; `k` is a factor on the real usage.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> {found.note for found in assess_usage(*sides, Criteria())}
    {'the real run and the twin have no CPU usage'}
    """
    rules = criteria.usage
    without = [side.label for side in (real, twin) if not side.trace.usage.height]
    if without:
        have = "have" if len(without) > 1 else "has"
        remedy = " (record it with twinloop simulate --usage 1s)" if without == [twin.label] else ""
        note = f"{' and '.join(without)} {have} no CPU usage{remedy}"
        yield from _make_not_assessable(criteria, note, NO_PAIRS)
        return
    pairs, unit, notes = pair_usage(real, twin, rules.step)
    if pairs.height < rules.least_pairs:
        text = (
            f"{format_count(pairs.height, 'window')} completely known in both; "
            f"needs {rules.least_pairs}"
        )
        yield from _make_not_assessable(criteria, "; ".join([text, *notes]), pairs)
        return
    pairs = pairs.with_columns(pl.col("real") * k)
    a, b = (pairs[name].to_numpy() for name in ("real", "twin"))
    variation = float(a.std() / a.mean()) if a.mean() > 0 else 0.0
    figures = {
        "pairs": float(a.size),
        "tasks": float(pairs["task"].n_unique()),
        "variation": variation,
    }
    note = "; ".join(notes)
    limit = format_bound(True, rules.pearson, "")
    if variation < rules.variation:
        why = f"the real usage varies by {variation * 100:.2g} %; needs {rules.variation * 100:g} %"
        yield Finding(
            "cpu usage", "Pearson r", None, limit, "not assessable", _PEARSON_METHOD,
            "; ".join([why, *notes]), rules.pearson, figures=figures, series=pairs,
        )  # fmt: skip
    else:
        r = correlation(a, b)
        constant = [] if r is not None else ["the usage of the twin is constant: r taken as 0"]
        r = 0.0 if r is None else r
        yield Finding(
            "cpu usage", "Pearson r", r, limit, judge_figure(r, rules.pearson, is_lower=True),
            _PEARSON_METHOD, "; ".join([*constant, *notes]), rules.pearson,
            figures=figures, series=pairs,
        )  # fmt: skip
    error = smape(a, b)
    yield Finding(
        "cpu usage", "sMAPE", error, format_bound(False, rules.smape, "share", strict=True),
        judge_figure(error, rules.smape, strict=True), _SMAPE_METHOD, note, rules.smape, "share",
        figures=figures, series=pairs,
    )  # fmt: skip
    median = float(np.median(a))
    rmse = float(np.sqrt(((b - a) ** 2).mean()))
    figures = {**figures, f"rmse_{unit}": rmse, f"median_{unit}": median}
    limit = format_bound(False, rules.rmse, "share")
    if median <= 0:
        yield Finding(
            "cpu usage", "RMSE / median", None, limit, "not assessable", _RMSE_METHOD,
            "; ".join(["the median of the real usage is 0", *notes]), rules.rmse, "share",
            figures=figures, series=pairs,
        )  # fmt: skip
        return
    yield Finding(
        "cpu usage", "RMSE / median", rmse / median, limit, judge_figure(rmse / median, rules.rmse),
        _RMSE_METHOD, note, rules.rmse, "share", figures=figures, series=pairs,
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
    is_constant = any(
        np.sqrt(float(centred @ centred) / centred.size) <= 1e-9 * np.abs(values).max(initial=0.0)
        for centred, values in ((x, a), (y, b))
    )
    return None if is_constant or scale <= 0 else float(np.clip((x @ y) / scale, -1.0, 1.0))


def pair_usage(
    real: ComparedRun, twin: ComparedRun, step: float
) -> tuple[pl.DataFrame, str, list[str]]:
    """Pair the usage of both runs in the same windows of each task.

    Returns the pairs, their unit (`cores` or `mhz`) and notes for the user.

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
    lengths = pl.concat([a, b]).group_by("task").agg(pl.col("end").max()).sort("task")["end"]
    notes = []
    requested_step = step
    while float((lengths / step).sum()) > MAX_WINDOWS:
        step *= 2
    if step != requested_step:
        notes.append(f"windows of {step:g} s: of {requested_step:g} s there would be too many")
    sizes = np.ceil(lengths.to_numpy() / step).astype(np.int64)
    real_usage, twin_usage = (resample_usage(side, sizes, step) for side in (a, b))
    both = np.flatnonzero(~(np.isnan(real_usage) | np.isnan(twin_usage)))
    offsets = _find_offsets(sizes)
    task = np.searchsorted(offsets, both, side="right") - 1
    unit, clocks = _choose_unit(real, twin)
    pairs = pl.DataFrame(
        {
            "task": tasks["task"].gather(task),
            "t": (both - offsets[task]) * step,
            "real": real_usage[both] * clocks[0],
            "twin": twin_usage[both] * clocks[1],
        },
        schema=NO_PAIRS.schema,
    )
    if unit == "mhz":
        notes.append(f"in MHz: the reference clocks are {clocks[0]:g} MHz and {clocks[1]:g} MHz")
    with_usage = len({*real.windows["task"].unique(), *twin.windows["task"].unique()})
    if unpaired := with_usage - np.unique(task).size:
        tasks_text = format_count(unpaired, "task")
        notes.append(f"{tasks_text} with usage, but no window that is completely known in both")
    return pairs, unit, notes


def _find_offsets(sizes: Counts) -> Counts:
    """Return the index of the first window of each task among the windows of all tasks."""
    offsets: Counts = np.cumsum(sizes) - sizes
    return offsets


def _number_streams(windows: pl.DataFrame) -> Counts:
    """Return the index of the process of each window within its task, from 0."""
    if not windows.height:
        return np.empty(0, dtype=np.int64)
    rank = pl.col("stream").rank("dense").over("task")
    numbers: Counts = (windows.select(rank.cast(pl.Int64))["stream"] - 1).to_numpy()
    return numbers


def _choose_unit(real: ComparedRun, twin: ComparedRun) -> tuple[str, tuple[float, float]]:
    """Return the unit of usage, and the factor of each run from cores to that unit.

    The unit is MHz if the reference clocks are known and differ, else cores.
    """
    a, b = (side.trace.manifest.reference_mhz for side in (real, twin))
    return ("cores", (1.0, 1.0)) if a is None or b is None or a == b else ("mhz", (a, b))


def _make_not_assessable(criteria: Criteria, note: str, series: pl.DataFrame) -> Iterator[Finding]:
    rules = criteria.usage
    for name, threshold, limit, unit, method in (
        ("Pearson r", format_bound(True, rules.pearson, ""), rules.pearson, "", _PEARSON_METHOD),
        (
            "sMAPE",
            format_bound(False, rules.smape, "share", strict=True),
            rules.smape,
            "share",
            _SMAPE_METHOD,
        ),
        (
            "RMSE / median",
            format_bound(False, rules.rmse, "share"),
            rules.rmse,
            "share",
            _RMSE_METHOD,
        ),
    ):
        yield Finding(
            "cpu usage", name, None, threshold, "not assessable", method, note, limit, unit,
            series=series,
        )  # fmt: skip
