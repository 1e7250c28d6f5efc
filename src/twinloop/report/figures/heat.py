"""Heat map of the utilisation of each machine over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.report.figures.executions import (
    describe_omissions,
    require_executions,
    select_executions,
)
from twinloop.report.figures.occupancy import make_occupancy_map
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of rows that are legible.
MAX_ROWS: Final = 200


def plot_heat(trace: Trace) -> Figure:
    """Plot the utilisation of each machine over time as a heat map.

    Each cell is the mean over a five-hundredth of the time. More than 200 machines are drawn in
    groups of adjacent machines.

    >>> import polars as pl
    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": 4.0}),
    ...     placements=pl.DataFrame({"task": ["a"], "machine": ["n1"], "cores": [2.0],
    ...                              "start": [0.0], "end": [5.0]}),
    ... )
    >>> cells = plot_heat(trace).data[0]
    >>> list(cells.y), cells.z.mean(axis=1).round(6).tolist()
    (['n1', 'n2'], [0.5, 0.0])
    """
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    executions = require_executions(select_executions(require_trace(trace)))
    if executions["machine"].null_count() == executions.height:
        raise InputError(
            "there is no heat map to draw: the machines of the tasks are not recorded",
            kind="nothing-to-draw",
            remedy="simulate on a platform, or record a run",
        )
    first, last = float(executions["start"].min()), float(executions["end"].max())  # type: ignore[arg-type]
    axis = TimeAxis.of(trace)
    figure = go.Figure(make_occupancy_map(trace, executions, "status", axis, first, last, MAX_ROWS))
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    ends = axis.at(np.array([first, last]))
    figure.update_xaxes(
        range=ends.tolist() if last > first else None, showgrid=False, **axis.layout()
    )
    figure.update_layout(
        title_text="Utilisation of each machine",
        hovermode="closest",
        height=130 + min(20 * len(figure.data[0].y), 440),
        meta={"notes": describe_omissions(trace, executions)},
    )
    figure.update_traces(meta={"columns": {"y": "machine"}})
    return figure
