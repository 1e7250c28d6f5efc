"""Local sensitivity of the outputs, and the directions in which it is weak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.uncertainty.evaluation_count import Evaluations

Floats = NDArray[np.float64]

#: The target change of the outputs in a step, over their noise: smaller steps are dominated by the
#: roughness of a simulation, larger ones are not local.
_TARGET_CHANGE: Final = 3.0
_MAX_STEP: Final = 0.25
_MIN_STEP: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The Jacobian of the outputs over their noise, by coordinates of the unit cube."""

    jacobian: Floats
    steps: Floats

    def find_weak_directions(self, reach: float) -> Floats:
        """Find directions (rows) in which a move by `reach` changes the outputs by less than noise.

        These are the right singular vectors of the Jacobian with a singular value below 1 / reach.

        >>> slopes = np.array([[100.0, 100.0, 0.0], [0.0, 0.0, 50.0]])
        >>> abs(Sensitivity(slopes, np.full(3, 0.01)).find_weak_directions(0.05)).round(3).tolist()
        [[0.707, 0.707, 0.0]]
        """
        _, values, vectors = np.linalg.svd(self.jacobian, full_matrices=True)
        strength = np.zeros(len(vectors))
        strength[: len(values)] = values
        return vectors[strength * reach < 1.0]


def estimate_sensitivity(
    evaluations: Evaluations, point: Floats, noise: Floats | float
) -> Sensitivity:
    """Estimate the Jacobian by central differences, with steps that exceed the noise.

    At the ends of the range the differences are one-sided. Categorical parameters have slope 0.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Line:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    ...     def __call__(self, points):
    ...         return abs(self.outputs(points)).sum(axis=1)
    ...     def outputs(self, points):
    ...         return points @ np.array([[1.0, 2.0], [0.0, 4.0]])
    >>> found = estimate_sensitivity(Evaluations(Line(), 100), np.array([0.5, 1.0]), noise=0.1)
    >>> found.jacobian.round(6).tolist()
    [[10.0, 0.0], [20.0, 40.0]]
    """
    parameters = list(evaluations.space)
    ordered = np.array([each.ordered for each in parameters])
    # A step of a whole cell always changes a discrete value.
    min_steps = np.array([1.0 / each.levels if each.levels else _MIN_STEP for each in parameters])
    steps = np.maximum(0.01, min_steps)
    chosen = steps.copy()
    slopes: list[Floats | None] = [None] * len(point)
    smallest_miss = np.full(len(point), np.inf)
    axes = np.flatnonzero(ordered)
    for _ in range(4):
        if not len(axes):
            break
        up, down = (np.tile(point, (len(axes), 1)) for _ in range(2))
        rows = np.arange(len(axes))
        up[rows, axes] = np.minimum(point[axes] + steps[axes], 1.0)
        down[rows, axes] = np.maximum(point[axes] - steps[axes], 0.0)
        outputs = evaluations.outputs(np.vstack([up, down]))
        assert outputs is not None
        scaled = outputs / noise
        repeated = []
        for row, axis in enumerate(axes):
            change = scaled[row] - scaled[len(axes) + row]
            size = float(np.linalg.norm(np.nan_to_num(change)))
            miss = abs(np.log(max(size, 1e-12) / _TARGET_CHANGE))
            if slopes[axis] is None or miss < smallest_miss[axis]:
                span = up[row, axis] - down[row, axis]
                slopes[axis] = np.nan_to_num(change / span)
                chosen[axis], smallest_miss[axis] = steps[axis], miss
            new_step = steps[axis] * np.clip(_TARGET_CHANGE / max(size, 1e-12), 1e-3, 30.0)
            new_step = float(np.clip(new_step, min_steps[axis], max(_MAX_STEP, min_steps[axis])))
            if miss > np.log(3.0) and new_step != steps[axis]:
                steps[axis] = new_step
                repeated.append(axis)
        axes = np.array(repeated, dtype=np.intp)
    width = next((len(each) for each in slopes if each is not None), 0)
    columns = [np.zeros(width) if each is None else each for each in slopes]
    return Sensitivity(np.array(columns).T.reshape(width, len(point)), chosen)
