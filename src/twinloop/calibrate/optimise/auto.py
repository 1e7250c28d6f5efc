"""Which optimiser suits a space, a budget and the cost of an evaluation."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from twinloop.calibrate.optimise.cma_es import Cma
from twinloop.calibrate.optimise.interface import Floats
from twinloop.calibrate.optimise.nelder_mead import NelderMead
from twinloop.calibrate.optimise.portfolio import Portfolio as _P
from twinloop.calibrate.optimise.powell import Powell
from twinloop.calibrate.optimise.quadratic import Quadratic
from twinloop.calibrate.optimise.evolution import DifferentialEvolution, Genetic

def cma(space, *, seed, budget, batch, points, losses):
    return Cma(space, seed=seed, budget=budget, batch=batch, start=points[0], spread=0.2)
def nm(space, *, seed, budget, batch, points, losses):
    return NelderMead(space, seed=seed, budget=budget, batch=batch, starts=list(points))
def pw(space, *, seed, budget, batch, points, losses):
    return Powell(space, seed=seed, budget=budget, batch=batch, starts=list(points))
def quad(space, *, seed, budget, batch, points, losses):
    q= Quadratic(space, seed=seed, budget=budget, batch=batch, start=points[0])
    q.learn(points, losses)
    return q
import os
ARMS=dict(cma=cma,nm=nm,pw=pw,quad=quad)
class Portfolio(_P):
    def __init__(self, space, **k):
        super().__init__(space, **k, members=[ARMS[a] for a in os.environ.get("ARMS","quad,nm,pw,cma").split(",")])
def de(space, *, seed, budget, batch, points, losses):
    return DifferentialEvolution(space, seed=seed, budget=budget, batch=batch)
def ga(space, *, seed, budget, batch, points, losses):
    return Genetic(space, seed=seed, budget=budget, batch=batch)
ARMS.update(de=de,ga=ga)
