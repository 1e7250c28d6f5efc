"""Losses of tasks matched by their ids, of the makespan, of energy and of power."""

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


def _makespan(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    assert twin.makespan is not None
    whole = require_positive(real.makespan, "the makespan", real)
    return [LossTerm((twin.makespan[:, np.newaxis] - real.makespan) / whole)]


def _energy(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    assert twin.energy is not None
    whole = require_positive(real.energy, "the energy", real)
    return [LossTerm((twin.energy[:, np.newaxis] - real.energy) / whole)]


def _task(real: RunColumns, twin: RunBatch, worst: bool) -> list[LossTerm]:
    here, there = select_known(real, twin, "run_time")
    if not here.min() > 0:
        known = real.run_time
        task = real.tasks[int(np.flatnonzero(known == here.min())[0])]
        raise InputError(
            f"task '{task}' of {real.label} took {here.min():g} s: a relative error is undefined",
            kind="undefined-error",
            remedy="use the loss 'matched', which is relative to the mean",
        )
    return [LossTerm((there - here) / here, worst=worst)]


def _mean_task(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return _task(real, twin, worst=False)


def _max_task(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return _task(real, twin, worst=True)


def _over(real: RunColumns, twin: RunBatch, column: str, whole: float) -> LossTerm:
    here, there = select_known(real, twin, column)
    return LossTerm((there - here) / whole)


def _matched(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    makespan = require_positive(real.makespan, "the makespan", real)
    usual = require_positive(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _over(real, twin, "start", makespan),
        _over(real, twin, "end", makespan),
        _over(real, twin, "run_time", usual),
    ]


def _matched_cpu(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    usual = require_positive(float(np.nanmean(real.cpu_time)), "the mean CPU time", real)
    return [*_matched(real, twin), _over(real, twin, "cpu_time", usual)]


def _windows(real: RunColumns, twin: RunBatch) -> tuple[np.ndarray, np.ndarray]:
    assert twin.power is not None
    if twin.power.shape[1] < real.power.size:
        raise InputError(
            f"the twin has {twin.power.shape[1]} windows of power, {real.label} {real.power.size}",
            kind="inconsistent-values",
            field="power",
            remedy="compute the power of the twin until the end of the real record",
        )
    known = ~np.isnan(real.power)
    return real.power[known], twin.power[:, : real.power.size][:, known]


def _power(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    here, there = _windows(real, twin)
    return [LossTerm(compute_relative_errors(there, here, "window of power", real))]


def _power_scaled(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    here, there = _windows(real, twin)
    return [LossTerm((there - here) / require_positive(float(here.mean()), "the mean power", real))]


_MAKESPAN, _RUN_TIME = frozenset({"makespan"}), frozenset({"run_time"})
_TIMES = frozenset({"start", "end", "run_time"})

#: The losses of this module.
MATCHED_TASK_LOSSES = (
    AbsoluteDifferenceLoss(
        "makespan", _MAKESPAN, "relative error of the makespan", compare=_makespan
    ),
    AbsoluteDifferenceLoss(
        "mean-task", _RUN_TIME, "mean relative error of the run times", compare=_mean_task
    ),
    AbsoluteDifferenceLoss(
        "max-task", _RUN_TIME, "largest relative error of a run time", compare=_max_task
    ),
    AbsoluteDifferenceLoss(
        "makespan+mean-task", _MAKESPAN | _RUN_TIME, "makespan and mean-task together",
        compare=lambda real, twin: [*_makespan(real, twin), *_mean_task(real, twin)],
    ),
    AbsoluteDifferenceLoss(
        "makespan+max-task", _MAKESPAN | _RUN_TIME, "makespan and max-task together",
        compare=lambda real, twin: [*_makespan(real, twin), *_max_task(real, twin)],
    ),
    AbsoluteDifferenceLoss(
        "matched", _TIMES, "starts, ends and run times, task by task", compare=_matched
    ),
    AbsoluteDifferenceLoss(
        "matched+cpu", _TIMES | {"cpu_time"}, "matched, and CPU times", compare=_matched_cpu
    ),
    AbsoluteDifferenceLoss(
        "energy", frozenset({"energy"}), "relative error of the energy", compare=_energy
    ),
    AbsoluteDifferenceLoss(
        "power", frozenset({"power"}), "mean relative error of windows of power (MAPE)",
        compare=_power,
    ),
    AbsoluteDifferenceLoss(
        "power-scaled", frozenset({"power"}), "mean error of windows of power over their mean",
        compare=_power_scaled,
    ),
)  # fmt: skip
