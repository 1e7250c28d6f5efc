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
    from twinloop.explore.bundle import bundle
    from twinloop.explore.candidate import Candidate
    from twinloop.explore.confirm import confirm
    from twinloop.explore.confirmation import Confirmation, Recommendation
    from twinloop.explore.design import Configuration, Design
    from twinloop.explore.diagnosis import Diagnosis, diagnose
    from twinloop.explore.factors import Factor
    from twinloop.explore.loop import loop
    from twinloop.explore.loop_result import Loop
    from twinloop.explore.objectives import Objective
    from twinloop.explore.ranking import Ranking
    from twinloop.explore.run import Progress, explore
    from twinloop.explore.study import Study

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
