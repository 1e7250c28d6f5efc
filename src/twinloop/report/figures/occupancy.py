"""Heat map of the cores in use, for runs with too many tasks for a bar each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.report.figures import colours
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.figures.steps import average_by_row
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Heatmap

#: The number of columns of the map.
BINS: Final = 500
#: The most rows of a map whose rows are users.
GROUPS: Final = 40

# Idle cells are transparent, for light and dark pages. The amounts of users differ by orders of
# magnitude, so the scale of amounts is steep at its low end.
_SHARES: Final = [[0.0, "rgba(66, 140, 220, 0.04)"], [1.0, "rgba(66, 140, 220, 1)"]]
_AMOUNTS: Final = [
    [0.0, "rgba(66, 140, 220, 0.04)"],
    [0.1, "rgba(66, 140, 220, 0.4)"],
    [0.4, "rgba(66, 140, 220, 0.75)"],
    [1.0, "rgba(66, 140, 220, 1)"],
]


def make_occupancy_map(
    trace: Trace,
    ran: pl.DataFrame,
    by: ColourBy,
    axis: TimeAxis,
    first: float,
    last: float,
    rows: int,
) -> Heatmap:
    """Make the heat map: mean utilisation by machine, or mean cores in use by user."""
    import plotly.graph_objects as go

    if ran["machine"].null_count() == ran.height:
        names, row = _assign_groups(ran, by)
        cores = np.full(len(names), np.nan)
    else:
        names, row, cores = _assign_machines(trace, ran, rows)
    start, end, height = (ran[name].to_numpy() for name in ("start", "end", "cores"))
    edges = np.linspace(first, last if last > first else first + 1.0, BINS + 1)
    level = average_by_row(row, start, end, height, len(names), edges)
    shares = bool(np.isfinite(cores).all() and (cores > 0).all())
    z = level / cores[:, None] if shares else level
    label = "%{z:.1%} of its cores in use" if shares else "%{z:.3~g} cores in use"
    bar: dict[str, Any] = {"title": {"text": "in use" if shares else "cores"}}
    if shares:
        bar["tickformat"] = ".0%"
    return go.Heatmap(
        x=axis.at((edges[:-1] + edges[1:]) / 2),
        y=[escape_label(name) for name in names],
        z=z.astype(np.float32),
        zmin=0.0,
        zmax=1.0 if shares else None,
        colorscale=_SHARES if shares else _AMOUNTS,
        colorbar=bar,
        hovertemplate=f"%{{y}}<br>%{{x}}<br>{label}<extra></extra>",
    )


def _assign_groups(ran: pl.DataFrame, by: ColourBy) -> tuple[list[str], Any]:
    groups = colours.group_executions(ran, by, GROUPS)
    own = groups.filter(pl.col("members") == 1)
    places = pl.DataFrame(
        {"group": own["group"], "place": pl.Series(range(own.height), dtype=pl.Int64)}
    )
    keys = ran.select(group=colours.get_group_key(by))
    found = keys.join(places, on="group", how="left", nulls_equal=True, maintain_order="left")
    return groups["label"].to_list(), found["place"].fill_null(groups.height - 1).to_numpy()


def _assign_machines(trace: Trace, ran: pl.DataFrame, rows: int) -> tuple[list[str], Any, Any]:
    machines = ran.select(node=pl.col("machine").fill_null("machine not recorded"))
    nodes = trace.nodes.select("node", "cores").unique("node", keep="first", maintain_order=True)
    others = machines.unique().join(nodes, on="node", how="anti").sort("node")
    every = pl.concat([nodes, others.with_columns(cores=pl.lit(None, dtype=pl.Float64))])
    size = -(-every.height // rows)
    every = every.with_row_index("place").with_columns(place=pl.col("place").cast(pl.Int64) // size)
    merged = every.group_by("place", maintain_order=True).agg(
        first=pl.col("node").first(),
        last=pl.col("node").last(),
        cores=pl.when(pl.col("cores").null_count() == 0).then(pl.col("cores").sum()),
    )
    names = [a if a == b else f"{a} … {b}" for a, b in merged.select("first", "last").rows()]
    row = machines.join(every, on="node", how="left", maintain_order="left")["place"]
    return names, row.to_numpy(), merged["cores"].cast(pl.Float64).fill_null(np.nan).to_numpy()
