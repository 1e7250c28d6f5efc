"""Figure of the carbon emissions of a run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.electricity import find_intensity
from twinloop.metrics.energy_and_carbon import JOULES_PER_KWH, CarbonIntensity, find_power_intervals
from twinloop.metrics.energy_and_carbon import carbon as grams
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Number of windows of the curve.
WINDOWS = 1000


def plot_carbon(trace: Trace, intensity: float | pl.DataFrame | None = None) -> Figure:
    """Plot the carbon emissions over time, with the carbon intensity of the electricity below.

    Each value is the mean over a thousandth of the time; the sum in the note is exact and equal
    to `twinloop.metrics.carbon`.

    Args:
        trace: Any trace with a power table.
        intensity: In g/kWh, as in `twinloop.metrics.carbon`; by default the intensity of the
            platform of the run.

    >>> trace = Trace(power=pl.DataFrame({"t": [7200.0], "dt": [7200.0], "watts": [1000.0]}))
    >>> figure = plot_carbon(trace, 250.0)
    >>> float(figure.data[0].y[0]), figure.layout.meta["notes"]
    (250.0, ['500 g in total'])
    """
    used_intensity = get_intensity(require_trace(trace)) if intensity is None else intensity
    if used_intensity is None:
        raise InputError(
            "there is no carbon to draw: the carbon intensity of the electricity is not known",
            kind="nothing-to-draw",
            remedy="give an intensity in g/kWh, or a platform with a `carbon` intensity",
        )
    boxes, _ = find_power_intervals(trace)
    total = grams(trace, used_intensity)
    if boxes is None or total is None:
        raise InputError(
            "there is no carbon to draw: the power table has no known value",
            kind="nothing-to-draw",
            remedy="give the hosts of the platform a power model",
        )
    series = CarbonIntensity.of(used_intensity, trace.manifest.epoch_ms)
    edges = np.linspace(boxes.start.min(), boxes.end.max(), WINDOWS + 1)
    hours = np.diff(edges) / 3600.0
    rate = Steps.of(boxes).means(edges) * np.diff(edges) / JOULES_PER_KWH
    mean = np.diff(series.integral(edges)) / np.diff(edges)
    axis = TimeAxis.of(trace)
    figure = create_figure("Carbon emissions", axis)
    at = axis.at(edges)
    for name, level, colour, y_axis in (
        ("carbon", rate * mean / hours, colours.CURVE, "y"),
        ("intensity", mean, colours.SECOND, "y2"),
    ):
        figure.add_scatter(
            x=at, y=np.append(level, level[-1]), name=name, mode="lines", line_shape="hv",
            line={"color": colour, "width": 1.5}, yaxis=y_axis,
        )  # fmt: skip
    figure.update_layout(
        xaxis={"anchor": "y2"},
        yaxis={"title": {"text": "carbon (g/h)"}, "rangemode": "tozero", "domain": [0.54, 1.0]},
        yaxis2={"title": {"text": "g/kWh"}, "rangemode": "tozero", "domain": [0.0, 0.46]},
    )
    amount = f"{format_number(total / 1000)} kg" if total >= 1000 else f"{format_number(total)} g"
    return attach_notes(figure, [f"{amount} in total"])


def get_intensity(trace: Trace) -> float | pl.DataFrame | None:
    """Return the carbon intensity of the platform of a run; None if it has none.

    >>> get_intensity(Trace()) is None
    True
    """
    try:
        return find_intensity(trace)
    except InputError as error:
        raise InputError(f"there is no carbon to draw: {error}", kind="nothing-to-draw") from None
