"""Figures of training sets: the validation loss by size, and against the cost of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from twinloop.calibration.lossmap import Lossmap
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def plot_lossmap(found: Lossmap) -> dict[str, Figure]:
    """Plot the figures of a lossmap: `single`, `rectangular` and `cost`.

    The first two show the validation loss of each training set by its workers and tasks, the last
    one against the cost of its runs.

    >>> from twinloop.calibration.lossmap import Sample, compute_lossmap
    >>> grid = [Sample(n, m, m / n) for n in (1, 2) for m in (10, 20)]
    >>> list(plot_lossmap(compute_lossmap(grid, lambda train: lambda some: 1 / len(train))))
    ['single', 'rectangular', 'cost']
    """
    schemes = found.frame["scheme"].unique(maintain_order=True).to_list()
    figures = {scheme: _plot_map(found, scheme) for scheme in schemes}
    return {**figures, "cost": _plot_cost(found)}


def _plot_map(found: Lossmap, scheme: str) -> Figure:
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    rows = found.frame.filter(scheme=scheme)
    workers = sorted(set(rows["workers"]))
    tasks = sorted(set(rows["tasks"]))
    losses = {(row["workers"], row["tasks"]): row["validation_loss"] for row in rows.to_dicts()}
    title = "exactly" if scheme == "single" else "at most"
    figure = create_figure(f"Validation loss of training with {title} these workers and tasks")
    figure.add_trace(
        go.Heatmap(
            x=[str(each) for each in tasks],
            y=[str(each) for each in workers],
            z=[[losses.get((count, size)) for size in tasks] for count in workers],
            colorbar={"title": {"text": "loss"}},
            hovertemplate="%{y} workers, %{x} tasks: %{z:.4g}<extra></extra>",
            meta={"columns": {"x": "tasks", "y": "workers", "z": "validation loss"}},
        )
    )
    figure.update_layout(
        xaxis={"title": {"text": "tasks"}, "type": "category"},
        yaxis={"title": {"text": "workers"}, "type": "category"},
        hovermode="closest",
    )
    return figure


def _plot_cost(found: Lossmap) -> Figure:
    figure = create_figure("Validation loss against the cost of the training set")
    known = found.frame.drop_nulls("validation_loss")
    for place, ((scheme,), rows) in enumerate(known.group_by("scheme", maintain_order=True)):
        figure.add_scatter(
            x=rows["validation_loss"].to_list(),
            y=rows["cost"].to_list(),
            mode="markers",
            marker={
                "color": colours.GROUPS[place],
                "symbol": "circle" if scheme == "single" else "square-open",
            },
            name=str(scheme),
            customdata=rows.select("workers", "tasks").rows(),
            hovertemplate="%{customdata[0]} workers, %{customdata[1]} tasks: loss %{x:.4g}, "
            "%{y:.4g} worker-seconds<extra></extra>",
            meta={
                "columns": {
                    "x": "validation loss",
                    "y": "cost (worker-seconds)",
                    "customdata": ["workers", "tasks"],
                }
            },
        )
    figure.update_layout(
        xaxis={"title": {"text": "validation loss"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "cost (worker-seconds)"}, "type": "log"},
        hovermode="closest",
    )
    failed = found.frame.filter(pl.col("error").is_not_null()).height
    return attach_notes(figure, [f"{failed} training sets without a fit"] if failed else [])
