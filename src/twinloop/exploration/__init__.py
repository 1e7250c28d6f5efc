"""What if: factors and levels, studies of many runs, rankings with their doubt, and the proof.

>>> import twinloop as tl
>>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
>>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
>>> study = tl.explore(scenario, {"policy": ["fifo", "fcfs", "easy"]})
>>> study.configurations.select("name", "makespan_s").rows()
[('fifo', 100.0), ('fcfs', 60.0), ('easy', 50.0)]
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.exploration.closed_loop.result import Loop
    from twinloop.exploration.closed_loop.run import loop
    from twinloop.exploration.confirmation.bundles import bundle
    from twinloop.exploration.confirmation.diagnosis import Diagnosis, diagnose
    from twinloop.exploration.confirmation.result import Confirmation, Recommendation
    from twinloop.exploration.confirmation.run import confirm
    from twinloop.exploration.factors.design import Configuration, Design
    from twinloop.exploration.factors.factors import Factor
    from twinloop.exploration.ranking.candidate import Candidate
    from twinloop.exploration.ranking.objectives import Objective
    from twinloop.exploration.ranking.ranking import Ranking
    from twinloop.exploration.study.run import Progress, explore
    from twinloop.exploration.study.study import Study

__all__ = [
    "Candidate",
    "Configuration",
    "Confirmation",
    "Design",
    "Diagnosis",
    "Factor",
    "Loop",
    "Objective",
    "Progress",
    "Ranking",
    "Recommendation",
    "Study",
    "bundle",
    "confirm",
    "diagnose",
    "explore",
    "loop",
]

defer_imports(__name__)
