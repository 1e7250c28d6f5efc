"""Losses of tasks that are matched by their ids, of the makespan, of energy and of power."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.losses.mean_absolute import Differences, Part, both, relative, scale
from twinloop.calibration.run_columns import Run, Runs
from twinloop.description.errors import InputError


def _makespan(real: Run, twin: Runs) -> list[Part]:
    assert twin.makespan is not None
    whole = scale(real.makespan, "the makespan", real)
    return [Part((twin.makespan[:, np.newaxis] - real.makespan) / whole)]


def _energy(real: Run, twin: Runs) -> list[Part]:
    assert twin.energy is not None
    whole = scale(real.energy, "the energy", real)
    return [Part((twin.energy[:, np.newaxis] - real.energy) / whole)]


def _task(real: Run, twin: Runs, worst: bool) -> list[Part]:
    here, there = both(real, twin, "run_time")
    if not here.min() > 0:
        known = real.run_time
        task = real.tasks[int(np.flatnonzero(known == here.min())[0])]
        raise InputError(
            f"task '{task}' of {real.called} took {here.min():g} s, so nothing is relative to it",
            remedy="matched, which is relative to the mean",
        )
    return [Part((there - here) / here, worst=worst)]


def _mean_task(real: Run, twin: Runs) -> list[Part]:
    return _task(real, twin, worst=False)


def _max_task(real: Run, twin: Runs) -> list[Part]:
    return _task(real, twin, worst=True)


def _over(real: Run, twin: Runs, column: str, whole: float) -> Part:
    here, there = both(real, twin, column)
    return Part((there - here) / whole)


def _matched(real: Run, twin: Runs) -> list[Part]:
    makespan = scale(real.makespan, "the makespan", real)
    usual = scale(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _over(real, twin, "start", makespan),
        _over(real, twin, "end", makespan),
        _over(real, twin, "run_time", usual),
    ]


def _matched_cpu(real: Run, twin: Runs) -> list[Part]:
    usual = scale(float(np.nanmean(real.cpu_time)), "the mean CPU time", real)
    return [*_matched(real, twin), _over(real, twin, "cpu_time", usual)]


def _windows(real: Run, twin: Runs) -> tuple[np.ndarray, np.ndarray]:
    assert twin.power is not None
    if twin.power.shape[1] < real.power.size:
        raise InputError(
            f"the twin has {twin.power.shape[1]} windows of power, {real.called} {real.power.size}",
            field="power",
            remedy="ask for the power of the twin until the end of the real record",
        )
    known = ~np.isnan(real.power)
    return real.power[known], twin.power[:, : real.power.size][:, known]


def _power(real: Run, twin: Runs) -> list[Part]:
    here, there = _windows(real, twin)
    return [Part(relative(there, here, "window of power", real))]


def _power_scaled(real: Run, twin: Runs) -> list[Part]:
    here, there = _windows(real, twin)
    return [Part((there - here) / scale(float(here.mean()), "the mean power", real))]


_MAKESPAN, _RUN_TIME = frozenset({"makespan"}), frozenset({"run_time"})
_TIMES = frozenset({"start", "end", "run_time"})

#: The losses of this module.
MATCHED = (
    Differences(
        "makespan", _MAKESPAN, "relative error of the makespan", compare=_makespan
    ),
    Differences(
        "mean-task", _RUN_TIME, "mean relative error of the run times", compare=_mean_task
    ),
    Differences(
        "max-task", _RUN_TIME, "largest relative error of a run time", compare=_max_task
    ),
    Differences(
        "makespan+mean-task", _MAKESPAN | _RUN_TIME, "makespan and mean-task together",
        compare=lambda real, twin: [*_makespan(real, twin), *_mean_task(real, twin)],
    ),
    Differences(
        "makespan+max-task", _MAKESPAN | _RUN_TIME, "makespan and max-task together",
        compare=lambda real, twin: [*_makespan(real, twin), *_max_task(real, twin)],
    ),
    Differences(
        "matched", _TIMES, "starts, ends and run times, task by task", compare=_matched
    ),
    Differences(
        "matched+cpu", _TIMES | {"cpu_time"}, "matched, and CPU times", compare=_matched_cpu
    ),
    Differences("energy", frozenset({"energy"}), "relative error of the energy", compare=_energy),
    Differences(
        "power", frozenset({"power"}), "mean relative error of windows of power (MAPE)",
        compare=_power,
    ),
    Differences(
        "power-scaled", frozenset({"power"}), "mean error of windows of power over their mean",
        compare=_power_scaled,
    ),
)  # fmt: skip
