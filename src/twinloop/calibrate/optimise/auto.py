import os
from twinloop.calibrate.optimise.cma_es import Cma
from twinloop.calibrate.optimise.nelder_mead import NelderMead
from twinloop.calibrate.optimise import portfolio as pf
from twinloop.calibrate.optimise.powell import Powell
from twinloop.calibrate.optimise.quadratic import Quadratic
from twinloop.calibrate.optimise.evolution import DifferentialEvolution, Genetic
ARMS=dict(cma=Cma,nm=NelderMead,pw=Powell,quad=Quadratic,de=DifferentialEvolution,ga=Genetic)
for k in ("_START","_ENOUGH","_TURN","_VISIT","_PATIENCE"):
    if k in os.environ: setattr(pf,k,float(os.environ[k]))
class Portfolio(pf.Portfolio):
    def __init__(self, space, **k):
        mixed=any(not p.ordered for p in space)
        arms=os.environ.get("ARMSX","pw,cma,quad") if mixed else os.environ.get("ARMS","quad,pw,nm,cma")
        super().__init__(space, **k, members=[ARMS[a] for a in arms.split(",")])
