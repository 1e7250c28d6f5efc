"""Assessment of the total power: trend by segment, and watts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.criteria import Criteria, PowerCriteria, format_bound
from twinloop.fidelity.power_series import (
    CONSTANT_TOLERANCE,
    PowerSeries,
    align_power_series,
    is_constant,
)
from twinloop.fidelity.surrogates import randomise_phases
from twinloop.fidelity.verdict import Finding, judge_figure
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count

_TREND_METHOD = (
    "mean over the segments of the best-lag Pearson correlation of the z-scored total power"
)
_WATTS_METHOD = (
    "mean absolute relative error of the total power, over the windows known in both runs"
)
#: Maximum number of segments of the real run that are scored against each surrogate series.
_MAX_SCORED_SEGMENTS = 50

NO_SEGMENTS = pl.DataFrame(
    schema={
        "segment": pl.Int64,
        "start": pl.Float64,
        "lag": pl.Float64,
        "r": pl.Float64,
        "r_without_lag": pl.Float64,
        "status": pl.String,
    }
)


def assess_power(
    real: ComparedRun,
    twin: ComparedRun,
    criteria: Criteria,
    offset: float = 0.0,
    *,
    unrelated: bool = True,
) -> Iterator[Finding]:
    """Assess the trend of the power and, if the criteria limit it, the error in W.

    Args:
        real: The real run.
        twin: The twin.
        criteria: The criteria.
        offset: Time added to the times of the real run (s).
        unrelated: Whether to score unrelated surrogate series too.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> [found.note for found in assess_power(*sides, Criteria())]
    ['the real run and the twin have no power']
    """
    rules = criteria.power
    series = align_power_series(real, twin, rules.step, offset)
    yield _assess_trend(series, rules, unrelated=unrelated)
    if rules.watts:
        yield _assess_watts(series, rules)


def _assess_watts(series: tuple[PowerSeries, PowerSeries] | str, rules: PowerCriteria) -> Finding:
    """Assess the power in watts."""
    limit = format_bound(False, rules.watts, "share")
    if isinstance(series, str):
        return Finding(
            "power",
            "watts",
            None,
            limit,
            "not assessable",
            _WATTS_METHOD,
            series,
            rules.watts,
            "share",
        )
    real_series, twin_series = series
    real = real_series.watts
    twin = twin_series.slice(real_series.first, real_series.first + real.size)
    known = np.isfinite(real) & np.isfinite(twin) & (real > 0)
    if not known.any():
        note = "no window with known power in both runs"
        return Finding(
            "power",
            "watts",
            None,
            limit,
            "not assessable",
            _WATTS_METHOD,
            note,
            rules.watts,
            "share",
        )
    error = float(np.mean(np.abs(twin[known] / real[known] - 1.0)))
    bias = float(np.mean(twin[known] - real[known]))
    return Finding(
        "power", "watts", error, limit, judge_figure(error, rules.watts), _WATTS_METHOD,
        f"bias {bias:+.3g} W", rules.watts, "share",
        figures={"windows": float(known.sum()), "bias_w": bias},
    )  # fmt: skip


def _assess_trend(
    series: tuple[PowerSeries, PowerSeries] | str, rules: PowerCriteria, *, unrelated: bool
) -> Finding:
    """Assess the trend of the power."""
    limit = format_bound(True, rules.correlation, "")
    if isinstance(series, str):
        return Finding(
            "power", "mean segment r", None, limit, "not assessable", _TREND_METHOD, series,
            rules.correlation, series=NO_SEGMENTS,
        )  # fmt: skip
    real, twin = series
    segments = _correlate_segments(real, twin, rules)
    used = segments.filter(pl.col("status") == "used")
    counts = {str(status): int(n) for status, n in segments["status"].value_counts().rows()}
    excluded = [f"{n} {status}" for status, n in sorted(counts.items()) if status != "used"]
    figures = {"segments": float(segments.height), "used": float(used.height)}
    if used.height < rules.least_segments:
        text = f"{format_count(used.height, 'segment')} of {rules.segment:g} s to compare"
        note = "; ".join([f"{text}, needs {rules.least_segments}", *excluded])
        return Finding(
            "power", "mean segment r", None, limit, "not assessable", _TREND_METHOD, note,
            rules.correlation, figures=figures, series=segments,
        )  # fmt: skip
    r, lags = used["r"].to_numpy(), used["lag"].to_numpy()
    score = float(r.mean())
    figures |= {
        "lowest_r": float(r.min()),
        "without_lag": float(used["r_without_lag"].mean()),  # type: ignore[arg-type]
        "lag_median_s": float(np.median(lags)),
        "lag_least_s": float(lags.min()),
        "lag_most_s": float(lags.max()),
        "lags_at_limit": float((np.abs(lags) >= rules.lag - rules.step / 2).sum()),
    }
    notes = [f"lags {lags.min():g} to {lags.max():g} s", *excluded]
    if unrelated and rules.surrogates:
        scores = _score_surrogates(real, twin, used["segment"].to_numpy(), rules)
        figures |= {
            "unrelated_mean": float(np.mean(scores)),
            "unrelated_p95": float(np.quantile(scores, 0.95)),
        }
        notes.insert(1, f"unrelated series score {np.mean(scores):.2f}")
        if figures["unrelated_p95"] >= min(score, rules.correlation):
            notes.insert(0, "weak")
    return Finding(
        "power", "mean segment r", score, limit,
        judge_figure(score, rules.correlation, is_lower=True), _TREND_METHOD, "; ".join(notes),
        rules.correlation, figures=figures, series=segments,
    )  # fmt: skip


def _correlate_segments(real: PowerSeries, twin: PowerSeries, rules: PowerCriteria) -> pl.DataFrame:
    """Correlate each segment of the real run with the twin at its best lag."""
    length, max_lag = _convert_to_windows(rules)
    first = max(0, real.first // length)
    last = (real.first + real.watts.size) // length
    rows: list[tuple[int, float, float | None, float | None, float | None, str]] = []
    for number in range(first, max(first, last)):
        begin, start = number * length, number * length * rules.step
        segment = real.slice(begin, begin + length)
        around = twin.slice(begin - max_lag, begin + length + max_lag)
        at_lag_0 = around[max_lag : max_lag + length]
        if np.isnan(segment).any() or np.isnan(at_lag_0).any():
            rows.append((number, start, None, None, None, "incomplete"))
        elif is_constant(segment):
            rows.append((number, start, None, None, None, "constant in the real run"))
        elif is_constant(at_lag_0):
            rows.append((number, start, None, None, None, "constant in the twin"))
        else:
            r = _correlate_at_lags(segment, around)
            lag, best, without_lag = _find_best_lag(r, max_lag)
            rows.append((number, start, lag * rules.step, best, without_lag, "used"))
    return pl.DataFrame(rows, schema=NO_SEGMENTS.schema, orient="row")


def _score_surrogates(
    real: PowerSeries, twin: PowerSeries, segments: npt.NDArray[np.int64], rules: PowerCriteria
) -> list[float]:
    """Score surrogate series with the spectrum of the twin, which are unrelated to both runs."""
    rng = np.random.default_rng(rules.seed)
    length, max_lag = _convert_to_windows(rules)
    scores = []
    for _ in range(rules.surrogates):
        surrogate = PowerSeries(twin.first, randomise_phases(twin.watts, rng))
        chosen = segments
        if segments.size > _MAX_SCORED_SEGMENTS:
            chosen = rng.choice(segments, _MAX_SCORED_SEGMENTS, replace=False)
        correlations = []
        for number in chosen:
            begin = int(number) * length
            around = surrogate.slice(begin - max_lag, begin + length + max_lag)
            r = _correlate_at_lags(real.slice(begin, begin + length), around)
            if np.isfinite(r).any():
                correlations.append(_find_best_lag(r, max_lag)[1])
        scores.append(float(np.mean(correlations)) if correlations else 0.0)
    return scores


def _correlate_at_lags(segment: Floats, around: Floats) -> Floats:
    """Correlate a segment with each part of the same length of the series `around`, one per lag.

    A correlation is NaN if that part is incomplete or constant.
    """
    n = segment.size
    unknown = np.isnan(around)
    x = segment - segment.mean()
    centre = float(around[~unknown].mean())
    y = np.where(unknown, 0.0, around - centre)
    mean, square, gaps = (
        _average_moving(part, n) for part in (y, y * y, unknown.astype(np.float64))
    )
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    usable = (gaps < 0.5 / n) & (spread > CONSTANT_TOLERANCE * np.abs(mean + centre)) & (spread > 0)
    product = np.correlate(y, x, mode="valid") / n
    scale = np.where(usable, spread * x.std(), 1.0)
    return np.where(usable, np.clip(product / scale, -1.0, 1.0), np.nan)


def _average_moving(values: Floats, n: int) -> Floats:
    """Compute the moving average over n values."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    averages: Floats = (sums[n:] - sums[:-n]) / n
    return averages


def _find_best_lag(r: Floats, max_lag: int) -> tuple[int, float, float]:
    """Return the lag with the highest correlation (ties: shortest), and those there and at 0."""
    lags = np.arange(-max_lag, max_lag + 1)
    order = np.lexsort((np.abs(lags), -np.round(np.nan_to_num(r, nan=-2.0), 9)))
    best = int(order[0])
    return int(lags[best]), float(r[best]), float(r[max_lag])


def _convert_to_windows(rules: PowerCriteria) -> tuple[int, int]:
    """Return the length of a segment and the maximum lag, in windows."""
    return max(2, round(rules.segment / rules.step)), round(rules.lag / rules.step)
