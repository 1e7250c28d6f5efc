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
    MAX_LOG_GAP,
    MAX_LOG_RUN_TIME,
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
        "both",
        "both: batch and interactive jobs; batch, interactive: only these; one: all jobs as a "
        "single class",
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
        work = sum(
            job_class.mean_work(self.machine) / job_class.mean_gap()
            for job_class in _CLASSES[self.classes]
        )
        return work / self.machine

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        classes = _CLASSES[self.classes]
        arrivals = [self._draw_arrivals(seed, job_class) for job_class in classes]
        class_of_job = np.repeat(np.arange(len(classes)), [times.size for times in arrivals])
        submit = np.concatenate(arrivals)
        order = np.argsort(submit, kind="stable")[: self._max_tasks]
        submit, class_of_job = submit[order], class_of_job[order]
        size, run_time = np.empty(submit.size), np.empty(submit.size)
        for class_index, job_class in enumerate(classes):
            jobs = class_of_job == class_index
            count = int(np.count_nonzero(jobs))
            size[jobs] = self._draw_sizes(
                self._stream(seed, f"sizes {job_class.name}"), job_class, count
            )
            stream = self._stream(seed, f"run times {job_class.name}")
            run_time[jobs] = exp(_draw_log_run_times(stream, job_class, size[jobs]))
        return {
            "queue": pl.Series([job_class.name for job_class in classes]).gather(class_of_job),
            "submit": submit,
            **self._requests(seed, self._round_down(run_time), size),
        }

    def _draw_arrivals(self, seed: int, job_class: JobClass) -> Floats:
        """Draw the arrivals of a class (s), by number of tasks or up to the horizon.

        They are a renewal process in operational time, which advances in proportion to the weight
        of the time of day: by w x 1800 s in a slot of weight w.
        """
        stream = self._stream(seed, f"arrivals {job_class.name}")
        gap_factor = 1.0 if self.load is None else self.model_load / self.load
        mean_gap = job_class.mean_gap() * gap_factor
        block, horizon = self._max_tasks, self.horizon
        if block is None:
            assert horizon is not None
            check_task_count(horizon / mean_gap)
            block = int(horizon / mean_gap) + 1000
        shape = np.full(block, job_class.gap[0] * job_class.gap_stretch)

        def attempt(indices: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
            drawn = job_class.gap[1] * stream.gamma(shape[indices])
            return drawn, drawn <= MAX_LOG_GAP

        weights = job_class.day_weights()
        passed, parts = 0.0, []
        while True:
            gaps = gap_factor * exp(sample_by_rejection(block, attempt)) / SLOT_SECONDS
            points = passed + np.cumsum(gaps)
            passed = float(points[-1])
            parts.append(_from_operational_time(points, weights, self.start_hour))
            if self._max_tasks is not None or parts[-1][-1] >= horizon:
                break
        times = np.concatenate(parts)
        return self._round_down(times if horizon is None else times[times < horizon])

    def _draw_sizes(self, stream: RandomStream, job_class: JobClass, count: int) -> Floats:
        """Draw the cores of jobs: one, or two to the power of a two-stage uniform number."""
        low, change, high = job_class.sizes_below(self.machine)
        kind_draw, stage_draw = stream.uniform(count), stream.uniform(count)
        position_draw = stream.uniform(count)
        first = stage_draw <= job_class.low_probability
        power = np.where(first, low, change)
        power += position_draw * (np.where(first, change, high) - power)
        # Rounding up must not exceed a machine whose size is not a power of two.
        whole = np.minimum(np.rint(power), float(self.machine.bit_length() - 1))
        power = np.where(kind_draw <= job_class.serial + job_class.power_of_two, whole, power)
        size = np.rint(exp(power * log(2.0)))
        return np.where(kind_draw <= job_class.serial, 1.0, np.minimum(size, float(self.machine)))


def _draw_log_run_times(stream: RandomStream, job_class: JobClass, size: Floats) -> Floats:
    """Draw logarithms of run times from a mixture (hyper-gamma) that depends on the size."""
    p = job_class.short_probability(size)

    def attempt(indices: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
        short = stream.uniform(indices.size) <= p[indices]
        shape = np.where(short, job_class.short[0], job_class.long[0])
        drawn = np.where(short, job_class.short[1], job_class.long[1]) * stream.gamma(shape)
        return drawn, drawn <= MAX_LOG_RUN_TIME

    return sample_by_rejection(size.size, attempt)


def _from_operational_time(points: Floats, weights: Floats, start_hour: float) -> Floats:
    """Convert points of operational time (in slots) to times (s since t = 0)."""
    cumulative_weights = np.concatenate([[0.0], np.cumsum(weights)])
    day = float(cumulative_weights[-1])
    slot = int(start_hour * 2.0)
    begin = float(cumulative_weights[slot]) + (start_hour * 2.0 - slot) * float(weights[slot])
    points = begin + points
    days = np.floor(points / day)
    rest = np.clip(points - days * day, 0.0, day)
    slots = np.clip(np.searchsorted(cumulative_weights, rest, side="right") - 1, 0, SLOTS - 1)
    since_midnight = slots + (rest - cumulative_weights[slots]) / weights[slots]
    times = (days * SLOTS + since_midnight - start_hour * 2.0) * SLOT_SECONDS
    return np.asarray(np.maximum(times, 0.0))
