"""Pictures of a trace, a verdict, a fit, a study... as its own: `trace.plot.gantt()`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinloop.report.calibration_result import Fitted
from twinloop.report.figures.acceptable_set import cloud
from twinloop.report.figures.assessment import completions, segments, trend
from twinloop.report.figures.assessment import usage as usage_of_both
from twinloop.report.figures.assessment import waits as waits_of_both
from twinloop.report.figures.calibration import convergence, intervals
from twinloop.report.figures.carbon import carbon
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.confirmation import course, differences, ranks
from twinloop.report.figures.curves import power, queue, utilisation, waits
from twinloop.report.figures.gantt import gantt
from twinloop.report.figures.heat import heat
from twinloop.report.figures.lateness import lateness
from twinloop.report.figures.load import load_figure
from twinloop.report.figures.pareto import pareto
from twinloop.report.figures.sessions import sessions
from twinloop.report.figures.study import effects, interactions
from twinloop.report.figures.usage import usage
from twinloop.report.pages.assessment import assessment_page
from twinloop.report.pages.calibration import calibration_page
from twinloop.report.pages.confirmation import confirmation_page
from twinloop.report.pages.loop import Looped, loop_page
from twinloop.report.pages.run import run_page
from twinloop.report.pages.study import study_page
from twinloop.trace import Trace

if TYPE_CHECKING:
    import polars as pl
    from plotly.graph_objects import Figure

    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.exploration.ranking.objectives import Objective
    from twinloop.exploration.study.study import Study
    from twinloop.fidelity.verdict import Verdict


class Plots:
    """The pictures of a trace, as `trace.plot` gives them: Plotly figures, shown by notebooks.

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [2.0], "start": [0.0],
    ...     "end": [5.0]}))
    >>> trace.plot
    <pictures of a trace: carbon, gantt, heat, lateness, load, page, power, queue, sessions, ...>
    >>> trace.plot.utilisation().data[0].y.tolist()
    [2.0, 0.0]
    """

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def gantt(
        self, *, colour: ColourBy | None = None, window: tuple[float, float] | None = None
    ) -> Figure:
        """Tasks on machines over time; see `gantt`."""
        return gantt(self._trace, colour=colour, window=window)

    def queue(self) -> Figure:
        """Waiting tasks, and the cores they wait for, over time; see `queue`."""
        return queue(self._trace)

    def utilisation(self) -> Figure:
        """Cores in use over time; see `utilisation`."""
        return utilisation(self._trace)

    def usage(self) -> Figure:
        """CPU use over time, on each node; see `usage`."""
        return usage(self._trace)

    def power(self) -> Figure:
        """Power over time; see `power`."""
        return power(self._trace)

    def waits(self) -> Figure:
        """The distribution of the waits; see `waits`."""
        return waits(self._trace)

    def heat(self) -> Figure:
        """How busy each machine was over time, as a map; see `heat`."""
        return heat(self._trace)

    def carbon(self, intensity: float | pl.DataFrame | None = None) -> Figure:
        """The carbon of the power over time; see `carbon`."""
        return carbon(self._trace, intensity)

    def lateness(self) -> Figure:
        """How late each user was; see `lateness`."""
        return lateness(self._trace)

    def sessions(self, user: str | None = None, *, threshold: float = 3600.0) -> Figure:
        """The session graph of a user; see `sessions`."""
        return sessions(self._trace, user, threshold=threshold)

    def load(self) -> Figure:
        """Cores in use, cores busy and work submitted over time; see `load_figure`."""
        return load_figure(self._trace)

    def page(self, path: str | Path) -> Path:
        """All of them in one file; see `run_page`."""
        return run_page(self._trace, path)

    def __repr__(self) -> str:
        return f"<pictures of a trace: {_names(self)}>"


class VerdictPlots:
    """The pictures of an assessment, as `verdict.plot` gives them.

    A picture that there are no data for is an error that says what is missing.

    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> curve = pl.DataFrame({"t": [5.0], "real": [1], "twin": [2], "lagged": [2], "residual": [1]})
    >>> plots = VerdictPlots(SimpleNamespace(series={"completions": curve}, findings=()))
    >>> plots
    <pictures of an assessment: completions, page, segments, trend, usage, waits>
    >>> plots.completions().data[2].y.tolist()
    [1.0]
    """

    __slots__ = ("_verdict",)

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def waits(self) -> Figure:
        """The distributions of the waits, and twin minus real."""
        return waits_of_both(self._verdict)

    def completions(self) -> Figure:
        """The tasks completed over time, and twin minus real."""
        return completions(self._verdict)

    def usage(self) -> Figure:
        """The CPU usage of the twin over the real one."""
        return usage_of_both(self._verdict)

    def trend(self) -> Figure:
        """The z-scores of the power over time, and twin minus real."""
        return trend(self._verdict)

    def segments(self) -> Figure:
        """The correlation of each segment of the power, and its lag."""
        return segments(self._verdict)

    def page(self, path: str | Path) -> Path:
        """All of them in one file, with the verdict; see `assessment_page`."""
        return assessment_page(self._verdict, path)

    def __repr__(self) -> str:
        return f"<pictures of an assessment: {_names(self)}>"


class FitPlots:
    """The pictures of a calibration, as `fit.plot` gives them.

    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> history = pl.DataFrame({"loss": [4.0, 2.0], "best": [4.0, 2.0]})
    >>> fit = SimpleNamespace(history=history, loss_before=4.0)
    >>> FitPlots(fit)
    <pictures of a calibration: cloud, history, intervals, page>
    >>> FitPlots(fit).history().data[0].y.tolist()
    [4.0, 2.0]
    """

    __slots__ = ("_fit",)

    def __init__(self, fit: Fitted) -> None:
        self._fit = fit

    def history(self) -> Figure:
        """The loss of each evaluation, and the best so far."""
        return convergence(self._fit)

    def cloud(self) -> Figure:
        """The points around the fit, coloured by their loss."""
        return cloud(self._fit)

    def intervals(self) -> Figure:
        """What the data allow each value to be."""
        return intervals(self._fit)

    def page(self, path: str | Path) -> Path:
        """All of them in one file; see `calibration_page`."""
        return calibration_page(self._fit, path)

    def __repr__(self) -> str:
        return f"<pictures of a calibration: {_names(self)}>"


class StudyPlots:
    """The pictures of a study, as `study.plot` gives them.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> study.plot
    <pictures of a study: effects, interactions, page, pareto>
    >>> list(study.plot.effects().data[0].x)
    [100.0, 50.0]
    """

    __slots__ = ("_study",)

    def __init__(self, study: Study) -> None:
        self._study = study

    def pareto(self, *objectives: str | Objective) -> Figure:
        """A point per configuration over two objectives, and the front; see `pareto`."""
        return pareto(self._study, *objectives)

    def effects(self, kpi: str | None = None) -> Figure:
        """What each level of each factor does to a KPI; see `effects`."""
        return effects(self._study, kpi)

    def interactions(self, kpi: str | None = None) -> Figure:
        """What two levels do together; see `interactions`."""
        return interactions(self._study, kpi)

    def page(self, path: str | Path) -> Path:
        """All of them in one file; see `study_page`."""
        return study_page(self._study, path)

    def __repr__(self) -> str:
        return f"<pictures of a study: {_names(self)}>"


class ConfirmationPlots:
    """The pictures of a confirmation, as `confirmation.plot` gives them.

    >>> from twinloop.report.examples import confirmation
    >>> ConfirmationPlots(confirmation())
    <pictures of a confirmation: course, differences, page, ranks>
    """

    __slots__ = ("_confirmation",)

    def __init__(self, confirmation: Confirmation) -> None:
        self._confirmation = confirmation

    def differences(self, metric: str | None = None) -> Figure:
        """How far each candidate really lay from the baseline; see `differences`."""
        return differences(self._confirmation, metric)

    def ranks(self, metric: str | None = None) -> Figure:
        """The predicted order and the real one; see `ranks`."""
        return ranks(self._confirmation, metric)

    def course(self, metric: str | None = None) -> Figure:
        """What each run gave, in the order in which they ran; see `course`."""
        return course(self._confirmation, metric)

    def page(self, path: str | Path) -> Path:
        """All of them in one file; see `confirmation_page`."""
        return confirmation_page(self._confirmation, path)

    def __repr__(self) -> str:
        return f"<pictures of a confirmation: {_names(self)}>"


class LoopPlots:
    """The page of a loop, as `loop.plot` gives it; its parts have pictures of their own.

    >>> LoopPlots(None)
    <pictures of a loop: page>
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: Looped) -> None:
        self._loop = loop

    def page(self, path: str | Path) -> Path:
        """The whole loop in one file; see `loop_page`."""
        return loop_page(self._loop, path)

    def __repr__(self) -> str:
        return f"<pictures of a loop: {_names(self)}>"


def _names(plots: object) -> str:
    return ", ".join(sorted(name for name in vars(type(plots)) if not name.startswith("_")))
