from .accessor import (
    ConfirmationPlots,
    FitPlots,
    LoopPlots,
    Plots,
    StudyPlots,
    VerdictPlots,
)
from .assessment import assessment_page
from .assessment_figures import assessment_figures
from .calibration import calibration_page
from .calibration_figures import calibration_figures
from .carbon import carbon
from .confirmation import confirmation_page
from .curves import power, queue, utilisation, waits
from .gantt import gantt
from .heat import heat
from .lateness import lateness
from .load import load_figure
from .loop import loop_page
from .page import run_page
from .sessions import sessions
from .study import study_page
from .study_figures import study_figures
from .svg import run_svg
from .terminal import load_chart, run_chart
from .tradeoff import pareto
from .usage import usage

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
