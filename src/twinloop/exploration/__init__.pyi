from .closed_loop.result import Loop
from .closed_loop.run import loop
from .confirmation.bundles import bundle
from .confirmation.diagnosis import Diagnosis, diagnose
from .confirmation.result import Confirmation, Recommendation
from .confirmation.run import confirm
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
    "Factor",
    "Loop",
    "Objective",
    "Ranking",
    "Recommendation",
    "Study",
    "StudyProgress",
    "bundle",
    "confirm",
    "diagnose",
    "explore",
    "loop",
]
