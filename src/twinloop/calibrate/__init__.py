"""Calibration: one Model fitted to many real runs, its spread, and what the data can tell.

    from twinloop.calibrate import Fit, calibrate

    fit = calibrate([real, probe])              # the values, how sure they are, what moved and why
    print(fit)
    twin = simulate(fit.apply(scenario))        # another scenario with the fitted values
    fit.save("fit"); Fit.load("fit")

The parts can be used on their own: parameters and `Space`, and in modules of their names `losses`,
`optimise`, `search`, `cloud`, `identify` and `synthetic`; `calibrate_black_box` takes any
simulator.
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.calibrate.black_box import (
        Bench,
        BlackBoxObjective,
        Experiment,
        calibrate_black_box,
    )
    from twinloop.calibrate.cases import Case
    from twinloop.calibrate.choosing import chosen
    from twinloop.calibrate.fit import Fit
    from twinloop.calibrate.objective import TwinObjective
    from twinloop.calibrate.parameters import Categorical, Exponential, Linear, Ordered, Ordinal
    from twinloop.calibrate.run import calibrate
    from twinloop.calibrate.search import Budget, History
    from twinloop.calibrate.space import Space
    from twinloop.calibrate.splits import hold_out
    from twinloop.calibrate.synthetic import Ranking, distance

__all__ = [
    "Bench",
    "BlackBoxObjective",
    "Budget",
    "Case",
    "Categorical",
    "Experiment",
    "Exponential",
    "Fit",
    "History",
    "Linear",
    "Ordered",
    "Ordinal",
    "Ranking",
    "Space",
    "TwinObjective",
    "calibrate",
    "calibrate_black_box",
    "chosen",
    "distance",
    "hold_out",
]

defer_imports(__name__)
