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

_CURVE = "RMSE of the curves of completed tasks at the best lag, over those of the real run"
_MAKESPAN = "|twin - real| of the time from the first submission to the last end"
#: Name of the finding of the stricter rule for runs under two minutes.
SHORT_RUN = "makespan, short run"
_MOST_BINS = 1_000_000
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CompletionCurves:
    """Completion curves at the ends of bins, and the lag with the smallest RMSE.

    `lag` in bins, positive if the twin is late. `rmse` in tasks at that lag, `rmse_without_lag` at
    lag 0, over all `bins` up to the later end. With more than a million bins, the series contains
    one in `every`.

    >>> real, twin = np.array([10.0, 20.0]), np.array([30.0, 40.0])
    >>> curves = CompletionCurves.from_ends(real, twin, bin=10.0, most=5)
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
    def from_ends(cls, real: Floats, twin: Floats, bin: float, most: int) -> CompletionCurves:
        """Build the curves from sorted end times, with lags of up to `most` bins."""
        last = max(real.max(initial=0.0), twin.max(initial=0.0))
        # A time between two bins belongs to the first.
        bins = max(1, math.ceil(round(last / bin, 9)))
        a, b = _first_bins(real, bin), _first_bins(twin, bin)
        lags = np.arange(-most, most + 1)
        errors = np.sqrt([_squares(a, b - lag, bins) / bins for lag in lags])
        # The shortest of equally good lags.
        best = np.lexsort((np.abs(lags), np.round(errors, 9)))[0]
        lag, error, still = int(lags[best]), float(errors[best]), float(errors[most])
        every = math.ceil(bins / _MOST_BINS)
        shown = every * np.arange(1.0, bins // every + 1)
        return cls(
            bin * shown, _counted(a, shown), _counted(b, shown), _counted(b, shown + lag),
            bins, every, lag, error, still,
        )  # fmt: skip

    @property
    def frame(self) -> pl.DataFrame:
        """The series of `Verdict.series`."""
        return pl.DataFrame(
            {
                "t": self.t,
                "real": self.real,
                "twin": self.twin,
                "lagged": self.lagged,
                "residual": self.twin - self.real,
            }
        )


EMPTY = pl.DataFrame(
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
        offset: Offset added to the times of the real run (s).

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> [found.note for found in assess_completions(*sides, Criteria())]
    ['0 completed tasks; needs 4 on each side', '0 completed tasks; needs 4 on each side']
    """
    asked = criteria.completions
    fewest = min(real.ends.size, twin.ends.size)
    length = real.makespan
    if real.ends.size >= asked.least_tasks > twin.ends.size:
        # The real run has enough completed tasks, the twin does not.
        note = f"the twin completes {twin.ends.size:,} of {format_count(real.ends.size, 'task')}"
        for found in _not_assessable(criteria, note):
            yield replace(found, status="FAIL") if found.name == "curve RMSE" else found
    elif fewest < asked.least_tasks:
        yield from _not_assessable(
            criteria,
            f"{format_count(fewest, 'completed task')}; needs {asked.least_tasks} on each side",
        )
    elif length is None or twin.makespan is None:
        yield from _not_assessable(criteria, "no submission is known")
    elif round(length, DECIMALS) <= 0:
        yield from _not_assessable(criteria, "the real run has no length")
    else:
        yield _curve(real, twin, criteria, offset, length)
        yield from _makespans(length, twin.makespan, criteria.makespan)


def _curve(
    real: ComparedRun, twin: ComparedRun, criteria: Criteria, offset: float, length: float
) -> Finding:
    asked = criteria.completions
    notes = []
    bin = asked.bin
    if (bins := math.ceil(round(length / bin, 9))) < asked.least_bins:
        bin = length / asked.short_run_bins
        notes.append(
            f"bins of {bin:.3g} s (makespan / {asked.short_run_bins}): "
            f"of {asked.bin:g} s there would be {bins}"
        )
    elif bins > _MOST_BINS:
        bin = length / _MOST_BINS
        notes.append(f"bins of {bin:.6g} s: of {asked.bin:g} s there would be {bins:,}")
    first = find_origins(real, twin)
    curves = CompletionCurves.from_ends(
        real.ends - first[0] + offset, twin.ends - first[1], bin, asked.lag_bins
    )
    error = curves.rmse / real.ends.size
    if curves.every > 1:
        notes.append(f"of {curves.bins:,} bins the series has one in {curves.every:,}")
    if curves.lag:
        how = "late" if curves.lag > 0 else "early"
        still = f"{curves.rmse_without_lag / real.ends.size * 100:.3g} %"
        notes.append(
            f"the twin is {format_count(abs(curves.lag), 'bin')} {how}, without a lag {still}"
        )
    return Finding(
        "completions", "curve RMSE", error, format_bound(False, asked.rmse, "share"),
        judge_figure(error, asked.rmse), _CURVE, "; ".join(notes), asked.rmse, "share",
        figures={
            "completed_real": float(real.ends.size),
            "completed_twin": float(twin.ends.size),
            "bin_s": bin,
            "bins": float(curves.bins),
            "lag_bins": float(curves.lag),
            "lag_s": curves.lag * bin,
            "without_lag": curves.rmse_without_lag / real.ends.size,
        },
        series=curves.frame,
    )  # fmt: skip


def _makespans(real: float, twin: float, asked: MakespanCriteria) -> Iterator[Finding]:
    error = round(abs(twin - real), DECIMALS)
    figures = {"real_s": real, "twin_s": twin, "error_s": twin - real, "relative": error / real}
    series = pl.DataFrame({"real": [real], "twin": [twin]})
    if real >= asked.short_below:
        share = error / real
        yield Finding(
            "completions", "makespan", share, format_bound(False, asked.relative, "share"),
            judge_figure(share, asked.relative), f"{_MAKESPAN}, over the real one",
            bound=asked.relative, unit="share", figures=figures, series=series,
        )  # fmt: skip
        return
    yield Finding(
        "completions", "makespan", error, format_bound(False, asked.absolute, "s"),
        judge_figure(error, asked.absolute), _MAKESPAN, f"run under {asked.short_below:g} s",
        asked.absolute, "s", figures=figures, series=series,
    )  # fmt: skip
    if real >= asked.very_short_below:
        return
    limit = min(asked.absolute, asked.very_short_relative * real)
    yield Finding(
        "completions", SHORT_RUN, error, format_bound(False, limit, "s"),
        judge_figure(error, limit),
        f"{_MAKESPAN}, no more than {asked.absolute:g} s and "
        f"{asked.very_short_relative * 100:g} % of the real one",
        f"run under {asked.very_short_below:g} s: the stricter rule", limit, "s",
        figures=figures, series=series,
    )  # fmt: skip


def _not_assessable(criteria: Criteria, note: str) -> Iterator[Finding]:
    curve = format_bound(False, criteria.completions.rmse, "share")
    yield Finding(
        "completions", "curve RMSE", None, curve, "not assessable", _CURVE, note, unit="share",
        series=EMPTY,
    )  # fmt: skip
    yield Finding(
        "completions", "makespan", None, format_bound(False, criteria.makespan.relative, "share"),
        "not assessable", _MAKESPAN, note, unit="share",
    )  # fmt: skip


def _first_bins(ends: Floats, bin: float) -> Floats:
    """Return the bin of each sorted end time, counted from 1."""
    slack = 0.5 * 10.0**-DECIMALS
    found: Floats = np.ceil((ends - slack) / bin)
    # Corrects rounding of the division at the ends of bins.
    found -= bin * (found - 1) + slack >= ends
    found += bin * found + slack < ends
    return found


def _squares(real: Floats, twin: Floats, bins: int) -> float:
    """Sum the squares of twin - real over the bins, at a cost per change instead of per bin."""
    at, where = np.unique(np.maximum(np.concatenate([real, twin]), 1.0), return_inverse=True)
    steps = np.bincount(where, np.repeat([-1.0, 1.0], [real.size, twin.size]), at.size)
    until = np.minimum(np.append(at[1:], np.inf), bins + 1.0)
    return float(np.cumsum(steps) ** 2 @ np.maximum(until - at, 0.0))


def _counted(first: Floats, at: Floats) -> Counts:
    """How many have passed at the end of each of these bins."""
    found: Counts = np.searchsorted(first, at, side="right")
    return found
