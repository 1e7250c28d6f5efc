"""The analysis of identifiability: sensitivities and profile likelihoods.

Sensitivities at the calibration give the local test of Rothenberg, "Identification in parametric
models" (1971); profile likelihoods give confidence intervals that hold beyond it (see `profile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.calibration.identifiability.advice import HINTS, Hint, join_names
from twinloop.calibration.identifiability.constrained_fits import (
    ConstrainedFit,
    LeastSquaresFit,
    SimplexFit,
)
from twinloop.calibration.identifiability.groups import CompensatingMoves, group_parameters
from twinloop.calibration.identifiability.masking import MaskingParameter, find_masking_parameter
from twinloop.calibration.identifiability.profile import (
    Profile,
    is_enumerable,
    list_positions,
    profile_parameter,
)
from twinloop.calibration.identifiability.result import Identifiability, make_table
from twinloop.calibration.identifiability.sensitivity import estimate_sensitivity
from twinloop.calibration.identifiability.summary_text import (
    IdentifiabilityAnalysis,
    describe_analysis,
)
from twinloop.calibration.parameters.kinds import Parameter
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

#: The minimum standard deviation of the outputs that is assumed, unless it is given.
NOISE_FLOOR: Final = 1e-3
_QUARTERS: Final = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


@dataclass(frozen=True, eq=False)
class _ProfileInput:
    """The input of the profiles: the constrained fit, its minimum, and the bound of the score.

    `guesses` are approximate half widths of the intervals, `weak_directions` the directions in
    which the outputs hardly change (rows), `noise` the standard deviation of the outputs (None if
    the loss is used), and `starts_at_minimum` is whether the calibration is about as good as the
    minimum `centre`.
    """

    fit: ConstrainedFit
    centre: Floats
    lowest: float
    bound: float
    guesses: Floats
    weak_directions: Floats
    noise: float | None
    starts_at_minimum: bool


def analyse_identifiability(
    objective: SearchObjective,
    best: Floats,
    *,
    noise: float | Floats | None = None,
    loss_bound: float | None = None,
    tolerance: float = 0.1,
    level: float = 0.9,
    budget: int = 20_000,
    hints: Iterable[Hint] = HINTS,
    facts: Mapping[str, Any] | None = None,
) -> Identifiability:
    """Analyse which parameters the data determine, and which mask or compensate each other.

    A parameter is identifiable if its confidence interval by profile likelihood is at most
    `tolerance` of its range, and if the interval is limited by the data and not by the range of
    another parameter.

    Args:
        objective: A function from points of the unit cube to losses, and with `outputs` to
            residuals.
        best: The calibration, as a point.
        noise: The standard deviation of the outputs, one or one per output. By default estimated
            from the residuals at the best fit, and at least 0.001.
        loss_bound: Use the loss instead of the outputs, up to this bound. Without outputs the
            loss is always used, with 10 % above the best as the default.
        tolerance: The largest interval of an identifiable parameter, as a share of its range.
        level: The confidence level of the intervals.
        budget: The number of evaluations.
        hints: Advice on data, by the names of parameters.
        facts: Facts about the data, such as `{"shared_cores": False}`; see `HINTS`.

    >>> from twinloop.calibration.parameters.kinds import ExponentialParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Move:
    ...     "Loading a truck, driving, unloading; the output is the total time."
    ...     names = "load", "drive", "unload"
    ...     space = Space(ExponentialParameter(name, 0.1, 10) for name in names)
    ...     cargo, distance = np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0])
    ...     def time(self, points):
    ...         load, drive, unload = (v[:, None] for v in self.space.decode(points).values())
    ...         return self.cargo / load + self.distance / drive + self.cargo / unload
    ...     def outputs(self, points):
    ...         truth = self.time(np.full((1, 3), 0.5))
    ...         return self.time(points) / truth - 1
    ...     def __call__(self, points):
    ...         return abs(self.outputs(points)).mean(axis=1)
    >>> found = analyse_identifiability(Move(), np.full(3, 0.5), noise=0.01)
    >>> found
    load and unload compensate each other in this data: the sum of their reciprocals stays near 2.
    >>> found.unidentifiable
    ('load', 'unload')
    """
    if not 0 < tolerance < 1 or not 0 < level < 1:
        raise InputError("tolerance and level must be between 0 and 1", kind="out-of-range")
    evaluations = Evaluations(objective, budget)
    space = evaluations.space
    best = check_point(best, len(space))
    try:
        inputs = _prepare_by_outputs(evaluations, best, noise, tolerance, level, loss_bound)
        effects = _find_effects(evaluations, inputs)
    except BudgetSpentError:
        return _make_unfinished_result(evaluations, best)
    profiles: list[Profile] = []
    for axis in range(len(space)):
        evaluations.limit = evaluations.spent + (budget - evaluations.spent) // (
            len(space) - axis + 1
        )
        profiles.append(
            _compute_profile(evaluations, inputs, axis)
            if effects[axis]
            else _make_flat_profile(inputs, axis)
        )
    evaluations.limit = budget
    # Intervals around a point that is not a minimum are not confidence intervals.
    minimal = not any(_has_better_fit(inputs, each) for each in profiles)
    masks: list[MaskingParameter | None] = [None] * len(space)
    identifiable = [
        _is_identifiable(space, inputs, each, axis, tolerance) for axis, each in enumerate(profiles)
    ]
    if not minimal:
        identifiable = [None if effect else False for effect in effects]
    moves = CompensatingMoves(
        inputs.centre, profiles, inputs.fit, lowest=inputs.lowest, bound=inputs.bound
    )
    complete = not any(each.spent for each in profiles)
    edges = np.zeros((len(space), len(space)), dtype=bool)
    unidentifiable = np.array([each is False for each in identifiable])
    searched = True
    try:
        edges = moves.find_needed(np.flatnonzero(unidentifiable))
        masks = [
            None
            if effects[axis]
            else find_masking_parameter(evaluations, inputs.fit, inputs.centre, axis)
            for axis in range(len(space))
        ]
    except BudgetSpentError:
        complete = searched = False
    groups = group_parameters(edges, inputs.weak_directions, ~unidentifiable, effects)
    analysis = IdentifiabilityAnalysis(
        space,
        best,
        inputs.centre,
        profiles,
        identifiable,
        groups,
        effects,
        masks,
        inputs.weak_directions,
        searched,
        minimal,
    )
    whys, sentences = describe_analysis(analysis, tuple(hints), facts or {})
    if not (inputs.starts_at_minimum and minimal):
        sentences.append(
            "A nearby point fits better than the calibration: give the search a larger budget "
            "before relying on these intervals."
            if minimal
            else "The calibration is not at a minimum, so its intervals are unknown: give the "
            "search a larger budget."
        )
    if not complete:
        sentences.append(_describe_unfinished(budget, analysis))
    return Identifiability(
        analysis.table(whys),
        tuple(tuple(space.names[axis] for axis in group) for group in groups),
        tuple(sentences),
        _make_profile_table(analysis),
        inputs.noise,
        evaluations.spent,
        complete and minimal,
    )


def _has_better_fit(inputs: _ProfileInput, profile: Profile) -> bool:
    """Whether a profile contains a clearly better fit than its starting point."""
    return float(profile.scores.min()) < inputs.lowest - 0.1 * (inputs.bound - inputs.lowest)


def _describe_unfinished(budget: int, analysis: IdentifiabilityAnalysis) -> str:
    """Describe the results that are missing because the budget was spent."""
    names = analysis.space.names
    unknown = [
        name for name, each in zip(names, analysis.identifiable, strict=True) if each is None
    ]
    without_interval = [
        name
        for name, each, profile in zip(names, analysis.identifiable, analysis.profiles, strict=True)
        if each is not None and profile.spent
    ]
    text = f"The analysis is unfinished: {budget:,} evaluations were too few"
    if unknown:
        text += f"; whether the data determine {join_names(unknown)} is unknown"
    if without_interval:
        text += f"; the interval of {join_names(without_interval)} is unknown"
    if not analysis.searched:
        text += "; the search for parameters that compensate or mask each other is incomplete"
    return f"{text}."


def _make_unfinished_result(evaluations: Evaluations, best: Floats) -> Identifiability:
    values = evaluations.space.decode_one(best)
    rows = [
        {"parameter": name, "identifiable": None, "why": "unknown: too few evaluations"}
        | ({"value": float(value)} if isinstance(value, int | float) else {})
        for name, value in values.items()
    ]
    sentence = (
        f"The analysis is unfinished: {evaluations.budget:,} evaluations are too few to determine "
        f"whether the data determine {join_names(list(values))}; at least about "
        f"{40 * len(rows) + 100:,} are needed."
    )
    spent = evaluations.spent
    return Identifiability(make_table(rows), (), (sentence,), pl.DataFrame(), None, spent, False)


def _prepare_by_outputs(
    evaluations: Evaluations,
    best: Floats,
    noise: float | Floats | None,
    tolerance: float,
    level: float,
    loss_bound: float | None,
) -> _ProfileInput:
    # scipy.stats is not used because its import takes a second.
    from scipy import special

    residuals = None if loss_bound is not None else evaluations.outputs(best[np.newaxis])
    if residuals is None:
        return _prepare_by_loss(evaluations, best, loss_bound)
    known = np.isfinite(residuals[0])
    if not known.any():
        raise InputError(
            "has no finite outputs at the calibration", kind="evaluations-failed", field="objective"
        )
    evaluations.known_outputs = known
    count, freedom = int(known.sum()), int(known.sum()) - len(best)
    scale = noise if noise is not None else NOISE_FLOOR
    if np.ndim(scale):
        scale = np.asarray(scale, dtype=np.float64)[known]
    if not np.all(np.asarray(scale) > 0):
        raise InputError("must be positive", kind="out-of-range", field="noise")
    rough_scale = np.sqrt(np.mean((residuals[0][known] / scale) ** 2))
    slopes = estimate_sensitivity(
        evaluations, best, scale * (max(rough_scale, 1.0) if noise is None else 1.0)
    )
    fit = LeastSquaresFit(evaluations, scale, slopes.steps)
    at_best = float(np.sum((residuals[0][known] / scale) ** 2))
    centre, lowest = fit.fit(best, None, 0.0)
    threshold = special.ndtri((1 + level) / 2) ** 2
    if noise is None:
        remaining = lowest / freedom if freedom > 0 else lowest / count
        if remaining > 1.0:
            scale = scale * float(np.sqrt(remaining))
            at_best, lowest = at_best / remaining, lowest / remaining
            threshold = special.stdtrit(max(freedom, 1), (1 + level) / 2) ** 2
    slopes = estimate_sensitivity(evaluations, centre, scale)
    jacobian = slopes.jacobian
    covariance = np.linalg.inv(jacobian.T @ jacobian + 4.0 * np.eye(len(best)))
    guesses = np.sqrt(threshold * covariance.diagonal())
    return _ProfileInput(
        LeastSquaresFit(evaluations, scale, slopes.steps),
        centre,
        lowest,
        lowest + float(threshold),
        np.clip(guesses, 1e-5, 0.5),
        slopes.find_weak_directions(0.5 * tolerance / float(np.sqrt(threshold))),
        float(np.mean(scale)),
        at_best <= lowest + max(float(threshold), 0.1 * lowest),
    )


def _prepare_by_loss(
    evaluations: Evaluations, best: Floats, loss_bound: float | None
) -> _ProfileInput:
    at_best = float(evaluations.losses(best[np.newaxis])[0])
    if not np.isfinite(at_best):
        raise InputError("fails at the calibration", kind="evaluations-failed", field="objective")
    dimensions = len(best)
    distances = np.array([0.001, 0.01, 0.05, 0.2])
    near = np.tile(best, (len(distances) * 2 * dimensions, 1))
    shifts = np.repeat(np.concatenate([distances, -distances]), dimensions)
    axes = np.tile(np.arange(dimensions), 2 * len(distances))
    near[np.arange(len(near)), axes] += shifts
    losses = evaluations.losses(near)
    bound = at_best + max(0.1 * at_best, 1e-3) if loss_bound is None else loss_bound
    guesses = np.array(
        [
            max(abs(shifts[(axes == axis) & (losses <= bound)]), default=distances[0])
            for axis in range(dimensions)
        ]
    )
    fit = SimplexFit(evaluations, guesses)
    centre, lowest = fit.fit(best, None, 0.0)
    if loss_bound is None:
        bound = lowest + max(0.1 * lowest, 1e-3)
    no_directions = np.zeros((0, dimensions))
    return _ProfileInput(fit, centre, lowest, bound, guesses, no_directions, None, at_best <= bound)


def _find_effects(evaluations: Evaluations, inputs: _ProfileInput) -> NDArray[np.bool_]:
    """Find whether each parameter alone has any effect in its range."""
    rows, axes = [], []
    for axis, parameter in enumerate(evaluations.space):
        positions = list_positions(parameter) if is_enumerable(parameter) else _QUARTERS
        # Also near the calibration, because an effect may saturate farther away.
        for position in (*positions, inputs.centre[axis] - 0.01, inputs.centre[axis] + 0.01):
            rows.append(inputs.centre.copy())
            rows[-1][axis] = position
            axes.append(axis)
    points = np.array([inputs.centre, *rows])
    outputs = evaluations.outputs(points) if inputs.noise is not None else None
    if outputs is None:
        outputs = evaluations.losses(points)[:, np.newaxis]
    outputs = np.nan_to_num(outputs, nan=1e300, posinf=1e300)
    changed = (abs(outputs[1:] - outputs[0]) > 1e-10 * (1.0 + abs(outputs[0]))).any(axis=1)
    return np.array([changed[np.array(axes) == axis].any() for axis in range(len(inputs.centre))])


def _compute_profile(evaluations: Evaluations, inputs: _ProfileInput, axis: int) -> Profile:
    return profile_parameter(
        evaluations,
        inputs.fit,
        inputs.centre,
        axis,
        guess=float(inputs.guesses[axis]),
        lowest=inputs.lowest,
        bound=inputs.bound,
    )


def _make_flat_profile(inputs: _ProfileInput, axis: int) -> Profile:
    """Make the profile of a parameter without effect: a constant score."""
    points = np.tile(inputs.centre, (3, 1))
    points[:, axis] = 0.0, inputs.centre[axis], 1.0
    return Profile(0.0, 1.0, (False, False), points, np.full(3, inputs.lowest))


def _is_identifiable(
    space: Space, inputs: _ProfileInput, profile: Profile, axis: int, tolerance: float
) -> bool | None:
    """Whether the data determine a parameter; None if the profile is incomplete."""
    discrete = is_enumerable(space.parameters[axis])
    # More evaluations can only widen the interval.
    if len(profile.points) > 1 if discrete else profile.width > tolerance:
        return False
    if profile.spent:
        return None
    if discrete:
        return True
    if _is_limited_by_own_range(space.parameters[axis], profile):
        return False
    is_weak = bool((abs(inputs.weak_directions[:, axis]) > 0.1).any())
    return not (is_weak and _is_limited_by_other_range(inputs.centre, profile, axis))


def _is_limited_by_own_range(parameter: Parameter, profile: Profile) -> bool:
    """Whether the interval is limited by the range of the parameter and not by the data.

    A lower end of 0 is a natural limit, not an end of the range.
    """
    low, high = (not closed for closed in profile.closed)
    return (high and profile.high >= 1.0) or (low and profile.low <= 0.0 != parameter.decode(0.0))


def _is_limited_by_other_range(centre: Floats, profile: Profile, axis: int) -> bool:
    """Whether the interval is limited by the range of another parameter."""
    for end in profile.points[[0, -1]]:
        moved = abs(end - centre)
        far = moved > max(0.1 * moved[axis], 1e-6)
        far[axis] = False
        # The last acceptable calibration is a little before the end of the interval.
        if (far & (np.minimum(end, 1.0 - end) <= 0.3 * moved)).any():
            return True
    return False


def _make_profile_table(analysis: IdentifiabilityAnalysis) -> pl.DataFrame:
    parts = []
    for name, profile in zip(analysis.space.names, analysis.profiles, strict=True):
        values = {
            each: column if isinstance(column, np.ndarray) else [str(value) for value in column]
            for each, column in analysis.space.decode(profile.points).items()
        }
        parts.append(
            pl.DataFrame(
                {"parameter": [name] * len(profile.points), "score": profile.scores}
                | {f"value.{each}": column for each, column in values.items()}
            )
        )
    return pl.concat(parts)
