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

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinloop.calibrate.black_box import Bench as Bench
    from twinloop.calibrate.black_box import BlackBoxObjective as BlackBoxObjective
    from twinloop.calibrate.black_box import Experiment as Experiment
    from twinloop.calibrate.black_box import calibrate_black_box as calibrate_black_box
    from twinloop.calibrate.cases import Case as Case
    from twinloop.calibrate.choosing import chosen as chosen
    from twinloop.calibrate.fit import Fit as Fit
    from twinloop.calibrate.objective import TwinObjective as TwinObjective
    from twinloop.calibrate.parameters import Categorical as Categorical
    from twinloop.calibrate.parameters import Exponential as Exponential
    from twinloop.calibrate.parameters import Linear as Linear
    from twinloop.calibrate.parameters import Ordered as Ordered
    from twinloop.calibrate.parameters import Ordinal as Ordinal
    from twinloop.calibrate.run import calibrate as calibrate
    from twinloop.calibrate.search import Budget as Budget
    from twinloop.calibrate.search import History as History
    from twinloop.calibrate.space import Space as Space
    from twinloop.calibrate.splits import hold_out as hold_out
    from twinloop.calibrate.synthetic import Ranking as Ranking
    from twinloop.calibrate.synthetic import distance as distance

# Each name is fetched when it is first used: who only needs parameters does not wait for the rest.
_HOME = {
    "Bench": "black_box",
    "BlackBoxObjective": "black_box",
    "Budget": "search",
    "Case": "cases",
    "Categorical": "parameters",
    "Experiment": "black_box",
    "Exponential": "parameters",
    "Fit": "fit",
    "History": "search",
    "Linear": "parameters",
    "Ordered": "parameters",
    "Ordinal": "parameters",
    "Ranking": "synthetic",
    "Space": "space",
    "TwinObjective": "objective",
    "calibrate": "run",
    "calibrate_black_box": "black_box",
    "chosen": "choosing",
    "distance": "synthetic",
    "hold_out": "splits",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop.calibrate' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twinloop.calibrate.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """The package is called like the function that it is for, so `twinloop.calibrate` is both."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return __getattr__("calibrate")(*args, **options)


sys.modules[__name__].__class__ = _Package
