"""The parameters of Lublin and Feitelson's model, and the means that follow from them.

The figures are those of U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers:
modeling the characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11),
2003, as the program that the authors published with it sets them (`m_lublin99.c`, Parallel
Workloads Archive).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from twinloop.workload.generators.elementary import Floats, exp, gamma_cdf, log

#: Maximum of the logarithm of a run time (about two days); larger draws are rejected.
MAX_LOG_RUN_TIME: Final = 12.0
#: Maximum of the logarithm of a gap between two arrivals (about five days), likewise.
MAX_LOG_GAP: Final = 13.0
#: Slots of half an hour per day, and the first slot of the published day.
SLOTS: Final = 48
SLOT_SECONDS: Final = 1800.0
_DAY_BEGINS: Final = 11


@dataclass(frozen=True, slots=True)
class JobClass:
    """The parameters of one class of jobs: sizes, run times and arrivals.

    The logarithm of the run time has a mixture of two gamma distributions. The weight `p` of the
    first one decreases with the size of the job.

    >>> BATCH.sizes_below(128)  # low, change and high of log2 of the size
    (1.2, 5.0, 7.0)
    """

    name: str
    #: Probability of one core, and of a size that is rounded to a power of two.
    serial: float
    power_of_two: float
    #: log2 of the size: from `low` to the change with this probability, else up to the largest.
    low: float
    low_probability: float
    #: log2 of machine / largest job, and of largest job / change.
    largest_below: float
    change_below: float
    #: Shape and scale of the two distributions of the logarithm of the run time.
    short: tuple[float, float]
    long: tuple[float, float]
    #: p = slope x size + intercept, within 0 and 1.
    slope: float
    intercept: float
    #: Shape and scale of the logarithm of the gap; the stretch extends it to all hours of a day.
    gap: tuple[float, float]
    gap_stretch: float
    #: Shape and scale of the time of day, in slots.
    day: tuple[float, float]

    def sizes_below(self, machine: int) -> tuple[float, float, float]:
        """Return log2 of the smallest parallel job, of the change and of the largest job."""
        high = float(log(machine) / log(2.0)) - self.largest_below
        return self.low, max(self.low, high - self.change_below), high

    def day_weights(self) -> Floats:
        """The arrivals of each slot of the day, relative to the mean slot."""
        return np.array(_day_weights(*self.day))

    def mean_gap(self) -> float:
        """Compute the mean time between two arrivals (s), over whole days."""
        shape, scale = self.gap[0] * self.gap_stretch, self.gap[1]
        whole, below = _exponential_moments(shape, scale, MAX_LOG_GAP)
        return whole / below

    def mean_work(self, machine: int) -> float:
        """Compute the mean of size x run time (core-seconds)."""
        sizes = np.arange(1, machine + 1)
        short, short_below = _exponential_moments(*self.short, MAX_LOG_RUN_TIME)
        long, long_below = _exponential_moments(*self.long, MAX_LOG_RUN_TIME)
        p = self.short_probability(sizes.astype(np.float64))
        run = (p * short + (1.0 - p) * long) / (p * short_below + (1.0 - p) * long_below)
        return float(np.cumsum(self.size_probabilities(machine) * sizes * run)[-1])

    def short_probability(self, sizes: Floats) -> Floats:
        """The weight of the first distribution of run times, for jobs of these sizes."""
        return np.clip(self.slope * sizes + self.intercept, 0.0, 1.0)

    def size_probabilities(self, machine: int) -> Floats:
        """The probability of each size from 1 to the machine."""
        bounds = log(np.arange(0.5, machine + 1.0)) / float(log(2.0))
        bounds[-1] = np.inf
        any_size = np.diff(self._two_stage_cdf(bounds, machine))
        top = int(np.floor(float(log(machine) / log(2.0)) + 1e-12))
        steps = np.arange(-0.5, top + 1.0)
        steps[0], steps[-1] = -np.inf, np.inf
        powers = np.zeros(machine)
        powers[(1 << np.arange(top + 1)) - 1] = np.diff(self._two_stage_cdf(steps, machine))
        rest = 1.0 - self.serial - self.power_of_two
        probabilities = self.power_of_two * powers + rest * any_size
        probabilities[0] += self.serial
        return probabilities

    def _two_stage_cdf(self, x: Floats, machine: int) -> Floats:
        low, change, high = self.sizes_below(machine)
        first = np.clip((x - low) / max(change - low, 1e-300), 0.0, 1.0)
        second = np.clip((x - change) / (high - change), 0.0, 1.0)
        return self.low_probability * first + (1.0 - self.low_probability) * second


@cache
def _day_weights(shape: float, scale: float) -> tuple[float, ...]:
    edges = np.arange(_DAY_BEGINS - 0.5, _DAY_BEGINS + SLOTS + 0.5)
    weights = np.roll(np.diff(gamma_cdf(edges, shape, scale)), _DAY_BEGINS - 1)
    return tuple((weights * SLOTS / np.cumsum(weights)[-1]).tolist())


@cache
def _exponential_moments(shape: float, scale: float, below: float) -> tuple[float, float]:
    """For a gamma variate g: E[exp(g); g < below] and P(g < below)."""
    tilt = 1.0 - scale
    moment = exp(-shape * log(tilt)) * gamma_cdf(below, shape, scale / tilt)
    return float(moment), float(gamma_cdf(below, shape, scale))


BATCH: Final = JobClass(
    name="batch",
    serial=0.2927,
    power_of_two=0.6686,
    low=1.2,
    low_probability=0.875,
    largest_below=0.0,
    change_below=2.0,
    short=(6.57, 0.823),
    long=(639.1, 0.0156),
    slope=-0.003,
    intercept=0.6986,
    gap=(6.0415, 0.8531),
    gap_stretch=1.0519,
    day=(6.1271, 5.2740),
)

INTERACTIVE: Final = JobClass(
    name="interactive",
    serial=0.1541,
    power_of_two=0.625,
    low=1.0,
    low_probability=0.705,
    largest_below=1.5,
    change_below=2.5,
    short=(3.8351, 0.6605),
    long=(7.073, 0.6856),
    slope=-0.0118,
    intercept=0.9156,
    gap=(6.5510, 0.6621),
    gap_stretch=0.9797,
    day=(8.9186, 3.6680),
)

#: All jobs taken as one class.
ALL: Final = JobClass(
    name="all",
    serial=0.244,
    power_of_two=0.576,
    low=0.8,
    low_probability=0.86,
    largest_below=0.0,
    change_below=2.5,
    short=(4.2, 0.94),
    long=(312.0, 0.03),
    slope=-0.0054,
    intercept=0.78,
    gap=(10.2303, 0.4871),
    gap_stretch=1.0225,
    day=(8.1737, 3.9631),
)
