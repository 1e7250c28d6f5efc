"""Pictures and words: what people would rather look at than read."""

from twinloop.report.accessor import Plots, VerdictPlots
from twinloop.report.assessment import assessment_page
from twinloop.report.assessment_figures import assessment_figures
from twinloop.report.calibration import calibration_page
from twinloop.report.calibration_figures import calibration_figures
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.gantt import gantt
from twinloop.report.load import load_figure
from twinloop.report.page import run_page
from twinloop.report.svg import run_svg
from twinloop.report.terminal import load_chart, run_chart
from twinloop.report.usage import usage

__all__ = [
    "Plots",
    "VerdictPlots",
    "assessment_figures",
    "assessment_page",
    "calibration_figures",
    "calibration_page",
    "gantt",
    "load_chart",
    "load_figure",
    "power",
    "queue",
    "run_chart",
    "run_page",
    "run_svg",
    "usage",
    "utilisation",
    "waits",
]
