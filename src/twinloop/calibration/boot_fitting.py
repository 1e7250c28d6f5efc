"""Fit of boots: a line with a spread, a tail of slow boots, and shortages at the provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.platform.boots import Boot, Shortage, SlowBoots
from twinloop.trace import Trace
from twinloop.workload.injection import list_boots

_Values = NDArray[np.float64]
_Mask = NDArray[np.bool_]

#: Boots are slow beyond so many standard deviations of the logarithm; of many boots, see below.
_SLOW_DEVIATIONS: Final = 3.0
#: Of boots without a slow one, the probability that one is found in a large sample.
_FALSE_ALARM: Final = 0.05
#: A boot that takes less than so many times as long as on the line is not slow: from seconds more,
#: a Pareto distribution would extrapolate to hours.
_SLOW_FACTOR: Final = 2.0
#: The standard deviation of a normal distribution, in median absolute deviations.
_DEVIATIONS_PER_MAD: Final = 1.4826
#: Instances are given back shortly before the end of their unit, by this share of it.
_MARGIN: Final = 0.02
#: Late boots are slow, not queued, if the tail gives their number with more than this probability.
_CHANCE: Final = 0.05
#: Bounds of the shape of the tail.
_SHAPES: Final = (0.3, 5.0)
#: The shape of a tail of so few slow boots that it cannot be estimated.
_DEFAULT_SHAPE: Final = 1.0
_LEAST_FOR_SHAPE: Final = 3
#: Boots from which the line is estimated: their number of pairs is the square.
_LINE_BOOTS: Final = 1500
_FIRST_LINE_BOOTS: Final = 50
#: Rounds of the search for slow boots; it ends earlier if they do not change.
_ROUNDS: Final = 30


@dataclass(frozen=True)
class BootRecords:
    """The boots of all executions, in the order of the requests of each.

    A boot that has failed has no time; its instance booted until `end`.
    """

    requested: _Values
    times: _Values
    end: _Values
    #: Boots are counted together if they are of the same execution and cloud.
    group: NDArray[np.int64]
    run: NDArray[np.int64]
    #: Requests that the provider refused.
    refused: int

    @property
    def has_booted(self) -> _Mask:
        """Which boots have a time."""
        return ~np.isnan(self.times)

    @property
    def durations(self) -> _Values:
        """The times from the requests to the ends of the boots, also of those that failed."""
        return self.end - self.requested


@dataclass(frozen=True)
class BootFit:
    """The fitted boot and shortage, and the numbers of boots they were fitted to."""

    boot: Boot
    shortage: Shortage | None
    #: The largest number of instances that booted at once: beyond it the line is extrapolated.
    most_booting: int
    boots: int
    slow: int
    queued: int
    failed: int
    refused: int


def has_instances(trace: Trace) -> bool:
    """Whether an execution recorded boots or requests of instances.

    >>> has_instances(Trace(instances=pl.DataFrame({"instance": ["a"], "requested": [0.0]})))
    True
    >>> has_instances(Trace(tasks=pl.DataFrame({"id": ["a"]})))
    False
    """
    return bool(trace.boots.height or trace.instances["requested"].count())


def collect_boots(traces: Sequence[Trace]) -> BootRecords:
    """Collect the boots of executions.

    >>> run = Trace(boots=pl.DataFrame({"provisioned": [5.0, 0.0], "boot_time": [40.0, 30.0]}))
    >>> collect_boots([run]).times.tolist()
    [30.0, 40.0]
    """
    empty = {name: pl.Series([], dtype=pl.Float64) for name in ("provisioned", "boot_time", "end")}
    parts = [pl.DataFrame({**empty, "cloud": pl.Series([], dtype=pl.String), "run": []})]
    parts = [parts[0].cast({"run": pl.Int64})]
    for number, trace in enumerate(traces):
        boots = _list_all_boots(trace).with_columns(run=pl.lit(number, dtype=pl.Int64))
        parts.append(boots.select(parts[0].columns))
    rows = pl.concat(parts)
    group = rows.select(pl.struct("run", "cloud").rank("dense")).to_series()
    return BootRecords(
        requested=rows["provisioned"].to_numpy(),
        times=rows["boot_time"].fill_null(np.nan).to_numpy(),
        end=rows["end"].to_numpy(),
        group=group.cast(pl.Int64).to_numpy(),
        run=rows["run"].to_numpy(),
        refused=sum(_count_refused(trace) for trace in traces),
    )


def fit_boots(records: BootRecords, executions: int, unit: float | None) -> BootFit:
    """Fit boots and shortages; there must be a boot with a time.

    The line and the slow boots depend on one another, so they are estimated in turns: a first line
    that bears half of the boots being slow, then lines of Theil and Sen through those that are not,
    until these do not change. Slow boots are found by the median absolute deviation, which they
    hardly change; the spread is the standard deviation of the others.

    Args:
        records: The boots.
        executions: The number of executions.
        unit: The time after which instances end at the earliest (s); None: no boot was queued.
    """
    booted, durations = records.has_booted, records.durations
    # A boot of a whole unit of billing is not a normal one.
    queued = durations >= (np.inf if unit is None else unit)
    if queued[booted].all():
        queued = np.zeros_like(booted)
    slow = np.zeros_like(booted)
    seen: set[bytes] = set()
    for step in range(_ROUNDS):
        booting = count_booting(records, queued)
        normal = booted & ~slow & ~queued
        fit = fit_line if step else _fit_first_line
        delay, per_booting = fit(booting[normal], records.times[normal])
        line = delay + per_booting * booting
        ratios = np.log(np.maximum(durations, 1e-3) / np.maximum(line, 1e-3))
        deviation = _DEVIATIONS_PER_MAD * float(np.median(np.abs(ratios[normal])))
        limit = max(_find_limit(int(booted.sum())) * deviation, np.log(_SLOW_FACTOR))
        late = ratios > limit
        queued = _find_queued(records, late, unit)
        if _are_explained(durations - line, late & booted, queued, unit):
            queued = np.zeros_like(queued)
        slow = late & ~queued & booted
        state = slow.tobytes() + queued.tobytes()
        if state in seen:
            break
        seen.add(state)
    normal = booted & (np.abs(ratios) <= limit)
    spread = float(np.sqrt(np.mean(ratios[normal] ** 2)))
    count, known = int(booted.sum()), int((booted & ~queued).sum())
    failed = int((~booted).sum())
    return BootFit(
        boot=Boot(
            delay=round_estimate(delay),
            per_booting=round_estimate(per_booting),
            spread=min(3.0, round_estimate(spread)),
            slow=_fit_tail((records.times - line)[slow], known),
            refused=round_estimate(records.refused / (count + failed + records.refused)),
            failed=round_estimate(failed / (count + failed)),
        ),
        shortage=_fit_shortage(records, queued, executions, unit),
        most_booting=int(booting[booted & ~queued].max()),
        boots=count,
        slow=int(slow.sum()),
        queued=int((queued & booted).sum()),
        failed=failed,
        refused=records.refused,
    )


def count_booting(records: BootRecords, queued: _Mask) -> _Values:
    """Count the instances that boot when each boot begins, itself included.

    Queued ones do not boot yet, so they are counted for themselves alone.
    """
    counts = np.ones(records.times.shape)
    begins, ends = records.requested, records.end
    for group in np.unique(records.group):
        (own,) = np.nonzero(records.group == group)
        for place, row in enumerate(own):
            earlier = own[:place]
            boots = ~queued[earlier] & (ends[earlier] > begins[row])
            counts[row] += int(boots.sum())
    return counts


def fit_line(booting: _Values, times: _Values) -> tuple[float, float]:
    """Fit the line of Theil and Sen; neither its slope nor its intercept is negative.

    >>> fit_line(np.array([1.0, 2.0, 3.0]), np.array([12.0, 14.0, 16.0]))
    (10.0, 2.0)
    """
    from scipy.stats import theilslopes

    chosen = _select(booting, times, _LINE_BOOTS)
    if np.ptp(booting[chosen]) == 0:
        return float(np.median(times)), 0.0
    return _complete_line(booting, times, float(theilslopes(times[chosen], booting[chosen])[0]))


def _fit_first_line(booting: _Values, times: _Values) -> tuple[float, float]:
    """Fit the line with the least median of the absolute logarithms of times / line.

    This is the least median of squares (Rousseeuw 1984): nearly half of the boots may be slow, also
    if nearly all of those with many booting instances are. Candidates are the lines through two
    boots, or one.
    """
    chosen = _select(booting, times, _FIRST_LINE_BOOTS)
    x, y = booting[chosen], times[chosen]
    left, right = np.triu_indices(x.size, 1)
    differs = x[left] != x[right]
    left, right = left[differs], right[differs]
    slopes = np.concatenate([(y[right] - y[left]) / (x[right] - x[left]), np.zeros(x.size)])
    intercepts = np.concatenate([y[left], y]) - slopes * np.concatenate([x[left], x])
    is_valid = (slopes >= 0) & (intercepts >= 0)
    slopes, intercepts = slopes[is_valid], intercepts[is_valid]
    checked = _select(booting, times, _LINE_BOOTS)
    logs = np.log(np.maximum(times[checked], 1e-3))
    medians = [
        np.median(np.abs(logs - np.log(np.maximum(intercept + slope * booting[checked], 1e-3))))
        for slope, intercept in zip(slopes, intercepts, strict=True)
    ]
    best = int(np.argmin(medians))
    return float(intercepts[best]), float(slopes[best])


def _select(booting: _Values, times: _Values, most: int) -> NDArray[np.intp]:
    """Select at most so many boots: all, or every n-th in their order by number and time.

    This order does not depend on that of the executions, and keeps the distribution of the times
    for each number of booting instances.
    """
    order = np.lexsort((times, booting))
    return order[:: -(-times.size // most)]


def _complete_line(booting: _Values, times: _Values, slope: float) -> tuple[float, float]:
    """Return the intercept and the slope of a line that is not negative."""
    slope = max(0.0, slope)
    intercept = float(np.median(times - slope * booting))
    if intercept < 0:
        return 0.0, float(np.median(times / booting))
    return intercept, slope


def _find_limit(count: int) -> float:
    """Find beyond how many standard deviations a boot is slow.

    Of many boots some are beyond three by chance; the limit of Davies and Gather (1993) bounds the
    probability of one such boot.

    >>> _find_limit(10), round(_find_limit(1000), 2)
    (3.0, 3.88)
    """
    return max(_SLOW_DEVIATIONS, NormalDist().inv_cdf((1.0 - _FALSE_ALARM) ** (1.0 / count)))


def _find_queued(records: BootRecords, late: _Mask, unit: float | None) -> _Mask:
    """Find late boots that ended after an instance of the same execution may have ended."""
    queued = np.zeros_like(late)
    if unit is None:
        return queued
    for run in np.unique(records.run[late]):
        own = records.run == run
        free = own & ~late & records.has_booted
        if free.any():
            first_end = records.requested[free].min() + (1.0 - _MARGIN) * unit
            queued |= own & late & (records.end >= first_end)
    return queued


def _are_explained(extra: _Values, late: _Mask, queued: _Mask, unit: float | None) -> bool:
    """Whether the tail of the slow boots alone explains as many boots as seem to have been queued.

    Their number has a Poisson distribution, whose mean follows from the tail beyond the unit.
    """
    from scipy.stats import poisson

    times = extra[late & ~queued]
    if unit is None or not times.size or not queued.any():
        return False
    scale, shape = _fit_pareto(times)
    beyond = min(0.99, (scale / unit) ** shape)
    slow, found = int((late & ~queued).sum()), int((late & queued).sum())
    return bool(poisson.sf(found - 1, slow * beyond / (1.0 - beyond)) > _CHANCE)


def _fit_tail(extra: _Values, count: int) -> SlowBoots | None:
    """Fit the share and the additional times of slow boots."""
    if not extra.size:
        return None
    scale, shape = _fit_pareto(extra)
    return SlowBoots(
        share=round_estimate(extra.size / count),
        scale=round_estimate(scale),
        shape=round_estimate(shape),
    )


def _fit_pareto(times: _Values) -> tuple[float, float]:
    """Fit the scale and the shape of a Pareto distribution.

    The least time is the maximum likelihood estimate of the scale. That of the shape, n / sum of
    log(time / scale), is too large by the factor n / (n - 2), which is removed.

    >>> _fit_pareto(np.array([60.0, 60.0, 60.0 * np.e]))
    (60.0, 1.0)
    """
    scale = float(times.min())
    if times.size < _LEAST_FOR_SHAPE:
        return scale, _DEFAULT_SHAPE
    logs = float(np.log(times / scale).sum())
    shape = (times.size - 2) / logs if logs > 0 else _SHAPES[1]
    return scale, float(np.clip(shape, *_SHAPES))


def _fit_shortage(
    records: BootRecords, queued: _Mask, executions: int, unit: float | None
) -> Shortage | None:
    """Fit the share of the executions with queued boots, and their numbers of free hosts.

    The free hosts are those of the instances that were ready before the first one may have ended.
    """
    if unit is None or not queued.any():
        return None
    short = np.unique(records.run[queued])
    free = []
    for run in short:
        own = (records.run == run) & ~queued & records.has_booted
        free.append(int((own & (records.end < records.requested[own].min() + unit)).sum()))
    return Shortage(share=round_estimate(short.size / executions), hosts=(min(free), max(free)))


def _list_all_boots(trace: Trace) -> pl.DataFrame:
    """List the boots with a known request, in the order of these, and those that failed."""
    boots = list_boots(trace).select(
        "provisioned", "boot_time", cloud=pl.lit(None, dtype=pl.String)
    )
    if trace.boots.is_empty() and not trace.instances.is_empty():
        boots = _list_boots_of_instances(trace.instances)
    boots = boots.drop_nulls("provisioned")
    if "end" not in boots.columns:
        boots = boots.drop_nulls("boot_time").with_columns(
            end=pl.col("provisioned") + pl.col("boot_time")
        )
    return boots.sort("provisioned", maintain_order=True)


def _list_boots_of_instances(instances: pl.DataFrame) -> pl.DataFrame:
    """List the boots of instances that became ready, or were lost before.

    The later periods of an instance that moved or was resized have no request.
    """
    first = instances.filter(pl.col("requested").is_not_null())
    is_failed = pl.col("ready").is_null() & (pl.col("reason") == "lost") & (pl.col("end") >= 0)
    return first.filter(pl.col("ready").is_not_null() | is_failed).select(
        "cloud",
        provisioned="requested",
        boot_time=pl.col("ready") - pl.col("requested"),
        end=pl.coalesce("ready", "end"),
    )


def _count_refused(trace: Trace) -> int:
    return trace.instances.filter(pl.col("reason") == "refused").height


def round_estimate(value: float) -> float:
    """Round to the digits that data of this kind can support.

    >>> round_estimate(2 / 3)
    0.666667
    """
    return float(f"{value:.6g}") if abs(value) > 1e-9 else 0.0
