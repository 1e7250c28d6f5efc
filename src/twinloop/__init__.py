"""Twinloop: a simulator of clusters and clouds that knows how far it can be trusted.

    import twinloop as tl

    trace = tl.read("log.swf.gz")        # any log, in any known format -> Trace
    print(tl.check(trace))               # the quality gate
    scenario = tl.load("scenario.yaml")  # platform + workload + source + policy + model + seed
    run = tl.simulate(scenario)          # what would happen -> Trace
    real = tl.execute(scenario)          # what happens, with real processes -> Trace
    print(tl.assess(real, run))          # how far the one can be trusted to be the other
    fit = tl.calibrate(real)             # the values that make it so, and how sure they are
    study = tl.explore(scenario, factors, fit)    # what if: a table of KPIs, each with its doubt
    check = tl.confirm(study.top(3))     # run the best for real, and say which of them hold

The event-level kernel is in `twinloop.engine`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from twinloop.calibrate import Fit as Fit
    from twinloop.calibrate import calibrate as calibrate
    from twinloop.engine import Simulation as Simulation
    from twinloop.engine import simulate as simulate
    from twinloop.execute import execute as execute
    from twinloop.explore import Study as Study
    from twinloop.explore import confirm as confirm
    from twinloop.explore import explore as explore
    from twinloop.explore import loop as loop
    from twinloop.fidelity import assess as assess
    from twinloop.platform import Platform as Platform
    from twinloop.scenario import Model as Model
    from twinloop.scenario import Scenario as Scenario
    from twinloop.scenario import load as load
    from twinloop.scenario import replaying as replaying
    from twinloop.trace import InputError as InputError
    from twinloop.trace import Trace as Trace
    from twinloop.trace import TwinloopError as TwinloopError
    from twinloop.trace import check as check
    from twinloop.trace import read as read
    from twinloop.trace import repair as repair
    from twinloop.trace import write as write
    from twinloop.workload import SessionGraphs as SessionGraphs
    from twinloop.workload import Workload as Workload
    from twinloop.workload.generate import generate as generate

# Each name is fetched when it is first used: `import twinloop` alone costs nothing.
_HOME = {
    "Fit": "calibrate",
    "InputError": "trace",
    "Model": "scenario",
    "Platform": "platform",
    "Scenario": "scenario",
    "SessionGraphs": "workload",
    "Simulation": "engine",
    "Study": "explore",
    "Trace": "trace",
    "TwinloopError": "trace",
    "Workload": "workload",
    "assess": "fidelity",
    "calibrate": "calibrate",
    "check": "trace",
    "confirm": "explore",
    "execute": "execute",
    "explore": "explore",
    "generate": "workload.generate",
    "load": "scenario",
    "loop": "explore",
    "read": "trace",
    "repair": "trace",
    "replaying": "scenario",
    "simulate": "engine",
    "write": "trace",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twinloop.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
