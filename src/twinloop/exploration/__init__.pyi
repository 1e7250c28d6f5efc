from .closed_loop.result import Loop
from .closed_loop.run import loop
from .confirmation.bundles import bundle
from .confirmation.diagnosis import Diagnosis, diagnose
from .confirmation.result import Confirmation, Recommendation
from .confirmation.run import confirm
from .executions.design import ExecutionDesign, SimulationSet
from .executions.run import explore_executions
from .executions.study import ExecutionStudy
from .factors.design import Configuration, Design
from .factors.factors import Factor
from .ranking.candidate import Candidate
from .ranking.objectives import Objective
from .ranking.ranking import Ranking
from .study.progress import StudyProgress
from .study.run import explore
from .study.study import Study

__all__ = [
    "Candidate",
    "Configuration",
    "Confirmation",
    "Design",
    "Diagnosis",
    "ExecutionDesign",
    "ExecutionStudy",
    "Factor",
    "Loop",
    "Objective",
    "Ranking",
    "Recommendation",
    "SimulationSet",
    "Study",
    "StudyProgress",
    "bundle",
    "confirm",
    "diagnose",
    "explore",
    "explore_executions",
    "loop",
]
