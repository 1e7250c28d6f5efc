"""Models of what a client of a cloud cannot know: boots, shortages and errors of predictions.

They are fitted to executions that recorded the boots of their instances and the times of their
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.platform.boots import Boot, Shortage, SlowBoots
from twinloop.trace import Trace
from twinloop.workload.injection import list_boots
from twinloop.workload.prediction_errors import PredictionErrors

_Values = NDArray[np.float64]

#: Standard deviations of the logarithm beyond which a boot is slow.
_SLOW_DEVIATIONS: Final = 3.0
#: The least standard deviation of the logarithm of a boot time: that of a rounded second.
_LEAST_SPREAD: Final = 0.01
#: The standard deviation of a normal distribution, in median absolute deviations.
_DEVIATIONS_PER_MAD: Final = 1.4826
#: The range of the shape of the tail: with fewer values beyond it, it cannot be estimated.
_SHAPES: Final = (0.3, 5.0)


@dataclass(frozen=True)
class ClientModels:
    """Fitted models of boots, shortages and prediction errors, and what they were fitted to.

    `boot` belongs in an image of a cloud, `shortage` in the cloud, `prediction_errors` in a
    workload.
    """

    boot: Boot
    shortage: Shortage | None
    prediction_errors: PredictionErrors | None
    #: What they were fitted to: executions, boots, of these slow and queued ones, requests that
    #: were refused, and tasks with a predicted and a recorded time.
    executions: int
    boots: int
    slow: int
    queued: int
    refused: int
    tasks: int

    def to_dict(self) -> dict[str, Any]:
        """Return the models as parts of a scenario."""
        return {
            "boot": self.boot.to_dict(),
            "shortage": None if self.shortage is None else self.shortage.to_dict(),
            "prediction_errors": None
            if self.prediction_errors is None
            else self.prediction_errors.to_dict(),
        }


@dataclass(frozen=True)
class _Boots:
    """The boots of all executions: time, instances that boot, and the execution of each."""

    times: _Values
    booting: _Values
    requested: _Values
    run: NDArray[np.int64]


def fit_client_models(traces: Sequence[Trace], *, unit: float | None = 3600.0) -> ClientModels:
    """Fit models of boots, shortages and prediction errors to executions.

    The line of the boot times over the number of booting instances is that of Theil and Sen; the
    spread follows from the median absolute deviation of the logarithm. Boots beyond three such
    deviations are slow: their additional times have a Pareto distribution (maximum likelihood). A
    slow boot that ends after another instance of the execution may have ended its first unit of
    billing was queued: it belongs to a shortage, in which the other instances are the free hosts.

    Args:
        traces: Recorded executions, with the table `boots` or `instances`.
        unit: The unit of billing after which instances can end (s); None: no boot was queued.

    >>> import polars as pl
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "requested_time": [10.0, 20.0],
    ...                         "run_time": [12.0, 24.0]}),
    ...     boots=pl.DataFrame({"provisioned": [0.0, 0.0, 0.0], "boot_time": [12.0, 14.0, 16.0]}))
    >>> models = fit_client_models([run])
    >>> models.boot.delay, models.boot.per_booting, models.prediction_errors.factor
    (10.0, 2.0, 1.2)
    """
    boots = _collect_boots(traces)
    if not boots.times.size:
        raise InputError(
            "no execution recorded a boot",
            kind="missing-field",
            remedy="name executions with a table `boots` or `instances`",
        )
    delay, per_booting = _fit_line(boots.booting, boots.times)
    line = delay + per_booting * boots.booting
    ratios = np.log(np.maximum(boots.times, 1e-3) / np.maximum(line, 1e-3))
    spread = max(_LEAST_SPREAD, _DEVIATIONS_PER_MAD * float(np.median(np.abs(ratios))))
    slow = ratios > _SLOW_DEVIATIONS * spread
    queued = slow & _find_queued(boots, slow, unit)
    extra = (boots.times - line)[slow & ~queued]
    refused, failed = _find_shares(traces, int(boots.times.size))
    return ClientModels(
        boot=Boot(
            delay=_round(delay),
            per_booting=_round(per_booting),
            spread=min(3.0, _round(spread)),
            slow=_fit_tail(extra, int(boots.times.size - queued.sum())),
            refused=refused,
            failed=failed,
        ),
        shortage=_fit_shortage(boots, queued, len(traces)),
        prediction_errors=fit_prediction_errors(traces),
        executions=len(traces),
        boots=int(boots.times.size),
        slow=int((slow & ~queued).sum()),
        queued=int(queued.sum()),
        refused=sum(_count_refused(trace) for trace in traces),
        tasks=sum(_list_times(trace).height for trace in traces),
    )


def fit_prediction_errors(traces: Iterable[Trace]) -> PredictionErrors | None:
    """Fit the errors of predicted run times; None without tasks with both times.

    The mean of the fitted factors is the recorded over the predicted work of an execution. Tasks
    count by their predicted times, because a second more or less means nothing to a long task.

    >>> fit_prediction_errors([]) is None
    True
    """
    runs = [times for times in map(_list_times, traces) if times.height]
    if not runs:
        return None
    means = np.array([_measure_work(times) for times in runs])
    parts = [
        times.select(
            weight="predicted",
            square=((pl.col("measured") / pl.col("predicted")).log() - mean) ** 2,
        )
        for times, mean in zip(runs, means, strict=True)
    ]
    rows = pl.concat(parts)
    weighted = rows["square"].to_numpy() * rows["weight"].to_numpy()
    variance = float(weighted.sum() / rows["weight"].to_numpy().sum())
    between = float(np.std(means, ddof=1)) if len(runs) > 1 else 0.0
    # A lognormal number with median m has the mean m exp(variance / 2).
    return PredictionErrors(
        factor=_round(float(np.exp(np.mean(means) - min(variance, 9.0) / 2))),
        spread=_round(min(3.0, float(np.sqrt(variance)))),
        run_spread=_round(min(3.0, between)),
    )


def _measure_work(times: pl.DataFrame) -> float:
    """Compute the logarithm of the measured over the predicted work of an execution."""
    measured, predicted = (times[name].to_numpy().sum() for name in ("measured", "predicted"))
    return float(np.log(measured / predicted))


def _list_times(trace: Trace) -> pl.DataFrame:
    """List the measured and the predicted time of the tasks that have both."""
    times = trace.task_times.select("task", "wall_time")
    tasks = trace.tasks.select("id", "requested_time", "run_time").join(
        times, left_on="id", right_on="task", how="left"
    )
    known = tasks.select(measured=pl.coalesce("wall_time", "run_time"), predicted="requested_time")
    return known.filter((pl.col("measured") > 0) & (pl.col("predicted") > 0))


def _collect_boots(traces: Sequence[Trace]) -> _Boots:
    parts = [list_boots(trace).drop_nulls(["provisioned", "boot_time"]) for trace in traces]
    requested = [part["provisioned"].to_numpy() for part in parts]
    times = [part["boot_time"].to_numpy() for part in parts]
    booting = [
        np.array(
            [
                1 + ((start[:i] <= start[i]) & (start[:i] + time[:i] > start[i])).sum()
                for i in range(start.size)
            ],
            dtype=np.float64,
        )
        for start, time in zip(requested, times, strict=True)
    ]
    run = np.repeat(np.arange(len(parts)), [part.height for part in parts])
    return _Boots(_join(times), _join(booting), _join(requested), run)


def _join(parts: Sequence[_Values]) -> _Values:
    return np.concatenate(parts) if parts else np.empty(0)


def _fit_line(booting: _Values, times: _Values) -> tuple[float, float]:
    """Fit the line of Theil and Sen with a slope and an intercept that are not negative."""
    from scipy.stats import theilslopes

    slope = 0.0
    if np.ptp(booting) > 0:
        # Of several thousand boots, pairs of a part of them suffice.
        step = max(1, times.size // 1000)
        slope = max(0.0, float(theilslopes(times[::step], booting[::step])[0]))
    intercept = float(np.median(times - slope * booting))
    if intercept < 0:
        return 0.0, float(np.median(times / booting))
    return intercept, slope


def _find_queued(boots: _Boots, slow: NDArray[np.bool_], unit: float | None) -> NDArray[np.bool_]:
    """Find boots that ended after an instance of the same execution may have ended its unit."""
    queued = np.zeros(slow.shape, dtype=np.bool_)
    if unit is None:
        return queued
    for run in np.unique(boots.run[slow]):
        own = boots.run == run
        free = own & ~slow
        if free.any():
            first_end = boots.requested[free].min() + unit
            queued |= own & slow & (boots.requested + boots.times >= first_end)
    return queued


def _fit_tail(extra: _Values, count: int) -> SlowBoots | None:
    extra = extra[extra > 0]
    if not extra.size:
        return None
    scale = float(extra.min())
    logs = float(np.log(extra / scale).sum())
    shape = extra.size / logs if logs > 0 else _SHAPES[1]
    return SlowBoots(
        share=_round(extra.size / count),
        scale=_round(scale),
        shape=_round(float(np.clip(shape, *_SHAPES))),
    )


def _fit_shortage(boots: _Boots, queued: NDArray[np.bool_], runs: int) -> Shortage | None:
    if not queued.any():
        return None
    short = np.unique(boots.run[queued])
    free = [int(((boots.run == run) & ~queued).sum()) for run in short]
    return Shortage(share=_round(short.size / runs), hosts=(min(free), max(free)))


def _find_shares(traces: Sequence[Trace], boots: int) -> tuple[float, float]:
    """Find the shares of refused requests, and of instances that were lost while they booted."""
    refused = sum(map(_count_refused, traces))
    failed = sum(
        trace.instances.filter((pl.col("reason") == "lost") & pl.col("ready").is_null()).height
        for trace in traces
    )
    return _round(refused / (boots + failed + refused)), _round(failed / (boots + failed))


def _count_refused(trace: Trace) -> int:
    return trace.instances.filter(pl.col("reason") == "refused").height


def _round(value: float) -> float:
    """Round to the digits that data of this kind can support."""
    return float(f"{value:.6g}")
