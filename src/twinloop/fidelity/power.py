"""Assessment of the total power: trend by segment, and watts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.criteria import Criteria, PowerCriteria, format_bound
from twinloop.fidelity.power_series import CONSTANT, PowerSeries, align_power_series, is_constant
from twinloop.fidelity.surrogates import randomise_phases
from twinloop.fidelity.verdict import Finding, judge_figure
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count

_METHOD = "mean over the segments of the best-lag Pearson correlation of the z-scored total power"
_WATTS = "mean absolute relative error of the total power, over the windows known in both runs"
#: Maximum number of segments of the real run that are scored against each surrogate series.
_SCORED = 50

SEGMENTS = pl.DataFrame(
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
    """Assess the trend of the power and, if the criteria include them, its watts.

    Args:
        real: The real run.
        twin: The twin.
        criteria: The criteria.
        offset: Offset added to the times of the real run (s).
        unrelated: Whether to score unrelated surrogate series.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> [found.note for found in assess_power(*sides, Criteria())]
    ['the real run and the twin have no power']
    """
    asked = criteria.power
    series = align_power_series(real, twin, asked.step, offset)
    yield _trend(series, asked, unrelated=unrelated)
    if asked.watts:
        yield _watts(series, asked)


def _watts(series: tuple[PowerSeries, PowerSeries] | str, asked: PowerCriteria) -> Finding:
    """Assess the power in watts."""
    limit = format_bound(False, asked.watts, "share")
    if isinstance(series, str):
        return Finding(
            "power", "watts", None, limit, "not assessable", _WATTS, series, asked.watts, "share"
        )
    a, b = series
    real, twin = a.watts, b.slice(a.first, a.first + a.watts.size)
    known = np.isfinite(real) & np.isfinite(twin) & (real > 0)
    if not known.any():
        note = "no window with known power in both runs"
        return Finding(
            "power", "watts", None, limit, "not assessable", _WATTS, note, asked.watts, "share"
        )
    error = float(np.mean(np.abs(twin[known] / real[known] - 1.0)))
    bias = float(np.mean(twin[known] - real[known]))
    return Finding(
        "power", "watts", error, limit, judge_figure(error, asked.watts), _WATTS,
        f"bias {bias:+.3g} W", asked.watts, "share",
        figures={"windows": float(known.sum()), "bias_w": bias},
    )  # fmt: skip


def _trend(
    series: tuple[PowerSeries, PowerSeries] | str, asked: PowerCriteria, *, unrelated: bool
) -> Finding:
    """Assess the trend of the power."""
    limit = format_bound(True, asked.correlation, "")
    if isinstance(series, str):
        return Finding(
            "power", "mean segment r", None, limit, "not assessable", _METHOD, series,
            asked.correlation, series=SEGMENTS,
        )  # fmt: skip
    a, b = series
    segments = _segments(a, b, asked)
    used = segments.filter(pl.col("status") == "used")
    counts = {str(status): int(n) for status, n in segments["status"].value_counts().rows()}
    apart = [f"{n} {status}" for status, n in sorted(counts.items()) if status != "used"]
    figures = {"segments": float(segments.height), "used": float(used.height)}
    if used.height < asked.least_segments:
        text = f"{format_count(used.height, 'segment')} of {asked.segment:g} s to compare"
        note = "; ".join([f"{text}, needs {asked.least_segments}", *apart])
        return Finding(
            "power", "mean segment r", None, limit, "not assessable", _METHOD, note,
            asked.correlation, figures=figures, series=segments,
        )  # fmt: skip
    r, lags = used["r"].to_numpy(), used["lag"].to_numpy()
    score = float(r.mean())
    figures |= {
        "lowest_r": float(r.min()),
        "without_lag": float(used["r_without_lag"].mean()),  # type: ignore[arg-type]
        "lag_median_s": float(np.median(lags)),
        "lag_least_s": float(lags.min()),
        "lag_most_s": float(lags.max()),
        "lags_at_limit": float((np.abs(lags) >= asked.lag - asked.step / 2).sum()),
    }
    notes = [f"lags {lags.min():g} to {lags.max():g} s", *apart]
    if unrelated and asked.surrogates:
        chance = _score_surrogates(a, b, used["segment"].to_numpy(), asked)
        figures |= {
            "unrelated_mean": float(np.mean(chance)),
            "unrelated_p95": float(np.quantile(chance, 0.95)),
        }
        notes.insert(1, f"unrelated series score {np.mean(chance):.2f}")
        if figures["unrelated_p95"] >= min(score, asked.correlation):
            notes.insert(0, "weak")
    return Finding(
        "power", "mean segment r", score, limit, judge_figure(score, asked.correlation, least=True),
        _METHOD, "; ".join(notes), asked.correlation, figures=figures, series=segments,
    )  # fmt: skip


def _segments(a: PowerSeries, b: PowerSeries, asked: PowerCriteria) -> pl.DataFrame:
    length, reach = _lengths(asked)
    first = max(0, a.first // length)
    last = (a.first + a.watts.size) // length
    rows: list[tuple[int, float, float | None, float | None, float | None, str]] = []
    for number in range(first, max(first, last)):
        begin, start = number * length, number * length * asked.step
        segment = a.slice(begin, begin + length)
        around = b.slice(begin - reach, begin + length + reach)
        facing = around[reach : reach + length]
        if np.isnan(segment).any() or np.isnan(facing).any():
            rows.append((number, start, None, None, None, "incomplete"))
        elif is_constant(segment):
            rows.append((number, start, None, None, None, "constant in the real run"))
        elif is_constant(facing):
            rows.append((number, start, None, None, None, "constant in the twin"))
        else:
            r = _correlations(segment, around)
            lag, best, still = _best(r, reach)
            rows.append((number, start, lag * asked.step, best, still, "used"))
    return pl.DataFrame(rows, schema=SEGMENTS.schema, orient="row")


def _score_surrogates(
    a: PowerSeries, b: PowerSeries, segments: npt.NDArray[np.int64], asked: PowerCriteria
) -> list[float]:
    """Score surrogate series with the spectrum of the twin, which are unrelated to both runs."""
    rng = np.random.default_rng(asked.seed)
    length, reach = _lengths(asked)
    scores = []
    for _ in range(asked.surrogates):
        other = PowerSeries(b.first, randomise_phases(b.watts, rng))
        chosen = segments
        if segments.size > _SCORED:
            chosen = rng.choice(segments, _SCORED, replace=False)
        found = []
        for number in chosen:
            begin = int(number) * length
            around = other.slice(begin - reach, begin + length + reach)
            r = _correlations(a.slice(begin, begin + length), around)
            if np.isfinite(r).any():
                found.append(_best(r, reach)[1])
        scores.append(float(np.mean(found)) if found else 0.0)
    return scores


def _correlations(segment: Floats, around: Floats) -> Floats:
    """Correlate a segment with each part of the same length of the other series.

    NaN if that part is incomplete or constant.
    """
    n = segment.size
    unknown = np.isnan(around)
    x = segment - segment.mean()
    centre = float(around[~unknown].mean())
    y = np.where(unknown, 0.0, around - centre)
    mean, square, gaps = (_rolling(part, n) for part in (y, y * y, unknown.astype(np.float64)))
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    usable = (gaps < 0.5 / n) & (spread > CONSTANT * np.abs(mean + centre)) & (spread > 0)
    product = np.correlate(y, x, mode="valid") / n
    scale = np.where(usable, spread * x.std(), 1.0)
    return np.where(usable, np.clip(product / scale, -1.0, 1.0), np.nan)


def _rolling(values: Floats, n: int) -> Floats:
    """Compute the moving average over n values."""
    so_far = np.concatenate([[0.0], np.cumsum(values)])
    found: Floats = (so_far[n:] - so_far[:-n]) / n
    return found


def _best(r: Floats, reach: int) -> tuple[int, float, float]:
    """Return the lag with the highest correlation (ties: shortest), its value, and that at 0."""
    lags = np.arange(-reach, reach + 1)
    order = np.lexsort((np.abs(lags), -np.round(np.nan_to_num(r, nan=-2.0), 9)))
    best = int(order[0])
    return int(lags[best]), float(r[best]), float(r[reach])


def _lengths(asked: PowerCriteria) -> tuple[int, int]:
    """Return the length of a segment and the maximum lag, in windows."""
    return max(2, round(asked.segment / asked.step)), round(asked.lag / asked.step)
