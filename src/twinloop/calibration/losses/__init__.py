"""Losses: how unlike the real runs of a scenario the runs of its twin are.

    from twinloop.calibration.losses import LOSSES, loss_named

    loss_named("matched")(reals, twin)       # a number per row of twin
    list(LOSSES)                             # all names

A loss compares one scenario; `aggregate` puts several together. `loss_from_function` makes a loss
of a function, and `estimate_noise_floor` says what a perfect simulator would score.
"""

from twinloop.calibration.losses.loss import (
    NEEDS,
    Aggregation,
    BuiltInLoss,
    Loss,
    LossValues,
    aggregate,
    compute_weight,
    evaluate,
)
from twinloop.calibration.losses.noise_floor import estimate_noise_floor
from twinloop.calibration.losses.registry import DEFAULT_LOSS, LOSSES, get_loss
from twinloop.calibration.losses.user_function import loss_from_function

__all__ = [
    "DEFAULT_LOSS",
    "LOSSES",
    "NEEDS",
    "Aggregation",
    "BuiltInLoss",
    "Loss",
    "LossValues",
    "aggregate",
    "compute_weight",
    "estimate_noise_floor",
    "evaluate",
    "get_loss",
    "loss_from_function",
]
