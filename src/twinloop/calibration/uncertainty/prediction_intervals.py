"""The posterior of a calibration, and prediction intervals.

A prediction is uncertain because other calibrations fit the data as well, and because real runs
scatter. `sample_posterior` samples calibrations, and `compute_intervals` combines their predictions
with the residual noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.identifiability.sensitivity import estimate_sensitivity
from twinloop.calibration.optimisers.population import reflect
from twinloop.calibration.uncertainty.confidence_region import (
    compute_loss_bound,
    find_confidence_region,
)
from twinloop.calibration.uncertainty.ensemble_mcmc import sample_by_ensemble
from twinloop.calibration.uncertainty.evaluation_count import (
    BudgetSpentError,
    Evaluations,
    check_point,
)
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.calibration.parameters.space import Space
    from twinloop.calibration.search.objective import SearchObjective

Floats = NDArray[np.float64]

#: The minimum residual standard deviation that is assumed.
NOISE_FLOOR: Final = 1e-4


@dataclass(frozen=True, eq=False)
class PosteriorSample:
    """A sample of the posterior of a calibration.

    Attributes:
        space: The parameters.
        points: A row per calibration, in the unit cube.
        noise: The residual standard deviation of the outputs for each calibration.
        freedom: The degrees of freedom of the noise; None: it is known exactly.
        evaluations: The number of evaluations spent.
        run_effect: Whether the model has a random effect per run; if not, all figures of a run are
            assumed independent.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> found = PosteriorSample(Space([LinearParameter("x", 0, 10)]), np.array([[0.4], [0.5]]),
    ...     noise=np.array([0.05, 0.04]), freedom=9, evaluations=100)
    >>> found.values()
    {'x': array([4., 5.])}
    """

    space: Space
    points: Floats = field(repr=False)
    noise: Floats = field(repr=False)
    freedom: float | None
    evaluations: int
    run_effect: bool = False

    def __len__(self) -> int:
        return len(self.points)

    def values(self) -> dict[str, object]:
        """Return the values of each parameter."""
        return self.space.decode(self.points)


@dataclass(frozen=True, eq=False)
class PredictionIntervals:
    """Prediction intervals of figures: from `low` to `high` with probability `level`.

    >>> print(PredictionIntervals(np.array([9.0]), np.array([10.0]), np.array([12.0]), 0.9))
    10 (90 %: 9 to 12)
    """

    low: Floats
    median: Floats
    high: Floats
    level: float

    def __str__(self) -> str:
        return "\n".join(
            f"{middle:.4g} ({100 * self.level:g} %: {low:.4g} to {high:.4g})"
            for low, middle, high in zip(self.low, self.median, self.high, strict=True)
        )


def sample_posterior(
    objective: SearchObjective,
    best: Floats,
    *,
    noise: float | None = None,
    observations: int | None = None,
    power: int = 1,
    count: int = 400,
    budget: int = 6000,
    seed: int = 0,
) -> PosteriorSample:
    """Sample the posterior of a calibration, with a flat prior over the unit cube.

    With m independent residuals r of normal noise of unknown variance the posterior is
    proportional to S^(-m/2), S being the sum of r². In a linear model with p parameters this is
    the t distribution with m - p degrees of freedom of ordinary regression. If only a loss is
    known that is a mean L of absolute residuals it is L^(-m), the posterior under Laplace noise of
    unknown scale.

    Args:
        objective: A function from points of the unit cube to losses, and with `outputs` to
            residuals.
        best: The calibration, as a point.
        noise: The standard deviation of the outputs, if it is known.
        observations: The number of independent outputs; by default all. If the objective has no
            outputs, it is required: the number of figures that the loss compares.
        power: 1: the loss is proportional to the residuals; 2: to their squares. Ignored if the
            objective has outputs.
        count: The number of calibrations to sample.
        budget: The number of evaluations.
        seed: The random seed.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Mean:
    ...     space = Space([LinearParameter("x", 0, 10)])
    ...     seen = np.array([4.6, 4.8, 5.2, 5.4])
    ...     def outputs(self, points):
    ...         return 10 * points - self.seen
    ...     def __call__(self, points):
    ...         return abs(self.outputs(points)).mean(axis=1)
    >>> found = sample_posterior(Mean(), np.array([0.5]), budget=20_000)
    >>> low, high = np.quantile(found.values()["x"], [0.05, 0.95])
    >>> bool(abs(low - 4.57) < 0.1 > abs(high - 5.43))  # 5 ± 2.35 x 0.365 / 2, by Student's t
    True
    """
    evaluations = Evaluations(objective, budget)
    best = check_point(best, len(evaluations.space))
    rng = np.random.default_rng(seed)
    dimensions = len(best)
    walkers = 2 * max(2 * dimensions, 32)
    try:
        first = evaluations.outputs(best[np.newaxis])
        density = _Density(evaluations, first, noise, observations, power, dimensions)
        if first is None:
            start = _start_from_region(objective, best, evaluations, density, power, walkers, rng)
        else:
            start = _start_from_slopes(evaluations, best, density, walkers, rng)
        logs = density(start)
        rounds = evaluations.left // walkers
        if rounds < 8:
            raise BudgetSpentError
        samples, sample_logs = sample_by_ensemble(density, start, logs, rounds, rng)
    except BudgetSpentError:
        raise InputError(
            f"{budget:,} evaluations are too few for {dimensions} parameters",
            kind="too-few-values",
            field="budget",
            remedy=f"at least {20 * walkers:,}",
        ) from None
    after_burn_in = slice(rounds // 3, None)
    points, sample_logs = (
        samples[after_burn_in].reshape(-1, dimensions),
        sample_logs[after_burn_in].ravel(),
    )
    points, sample_logs = points[np.isfinite(sample_logs)], sample_logs[np.isfinite(sample_logs)]
    if not len(points):
        raise InputError(
            "fails everywhere near the calibration", kind="evaluations-failed", field="objective"
        )
    chosen = np.linspace(0, len(points) - 1, min(count, len(points))).round().astype(np.intp)
    return PosteriorSample(
        evaluations.space,
        points[chosen],
        density.residual_noise(sample_logs[chosen]),
        None if noise is not None else float(density.observations),
        evaluations.spent,
    )


class _Density:
    """The logarithm of the posterior density, up to a constant."""

    def __init__(
        self,
        evaluations: Evaluations,
        first: Floats | None,
        noise: float | None,
        observations: int | None,
        power: int,
        parameters: int,
    ) -> None:
        if power not in (1, 2):
            raise InputError(f"must be 1 or 2, not {power}", kind="out-of-range", field="power")
        self._evaluations = evaluations
        self._noise = noise
        self._power = power
        self._by_outputs = first is not None
        if first is not None:
            evaluations.known_outputs = np.isfinite(first[0])
            observations = observations or int(evaluations.known_outputs.sum())
        if not observations:
            raise InputError(
                "is required if the objective has no outputs",
                kind="missing-field",
                field="observations",
                remedy="give the number of independent figures that the loss compares",
            )
        self.observations = observations
        if noise is None and observations <= parameters:
            raise InputError(
                f"{observations} observations are too few for {parameters} parameters and noise",
                kind="too-few-values",
                field="observations",
                remedy="add runs, or give the noise",
            )

    def __call__(self, points: Floats) -> Floats:
        squares = self._mean_squares(points)
        if self._noise is not None:
            logs = -0.5 * self.observations * squares / self._noise**2
        else:
            logs = -0.5 * self.observations * np.log(squares + NOISE_FLOOR**2)
        return np.where(np.isfinite(logs), logs, -np.inf)

    def residual_noise(self, logs: Floats) -> Floats:
        """Compute the residual standard deviation of points with these log densities."""
        if self._noise is not None:
            return np.full(len(logs), self._noise)
        return np.exp(-logs / self.observations)

    def _mean_squares(self, points: Floats) -> Floats:
        if self._by_outputs:
            outputs = self._evaluations.outputs(points)
            assert outputs is not None
            squares: Floats = np.mean(outputs**2, axis=1)
            return squares
        losses = self._evaluations.losses(points)
        # The mean of |r| is sqrt(2/pi) of the standard deviation of normal noise.
        return losses if self._power == 2 else losses**2 * (math.pi / 2)


def _start_from_slopes(
    evaluations: Evaluations,
    best: Floats,
    density: _Density,
    walkers: int,
    rng: np.random.Generator,
) -> Floats:
    noise = float(density.residual_noise(density(best[np.newaxis]))[0])
    slopes = estimate_sensitivity(evaluations, best, noise).jacobian
    # A flat prior over the cube has about the width of a normal prior with deviation 0.3.
    information = slopes.T @ slopes + np.eye(len(best)) / 0.3**2
    return reflect(
        rng.multivariate_normal(best, np.linalg.inv(information), size=walkers, method="cholesky")
    )


def _start_from_region(
    objective: SearchObjective,
    best: Floats,
    evaluations: Evaluations,
    density: _Density,
    power: int,
    walkers: int,
    rng: np.random.Generator,
) -> Floats:
    best_loss = float(evaluations.losses(best[np.newaxis])[0])
    bound = compute_loss_bound(
        max(best_loss, NOISE_FLOOR**power),
        observations=density.observations,
        parameters=len(best),
        power=power,
    )
    region = find_confidence_region(
        objective,
        best,
        loss_bound=bound,
        budget=max(evaluations.left // 3, 1),
        seed=int(rng.integers(2**31)),
    )
    evaluations.spent += region.evaluations
    chosen = region.points[rng.choice(len(region), size=walkers, p=region.weights)]
    # Identical walkers would propose no moves.
    jitter = 0.1 * np.maximum(np.std(region.points, axis=0), 1e-4)
    return reflect(chosen + jitter * rng.standard_normal(chosen.shape))


def estimate_noise(residuals: Floats, parameters: int) -> tuple[float, int]:
    """Estimate the residual standard deviation at the best fit, and its degrees of freedom.

    >>> estimate_noise(np.array([0.1, -0.1, 0.1, -0.1]), 2)
    (0.1414..., 2)
    """
    known = np.asarray(residuals, dtype=np.float64)
    known = known[np.isfinite(known)]
    freedom = len(known) - parameters
    if freedom < 1:
        raise InputError(
            f"{len(known)} residuals are too few for {parameters} parameters and noise",
            kind="too-few-values",
            field="residuals",
            remedy="add runs, or give the noise",
        )
    return float(np.sqrt(np.sum(known**2) / freedom)), freedom


def compute_intervals(
    predictions: Floats,
    *,
    noise: float | Floats = 0.0,
    freedom: float | None = None,
    weights: Floats | None = None,
    relative: bool = True,
    level: float = 0.9,
) -> PredictionIntervals:
    """Compute prediction intervals from the predictions of a posterior sample.

    The predictive distribution is a mixture: for each calibration, its prediction plus normal
    noise, or noise by Student's t if its variance is estimated. The limits are quantiles of the
    mixture.

    Args:
        predictions: A row per calibration, a column per figure.
        noise: The standard deviation of a figure between runs, one or one per calibration.
        freedom: The degrees of freedom of the noise; None: it is known exactly.
        weights: The weights of the calibrations; by default equal.
        relative: Whether the noise is relative to the prediction, or in its unit.
        level: The probability that a new run lies within its interval.

    >>> print(compute_intervals(np.array([[100.0], [100.0]]), noise=0.05))
    100 (90 %: 91.78 to 108.2)
    >>> print(compute_intervals(np.array([[100.0], [100.0]]), noise=0.05, freedom=5))
    100 (90 %: 89.92 to 110.1)
    """
    from scipy import special

    rows = np.asarray(predictions, dtype=np.float64)
    if rows.ndim != 2 or not len(rows):
        raise InputError(
            f"must have a row per calibration and a column per figure, not shape {rows.shape}",
            kind="wrong-count",
            field="predictions",
        )
    if not 0 < level < 1:
        raise InputError(
            f"must be between 0 and 1, not {level}", kind="out-of-range", field="level"
        )
    share = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    scale = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(rows))
    if share.shape != scale.shape or (share < 0).any() or not share.any():
        raise InputError(
            "must be one per calibration, not negative, not all 0",
            kind="wrong-count",
            field="weights",
        )
    spread = scale[:, np.newaxis] * (np.abs(rows) if relative else 1.0)
    failed = ~np.isfinite(rows)
    parts = np.where(failed, 0.0, share[:, np.newaxis])
    total = parts.sum(axis=0)
    rows, spread = np.where(failed, 0.0, rows), np.where(failed, 1.0, spread)
    tiny = 1e-9 * np.maximum(np.abs(rows), 1e-300)
    spread = np.maximum(spread, tiny)

    def below(limit: Floats) -> Floats:
        standard = (limit - rows) / spread
        reached = special.ndtr(standard) if freedom is None else special.stdtr(freedom, standard)
        with np.errstate(invalid="ignore"):
            share_below: Floats = (parts * reached).sum(axis=0) / total
        return share_below

    max_deviations = 40.0 if freedom is None else 40.0 + 1e4 / freedom**2
    ends = np.array(
        [(rows - max_deviations * spread).min(axis=0), (rows + max_deviations * spread).max(axis=0)]
    )
    limits = []
    for quantile in ((1 - level) / 2, 0.5, (1 + level) / 2):
        low, high = ends[0].copy(), ends[1].copy()
        for _ in range(40):
            middle = (low + high) / 2
            under = below(middle) < quantile
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        limits.append(np.where(total > 0, (low + high) / 2, np.nan))
    return PredictionIntervals(limits[0], limits[1], limits[2], level)
