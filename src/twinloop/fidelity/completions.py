"""Assessment of the completion curve and the makespan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.fidelity.compared_run import DECIMALS, ComparedRun, find_origins
from twinloop.fidelity.criteria import Criteria, MakespanCriteria, format_bound
from twinloop.fidelity.verdict import Finding, judge_figure
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count

_CURVE_METHOD = (
    "RMSE of the curves of completed tasks at the best lag, over the completed tasks of the real "
    "run"
)
_MAKESPAN_METHOD = "|twin - real| of the time from the first submission to the last end"
#: Name of the finding of the stricter rule for very short runs, by default under two minutes.
SHORT_RUN = "makespan, short run"
#: Maximum number of bins of a curve; a longer run has longer bins, or a series of some bins.
_MAX_BINS = 1_000_000
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CompletionCurves:
    """Completion curves at the ends of bins, and the lag with the smallest RMSE.

    `lag` in bins, positive if the twin is late. `rmse` in tasks at that lag, `rmse_without_lag` at
    lag 0, over all `bins` up to the later end. With more than a million bins, `t` and the curves
    contain one bin in `every`. `lagged` is the curve of the twin, shifted by the lag.

    >>> real, twin = np.array([10.0, 20.0]), np.array([30.0, 40.0])
    >>> curves = CompletionCurves.from_ends(real, twin, width=10.0, max_lag=5)
    >>> curves.lag, curves.rmse, curves.real.tolist()
    (2, 0.0, [1, 2, 2, 2])
    """

    t: Floats
    real: Counts
    twin: Counts
    lagged: Counts
    bins: int
    every: int
    lag: int
    rmse: float
    rmse_without_lag: float

    @classmethod
    def from_ends(cls, real: Floats, twin: Floats, width: float, max_lag: int) -> CompletionCurves:
        """Build the curves from sorted end times (s), in bins of `width` seconds.

        Lags of up to `max_lag` bins are tried.
        """
        last = max(real.max(initial=0.0), twin.max(initial=0.0))
        # A time on the edge of two bins belongs to the first.
        bins = max(1, math.ceil(round(last / width, 9)))
        real_bins, twin_bins = _find_bins(real, width), _find_bins(twin, width)
        lags = np.arange(-max_lag, max_lag + 1)
        errors = np.sqrt([_sum_squares(real_bins, twin_bins - lag, bins) / bins for lag in lags])
        # The shortest of equally good lags.
        best = np.lexsort((np.abs(lags), np.round(errors, 9)))[0]
        lag = int(lags[best])
        every = math.ceil(bins / _MAX_BINS)
        shown = every * np.arange(1.0, bins // every + 1)
        return cls(
            t=width * shown,
            real=_count_completed(real_bins, shown),
            twin=_count_completed(twin_bins, shown),
            lagged=_count_completed(twin_bins, shown + lag),
            bins=bins,
            every=every,
            lag=lag,
            rmse=float(errors[best]),
            rmse_without_lag=float(errors[max_lag]),
        )

    @property
    def frame(self) -> pl.DataFrame:
        """The curves as the frame `completions` of `Verdict.series`."""
        return pl.DataFrame(
            {
                "t": self.t,
                "real": self.real,
                "twin": self.twin,
                "lagged": self.lagged,
                "residual": self.twin - self.real,
            }
        )


NO_CURVES = pl.DataFrame(
    schema={
        "t": pl.Float64,
        "real": pl.Int64,
        "twin": pl.Int64,
        "lagged": pl.Int64,
        "residual": pl.Int64,
    }
)


def assess_completions(
    real: ComparedRun, twin: ComparedRun, criteria: Criteria, offset: float = 0.0
) -> Iterator[Finding]:
    """Assess the completion curve and the makespan.

    Args:
        real: The real run.
        twin: The twin.
        criteria: The criteria.
        offset: Time added to the times of the real run (s).

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> [found.note for found in assess_completions(*sides, Criteria())]
    ['0 completed tasks; needs 4 on each side', '0 completed tasks; needs 4 on each side']
    """
    rules = criteria.completions
    fewest = min(real.ends.size, twin.ends.size)
    length = real.makespan
    if real.ends.size >= rules.least_tasks > twin.ends.size:
        # Too few completed tasks in the twin alone are a failure, not missing data.
        note = f"the twin completes {twin.ends.size:,} of {format_count(real.ends.size, 'task')}"
        for found in _make_not_assessable(criteria, note):
            yield replace(found, status="FAIL") if found.name == "curve RMSE" else found
    elif fewest < rules.least_tasks:
        yield from _make_not_assessable(
            criteria,
            f"{format_count(fewest, 'completed task')}; needs {rules.least_tasks} on each side",
        )
    elif length is None or twin.makespan is None:
        yield from _make_not_assessable(criteria, "no submission is known")
    elif round(length, DECIMALS) <= 0:
        yield from _make_not_assessable(criteria, "the real run has no length")
    else:
        yield _assess_curve(real, twin, criteria, offset, length)
        yield from _assess_makespan(length, twin.makespan, criteria.makespan)


def _assess_curve(
    real: ComparedRun, twin: ComparedRun, criteria: Criteria, offset: float, length: float
) -> Finding:
    rules = criteria.completions
    notes = []
    width = rules.bin
    if (bins := math.ceil(round(length / width, 9))) < rules.least_bins:
        width = length / rules.short_run_bins
        notes.append(
            f"bins of {width:.3g} s (makespan / {rules.short_run_bins}): "
            f"of {rules.bin:g} s there would be {bins}"
        )
    elif bins > _MAX_BINS:
        width = length / _MAX_BINS
        notes.append(f"bins of {width:.6g} s: of {rules.bin:g} s there would be {bins:,}")
    real_origin, twin_origin = find_origins(real, twin)
    curves = CompletionCurves.from_ends(
        real.ends - real_origin + offset, twin.ends - twin_origin, width, rules.lag_bins
    )
    error = curves.rmse / real.ends.size
    if curves.every > 1:
        notes.append(f"of {curves.bins:,} bins the series has one in {curves.every:,}")
    if curves.lag:
        direction = "late" if curves.lag > 0 else "early"
        without_lag = f"{curves.rmse_without_lag / real.ends.size * 100:.3g} %"
        notes.append(
            f"the twin is {format_count(abs(curves.lag), 'bin')} {direction}, "
            f"without a lag {without_lag}"
        )
    return Finding(
        "completions", "curve RMSE", error, format_bound(False, rules.rmse, "share"),
        judge_figure(error, rules.rmse), _CURVE_METHOD, "; ".join(notes), rules.rmse, "share",
        figures={
            "completed_real": float(real.ends.size),
            "completed_twin": float(twin.ends.size),
            "bin_s": width,
            "bins": float(curves.bins),
            "lag_bins": float(curves.lag),
            "lag_s": curves.lag * width,
            "without_lag": curves.rmse_without_lag / real.ends.size,
        },
        series=curves.frame,
    )  # fmt: skip


def _assess_makespan(real: float, twin: float, rules: MakespanCriteria) -> Iterator[Finding]:
    error = round(abs(twin - real), DECIMALS)
    figures = {"real_s": real, "twin_s": twin, "error_s": twin - real, "relative": error / real}
    series = pl.DataFrame({"real": [real], "twin": [twin]})
    if real >= rules.short_below:
        share = error / real
        yield Finding(
            "completions", "makespan", share, format_bound(False, rules.relative, "share"),
            judge_figure(share, rules.relative), f"{_MAKESPAN_METHOD}, over the real one",
            bound=rules.relative, unit="share", figures=figures, series=series,
        )  # fmt: skip
        return
    yield Finding(
        "completions", "makespan", error, format_bound(False, rules.absolute, "s"),
        judge_figure(error, rules.absolute), _MAKESPAN_METHOD, f"run under {rules.short_below:g} s",
        rules.absolute, "s", figures=figures, series=series,
    )  # fmt: skip
    if real >= rules.very_short_below:
        return
    limit = min(rules.absolute, rules.very_short_relative * real)
    yield Finding(
        "completions", SHORT_RUN, error, format_bound(False, limit, "s"),
        judge_figure(error, limit),
        f"{_MAKESPAN_METHOD}, no more than {rules.absolute:g} s and "
        f"{rules.very_short_relative * 100:g} % of the real one",
        f"run under {rules.very_short_below:g} s: the stricter rule", limit, "s",
        figures=figures, series=series,
    )  # fmt: skip


def _make_not_assessable(criteria: Criteria, note: str) -> Iterator[Finding]:
    curve = format_bound(False, criteria.completions.rmse, "share")
    yield Finding(
        "completions", "curve RMSE", None, curve, "not assessable", _CURVE_METHOD, note,
        unit="share", series=NO_CURVES,
    )  # fmt: skip
    yield Finding(
        "completions", "makespan", None, format_bound(False, criteria.makespan.relative, "share"),
        "not assessable", _MAKESPAN_METHOD, note, unit="share",
    )  # fmt: skip


def _find_bins(ends: Floats, width: float) -> Floats:
    """Return the bin of each sorted end time, counted from 1."""
    slack = 0.5 * 10.0**-DECIMALS
    bins: Floats = np.ceil((ends - slack) / width)
    # The division may round to the wrong side of the edge of a bin.
    bins -= width * (bins - 1) + slack >= ends
    bins += width * bins + slack < ends
    return bins


def _sum_squares(real: Floats, twin: Floats, bins: int) -> float:
    """Sum the squares of twin - real over the bins.

    The cost is that of the changes of the curves, not of the bins. `real` and `twin` are the bins
    of the ends of tasks.
    """
    edges, index = np.unique(np.maximum(np.concatenate([real, twin]), 1.0), return_inverse=True)
    steps = np.bincount(index, np.repeat([-1.0, 1.0], [real.size, twin.size]), edges.size)
    next_edges = np.minimum(np.append(edges[1:], np.inf), bins + 1.0)
    return float(np.cumsum(steps) ** 2 @ np.maximum(next_edges - edges, 0.0))


def _count_completed(end_bins: Floats, bins: Floats) -> Counts:
    """Count the tasks that completed up to the end of each of these bins."""
    counts: Counts = np.searchsorted(end_bins, bins, side="right")
    return counts
