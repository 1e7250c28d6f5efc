"""Figure of the rates of transfers over ports and links over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures.bands import MAX_LABELS
from twinloop.report.figures.described_platform import read_platform
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.network_routes import NetworkRoutes
from twinloop.report.figures.occupancy import AMOUNT_COLOURS, BINS
from twinloop.report.figures.steps import average_by_row
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of ports and links with a row each; the others are summed.
MAX_ROWS: Final = MAX_LABELS - 1
_UNRECORDED: Final = "node not recorded"


def plot_transfers(trace: Trace) -> Figure:
    """Plot the rate of the transfers over each port and link over time, as a heat map.

    The bytes of a transfer are spread evenly over its duration, from its request to its end, with
    the wait for its store and the latency. Each cell is the mean rate in a five-hundredth of the
    time, so that the sum of a row is the bytes that passed the port or link. A transfer has a row
    of each port and link on its way: the outgoing port of its source, the incoming port of its
    destination, and the links between them if the scenario describes links. Of more than 39 ports
    and links, those with fewer bytes are summed.

    >>> trace = Trace(transfers=pl.DataFrame({"from": ["disk"], "to": ["n1"], "bytes": [500.0],
    ...                                       "start": [0.0], "end": [5.0]}))
    >>> cells = plot_transfers(trace).data[0]
    >>> list(cells.y), cells.z.mean(axis=1).tolist()
    (['out of disk', 'into n1'], [100.0, 100.0])
    """
    transfers, notes = _select_transfers(require_trace(trace))
    boxes, route_notes = _assign_rows(trace, transfers)
    names, row = _limit_rows(boxes)
    start, end, size = (boxes[name].to_numpy() for name in ("start", "end", "bytes"))
    edges = np.linspace(start.min(), end.max(), BINS + 1)
    rate = average_by_row(row, start, end, size / (end - start), len(names), edges)
    rate[np.abs(rate) <= 1e-12 * rate.max(initial=0.0)] = 0.0  # rounding errors
    axis = TimeAxis.of(trace)
    figure = create_figure("Transfers over ports and links", axis)
    figure.add_heatmap(
        x=axis.at((edges[:-1] + edges[1:]) / 2),
        y=[escape_label(name) for name in names],
        z=rate.astype(np.float32),
        zmin=0.0,
        colorscale=AMOUNT_COLOURS,
        colorbar={"title": {"text": "bytes/s"}, "tickformat": "~s"},
        hovertemplate="%{y}<br>%{x}<br>%{z:.3~s}B/s<extra></extra>",
        meta={"columns": {"y": "port or link", "z": "mean rate (bytes/s)"}},
    )
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    figure.update_xaxes(range=axis.at(edges[[0, -1]]).tolist(), showgrid=False)
    figure.update_layout(
        hovermode="closest", showlegend=False, height=150 + 20 * max(4, len(names))
    )
    if len(names) < boxes["row"].n_unique():
        total = format_count(boxes["row"].n_unique(), "port or link", "ports and links")
        notes.append(
            f"{MAX_ROWS} of {total} have a row each, those with the most bytes; the last row is "
            "the sum of the others"
        )
    return attach_notes(figure, [_describe_total(transfers), *notes, *route_notes])


def _describe_total(transfers: pl.DataFrame) -> str:
    size = format_number(float(transfers["bytes"].sum()) / 1e9)
    count = format_count(transfers.height, "transfer")
    return (
        f"{count} with {size} GB; the bytes of a transfer are spread evenly over the time from its "
        "request to its end"
    )


def _select_transfers(trace: Trace) -> tuple[pl.DataFrame, list[str]]:
    """Select the transfers with bytes and a duration: source, target, bytes, start, end."""
    is_drawn = pl.all_horizontal(
        pl.col("bytes").is_finite(), pl.col("bytes") >= 0, pl.col("start").is_finite(),
        pl.col("end").is_finite(), pl.col("end") > pl.col("start"),
    ).fill_null(False)  # fmt: skip
    rows = _place_instances(trace, trace.transfers)
    drawn, others = rows.filter(is_drawn), rows.filter(~is_drawn)
    if not drawn.height:
        raise InputError(
            "there are no transfers to draw: none has bytes, a start, and an end after it",
            kind="nothing-to-draw",
            remedy="simulate a platform with stores, and images or files in them",
        )
    if not others.height:
        return drawn, []
    lost = float(others["bytes"].filter(others["bytes"].is_finite()).sum())
    count = format_count(others.height, "transfer")
    return drawn, [
        f"not drawn: {count} without bytes or a duration, {format_number(lost)} bytes in total"
    ]


def _place_instances(trace: Trace, transfers: pl.DataFrame) -> pl.DataFrame:
    """Replace instances at the ends of transfers by the host on which they were at the start."""
    stays = (
        trace.instances.filter(pl.col("start").is_finite())
        .drop_nulls(["instance", "host"])
        .select("instance", "host", "start")
        .sort("start")
    )
    rows = transfers.select("from", "to", "bytes", "start", "end").sort("start", nulls_last=True)
    for end in ("from", "to"):
        if stays.height and rows[end].is_in(stays["instance"].implode()).any():
            rows = (
                rows.join_asof(
                    stays.rename({"instance": end}), on="start", by=end, check_sortedness=False
                )
                .with_columns(pl.coalesce("host", end).alias(end))
                .drop("host")
            )
    return rows.with_columns(pl.col("from", "to").fill_null(_UNRECORDED))


def _assign_rows(trace: Trace, transfers: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return a box per transfer and port or link on its way; and notes.

    Columns: `row`, the name of the port or link, `bytes`, `start`, `end`.
    """
    platform = read_platform(trace)
    routes = None if platform is None else NetworkRoutes(platform)
    pairs = transfers.select("from", "to").unique(maintain_order=True)
    ways, undetermined = [], []
    for source, target in pairs.rows():
        between = routes.find(source, target) if routes else ()
        if between is None:
            undetermined.append((source, target))
        ways.append(_list_row_names(source, target, between or ()))
    boxes = (
        transfers.join(
            pairs.with_columns(row=pl.Series(ways, dtype=pl.List(pl.String))), on=["from", "to"]
        )
        .select("row", "bytes", "start", "end")
        .explode("row")
    )
    notes = []
    if undetermined:
        count = transfers.join(
            pl.DataFrame(undetermined, schema=["from", "to"], orient="row"), on=["from", "to"]
        ).height
        notes.append(
            f"the links of {format_count(count, 'transfer')} are not drawn, only the ports: the "
            "scenario does not determine their route"
        )
    return boxes, notes


def _list_row_names(source: str, target: str, links: tuple[str, ...]) -> list[str]:
    if source == target:  # no port is passed
        return [f"local store of {source}"]
    return [f"out of {source}", *(f"link {each}" for each in links), f"into {target}"]


def _limit_rows(
    boxes: pl.DataFrame,
) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the names of the rows, and the row of each box: outgoing, links, incoming, local."""
    kinds = pl.col("row").str.extract(r"^(out|link|into|local) ", 1)
    place = kinds.replace_strict({"out": 0, "link": 1, "into": 2, "local": 3})
    sizes = boxes.group_by("row").agg(pl.col("bytes").sum()).with_columns(place=place)
    largest = sizes.sort(["bytes", "row"], descending=[True, False])
    kept = largest[: MAX_ROWS if sizes.height > MAX_ROWS + 1 else sizes.height]
    names = kept.sort("place", "row")["row"].to_list()
    if kept.height < sizes.height:
        names.append(f"{sizes.height - kept.height:,} others")
    index = pl.DataFrame({"row": names, "index": range(len(names))})
    found = boxes.join(index, on="row", how="left", maintain_order="left")["index"]
    return names, found.fill_null(len(names) - 1).to_numpy()  # the last row: all others
