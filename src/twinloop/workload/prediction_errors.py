"""Errors of predicted run times: tasks run longer or shorter than their users predict."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from twinloop.description.description import Description
from twinloop.description.quantities import LogSpread, Positive
from twinloop.workload.generators.elementary import Floats, exp
from twinloop.workload.generators.random_stream import RandomStream


class PredictionErrors(Description):
    """Random errors of the run times that users predict, in place of recorded run times.

    A task runs for its requested time x factor x a lognormal number of the run x one of the task,
    both with median 1.

    >>> PredictionErrors(factor=1.2, spread=0.3).run_spread
    0.0
    """

    factor: Positive = Field(1.0, description="median of the run time / the requested time")
    spread: LogSpread = Field(
        0.0, description="standard deviation of the logarithm, between tasks of a run"
    )
    run_spread: LogSpread = Field(
        0.0, description="standard deviation of the logarithm, between runs: common to all tasks"
    )


def draw_errors(errors: PredictionErrors, count: int, seed: int) -> Floats:
    """Draw the factor of the predicted run time of each of `count` tasks.

    >>> draw_errors(PredictionErrors(factor=2.0), 3, seed=0).tolist()
    [2.0, 2.0, 2.0]
    """
    random = RandomStream(seed, "errors of predictions")
    common = random.normal(1)[0] * errors.run_spread
    return np.asarray(errors.factor * exp(common + random.normal(count) * errors.spread))
