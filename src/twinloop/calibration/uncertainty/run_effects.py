"""Runs that are each a little faster or slower as a whole.

Whatever makes a machine slow for a while makes all tasks of a run slow together. Then the tasks of
a run are no independent witnesses: a hundred of them say little more about how fast the machine
usually is than one does. Calibrations that are drawn as if they were independent are too much
alike, and predictions from them too sure of themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.cases import Case
from twinloop.calibration.losses import Loss
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.objective import SearchObjective
from twinloop.calibration.uncertainty.prediction_intervals import PosteriorSample, sample_posterior
from twinloop.description.errors import TwinloopError

Floats = NDArray[np.float64]

#: What the further parameter is called.
_NAME: Final = "pace of runs"
#: The variance of the pace may be so many times what independent tasks would make of it.
_MOST: Final = 3000.0
#: By how much a run is slowed down to see what that does.
_SLOWER: Final = 0.01
#: Where the search for the scatter of the pace starts, between none and the most.
_START: Final = 0.3


class SimulatedObjective(SearchObjective, Protocol):
    """An objective that has the runs it compares with."""

    cases: tuple[Case, ...]
    loss: Loss
    threads: int | None

    def outputs(self, points: Floats) -> Floats | None:
        """What the loss compares at each point."""
        ...


class RunEffectObjective:
    """An objective with one parameter more: how much the pace differs from run to run.

    Its outputs are those of the objective, whitened: the residuals of run i are taken to be
    b_i y_i + e, y_i being what a pace slower by one does to them, b_i and e normal with variances
    t² and s². Along y_i, s² is then q_i times as large, q_i = 1 + t²/s² |y_i|². The last
    coordinate is log q over its range, flat: so the interval of the mean of equal runs is that of
    Student's t from their means. All outputs are multiplied by the root of the determinant, so
    that `sample_posterior`, which knows sums of squares only, draws from the whole posterior.

    >>> runs = [np.ones(50), np.ones(50)]
    >>> class Means:
    ...     space = Space([LinearParameter("x", 0, 10)])
    ...     def outputs(self, points):
    ...         return np.repeat(10 * points, 100, axis=1) - np.repeat([4.0, 6.0], 50)
    >>> paced = RunEffectObjective(Means(), runs, observations=100)
    >>> paced.space.names
    ('x', 'pace of runs')
    >>> float(paced.outputs(np.array([[0.5, 0.0]]))[0, 0])
    1.0
    """

    def __init__(self, objective: Any, patterns: Sequence[Floats], observations: int) -> None:
        self._objective = objective
        self.space = Space([*objective.space, LinearParameter(_NAME, 0.0, 1.0)])
        ends = np.cumsum([len(pattern) for pattern in patterns])
        self._parts = [slice(end - len(p), end) for end, p in zip(ends, patterns, strict=True)]
        sizes = np.array([float(np.linalg.norm(pattern)) for pattern in patterns])
        self._along = [pattern / size for pattern, size in zip(patterns, sizes, strict=True)]
        self._weights = sizes**2 / np.median(sizes**2)
        self._observations = observations

    def outputs(self, points: Floats) -> Floats:
        """The residuals, less what a pace of its own explains of each run."""
        found: Floats = np.array(self._objective.outputs(points[:, :-1]), dtype=np.float64)
        more = np.expm1(points[:, -1] * np.log(_MOST))
        determinant = np.zeros(len(points))
        for part, along, weight in zip(self._parts, self._along, self._weights, strict=True):
            times = 1.0 + more * weight
            shift = (1.0 - 1.0 / np.sqrt(times)) * (np.nan_to_num(found[:, part]) @ along)
            found[:, part] -= shift[:, np.newaxis] * along
            determinant += np.log(times)
        scale: Floats = np.exp(determinant / (2.0 * self._observations))
        return found * scale[:, np.newaxis]

    def __call__(self, points: Floats) -> Floats:
        """The mean size of the outputs."""
        sizes: Floats = np.nanmean(np.abs(self.outputs(points)), axis=1)
        return sizes


def estimate_run_patterns(objective: SimulatedObjective, best: Floats) -> list[Floats] | None:
    """What a slower machine does to the residuals of each run.

    None: there are too few runs to tell how much their pace differs, or the loss has no residuals
    of single runs.
    """
    runs = sum(len(case.reals) for case in objective.cases)
    if runs - min(len(objective.space), len(objective.cases)) < 1:
        return None
    values = objective.space.decode(best[np.newaxis])
    found: list[Floats] = []
    for case in objective.cases:
        own = dict(zip(case.compiled.value_names, case.compiled.values().tolist(), strict=True))
        speed = np.asarray(values.get("speed_factor", [own["speed_factor"]]), dtype=np.float64)
        both = []
        try:
            for factor in (1.0, 1.0 / (1.0 + _SLOWER)):
                slowed = {**values, "speed_factor": speed * factor}
                twin = case.runs(1, slowed, objective.loss.needs, objective.threads)
                each = [objective.loss.residuals([real], twin) for real in case.reals]
                both.append((objective.loss.residuals(case.reals, twin), each))
        except TwinloopError:
            return None
        (usual, single), (slower, _) = both
        if usual is None or slower is None or any(one is None for one in single):
            return None
        widths = [one.shape[1] for one in single if one is not None]
        if sum(widths) != usual.shape[1]:
            return None
        change = np.nan_to_num((slower - usual)[0]) * usual.shape[1] / _SLOWER
        found += np.split(change, np.cumsum(widths)[:-1])
    return found if all(pattern.any() for pattern in found) else None


def sample_with_run_effects(
    objective: Any, best: Floats, *, observations: int | None, budget: int, seed: int
) -> PosteriorSample:
    """Calibrations that the data allows, with a pace of its own for each run where that is known.

    Args:
        objective: What was made small.
        best: The calibration, as a point.
        observations: How many of the outputs are independent but for the pace.
        budget: Evaluations that may be spent.
        seed: Of the drawing.
    """
    timed = hasattr(objective, "cases") and not objective.loss.needs & {"power", "energy"}
    patterns = estimate_run_patterns(objective, best) if timed and observations else None
    if patterns is None or observations is None:
        return sample_posterior(
            objective, best, observations=observations, budget=budget, seed=seed
        )
    paced = RunEffectObjective(objective, patterns, observations)
    start = np.append(best, _START)
    found = sample_posterior(paced, start, observations=observations, budget=budget, seed=seed)
    return replace(found, space=objective.space, points=found.points[:, :-1], run_effect=True)
