"""Losses of tasks matched by their IDs, of the makespan, of energy and of power."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.losses.mean_absolute import (
    AbsoluteDifferenceLoss,
    LossTerm,
    compute_relative_errors,
    require_positive,
    select_known,
)
from twinloop.calibration.run_columns import RunBatch, RunColumns
from twinloop.description.errors import InputError


def _compare_makespan(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    assert twin.makespan is not None
    scale = require_positive(real.makespan, "the makespan", real)
    return [LossTerm((twin.makespan[:, np.newaxis] - real.makespan) / scale)]


def _compare_energy(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    assert twin.energy is not None
    scale = require_positive(real.energy, "the energy", real)
    return [LossTerm((twin.energy[:, np.newaxis] - real.energy) / scale)]


def _compare_run_times(real: RunColumns, twin: RunBatch, worst: bool) -> list[LossTerm]:
    real_values, twin_values = select_known(real, twin, "run_time")
    if not real_values.min() > 0:
        task = real.tasks[int(np.flatnonzero(real.run_time == real_values.min())[0])]
        raise InputError(
            f"task '{task}' of {real.label} took {real_values.min():g} s: a relative error is "
            "undefined",
            kind="undefined-error",
            remedy="use the loss 'matched', which is relative to the mean",
        )
    return [LossTerm((twin_values - real_values) / real_values, worst=worst)]


def _compare_mean_task(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return _compare_run_times(real, twin, worst=False)


def _compare_max_task(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return _compare_run_times(real, twin, worst=True)


def _compare_column(real: RunColumns, twin: RunBatch, column: str, scale: float) -> LossTerm:
    real_values, twin_values = select_known(real, twin, column)
    return LossTerm((twin_values - real_values) / scale)


def _compare_matched(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    makespan = require_positive(real.makespan, "the makespan", real)
    mean = require_positive(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _compare_column(real, twin, "start", makespan),
        _compare_column(real, twin, "end", makespan),
        _compare_column(real, twin, "run_time", mean),
    ]


def _compare_matched_cpu(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    mean = require_positive(float(np.nanmean(real.cpu_time)), "the mean CPU time", real)
    return [*_compare_matched(real, twin), _compare_column(real, twin, "cpu_time", mean)]


def _select_windows(real: RunColumns, twin: RunBatch) -> tuple[np.ndarray, np.ndarray]:
    assert twin.power is not None
    if twin.power.shape[1] < real.power.size:
        raise InputError(
            f"the twin has {twin.power.shape[1]} windows of power, but {real.label} has "
            f"{real.power.size}",
            kind="inconsistent-values",
            field="power",
            remedy="compute the power of the twin until the end of the real record",
        )
    known = ~np.isnan(real.power)
    return real.power[known], twin.power[:, : real.power.size][:, known]


def _compare_power(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    real_values, twin_values = _select_windows(real, twin)
    return [LossTerm(compute_relative_errors(twin_values, real_values, "window of power", real))]


def _compare_scaled_power(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    real_values, twin_values = _select_windows(real, twin)
    mean = require_positive(float(real_values.mean()), "the mean power", real)
    return [LossTerm((twin_values - real_values) / mean)]


_MAKESPAN, _RUN_TIME = frozenset({"makespan"}), frozenset({"run_time"})
_TIMES = frozenset({"start", "end", "run_time"})

#: The losses of this module.
MATCHED_TASK_LOSSES = (
    AbsoluteDifferenceLoss(
        "makespan", _MAKESPAN, "relative error of the makespan", compare=_compare_makespan
    ),
    AbsoluteDifferenceLoss(
        "mean-task", _RUN_TIME, "mean relative error of the run times", compare=_compare_mean_task
    ),
    AbsoluteDifferenceLoss(
        "max-task", _RUN_TIME, "largest relative error of a run time", compare=_compare_max_task
    ),
    AbsoluteDifferenceLoss(
        "makespan+mean-task", _MAKESPAN | _RUN_TIME, "makespan and mean-task together",
        compare=lambda real, twin: [
            *_compare_makespan(real, twin), *_compare_mean_task(real, twin)
        ],
    ),
    AbsoluteDifferenceLoss(
        "makespan+max-task", _MAKESPAN | _RUN_TIME, "makespan and max-task together",
        compare=lambda real, twin: [*_compare_makespan(real, twin), *_compare_max_task(real, twin)],
    ),
    AbsoluteDifferenceLoss(
        "matched", _TIMES, "starts, ends and run times, task by task", compare=_compare_matched
    ),
    AbsoluteDifferenceLoss(
        "matched+cpu", _TIMES | {"cpu_time"}, "matched, and CPU times", compare=_compare_matched_cpu
    ),
    AbsoluteDifferenceLoss(
        "energy", frozenset({"energy"}), "relative error of the energy", compare=_compare_energy
    ),
    AbsoluteDifferenceLoss(
        "power", frozenset({"power"}), "mean relative error of windows of power (MAPE)",
        compare=_compare_power,
    ),
    AbsoluteDifferenceLoss(
        "power-scaled", frozenset({"power"}), "mean error of windows of power over their mean",
        compare=_compare_scaled_power,
    ),
)  # fmt: skip
