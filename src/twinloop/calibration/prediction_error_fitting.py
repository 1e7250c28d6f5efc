"""Fit of the errors of predicted run times: between tasks of an execution, between executions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.calibration.boot_fitting import round_estimate
from twinloop.trace import Trace
from twinloop.workload.prediction_errors import PredictionErrors

#: The largest standard deviation of the logarithm.
_MAX_SPREAD: Final = 3.0


class ErrorFit(NamedTuple):
    """The fitted errors, and the tasks and executions they were fitted to."""

    errors: PredictionErrors
    tasks: int
    executions: int


class _Run(NamedTuple):
    """The tasks of an execution: logarithms of measured / predicted times, and weights of sum 1."""

    logs: NDArray[np.float64]
    weights: NDArray[np.float64]
    #: Logarithm of the measured over the predicted work.
    work: float

    @property
    def square(self) -> float:
        """The sum of the squares of the weights: 1 / the number of tasks of equal weight."""
        return float((self.weights**2).sum())

    @property
    def deviations(self) -> float:
        """The weighted sum of the squared deviations from the weighted mean."""
        return float((self.weights * (self.logs - (self.weights * self.logs).sum()) ** 2).sum())


def fit_errors(traces: Iterable[Trace]) -> ErrorFit | None:
    """Fit errors of predicted run times; None without tasks with both times.

    The mean of the fitted factors is the measured over the predicted work of an execution: the
    simulation of many executions has the work of the measured ones. Tasks count by their predicted
    times, because a second more or less means nothing to a long task. The variance between
    executions is their observed one without that of a mean over few tasks (method of moments).
    """
    runs = [run for run in map(_read_run, traces) if run is not None]
    if not runs:
        return None
    # With weights of sum 1, the expectation of the deviations is variance x (1 - square).
    freedom = sum(1.0 - run.square for run in runs)
    within = sum(run.deviations for run in runs) / freedom if freedom > 1e-9 else 0.0
    within = min(within, _MAX_SPREAD**2)
    work = np.array([run.work for run in runs])
    # The variance and the bias of the logarithm of a weighted mean of lognormal numbers.
    noise = np.log1p(np.expm1(within) * np.array([run.square for run in runs]))
    between = max(0.0, float(np.var(work, ddof=1) - noise.mean())) if len(runs) > 1 else 0.0
    # A lognormal number with median m has the mean m exp(variance / 2).
    errors = PredictionErrors(
        factor=round_estimate(float(np.exp(np.mean(work + noise / 2) - within / 2))),
        spread=round_estimate(float(np.sqrt(within))),
        run_spread=round_estimate(min(_MAX_SPREAD, float(np.sqrt(between)))),
    )
    return ErrorFit(errors, sum(run.logs.size for run in runs), len(runs))


def _read_run(trace: Trace) -> _Run | None:
    """Read the tasks with a measured and a predicted time; None if there are none."""
    times = trace.task_times.select("task", "wall_time")
    tasks = trace.tasks.select("id", "requested_time", "run_time").join(
        times, left_on="id", right_on="task", how="left", maintain_order="left"
    )
    known = tasks.select(
        measured=pl.coalesce("wall_time", "run_time"), predicted="requested_time"
    ).filter((pl.col("measured") > 0) & (pl.col("predicted") > 0))
    if known.is_empty():
        return None
    measured, predicted = known["measured"].to_numpy(), known["predicted"].to_numpy()
    return _Run(
        logs=np.log(measured / predicted),
        weights=predicted / predicted.sum(),
        work=float(np.log(measured.sum() / predicted.sum())),
    )
