"""Figure of the load of a trace over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from twinloop.trace import Trace
from twinloop.trace.capacity import compute_capacity
from twinloop.trace.summary import compute_load_over_time

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_CURVES = {
    "running": "cores in use",
    "used": "CPU use, in cores",
    "offered": "submitted work, in cores",
}


def plot_load(trace: Trace, *, bins: int = 400) -> Figure:
    """Plot the load over time: cores in use, CPU use, submitted work.

    A curve is left out if it is unknown or zero all the time.

    >>> import polars as pl
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [10.0]}))
    >>> [curve.name for curve in plot_load(trace).data]
    ['submitted work, in cores']
    """
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    load = compute_load_over_time(trace, bins)
    epoch = trace.manifest.epoch_ms
    if epoch is None:
        x, axis = (load["t"] / 3600).to_list(), "hours since the start"
    else:
        dates = (load["t"] * 1000 + epoch).cast(pl.Int64).cast(pl.Datetime("ms"))
        x, axis = dates.to_list(), "date (UTC)"
    figure = go.Figure()
    for name, title in _CURVES.items():
        if load[name].null_count() < load.height and load[name].sum() > 0:
            figure.add_scatter(
                x=x, y=load[name].to_list(), name=title, mode="lines", line_shape="hv"
            )
    capacity = compute_capacity(trace)
    if capacity:
        figure.add_hline(y=capacity, line_dash="dot", annotation_text="all cores")
    figure.update_layout(
        xaxis_title=axis, yaxis_title="cores", hovermode="x unified", showlegend=True
    )
    return figure
