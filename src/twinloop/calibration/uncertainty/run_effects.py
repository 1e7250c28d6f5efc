"""Random effects of runs: each run is faster or slower as a whole.

A disturbance of a machine slows all tasks of a run together, so their residuals are correlated, and
a hundred tasks of one run contain little more information on the usual speed than one. A posterior
that assumes independent tasks is too narrow. The residuals are modelled with a random effect per
run, whose variance is one more parameter of the posterior (random-effects model: Laird and Ware,
"Random-effects models for longitudinal data", Biometrics, 1982).
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

#: The name of the additional parameter.
_NAME: Final = "run effect"
#: The largest ratio of the variance along a run effect to that of independent tasks.
_MAX_RATIO: Final = 3000.0
#: The relative slowdown of the finite difference.
_SLOWDOWN: Final = 0.01
#: The initial position of the additional parameter.
_START: Final = 0.3


class SimulatedObjective(SearchObjective, Protocol):
    """An objective with the real runs that it compares."""

    cases: tuple[Case, ...]
    loss: Loss
    threads: int | None

    def outputs(self, points: Floats) -> Floats | None:
        """Compute the residuals of the loss at each point."""
        ...


class RunEffectObjective:
    """An objective with one more parameter: the variance of the random effect of a run.

    Its outputs are the whitened residuals of the objective: those of run i are modelled as
    b_i y_i + e, y_i being their derivative by the slowness of the run, b_i and e normal with
    variances t² and s². Along y_i the variance is q_i s², q_i = 1 + t²/s² |y_i|². The last
    coordinate is log q over its range, with a flat prior: so the interval of the mean of equal
    runs is that of Student's t from their means. All outputs are multiplied by the root of the
    determinant, so that `sample_posterior`, which uses sums of squares, samples the full posterior.

    >>> runs = [np.ones(50), np.ones(50)]
    >>> class Means:
    ...     space = Space([LinearParameter("x", 0, 10)])
    ...     def outputs(self, points):
    ...         return np.repeat(10 * points, 100, axis=1) - np.repeat([4.0, 6.0], 50)
    >>> model = RunEffectObjective(Means(), runs, observations=100)
    >>> model.space.names
    ('x', 'run effect')
    >>> float(model.outputs(np.array([[0.5, 0.0]]))[0, 0])
    1.0
    """

    def __init__(self, objective: Any, patterns: Sequence[Floats], observations: int) -> None:
        self._objective = objective
        self.space = Space([*objective.space, LinearParameter(_NAME, 0.0, 1.0)])
        ends = np.cumsum([len(pattern) for pattern in patterns])
        self._parts = [slice(end - len(p), end) for end, p in zip(ends, patterns, strict=True)]
        sizes = np.array([float(np.linalg.norm(pattern)) for pattern in patterns])
        self._directions = [pattern / size for pattern, size in zip(patterns, sizes, strict=True)]
        self._weights = sizes**2 / np.median(sizes**2)
        self._observations = observations

    def outputs(self, points: Floats) -> Floats:
        """Compute the residuals, whitened along the effect of each run."""
        residuals: Floats = np.array(self._objective.outputs(points[:, :-1]), dtype=np.float64)
        excess = np.expm1(points[:, -1] * np.log(_MAX_RATIO))
        determinant = np.zeros(len(points))
        for part, along, weight in zip(self._parts, self._directions, self._weights, strict=True):
            variance_ratio = 1.0 + excess * weight
            shift = (1.0 - 1.0 / np.sqrt(variance_ratio)) * (
                np.nan_to_num(residuals[:, part]) @ along
            )
            residuals[:, part] -= shift[:, np.newaxis] * along
            determinant += np.log(variance_ratio)
        scale: Floats = np.exp(determinant / (2.0 * self._observations))
        return residuals * scale[:, np.newaxis]

    def __call__(self, points: Floats) -> Floats:
        """The mean absolute output."""
        sizes: Floats = np.nanmean(np.abs(self.outputs(points)), axis=1)
        return sizes


def estimate_run_patterns(objective: SimulatedObjective, best: Floats) -> list[Floats] | None:
    """Estimate the derivative of the residuals of each run by its slowness.

    None if there are too few runs to estimate the variance between them, or if the loss has no
    residuals by run.
    """
    runs = sum(len(case.reals) for case in objective.cases)
    if runs - min(len(objective.space), len(objective.cases)) < 1:
        return None
    values = objective.space.decode(best[np.newaxis])
    patterns: list[Floats] = []
    for case in objective.cases:
        defaults = dict(
            zip(case.compiled.value_names, case.compiled.values().tolist(), strict=True)
        )
        speed = np.asarray(values.get("speed_factor", [defaults["speed_factor"]]), dtype=np.float64)
        both = []
        try:
            for factor in (1.0, 1.0 / (1.0 + _SLOWDOWN)):
                slowed = {**values, "speed_factor": speed * factor}
                twin = case.runs(1, slowed, objective.loss.needs, objective.threads)
                each = [objective.loss.residuals([real], twin) for real in case.reals]
                both.append((objective.loss.residuals(case.reals, twin), each))
        except TwinloopError:
            return None
        (usual, single), (slower, _) = both
        if usual is None or slower is None or any(part is None for part in single):
            return None
        widths = [part.shape[1] for part in single if part is not None]
        if sum(widths) != usual.shape[1]:
            return None
        change = np.nan_to_num((slower - usual)[0]) * usual.shape[1] / _SLOWDOWN
        patterns += np.split(change, np.cumsum(widths)[:-1])
    return patterns if all(pattern.any() for pattern in patterns) else None


def sample_with_run_effects(
    objective: Any, best: Floats, *, observations: int | None, budget: int, seed: int
) -> PosteriorSample:
    """Sample the posterior, with a random effect per run if it can be estimated.

    Args:
        objective: The minimised objective.
        best: The calibration, as a point.
        observations: The number of outputs that are independent given the run effects.
        budget: The number of evaluations.
        seed: The random seed.
    """
    timed = hasattr(objective, "cases") and not objective.loss.needs & {"power", "energy"}
    patterns = estimate_run_patterns(objective, best) if timed and observations else None
    if patterns is None or observations is None:
        return sample_posterior(
            objective, best, observations=observations, budget=budget, seed=seed
        )
    with_effects = RunEffectObjective(objective, patterns, observations)
    start = np.append(best, _START)
    sample = sample_posterior(
        with_effects, start, observations=observations, budget=budget, seed=seed
    )
    return replace(sample, space=objective.space, points=sample.points[:, :-1], run_effect=True)
