"""Figure of the rates of transfers over ports and links over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.platform.network import expand_links
from twinloop.report.figures.bands import MAX_LABELS
from twinloop.report.figures.described_platform import read_platform
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.network_routes import NetworkRoutes, list_labels
from twinloop.report.figures.occupancy import AMOUNT_COLOURS, BINS
from twinloop.report.figures.steps import average_by_row
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.figures.transfer_starts import find_flow_starts
from twinloop.report.quantity_text import format_bandwidth, format_count, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of ports and links with a row each; the others are summed.
MAX_ROWS: Final = MAX_LABELS - 1
_UNRECORDED: Final = "node not recorded"
_GREYS: Final = [[0.0, "rgba(127, 133, 143, 0.04)"], [1.0, "rgba(127, 133, 143, 1)"]]
_ABOVE: Final = (
    "colours end at 100 % of a bandwidth; the rate of a transfer is its mean, so that transfers at "
    "the same time whose rates vary can have more together"
)


def plot_transfers(trace: Trace) -> Figure:
    """Plot the rate of the transfers over each port and link over time, as a heat map.

    The bytes of a transfer are spread evenly over its duration, without its wait for a stream of a
    store and its latency if the scenario describes the platform. Each cell is the mean rate in a
    five-hundredth of the time, so that the sum of a row is the bytes that passed the port or link.
    A transfer has a row of each port and link on its way: the outgoing port of its source, the
    incoming port of its destination, and the links between them if the scenario describes links.
    Of more than 39 ports and links, those with fewer bytes are summed.

    A port or link with a bandwidth has its share that is in use as its colour; all others are
    below them, with their rate.

    >>> trace = Trace(transfers=pl.DataFrame({"from": ["disk"], "to": ["n1"], "bytes": [500.0],
    ...                                       "start": [0.0], "end": [5.0]}))
    >>> figure = plot_transfers(trace)
    >>> list(figure.layout.yaxis.ticktext), figure.data[0].z.mean(axis=1).tolist()
    (['out of disk', 'into n1'], [100.0, 100.0])
    """
    platform = read_platform(require_trace(trace))
    transfers, notes = _select_transfers(trace, platform)
    boxes, route_notes = _assign_rows(platform, transfers)
    rows = _choose_rows(boxes, {} if platform is None else _list_bandwidths(platform))
    row = _find_rows(boxes, rows["row"].to_list())
    start, end, size = (boxes[name].to_numpy() for name in ("start", "end", "bytes"))
    edges = np.linspace(start.min(), end.max(), BINS + 1)
    rate = average_by_row(row, start, end, size / (end - start), rows.height, edges)
    rate[np.abs(rate) <= 1e-12 * rate.max(initial=0.0)] = 0.0  # rounding errors
    axis = TimeAxis.of(trace)
    figure = create_figure("Transfers over ports and links", axis)
    middle = axis.at((edges[:-1] + edges[1:]) / 2)
    limited = rows["bandwidth"].drop_nulls().to_numpy()
    place = np.arange(rows.height)
    if limited.size:
        share = rate[: limited.size] / limited[:, None]
        _add_shares(figure, middle, place[: limited.size], share, limited)
        if share.max() > 1.0 + 1e-6:
            route_notes.append(_ABOVE)
    if limited.size < rows.height:
        _add_rates(figure, middle, place[limited.size :], rate[limited.size :], limited.size > 0)
    # Numbers with labels, since all maps on an axis of categories must have all of its categories.
    figure.update_yaxes(
        range=[rows.height - 0.5, -0.5], tickmode="array", tickvals=place,
        ticktext=[escape_label(each) for each in rows["label"]], showgrid=False, zeroline=False,
    )  # fmt: skip
    figure.update_xaxes(range=axis.at(edges[[0, -1]]).tolist(), showgrid=False)
    figure.update_layout(
        hovermode="closest", showlegend=False, height=150 + 20 * max(4, rows.height)
    )
    if rows.height < boxes["row"].n_unique():
        total = format_count(boxes["row"].n_unique(), "port or link", "ports and links")
        notes.append(
            f"{MAX_ROWS} of {total} have a row each, those with the most bytes; the last row is "
            "the sum of the others"
        )
    return attach_notes(figure, [_describe_total(transfers, platform), *notes, *route_notes])


def _add_shares(
    figure: Figure,
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    share: npt.NDArray[np.float64],
    bandwidth: npt.NDArray[np.float64],
) -> None:
    """Add the rows of ports and links with a bandwidth: the share of it that is in use.

    The saved table has the rates.
    """
    figure.add_heatmap(
        x=x, y=y, z=share.astype(np.float32), zmin=0.0, zmax=1.0, colorscale=AMOUNT_COLOURS,
        colorbar={"title": {"text": "in use"}, "tickformat": ".0%"},
        hovertemplate="%{y}<br>%{x}<br>%{z:.1%} of its bandwidth<extra></extra>",
        meta={
            "columns": {"y": "port or link", "z": "mean rate (bytes/s)"},
            "units": bandwidth.tolist(),
        },
    )  # fmt: skip


def _add_rates(
    figure: Figure,
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    rate: npt.NDArray[np.float64],
    is_below: bool,
) -> None:
    """Add the rows without a known bandwidth, in grey if they are below rows with a bandwidth."""
    figure.add_heatmap(
        x=x, y=y, z=rate.astype(np.float32), zmin=0.0,
        colorscale=_GREYS if is_below else AMOUNT_COLOURS, showscale=not is_below,
        colorbar={"title": {"text": "bytes/s"}, "tickformat": "~s"},
        hovertemplate="%{y}<br>%{x}<br>%{z:.3~s}B/s<extra></extra>",
        meta={"columns": {"y": "port or link", "z": "mean rate (bytes/s)"}},
    )  # fmt: skip


def _describe_total(transfers: pl.DataFrame, platform: Platform | None) -> str:
    size = format_number(float(transfers["bytes"].sum()) / 1e9)
    count = format_count(transfers.height, "transfer")
    begin = (
        "its request" if platform is None else "the end of its wait for a store and of its latency"
    )
    return (
        f"{count} with {size} GB; the bytes of a transfer are spread evenly over the time from "
        f"{begin} to its end"
    )


def _select_transfers(trace: Trace, platform: Platform | None) -> tuple[pl.DataFrame, list[str]]:
    """Select the transfers with bytes and a duration: source, target, bytes, start, end.

    The start is that of the first byte, as far as the platform determines it.
    """
    is_drawn = pl.all_horizontal(
        pl.col("bytes").is_finite(), pl.col("bytes") >= 0, pl.col("start").is_finite(),
        pl.col("end").is_finite(), pl.col("end") > pl.col("start"),
    ).fill_null(False)  # fmt: skip
    rows = _place_instances(trace, trace.transfers)
    drawn, others = rows.filter(is_drawn), rows.filter(~is_drawn)
    if platform is not None:
        # Transfers without bytes have a stream of their store, too.
        timed = rows.filter(pl.col("start").is_finite() & pl.col("end").is_finite())
        timed = timed.with_columns(start=find_flow_starts(timed, platform))
        drawn = timed.filter(is_drawn)
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
    rows = transfers.select("kind", "from", "to", "bytes", "start", "end")
    rows = rows.sort("start", nulls_last=True)
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


def _assign_rows(
    platform: Platform | None, transfers: pl.DataFrame
) -> tuple[pl.DataFrame, list[str]]:
    """Return a box per transfer and port or link on its way; and notes.

    Columns: `row`, the name of the port or link, `bytes`, `start`, `end`.
    """
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


def _list_bandwidths(platform: Platform) -> dict[str, float]:
    """Return the bandwidths of ports and links (bytes/s) by the names of their rows."""
    ports = {store.name: store.ports for store in platform.stores}
    for cluster, host in platform.hosts():
        ports |= dict.fromkeys(host.node_names(cluster.name), host.ports)
    found: dict[str, float | None] = {}
    for node, each in ports.items():
        if each is not None:
            found |= {f"out of {node}": each.send, f"into {node}": each.receive}
    for link in expand_links(platform):
        for label in list_labels(link):
            found[f"link {label}"] = link.link.bandwidth
    return {name: bandwidth for name, bandwidth in found.items() if bandwidth}


def _choose_rows(boxes: pl.DataFrame, bandwidths: Mapping[str, float]) -> pl.DataFrame:
    """Choose the rows of the map: columns `row`, `label` and `bandwidth`.

    Rows with a bandwidth are first. Each part has outgoing ports, links, incoming ports and local
    stores in this order; the last row is the sum of others, if they are too many.
    """
    kinds = pl.col("row").str.extract(r"^(out|link|into|local) ", 1)
    place = kinds.replace_strict({"out": 0, "link": 1, "into": 2, "local": 3})
    sizes = boxes.group_by("row").agg(pl.col("bytes").sum()).with_columns(place=place)
    largest = sizes.sort(["bytes", "row"], descending=[True, False])
    kept = largest[: MAX_ROWS if sizes.height > MAX_ROWS + 1 else sizes.height]
    limits = [bandwidths.get(name) for name in kept["row"]]
    rows = kept.with_columns(bandwidth=pl.Series(limits, dtype=pl.Float64)).sort(
        pl.col("bandwidth").is_null(), "place", "row"
    )
    labels = [
        name if bandwidth is None else f"{name} ({format_bandwidth(bandwidth)})"
        for name, bandwidth in rows.select("row", "bandwidth").rows()
    ]
    rows = rows.select("row", "bandwidth", label=pl.Series(labels, dtype=pl.String))
    if kept.height == sizes.height:
        return rows
    others = f"{sizes.height - kept.height:,} others"
    return pl.concat([rows, pl.DataFrame({"row": [others], "label": others})], how="diagonal")


def _find_rows(boxes: pl.DataFrame, names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Find the row of each box; a box without a row of its own is in the last one."""
    index = pl.DataFrame({"row": names, "index": range(len(names))})
    found = boxes.join(index, on="row", how="left", maintain_order="left")["index"]
    return found.fill_null(len(names) - 1).to_numpy()
