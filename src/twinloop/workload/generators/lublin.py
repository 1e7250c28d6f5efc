"""Lublin and Feitelson's model of the rigid jobs of parallel supercomputers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.workload.generators.arrivals import BoundedGenerator, check_task_count
from twinloop.workload.generators.description import parameter
from twinloop.workload.generators.elementary import Floats, exp, log
from twinloop.workload.generators.lublin_classes import (
    ALL,
    BATCH,
    INTERACTIVE,
    LONGEST_GAP,
    LONGEST_RUN,
    SLOT_SECONDS,
    SLOTS,
    JobClass,
)
from twinloop.workload.generators.random_stream import Integers, RandomStream, sample_by_rejection

# Of two simultaneous arrivals, the interactive job comes first, as published.
_CLASSES: Final = {
    "both": (INTERACTIVE, BATCH),
    "batch": (BATCH,),
    "interactive": (INTERACTIVE,),
    "one": (ALL,),
}


class Lublin(BoundedGenerator):
    """Rigid jobs by the model of Lublin and Feitelson (2003), with a daily cycle.

    >>> trace = Lublin(tasks=1000, machine=128).generate(seed=1)
    >>> sorted(trace.tasks["queue"].unique())
    ['batch', 'interactive']
    """

    name: ClassVar[str] = "lublin"
    title: ClassVar[str] = "Lublin and Feitelson's rigid jobs of supercomputers, with a daily cycle"

    machine: int = parameter(
        128, "cores of the machine; the largest jobs fill it", unit="cores", ge=8, le=2**20
    )
    classes: Literal["both", "batch", "interactive", "one"] = parameter(
        "both", "batch and interactive jobs, one of them, or all jobs taken as one class (one)"
    )
    load: float | None = parameter(
        None,
        "offered load: submitted work per time, as a share of the machine; none: that of the model",
        gt=0.0,
        le=100.0,
    )
    start_hour: float = parameter(0.0, "time of day at t = 0", unit="h", ge=0.0, lt=24.0)

    @property
    def model_load(self) -> float:
        """The offered load of the published parameters on this machine.

        >>> round(Lublin().model_load, 3)
        0.401
        """
        work = sum(of.mean_work(self.machine) / of.mean_gap() for of in _CLASSES[self.classes])
        return work / self.machine

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        classes = _CLASSES[self.classes]
        arrivals = [self._arrivals(seed, of) for of in classes]
        of_job = np.repeat(np.arange(len(classes)), [times.size for times in arrivals])
        submit = np.concatenate(arrivals)
        order = np.argsort(submit, kind="stable")[: self._max_tasks]
        submit, of_job = submit[order], of_job[order]
        size, run_time = np.empty(submit.size), np.empty(submit.size)
        for number, of in enumerate(classes):
            jobs = of_job == number
            count = int(np.count_nonzero(jobs))
            size[jobs] = self._sizes(self._stream(seed, f"sizes {of.name}"), of, count)
            draws = self._stream(seed, f"run times {of.name}")
            run_time[jobs] = exp(_log_run_times(draws, of, size[jobs]))
        return {
            "queue": pl.Series([of.name for of in classes]).gather(of_job),
            "submit": submit,
            **self._requests(seed, self._round_down(run_time), size),
        }

    def _arrivals(self, seed: int, of: JobClass) -> Floats:
        """The arrivals of a class, by number of tasks or up to the horizon.

        They are a renewal process in operational time, which advances in proportion to the weight
        of the time of day: by w x 1800 s in a slot of weight w.
        """
        draws = self._stream(seed, f"arrivals {of.name}")
        stretch = 1.0 if self.load is None else self.model_load / self.load
        mean_gap = of.mean_gap() * stretch
        block, horizon = self._max_tasks, self.horizon
        if block is None:
            assert horizon is not None
            check_task_count(horizon / mean_gap)
            block = int(horizon / mean_gap) + 1000
        shape = np.full(block, of.gap[0] * of.gap_stretch)

        def attempt(places: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
            drawn = of.gap[1] * draws.gamma(shape[places])
            return drawn, drawn <= LONGEST_GAP

        weights = of.day_weights()
        passed, parts = 0.0, []
        while True:
            gaps = stretch * exp(sample_by_rejection(block, attempt)) / SLOT_SECONDS
            points = passed + np.cumsum(gaps)
            passed = float(points[-1])
            parts.append(_by_day(points, weights, self.start_hour))
            if self._max_tasks is not None or parts[-1][-1] >= horizon:
                break
        times = np.concatenate(parts)
        return self._round_down(times if horizon is None else times[times < horizon])

    def _sizes(self, draws: RandomStream, of: JobClass, count: int) -> Floats:
        """Draw the cores of jobs: one, or two to the power of a two-stage uniform number."""
        low, change, high = of.sizes_below(self.machine)
        sort, stage, within = draws.uniform(count), draws.uniform(count), draws.uniform(count)
        first = stage <= of.low_probability
        power = np.where(first, low, change)
        power += within * (np.where(first, change, high) - power)
        # Rounding up must not exceed a machine whose size is not a power of two.
        whole = np.minimum(np.rint(power), float(self.machine.bit_length() - 1))
        power = np.where(sort <= of.serial + of.power_of_two, whole, power)
        size = np.rint(exp(power * log(2.0)))
        return np.where(sort <= of.serial, 1.0, np.minimum(size, float(self.machine)))


def _log_run_times(draws: RandomStream, of: JobClass, size: Floats) -> Floats:
    """Draw logarithms of run times from a mixture (hyper-gamma) that depends on the size."""
    p = of.short_probability(size)

    def attempt(places: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
        short = draws.uniform(places.size) <= p[places]
        shape = np.where(short, of.short[0], of.long[0])
        drawn = np.where(short, of.short[1], of.long[1]) * draws.gamma(shape)
        return drawn, drawn <= LONGEST_RUN

    return sample_by_rejection(size.size, attempt)


def _by_day(points: Floats, weights: Floats, start_hour: float) -> Floats:
    """Convert points of operational time (in slots) to times."""
    reach = np.concatenate([[0.0], np.cumsum(weights)])
    day = float(reach[-1])
    slot = int(start_hour * 2.0)
    begin = float(reach[slot]) + (start_hour * 2.0 - slot) * float(weights[slot])
    points = begin + points
    days = np.floor(points / day)
    rest = np.clip(points - days * day, 0.0, day)
    slots = np.clip(np.searchsorted(reach, rest, side="right") - 1, 0, SLOTS - 1)
    since_midnight = slots + (rest - reach[slots]) / weights[slots]
    times = (days * SLOTS + since_midnight - start_hour * 2.0) * SLOT_SECONDS
    return np.asarray(np.maximum(times, 0.0))
