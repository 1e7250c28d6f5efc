"""Masking: parameters that have no effect because of the value of another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.identifiability.constrained_fits import ConstrainedFit
from twinloop.calibration.identifiability.profile import is_enumerable, list_positions
from twinloop.calibration.uncertainty.evaluation_count import Evaluations

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MaskingParameter:
    """The index of a masking parameter, and the position from which the masked one has an effect.

    The masked parameter has an effect above `threshold` if `above`, else below it.
    """

    other: int
    threshold: float
    above: bool


def find_masking_parameter(
    evaluations: Evaluations, fit: ConstrainedFit, centre: Floats, axis: int
) -> MaskingParameter | None:
    """Find the single parameter that masks another one; None if there is none.

    >>> from twinloop.calibration.identifiability.constrained_fits import SimplexFit
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Slower:
    ...     space = Space([LinearParameter("disk", 0.6, 1), LinearParameter("cpu", 0, 1)])
    ...     def __call__(self, points):
    ...         return np.minimum(0.6 + 0.4 * points[:, 0], points[:, 1])
    >>> counted = Evaluations(Slower(), 100)
    >>> fit = SimplexFit(counted, np.full(2, 0.1))
    >>> find_masking_parameter(counted, fit, np.array([0.5, 0.3]), 0)
    MaskingParameter(other=1, threshold=0.6..., above=True)
    """

    def has_effect(points: Floats) -> NDArray[np.bool_]:
        low, high = points.copy(), points.copy()
        low[:, axis], high[:, axis] = 0.0, 1.0
        scores = fit.scores(np.vstack([low, high]))
        first, second = scores[: len(points)], scores[len(points) :]
        # Two failures count as no effect; their difference is NaN.
        with np.errstate(invalid="ignore"):
            return abs(first - second) > 1e-9 * (1.0 + abs(first))

    for other, parameter in enumerate(evaluations.space):
        if other == axis:
            continue
        positions = (
            list_positions(parameter) if is_enumerable(parameter) else np.linspace(0.0, 1.0, 9)
        )
        points = np.tile(centre, (len(positions), 1))
        points[:, other] = positions
        unmasked = positions[has_effect(points)]
        if not len(unmasked):
            continue
        unmasked_at = float(unmasked[abs(unmasked - centre[other]).argmin()])
        masked_at = float(centre[other])
        if not is_enumerable(parameter):
            for _ in range(6):
                middle = centre.copy()
                middle[other] = (unmasked_at + masked_at) / 2
                if has_effect(middle[np.newaxis])[0]:
                    unmasked_at = middle[other]
                else:
                    masked_at = middle[other]
        return MaskingParameter(other, float(unmasked_at), bool(unmasked_at > centre[other]))
    return None
