"""Profile likelihood: the best fit as a function of one parameter, all others refitted.

After Raue et al., "Structural and practical identifiability analysis of partially observed
dynamical models by exploiting the profile likelihood" (2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.identifiability.constrained_fits import ConstrainedFit
from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    Parameter,
)
from twinloop.calibration.uncertainty.evaluation_count import BudgetSpentError, Evaluations

Floats = NDArray[np.float64]

#: The largest number of levels of a discrete parameter that are all evaluated.
MAX_ENUMERATED: Final = 12
_MAX_BISECTIONS: Final = 10
_QUARTERS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Profile:
    """The confidence interval of one parameter in 0..1, and the calibrations along it.

    `points` are the acceptable calibrations from the lower end to the upper, with their `scores`.
    An end is `closed` if the data limit it, and open if the range or the budget does. An end is
    `unfinished` if the budget was spent before it was found: the interval reaches at least there.
    """

    low: float
    high: float
    closed: tuple[bool, bool]
    points: Floats
    scores: Floats
    unfinished: tuple[bool, bool] = (False, False)

    @property
    def spent(self) -> bool:
        """Whether the budget was spent before both ends were found."""
        return any(self.unfinished)

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.high - self.low


def profile_parameter(
    evaluations: Evaluations,
    fit: ConstrainedFit,
    centre: Floats,
    axis: int,
    *,
    guess: float,
    lowest: float,
    bound: float,
) -> Profile:
    """Compute the profile of one parameter: the interval in which the score is at most the bound.

    Args:
        evaluations: The objective with its budget.
        fit: The fit of the other parameters.
        centre: The best point.
        axis: The index of the parameter.
        guess: The approximate distance to the ends.
        lowest: The score of the centre.
        bound: The largest acceptable score.

    >>> from twinloop.calibration.identifiability.constrained_fits import LeastSquaresFit
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Sum:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 0.5)])
    ...     def outputs(self, points):
    ...         return points @ [[1.0], [0.5]] - 0.7
    >>> counted = Evaluations(Sum(), 1000)
    >>> fit = LeastSquaresFit(counted, 0.01, np.full(2, 0.01))
    >>> found = profile_parameter(counted, fit, np.array([0.5, 0.4]), 0, guess=0.01, lowest=0.0,
    ...     bound=1.0)
    >>> abs(found.low - 0.19) < 0.002, abs(found.high - 0.71) < 0.002, found.closed
    (True, True, (True, True))
    """
    parameter = evaluations.space.parameters[axis]
    if is_enumerable(parameter):
        return _profile_levels(fit, centre, axis, parameter, lowest, bound)
    down = _HalfProfile(evaluations, fit, centre, axis, 0.0, lowest, bound)
    up = _HalfProfile(evaluations, fit, centre, axis, 1.0, lowest, bound)
    down.search(guess)
    up.search(guess)
    points = np.array([*down.points[::-1], centre, *up.points])
    scores = np.array([*down.scores[::-1], lowest, *up.scores])
    return Profile(
        down.end, up.end, (down.closed, up.closed), points, scores, (down.spent, up.spent)
    )


class _HalfProfile:
    """One half of a profile, from the centre towards one end of the range."""

    def __init__(
        self,
        evaluations: Evaluations,
        fit: ConstrainedFit,
        centre: Floats,
        axis: int,
        towards: float,
        lowest: float,
        bound: float,
    ) -> None:
        self._evaluations = evaluations
        self._fit = fit
        self._centre = centre
        self._axis = axis
        self._towards = towards
        self._lowest = lowest
        self._bound = bound
        self.points: list[Floats] = []
        self.scores: list[float] = []
        self.end = float(centre[axis])
        self.closed = False
        self.spent = False

    def search(self, guess: float) -> None:
        try:
            self._search(guess)
        except BudgetSpentError:
            self.spent = True

    def _search(self, guess: float) -> None:
        start, max_distance = self.end, abs(self._towards - self.end)
        sign = 1.0 if self._towards > start else -1.0
        distance, accepted, rejected, outer_score = 0.7 * guess, 0.0, None, np.inf
        while rejected is None and accepted < max_distance:
            distance = min(distance, max_distance)
            rejected_score = self._try_position(start + sign * distance, try_distant=True)
            if rejected_score is None:
                accepted = distance
                distance *= 2.0
            else:
                rejected, outer_score = distance, rejected_score
        if rejected is None:
            return
        for _ in range(_MAX_BISECTIONS):
            # If the score rises gently, the end is interpolated, so few bisections are enough.
            allowed = self._bound - self._lowest
            inner = self.scores[-1] - self._lowest if self.scores else 0.0
            gentle = inner >= 0.1 * allowed and outer_score - self._lowest <= 10.0 * allowed
            if rejected <= (1.25 if gentle else 1.02) * accepted:
                break
            middle = (accepted + rejected) / 2 if accepted else rejected / 4
            rejected_score = self._try_position(start + sign * middle, try_distant=False)
            if rejected_score is None:
                accepted = middle
            else:
                rejected, outer_score = middle, rejected_score
        self.closed = True
        last = self.scores[-1] if self.scores else self._lowest
        allowed = self._bound - self._lowest
        if np.isfinite(outer_score) and last - self._lowest < 0.1 * allowed < outer_score / 100.0:
            # The score jumps between the two: the interval includes all that may be acceptable.
            accepted = rejected
        elif np.isfinite(outer_score):
            # Scores grow with the square of the distance near a minimum.
            inner_root, outer_root, bound_root = (
                np.sqrt(max(score - self._lowest, 0.0))
                for score in (last, outer_score, self._bound)
            )
            share = (
                (bound_root - inner_root) / (outer_root - inner_root)
                if outer_root > inner_root
                else 0.0
            )
            accepted += float(np.clip(share, 0.0, 1.0)) * (rejected - accepted)
        self.end = start + sign * accepted

    def _try_position(self, position: float, *, try_distant: bool) -> float | None:
        """Fit with the parameter at this position; return None if it is acceptable, else the score.

        If `try_distant`, fits from distant values of other parameters are tried too.
        """
        last = self.points[-1] if self.points else self._centre
        starts = [last.copy()]
        if self.points:
            before = self.points[-2] if len(self.points) > 1 else self._centre
            ratio = (position - last[self._axis]) / (last[self._axis] - before[self._axis])
            starts.append(np.clip(last + ratio * (last - before), 0.0, 1.0))
        for each in starts:
            each[self._axis] = position
        point, score = self._fit_from(np.array(starts))
        if score > self._bound and try_distant:
            # The fit may need a jump of another parameter that no slope indicates.
            for each in self._find_distant_starts(starts[0]):
                point, score = min((point, score), self._fit_from(each), key=lambda found: found[1])
        if score > self._bound:
            return score
        self.points.append(point)
        self.scores.append(score)
        self.end = position
        return None

    def _fit_from(self, starts: Floats) -> tuple[Floats, float]:
        scores = self._fit.scores(starts) if len(starts) > 1 else np.zeros(1)
        enough = self._lowest + 0.05 * (self._bound - self._lowest)
        return self._fit.fit(starts[int(scores.argmin())], self._axis, enough)

    def _find_distant_starts(self, point: Floats) -> Iterator[Floats]:
        """Yield points with a distant value of a parameter that has no effect near this point."""
        others = [other for other in range(len(point)) if other != self._axis]
        rows = np.tile(point, (1 + len(others) * len(_QUARTERS), 1))
        for i, other in enumerate(others):
            rows[1 + i * len(_QUARTERS) : 1 + (i + 1) * len(_QUARTERS), other] = _QUARTERS
        score_here, *scores = self._fit.scores(rows)
        for i in range(len(others)):
            own_scores = np.array(scores[i * len(_QUARTERS) : (i + 1) * len(_QUARTERS)])
            same = (
                own_scores == score_here
                if np.isinf(score_here)
                else abs(own_scores - score_here) <= 1e-9 * (1 + abs(score_here))
            )
            if same.any() and not same.all():
                best = int(np.where(same, np.inf, own_scores).argmin())
                yield rows[[1 + i * len(_QUARTERS) + best]]


def is_enumerable(parameter: Parameter) -> bool:
    """Whether all values of a parameter are evaluated.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> is_enumerable(LinearParameter("cores", 1, 8, integer=True))
    True
    >>> is_enumerable(LinearParameter("speed", 1, 8))
    False
    """
    return parameter.levels is not None and (
        parameter.levels <= MAX_ENUMERATED or not parameter.ordered
    )


def list_positions(parameter: Parameter) -> Floats:
    """List the positions of the values of a discrete parameter in 0..1.

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter
    >>> list_positions(CategoricalParameter("mode", ["a", "b"])).tolist()
    [0.25, 0.75]
    """
    if isinstance(parameter, CategoricalParameter):
        return np.array([parameter.encode(value) for value in parameter.values])
    assert isinstance(parameter, LinearParameter | ExponentialParameter)
    whole = range(int(parameter.low), int(parameter.high) + 1)
    return np.array([parameter.encode(value) for value in whole])


def _profile_levels(
    fit: ConstrainedFit,
    centre: Floats,
    axis: int,
    parameter: Parameter,
    lowest: float,
    bound: float,
) -> Profile:
    positions = list_positions(parameter)
    own_value = parameter.decode(float(centre[axis]))
    accepted, points, scores, spent = [], [], [], False
    for level, position in enumerate(positions):
        point, score = centre.copy(), lowest
        if parameter.decode(float(position)) != own_value:
            point[axis] = position
            try:
                point, score = fit.fit(point, axis, lowest)
            except BudgetSpentError:
                spent = True
                continue
        if score <= bound:
            accepted.append(level)
            points.append(point)
            scores.append(score)
    first, last = accepted[0] == 0, accepted[-1] == len(positions) - 1
    return Profile(
        float(positions[accepted[0]]),
        float(positions[accepted[-1]]),
        (not first, not last),
        np.array(points),
        np.array(scores),
        (spent, spent),
    )
