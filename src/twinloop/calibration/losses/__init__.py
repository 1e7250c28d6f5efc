"""Losses: differences between the real runs of a scenario and the runs of its twin.

    from twinloop.calibration.losses import LOSSES, get_loss

    get_loss("matched")(reals, twin)         # a number per row of twin
    list(LOSSES)                             # all names

A loss compares one scenario; `aggregate` combines several. `loss_from_function` makes a loss of a
function, and `estimate_noise_floor` estimates the loss between repetitions of a real run.
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
from twinloop.calibration.losses.support import WORKFLOW_LOSSES, list_unsupported_losses
from twinloop.calibration.losses.user_function import loss_from_function

__all__ = [
    "DEFAULT_LOSS",
    "LOSSES",
    "NEEDS",
    "WORKFLOW_LOSSES",
    "Aggregation",
    "BuiltInLoss",
    "Loss",
    "LossValues",
    "aggregate",
    "compute_weight",
    "estimate_noise_floor",
    "evaluate",
    "get_loss",
    "list_unsupported_losses",
    "loss_from_function",
]
