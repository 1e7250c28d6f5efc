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

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from twinloop.calibration import Fit, calibrate
    from twinloop.engine import Simulation, simulate
    from twinloop.execution import execute
    from twinloop.exploration import Study, confirm, explore, loop
    from twinloop.fidelity import assess
    from twinloop.platform import Platform
    from twinloop.scenario import Model, Scenario, load, replaying
    from twinloop.trace import InputError, Trace, TwinloopError, check, read, repair, write
    from twinloop.workload import SessionGraphs, Workload
    from twinloop.workload.generators import generate

__all__ = [
    "Fit",
    "InputError",
    "Model",
    "Platform",
    "Scenario",
    "SessionGraphs",
    "Simulation",
    "Study",
    "Trace",
    "TwinloopError",
    "Workload",
    "__version__",
    "assess",
    "calibrate",
    "check",
    "confirm",
    "execute",
    "explore",
    "generate",
    "load",
    "loop",
    "read",
    "repair",
    "replaying",
    "simulate",
    "write",
]

defer_imports(__name__)
