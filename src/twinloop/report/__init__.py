"""Pictures and words: what people would rather look at than read."""

from twinloop.report.accessor import Plots
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.gantt import gantt
from twinloop.report.load import load_figure
from twinloop.report.page import run_page
from twinloop.report.svg import run_svg
from twinloop.report.terminal import load_chart, run_chart
from twinloop.report.usage import usage

__all__ = [
    "Plots",
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
