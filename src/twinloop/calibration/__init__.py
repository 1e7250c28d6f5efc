"""Calibration: one Model fitted to many real runs, its spread, and what the data can tell.

    from twinloop.calibration import Fit, calibrate

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
    from twinloop.calibration.black_box.calibration import (
        Bench,
        BlackBoxObjective,
        Experiment,
        calibrate_black_box,
    )
    from twinloop.calibration.cases import Case
    from twinloop.calibration.fit import Fit
    from twinloop.calibration.parameters.parameters import (
        Categorical,
        Exponential,
        Linear,
        Ordered,
        Ordinal,
    )
    from twinloop.calibration.parameters.space import Space
    from twinloop.calibration.run import calibrate
    from twinloop.calibration.search.objective import TwinObjective
    from twinloop.calibration.search.search import Budget, History
    from twinloop.calibration.search.selection import chosen
    from twinloop.calibration.search.synthetic import Ranking, distance
    from twinloop.calibration.splits import hold_out

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
