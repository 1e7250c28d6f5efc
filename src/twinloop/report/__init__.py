"""Pictures and words: what people would rather look at than read."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinloop.report.accessor import ConfirmationPlots as ConfirmationPlots
    from twinloop.report.accessor import FitPlots as FitPlots
    from twinloop.report.accessor import LoopPlots as LoopPlots
    from twinloop.report.accessor import Plots as Plots
    from twinloop.report.accessor import StudyPlots as StudyPlots
    from twinloop.report.accessor import VerdictPlots as VerdictPlots
    from twinloop.report.assessment import assessment_page as assessment_page
    from twinloop.report.assessment_figures import assessment_figures as assessment_figures
    from twinloop.report.calibration import calibration_page as calibration_page
    from twinloop.report.calibration_figures import calibration_figures as calibration_figures
    from twinloop.report.carbon import carbon as carbon
    from twinloop.report.confirmation import confirmation_page as confirmation_page
    from twinloop.report.curves import power as power
    from twinloop.report.curves import queue as queue
    from twinloop.report.curves import utilisation as utilisation
    from twinloop.report.curves import waits as waits
    from twinloop.report.gantt import gantt as gantt
    from twinloop.report.heat import heat as heat
    from twinloop.report.lateness import lateness as lateness
    from twinloop.report.load import load_figure as load_figure
    from twinloop.report.loop import loop_page as loop_page
    from twinloop.report.page import run_page as run_page
    from twinloop.report.sessions import sessions as sessions
    from twinloop.report.study import study_page as study_page
    from twinloop.report.study_figures import study_figures as study_figures
    from twinloop.report.svg import run_svg as run_svg
    from twinloop.report.terminal import load_chart as load_chart
    from twinloop.report.terminal import run_chart as run_chart
    from twinloop.report.tradeoff import pareto as pareto
    from twinloop.report.usage import usage as usage

# Each name is fetched when it is first used: most commands draw nothing, and so start at once.
_HOME = {
    "ConfirmationPlots": "accessor",
    "FitPlots": "accessor",
    "LoopPlots": "accessor",
    "Plots": "accessor",
    "StudyPlots": "accessor",
    "VerdictPlots": "accessor",
    "assessment_figures": "assessment_figures",
    "assessment_page": "assessment",
    "calibration_figures": "calibration_figures",
    "calibration_page": "calibration",
    "carbon": "carbon",
    "confirmation_page": "confirmation",
    "gantt": "gantt",
    "heat": "heat",
    "lateness": "lateness",
    "load_chart": "terminal",
    "load_figure": "load",
    "loop_page": "loop",
    "pareto": "tradeoff",
    "power": "curves",
    "queue": "curves",
    "run_chart": "terminal",
    "run_page": "page",
    "run_svg": "svg",
    "sessions": "sessions",
    "study_figures": "study_figures",
    "study_page": "study",
    "usage": "usage",
    "utilisation": "curves",
    "waits": "curves",
}

__all__ = [
    "ConfirmationPlots",
    "FitPlots",
    "LoopPlots",
    "Plots",
    "StudyPlots",
    "VerdictPlots",
    "assessment_figures",
    "assessment_page",
    "calibration_figures",
    "calibration_page",
    "carbon",
    "confirmation_page",
    "gantt",
    "heat",
    "lateness",
    "load_chart",
    "load_figure",
    "loop_page",
    "pareto",
    "power",
    "queue",
    "run_chart",
    "run_page",
    "run_svg",
    "sessions",
    "study_figures",
    "study_page",
    "usage",
    "utilisation",
    "waits",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop.report' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twinloop.report.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """A package whose functions are not covered by the modules of the same names."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A module becomes an attribute of its package when it is loaded.
        if name in _HOME and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
