"""Common parts of all figures: creation, notes, labels."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from twinloop.report.figures.time_axis import TimeAxis

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def create_figure(title: str, axis: TimeAxis | None = None) -> Figure:
    """Create an empty figure with a title and, if given, a time axis.

    >>> create_figure("Waiting").layout.title.text
    'Waiting'
    """
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(title_text=title, hovermode="x unified", showlegend=True)
    if axis is not None:
        figure.update_xaxes(**axis.layout())
    return figure


def attach_notes(figure: Figure, notes: Iterable[str]) -> Figure:
    """Attach notes to a figure, which a page shows below it.

    >>> figure = attach_notes(create_figure("Waits"), ["two are unknown", "two are unknown"])
    >>> figure.layout.meta["notes"]
    ['two are unknown']
    """
    figure.update_layout(meta={"notes": list(dict.fromkeys(notes))})
    return figure


def escape_label(text: str) -> str:
    """Escape a text for a figure, because Plotly reads labels, titles and hover texts as HTML.

    >>> escape_label("a <b>")
    'a &lt;b&gt;'
    """
    return escape(text, quote=False)
