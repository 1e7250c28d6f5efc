"""Local sensitivity of the outputs, and the directions in which it is weak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.uncertainty.evaluation_count import Evaluations

Floats = NDArray[np.float64]

#: The aimed change of the outputs in a step, over their noise: smaller steps are dominated by the
#: roughness of a simulation, larger ones are not local.
_TARGET: Final = 3.0
_LARGEST_STEP: Final = 0.25
_SMALLEST_STEP: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The Jacobian of the outputs over their noise, by coordinates of the unit cube."""

    jacobian: Floats
    steps: Floats

    def weak(self, reach: float) -> Floats:
        """Directions (rows) in which a move by `reach` changes the outputs by less than noise.

        The right singular vectors of the Jacobian with a singular value below 1 / reach.

        >>> slopes = np.array([[100.0, 100.0, 0.0], [0.0, 0.0, 50.0]])
        >>> abs(Sensitivity(slopes, np.full(3, 0.01)).weak(0.05)).round(3).tolist()
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

    At the ends of the range they are one-sided. The slope of a parameter without order is 0.

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
    least = np.array([1.0 / each.levels if each.levels else _SMALLEST_STEP for each in parameters])
    steps = np.maximum(0.01, least)
    chosen = steps.copy()
    slopes: list[Floats | None] = [None] * len(point)
    miss = np.full(len(point), np.inf)
    todo = np.flatnonzero(ordered)
    for _ in range(4):
        if not len(todo):
            break
        up, down = (np.tile(point, (len(todo), 1)) for _ in range(2))
        rows = np.arange(len(todo))
        up[rows, todo] = np.minimum(point[todo] + steps[todo], 1.0)
        down[rows, todo] = np.maximum(point[todo] - steps[todo], 0.0)
        outputs = evaluations.outputs(np.vstack([up, down]))
        assert outputs is not None
        scaled = outputs / noise
        again = []
        for row, axis in enumerate(todo):
            change = scaled[row] - scaled[len(todo) + row]
            size = float(np.linalg.norm(np.nan_to_num(change)))
            off = abs(np.log(max(size, 1e-12) / _TARGET))
            if slopes[axis] is None or off < miss[axis]:
                span = up[row, axis] - down[row, axis]
                slopes[axis] = np.nan_to_num(change / span)
                chosen[axis], miss[axis] = steps[axis], off
            wanted = steps[axis] * np.clip(_TARGET / max(size, 1e-12), 1e-3, 30.0)
            wanted = float(np.clip(wanted, least[axis], max(_LARGEST_STEP, least[axis])))
            if off > np.log(3.0) and wanted != steps[axis]:
                steps[axis] = wanted
                again.append(axis)
        todo = np.array(again, dtype=np.intp)
    width = next((len(each) for each in slopes if each is not None), 0)
    columns = [np.zeros(width) if each is None else each for each in slopes]
    return Sensitivity(np.array(columns).T.reshape(width, len(point)), chosen)
