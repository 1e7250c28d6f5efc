"""Losses: how unlike the real runs of a scenario the runs of its twin are.

    from twinloop.calibration.losses import LOSSES, loss_named

    loss_named("matched")(reals, twin)       # a number per row of twin
    list(LOSSES)                             # all names

A loss compares one scenario; `aggregate` puts several together. `custom` makes a loss of a
function, and `floor` says what a perfect simulator would score.
"""

from twinloop.calibration.losses.loss import (
    NEEDS,
    Aggregation,
    BuiltIn,
    Loss,
    Scored,
    aggregate,
    evaluate,
    weight,
)
from twinloop.calibration.losses.noise_floor import floor
from twinloop.calibration.losses.registry import DEFAULT, LOSSES, loss_named
from twinloop.calibration.losses.user_function import custom

__all__ = [
    "DEFAULT",
    "LOSSES",
    "NEEDS",
    "Aggregation",
    "BuiltIn",
    "Loss",
    "Scored",
    "aggregate",
    "custom",
    "evaluate",
    "floor",
    "loss_named",
    "weight",
]
