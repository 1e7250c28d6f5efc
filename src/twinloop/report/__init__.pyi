from .figures.assessment import plot_assessment
from .figures.calibration import plot_calibration
from .figures.carbon import plot_carbon
from .figures.curves import plot_power, plot_queue, plot_utilisation, plot_waits
from .figures.detail_study import plot_detail_study
from .figures.execution_errors import plot_execution_errors
from .figures.gantt import plot_gantt
from .figures.heat import plot_heat
from .figures.instances import plot_instances
from .figures.lateness import plot_lateness
from .figures.load import plot_load
from .figures.lossmap import plot_lossmap
from .figures.pareto import plot_pareto
from .figures.power_states import plot_power_states
from .figures.sessions import plot_sessions
from .figures.study import plot_study
from .figures.study_svg import render_study_svg
from .figures.svg import render_run_svg
from .figures.terminal_chart import render_load_chart, render_run_chart
from .figures.transfers import plot_transfers
from .figures.usage import plot_usage
from .pages.assessment import write_assessment_page
from .pages.calibration import write_calibration_page
from .pages.confirmation import write_confirmation_page
from .pages.detail_study import write_detail_study_page
from .pages.execution_study import write_execution_study_page
from .pages.loop import write_loop_page
from .pages.run import write_run_page
from .pages.study import write_study_page
from .plots import (
    ConfirmationPlots,
    FitPlots,
    LoopPlots,
    Plots,
    StudyPlots,
    VerdictPlots,
)
from .quantity_text import format_count, format_duration, format_number, format_size

__all__ = [
    "ConfirmationPlots",
    "FitPlots",
    "LoopPlots",
    "Plots",
    "StudyPlots",
    "VerdictPlots",
    "format_count",
    "format_duration",
    "format_number",
    "format_size",
    "plot_assessment",
    "plot_calibration",
    "plot_carbon",
    "plot_detail_study",
    "plot_execution_errors",
    "plot_gantt",
    "plot_heat",
    "plot_instances",
    "plot_lateness",
    "plot_load",
    "plot_lossmap",
    "plot_pareto",
    "plot_power",
    "plot_power_states",
    "plot_queue",
    "plot_sessions",
    "plot_study",
    "plot_transfers",
    "plot_usage",
    "plot_utilisation",
    "plot_waits",
    "render_load_chart",
    "render_run_chart",
    "render_run_svg",
    "render_study_svg",
    "write_assessment_page",
    "write_calibration_page",
    "write_confirmation_page",
    "write_detail_study_page",
    "write_execution_study_page",
    "write_loop_page",
    "write_run_page",
    "write_study_page",
]
