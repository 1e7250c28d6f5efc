"""Plot methods of traces, verdicts, fits, studies, confirmations and loops.

They are the attribute `plot` of a result: `trace.plot.gantt()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinloop.report.calibration_result import CalibrationResult
from twinloop.report.figures.assessment import (
    plot_completions,
    plot_power_segments,
    plot_power_trend,
    plot_usage_comparison,
    plot_wait_comparison,
)
from twinloop.report.figures.calibration import plot_convergence, plot_intervals
from twinloop.report.figures.carbon import plot_carbon
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.confidence_region import plot_confidence_region
from twinloop.report.figures.confirmation import plot_course, plot_differences, plot_ranks
from twinloop.report.figures.curves import plot_power, plot_queue, plot_utilisation, plot_waits
from twinloop.report.figures.gantt import plot_gantt
from twinloop.report.figures.heat import plot_heat
from twinloop.report.figures.instances import plot_instances
from twinloop.report.figures.lateness import plot_lateness
from twinloop.report.figures.load import plot_load
from twinloop.report.figures.pareto import plot_pareto
from twinloop.report.figures.power_states import plot_power_states
from twinloop.report.figures.sessions import plot_sessions
from twinloop.report.figures.study import plot_effects, plot_interactions
from twinloop.report.figures.transfers import plot_transfers
from twinloop.report.figures.usage import plot_usage
from twinloop.report.pages.assessment import write_assessment_page
from twinloop.report.pages.calibration import write_calibration_page
from twinloop.report.pages.confirmation import write_confirmation_page
from twinloop.report.pages.loop import ClosedLoop, write_loop_page
from twinloop.report.pages.run import write_run_page
from twinloop.report.pages.study import write_study_page
from twinloop.trace import Trace

if TYPE_CHECKING:
    import polars as pl
    from plotly.graph_objects import Figure

    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.exploration.ranking.objectives import Objective
    from twinloop.exploration.study.study import Study
    from twinloop.fidelity.verdict import Verdict


class Plots:
    """The figures of a trace, `trace.plot`: Plotly figures, which notebooks show.

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [2.0], "start": [0.0],
    ...     "end": [5.0]}))
    >>> trace.plot
    <figures of a trace: carbon, gantt, heat, instances, lateness, load, page, power, ...>
    >>> trace.plot.utilisation().data[0].y.tolist()
    [2.0, 0.0]
    """

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def gantt(
        self, *, colour: ColourBy | None = None, window: tuple[float, float] | None = None
    ) -> Figure:
        """Tasks on machines over time; see `plot_gantt`."""
        return plot_gantt(self._trace, colour=colour, window=window)

    def queue(self) -> Figure:
        """Waiting tasks and their requested cores over time; see `plot_queue`."""
        return plot_queue(self._trace)

    def utilisation(self) -> Figure:
        """Cores in use over time; see `plot_utilisation`."""
        return plot_utilisation(self._trace)

    def usage(self) -> Figure:
        """CPU use over time, per node; see `plot_usage`."""
        return plot_usage(self._trace)

    def power(self) -> Figure:
        """Power over time; see `plot_power`."""
        return plot_power(self._trace)

    def waits(self) -> Figure:
        """The distribution of the waits; see `plot_waits`."""
        return plot_waits(self._trace)

    def heat(self) -> Figure:
        """Utilisation of each machine over time, as a heat map; see `plot_heat`."""
        return plot_heat(self._trace)

    def instances(self, *, window: tuple[float, float] | None = None) -> Figure:
        """Rented instances on hosts over time, by state; see `plot_instances`."""
        return plot_instances(self._trace, window=window)

    def power_states(self) -> Figure:
        """Power over time, stacked by the state of the hosts; see `plot_power_states`."""
        return plot_power_states(self._trace)

    def transfers(self) -> Figure:
        """Bandwidth in use of each port and link, as a heat map; see `plot_transfers`."""
        return plot_transfers(self._trace)

    def carbon(self, intensity: float | pl.DataFrame | None = None) -> Figure:
        """Carbon emissions over time; see `plot_carbon`."""
        return plot_carbon(self._trace, intensity)

    def lateness(self) -> Figure:
        """Lateness of each user; see `plot_lateness`."""
        return plot_lateness(self._trace)

    def sessions(self, user: str | None = None, *, threshold: float = 3600.0) -> Figure:
        """The session graph of a user; see `plot_sessions`."""
        return plot_sessions(self._trace, user, threshold=threshold)

    def load(self) -> Figure:
        """Cores in use, CPU use and submitted work over time; see `plot_load`."""
        return plot_load(self._trace)

    def page(self, path: str | Path) -> Path:
        """Write all figures into one HTML file; see `write_run_page`."""
        return write_run_page(self._trace, path)

    def __repr__(self) -> str:
        return f"<figures of a trace: {_list_methods(self)}>"


class VerdictPlots:
    """The figures of an assessment, `verdict.plot`.

    A figure without data raises an error that names the missing data.

    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> curve = pl.DataFrame({"t": [5.0], "real": [1], "twin": [2], "lagged": [2], "residual": [1]})
    >>> plots = VerdictPlots(SimpleNamespace(series={"completions": curve}, findings=()))
    >>> plots
    <figures of an assessment: completions, page, segments, trend, usage, waits>
    >>> plots.completions().data[2].y.tolist()
    [1.0]
    """

    __slots__ = ("_verdict",)

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def waits(self) -> Figure:
        """The distributions of the wait times, and twin minus real."""
        return plot_wait_comparison(self._verdict)

    def completions(self) -> Figure:
        """The tasks completed over time, and twin minus real."""
        return plot_completions(self._verdict)

    def usage(self) -> Figure:
        """The CPU usage of the twin over the real one."""
        return plot_usage_comparison(self._verdict)

    def trend(self) -> Figure:
        """The z-scores of the power over time, and twin minus real."""
        return plot_power_trend(self._verdict)

    def segments(self) -> Figure:
        """The correlation of each segment of the power, and its lag."""
        return plot_power_segments(self._verdict)

    def page(self, path: str | Path) -> Path:
        """Write all figures and the verdict into one HTML file; see `write_assessment_page`."""
        return write_assessment_page(self._verdict, path)

    def __repr__(self) -> str:
        return f"<figures of an assessment: {_list_methods(self)}>"


class FitPlots:
    """The figures of a calibration, `fit.plot`.

    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> history = pl.DataFrame({"loss": [4.0, 2.0], "best": [4.0, 2.0]})
    >>> fit = SimpleNamespace(history=history, loss_before=4.0)
    >>> FitPlots(fit)
    <figures of a calibration: confidence_region, history, intervals, page>
    >>> FitPlots(fit).history().data[0].y.tolist()
    [4.0, 2.0]
    """

    __slots__ = ("_fit",)

    def __init__(self, fit: CalibrationResult) -> None:
        self._fit = fit

    def history(self) -> Figure:
        """The loss of each evaluation, and the best so far."""
        return plot_convergence(self._fit)

    def confidence_region(self) -> Figure:
        """The acceptable set: parameter values around the fit, coloured by their loss."""
        return plot_confidence_region(self._fit)

    def intervals(self) -> Figure:
        """The interval of acceptable values of each parameter."""
        return plot_intervals(self._fit)

    def page(self, path: str | Path) -> Path:
        """Write all figures into one HTML file; see `write_calibration_page`."""
        return write_calibration_page(self._fit, path)

    def __repr__(self) -> str:
        return f"<figures of a calibration: {_list_methods(self)}>"


class StudyPlots:
    """The figures of a study, `study.plot`.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> study.plot
    <figures of a study: effects, interactions, page, pareto>
    >>> list(study.plot.effects().data[0].x)
    [100.0, 50.0]
    """

    __slots__ = ("_study",)

    def __init__(self, study: Study) -> None:
        self._study = study

    def pareto(self, *objectives: str | Objective) -> Figure:
        """A point per configuration over two objectives, and the front; see `plot_pareto`."""
        return plot_pareto(self._study, *objectives)

    def effects(self, kpi: str | None = None) -> Figure:
        """The effect of each level of each factor on a KPI; see `plot_effects`."""
        return plot_effects(self._study, kpi)

    def interactions(self, kpi: str | None = None) -> Figure:
        """The interactions of two factors; see `plot_interactions`."""
        return plot_interactions(self._study, kpi)

    def page(self, path: str | Path) -> Path:
        """Write all figures into one HTML file; see `write_study_page`."""
        return write_study_page(self._study, path)

    def __repr__(self) -> str:
        return f"<figures of a study: {_list_methods(self)}>"


class ConfirmationPlots:
    """The figures of a confirmation, `confirmation.plot`.

    >>> from twinloop.report.examples import make_confirmation
    >>> ConfirmationPlots(make_confirmation())
    <figures of a confirmation: course, differences, page, ranks>
    """

    __slots__ = ("_confirmation",)

    def __init__(self, confirmation: Confirmation) -> None:
        self._confirmation = confirmation

    def differences(self, metric: str | None = None) -> Figure:
        """The measured difference of each candidate to the baseline; see `plot_differences`."""
        return plot_differences(self._confirmation, metric)

    def ranks(self, metric: str | None = None) -> Figure:
        """The predicted and the measured ranking; see `plot_ranks`."""
        return plot_ranks(self._confirmation, metric)

    def course(self, metric: str | None = None) -> Figure:
        """The result of each run in the order of execution; see `plot_course`."""
        return plot_course(self._confirmation, metric)

    def page(self, path: str | Path) -> Path:
        """Write all figures into one HTML file; see `write_confirmation_page`."""
        return write_confirmation_page(self._confirmation, path)

    def __repr__(self) -> str:
        return f"<figures of a confirmation: {_list_methods(self)}>"


class LoopPlots:
    """The page of a loop, `loop.plot`; the parts of a loop have figures of their own.

    >>> LoopPlots(None)
    <figures of a loop: page>
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    def page(self, path: str | Path) -> Path:
        """Write the whole loop into one HTML file; see `write_loop_page`."""
        return write_loop_page(self._loop, path)

    def __repr__(self) -> str:
        return f"<figures of a loop: {_list_methods(self)}>"


def _list_methods(plots: object) -> str:
    return ", ".join(sorted(name for name in vars(type(plots)) if not name.startswith("_")))
