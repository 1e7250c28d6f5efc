"""Pictures and words: what people would rather look at than read."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.report import words as words
    from twinloop.report.accessor import (
        ConfirmationPlots,
        FitPlots,
        LoopPlots,
        Plots,
        StudyPlots,
        VerdictPlots,
    )
    from twinloop.report.assessment import assessment_page
    from twinloop.report.assessment_figures import assessment_figures
    from twinloop.report.calibration import calibration_page
    from twinloop.report.calibration_figures import calibration_figures
    from twinloop.report.carbon import carbon
    from twinloop.report.confirmation import confirmation_page
    from twinloop.report.curves import power, queue, utilisation, waits
    from twinloop.report.gantt import gantt
    from twinloop.report.heat import heat
    from twinloop.report.lateness import lateness
    from twinloop.report.load import load_figure
    from twinloop.report.loop import loop_page
    from twinloop.report.page import run_page
    from twinloop.report.sessions import sessions
    from twinloop.report.study import study_page
    from twinloop.report.study_figures import study_figures
    from twinloop.report.svg import run_svg
    from twinloop.report.terminal import load_chart, run_chart
    from twinloop.report.tradeoff import pareto
    from twinloop.report.usage import usage

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

defer_imports(__name__)
