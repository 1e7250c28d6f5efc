"""The noise floor of a loss: its value between repetitions of a real run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinloop.calibration.losses.loss import Loss, evaluate
from twinloop.calibration.run_columns import RunBatch, RunColumns
from twinloop.description.errors import InputError


def estimate_noise_floor(loss: Loss, reals: Sequence[RunColumns]) -> float | None:
    """Estimate the noise floor: the median loss of each repetition against the others.

    A simulator that drew another run from the same distribution would have this loss. A simulator
    that gives the mean of the repetitions has less: a half of it for two repetitions, 0.7 of it
    for many, if the loss is a mean of absolute differences. None if fewer than two repetitions can
    be compared.

    >>> from twinloop.calibration.losses import get_loss
    >>> reals = [RunBatch.of({"makespan_s": [m]}, [], [])[0] for m in (100.0, 102.0, 110.0)]
    >>> round(estimate_noise_floor(get_loss("makespan"), reals), 3)
    0.055
    """
    floors = []
    for left_out in range(len(reals)):
        others = [real for index, real in enumerate(reals) if index != left_out]
        if not others:
            return None
        try:
            losses, _ = evaluate(loss, others, RunBatch.of_runs([reals[left_out]]))
        except InputError:
            continue
        floors.append(losses[0])
    known = [each for each in floors if np.isfinite(each)]
    return float(np.median(known)) if known else None
