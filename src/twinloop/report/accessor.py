"""Pictures of a trace or a verdict as its own: `trace.plot.gantt()`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinloop.report.assessment import assessment_page
from twinloop.report.assessment_figures import completions, segments, trend
from twinloop.report.assessment_figures import usage as usage_of_both
from twinloop.report.assessment_figures import waits as waits_of_both
from twinloop.report.colours import ColourBy
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.gantt import gantt
from twinloop.report.load import load_figure
from twinloop.report.page import run_page
from twinloop.report.usage import usage
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.fidelity.verdict import Verdict


class Plots:
    """The pictures of a trace, as `trace.plot` gives them: Plotly figures, shown by notebooks.

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [2.0], "start": [0.0],
    ...     "end": [5.0]}))
    >>> trace.plot
    <pictures of a trace: gantt, load, page, power, queue, usage, utilisation, waits>
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


def _names(plots: Plots | VerdictPlots) -> str:
    return ", ".join(sorted(name for name in vars(type(plots)) if not name.startswith("_")))
