"""What every picture begins and ends with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twinloop.report.figures.time_axis import TimeAxis

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def create_figure(title: str, axis: TimeAxis | None = None) -> Figure:
    """An empty figure with a title; with an axis of time if one is given.

    >>> create_figure("Waiting").layout.title.text
    'Waiting'
    """
    # Plotly takes a moment to load, and only pictures need it.
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(title_text=title, hovermode="x unified", showlegend=True)
    if axis is not None:
        figure.update_xaxes(**axis.layout())
    return figure


def attach_notes(figure: Figure, notes: Iterable[str]) -> Figure:
    """The figure, with what has to be said about it; a page says it below the picture.

    >>> figure = attach_notes(create_figure("Waits"), ["two are unknown", "two are unknown"])
    >>> figure.layout.meta["notes"]
    ['two are unknown']
    """
    figure.update_layout(meta={"notes": list(dict.fromkeys(notes))})
    return figure
