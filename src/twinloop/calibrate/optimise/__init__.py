"""Optimisers behind one interface: ask for points of the unit cube, tell their losses."""

import importlib

_HOME = {
    "random": ("sampling", "Random"), "lhs": ("sampling", "LatinHypercube"),
    "sobol": ("sampling", "Sobol"), "grid": ("grid", "Grid"), "gradient": ("gradient", "Gradient"),
    "genetic": ("evolution", "Genetic"), "de": ("evolution", "DifferentialEvolution"),
    "cma": ("cma_es", "Cma"), "powell": ("powell", "Powell"),
    "nelder-mead": ("nelder_mead", "NelderMead"), "auto": ("auto", "Portfolio"),
    "portfolio": ("auto", "Portfolio"),
}
OPTIMISERS = _HOME


def make(name, space, *, seed, budget=None, batch=1):
    module, cls = _HOME[name]
    found = getattr(importlib.import_module(f"twinloop.calibrate.optimise.{module}"), cls)
    return found(space, seed=seed, budget=budget, batch=batch)


def choose(space, *, budget, seconds, cost):
    return "portfolio"
