from .figures.assessment import assessment_figures
from .figures.calibration import calibration_figures
from .figures.carbon import carbon
from .figures.curves import power, queue, utilisation, waits
from .figures.gantt import gantt
from .figures.heat import heat
from .figures.lateness import lateness
from .figures.load import load_figure
from .figures.pareto import pareto
from .figures.sessions import sessions
from .figures.study import study_figures
from .figures.svg import run_svg
from .figures.terminal_chart import load_chart, run_chart
from .figures.usage import usage
from .pages.assessment import assessment_page
from .pages.calibration import calibration_page
from .pages.confirmation import confirmation_page
from .pages.loop import loop_page
from .pages.run import run_page
from .pages.study import study_page
from .plots import ConfirmationPlots, FitPlots, LoopPlots, Plots, StudyPlots, VerdictPlots
from .quantity_text import format_count, format_duration, format_number, format_size

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
    "format_count",
    "format_duration",
    "format_number",
    "format_size",
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
