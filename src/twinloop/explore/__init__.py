"""What if: factors and levels, studies of many runs, rankings with their doubt, and the proof.

>>> import twinloop as tl
>>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
>>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
>>> study = tl.explore(scenario, {"policy": ["fifo", "fcfs", "easy"]})
>>> study.configurations.select("name", "makespan_s").rows()
[('fifo', 100.0), ('fcfs', 60.0), ('easy', 50.0)]
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinloop.explore.bundle import bundle as bundle
    from twinloop.explore.candidate import Candidate as Candidate
    from twinloop.explore.confirm import confirm as confirm
    from twinloop.explore.confirmation import Confirmation as Confirmation
    from twinloop.explore.confirmation import Recommendation as Recommendation
    from twinloop.explore.design import Configuration as Configuration
    from twinloop.explore.design import Design as Design
    from twinloop.explore.diagnosis import Diagnosis as Diagnosis
    from twinloop.explore.diagnosis import diagnose as diagnose
    from twinloop.explore.factors import Factor as Factor
    from twinloop.explore.loop import Loop as Loop
    from twinloop.explore.loop import loop as loop
    from twinloop.explore.objectives import Objective as Objective
    from twinloop.explore.ranking import Ranking as Ranking
    from twinloop.explore.run import Progress as Progress
    from twinloop.explore.run import explore as explore
    from twinloop.explore.study import Study as Study

# Each name is fetched when it is first used: who only looks at a study does not wait for the rest.
_HOME = {
    "Candidate": "candidate",
    "Configuration": "design",
    "Confirmation": "confirmation",
    "Design": "design",
    "Diagnosis": "diagnosis",
    "Factor": "factors",
    "Loop": "loop",
    "Objective": "objectives",
    "Progress": "run",
    "Ranking": "ranking",
    "Recommendation": "confirmation",
    "Study": "study",
    "bundle": "bundle",
    "confirm": "confirm",
    "diagnose": "diagnosis",
    "explore": "run",
    "loop": "loop",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop.explore' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twinloop.explore.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """A package that is called like its function, whose functions are not covered by modules."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return __getattr__("explore")(*args, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        # A module becomes an attribute of its package when it is loaded.
        if name in _HOME and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
