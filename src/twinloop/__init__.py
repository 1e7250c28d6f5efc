"""Twinloop: a simulator of clusters and clouds that measures how far it can be trusted.

    import twinloop as tl

    trace = tl.read("log.swf.gz")        # any log, in any known format -> Trace
    print(tl.check(trace))               # the quality gate
    scenario = tl.load("scenario.yaml")  # platform + workload + source + policy + model + seed
    run = tl.simulate(scenario)          # simulated run -> Trace
    real = tl.execute(scenario)          # run with real processes -> Trace
    print(tl.assess(real, run))          # does the simulation match the real run?
    fit = tl.calibrate(real)             # fitted values of the model, with uncertainty
    study = tl.explore(scenario, factors, fit)    # what-if study: KPIs, rankings with uncertainty
    check = tl.confirm(study.top(3))     # run the best for real: which predictions hold?

The event-level kernel is in `twinloop.engine`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
