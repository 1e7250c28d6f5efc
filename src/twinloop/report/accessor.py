"""Pictures of a trace as its own: `trace.plot.gantt()`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinloop.report.colours import ColourBy
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.gantt import gantt
from twinloop.report.load import load_figure
from twinloop.report.page import run_page
from twinloop.report.usage import usage
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


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
        names = sorted(name for name in vars(type(self)) if not name.startswith("_"))
        return f"<pictures of a trace: {', '.join(names)}>"
