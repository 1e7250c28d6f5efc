"""Calibration: one Model fitted to many real runs, its uncertainty and its identifiability.

    from twinloop.calibration import Fit, calibrate

    fit = calibrate([real, probe])              # values, confidence region, reasons of each change
    print(fit)
    twin = simulate(fit.apply(scenario))        # another scenario with the fitted values
    fit.save("fit"); Fit.load("fit")

The parts can be used on their own: parameters and `Space`, and in modules of their names `losses`,
`optimisers`, `search`, `uncertainty` and `identifiability`; `calibrate_black_box` takes any
simulator, and `calibrate_levels` compares versions of a scenario at several levels of detail.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
