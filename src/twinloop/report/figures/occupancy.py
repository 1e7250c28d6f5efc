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

#: Number of columns of the map.
BINS: Final = 500
#: Maximum number of rows of a map whose rows are users or other groups.
MAX_GROUPS: Final = 40

# Idle cells are transparent, for light and dark pages. The amounts of users differ by orders of
# magnitude, so the scale of amounts is steep at its low end.
_SHARE_COLOURS: Final = [[0.0, "rgba(66, 140, 220, 0.04)"], [1.0, "rgba(66, 140, 220, 1)"]]
AMOUNT_COLOURS: Final = [
    [0.0, "rgba(66, 140, 220, 0.04)"],
    [0.1, "rgba(66, 140, 220, 0.4)"],
    [0.4, "rgba(66, 140, 220, 0.75)"],
    [1.0, "rgba(66, 140, 220, 1)"],
]


def make_occupancy_map(
    trace: Trace,
    executions: pl.DataFrame,
    by: ColourBy,
    axis: TimeAxis,
    first: float,
    last: float,
    max_rows: int,
) -> Heatmap:
    """Make the heat map: the mean utilisation of each machine in each bin of time.

    If the size of a machine is unknown, the cells are mean cores in use. If no machine is known,
    the rows are the groups of the column `by`.

    Args:
        trace: The run.
        executions: Its executions.
        by: The column of the groups.
        axis: The time axis.
        first: The start of the map (s).
        last: Its end (s).
        max_rows: Maximum number of rows; more machines are merged into groups of adjacent ones.
    """
    import plotly.graph_objects as go

    if executions["machine"].null_count() == executions.height:
        names, row = _assign_groups(executions, by)
        cores = np.full(len(names), np.nan)
    else:
        names, row, cores = _assign_machines(trace, executions, max_rows)
    start, end, height = (executions[name].to_numpy() for name in ("start", "end", "cores"))
    edges = np.linspace(first, last if last > first else first + 1.0, BINS + 1)
    level = average_by_row(row, start, end, height, len(names), edges)
    has_shares = bool(np.isfinite(cores).all() and (cores > 0).all())
    z = level / cores[:, None] if has_shares else level
    label = "%{z:.1%} of its cores in use" if has_shares else "%{z:.3~g} cores in use"
    bar: dict[str, Any] = {"title": {"text": "in use" if has_shares else "cores"}}
    if has_shares:
        bar["tickformat"] = ".0%"
    return go.Heatmap(
        x=axis.at((edges[:-1] + edges[1:]) / 2),
        y=[escape_label(name) for name in names],
        z=z.astype(np.float32),
        zmin=0.0,
        zmax=1.0 if has_shares else None,
        colorscale=_SHARE_COLOURS if has_shares else AMOUNT_COLOURS,
        colorbar=bar,
        hovertemplate=f"%{{y}}<br>%{{x}}<br>{label}<extra></extra>",
    )


def _assign_groups(executions: pl.DataFrame, by: ColourBy) -> tuple[list[str], Any]:
    """Return the label of each row, and the row of each execution."""
    groups = colours.group_executions(executions, by, MAX_GROUPS)
    single_groups = groups.filter(pl.col("members") == 1)
    row_by_group = pl.DataFrame(
        {
            "group": single_groups["group"],
            "row": pl.Series(range(single_groups.height), dtype=pl.Int64),
        }
    )
    keys = executions.select(group=colours.get_group_key(by))
    assigned = keys.join(
        row_by_group, on="group", how="left", nulls_equal=True, maintain_order="left"
    )
    return groups["label"].to_list(), assigned["row"].fill_null(groups.height - 1).to_numpy()


def _assign_machines(
    trace: Trace, executions: pl.DataFrame, max_rows: int
) -> tuple[list[str], Any, Any]:
    """Return the label of each row, the row of each execution, and the cores of each row."""
    machines = executions.select(node=pl.col("machine").fill_null("machine not recorded"))
    nodes = trace.nodes.select("node", "cores").unique("node", keep="first", maintain_order=True)
    others = machines.unique().join(nodes, on="node", how="anti").sort("node")
    all_machines = pl.concat([nodes, others.with_columns(cores=pl.lit(None, dtype=pl.Float64))])
    size = -(-all_machines.height // max_rows)
    all_machines = all_machines.with_row_index("row").with_columns(
        row=pl.col("row").cast(pl.Int64) // size
    )
    merged = all_machines.group_by("row", maintain_order=True).agg(
        first=pl.col("node").first(),
        last=pl.col("node").last(),
        cores=pl.when(pl.col("cores").null_count() == 0).then(pl.col("cores").sum()),
    )
    names = [a if a == b else f"{a} … {b}" for a, b in merged.select("first", "last").rows()]
    row = machines.join(all_machines, on="node", how="left", maintain_order="left")["row"]
    return names, row.to_numpy(), merged["cores"].cast(pl.Float64).fill_null(np.nan).to_numpy()
