"""Page of a run: key figures, figures, data quality."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import figures
from twinloop.report.cloud_results import (
    find_cloud_results,
    list_meters,
    list_service_levels,
)
from twinloop.report.figures.carbon import get_intensity, plot_carbon
from twinloop.report.figures.curves import plot_power, plot_queue, plot_utilisation, plot_waits
from twinloop.report.figures.gantt import plot_gantt
from twinloop.report.figures.heat import plot_heat
from twinloop.report.figures.instances import plot_instances
from twinloop.report.figures.lateness import has_noticeable_lateness, plot_lateness
from twinloop.report.figures.power_states import plot_power_states
from twinloop.report.figures.sessions import plot_sessions
from twinloop.report.figures.time_axis import TimeAxis, find_extent
from twinloop.report.figures.transfers import plot_transfers
from twinloop.report.figures.usage import plot_usage
from twinloop.report.key_figures import list_key_figures
from twinloop.report.pages.data_quality import add_data_quality
from twinloop.report.pages.fragments import (
    render_cards,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.pages.run_title import describe_run
from twinloop.report.quantity_text import format_count
from twinloop.scenario import Prices
from twinloop.trace import Trace
from twinloop.trace.host_placements import place_on_hosts
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from markupsafe import Markup
    from plotly.graph_objects import Figure

#: Name, plot function, height in pixels (0: that of the figure), and how to read the figure.
_FIGURES: Final[tuple[tuple[str, Callable[[Trace], Figure], int, str], ...]] = (
    ("gantt", plot_gantt, 560, "Each bar is a task; gaps are idle cores."),
    ("queue", plot_queue, 380,
     "A queue that keeps growing means that more work is submitted than the machines can run."),
    ("utilisation", plot_utilisation, 320,
     "The area between the curve and the dotted line is idle capacity."),
    ("heat", plot_heat, 0, "A pale row is a machine with a low utilisation."),
    ("instances", plot_instances, 0,
     "Each lane is a host or a group of hosts; the colours are the states of its instances."),
    ("usage", plot_usage, 360,
     "The cores that tasks kept busy, which can be fewer than the cores that they hold."),
    ("power", plot_power, 300, "The area under the curve is the energy."),
    ("power_states", plot_power_states, 360,
     "The same power, by what the hosts were doing; each area is the energy of a state."),
    ("transfers", plot_transfers, 0,
     "The darker, the more of the bandwidth is in use; on a dark row, transfers share it."),
    ("carbon", plot_carbon, 380,
     "The same power causes more emissions while the carbon intensity below is high."),
    ("waits", plot_waits, 320,
     "The closer the curve is to the upper left corner, the shorter the wait times."),
    ("lateness", plot_lateness, 0, "Long bars are users with long delays."),
    ("sessions", plot_sessions, 0,
     "Each bar is a session, a period of continuous work, of the user with most tasks."),
)  # fmt: skip
_NOT_OVER_TIME: Final = frozenset({"waits", "lateness", "sessions"})


def write_run_page(trace: Trace, path: str | Path, *, title: str | None = None) -> Path:
    """Write a run as one HTML file: key figures, figures over time, data quality.

    Figures: Gantt chart, queue, utilisation, utilisation of each machine, power, wait times; if
    the data exist also CPU use, rented instances on hosts, power by state of the hosts, transfers,
    carbon emissions, lateness and the sessions of the user with most tasks. Each can be saved as
    PNG and SVG, and its data as CSV.

    The file works from disk and without a network, in light and dark, on a phone and on paper. It
    is written atomically. The page lists the figures that are omitted for lack of data.

    Args:
        trace: Any trace, real or simulated.
        path: The file to write; an existing file is replaced.
        title: The heading; by default the workload, the policy and the platform in the manifest.

    >>> import tempfile, polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_run_page(trace, folder + "/run.html").name
    'run.html'
    """
    page = Page(describe_run(require_trace(trace)) if title is None else title)
    page.add(render_paragraph(_describe_origin(trace), "origin"))
    page.add(*render_key_figures(trace))
    _add_cloud_results(page, trace)
    add_run_figures(page, trace)
    add_data_quality(page, trace)
    return page.write(path)


def _add_cloud_results(page: Page, trace: Trace) -> None:
    """Add tables of the meters and service levels that the clouds of the run describe."""
    results = find_cloud_results(trace)
    if results.meters or results.notes:
        table = render_table(
            ["meter", "energy", "mean power"], list_meters(results), ["energy", "mean power"]
        )
        page.add_section(
            "Energy by meter",
            *([table] if results.meters else []),
            *map(render_note, results.notes),
        )
    if results.service_levels:
        names = ["service level", "beyond the limit", "verdict"]
        page.add_section(
            "Service levels", render_table(names, list_service_levels(results), [names[1]])
        )


def add_run_figures(
    page: Page, trace: Trace, prefix: str = "", only: Collection[str] = (), where: str = ""
) -> None:
    """Add the figures of a run to a page, and list the omitted ones.

    Args:
        page: The page.
        trace: Any trace, real or simulated.
        prefix: The prefix of the names of the figures on the page.
        only: The names of the figures to add; by default all.
        where: A text after each heading.

    >>> import polars as pl
    >>> page = Page("A run")
    >>> placements = pl.DataFrame({"task": ["a"], "start": 0.0, "end": 5.0})
    >>> add_run_figures(page, Trace(placements=placements))
    >>> 'id="utilisation"' in page.render(), "there is no power to draw" in page.render()
    (True, True)
    """
    trace = place_on_hosts(trace)
    missing = []
    first, last = find_extent(trace)
    span = TimeAxis.of(trace).at(np.array([first, last])).tolist() if last > first else None
    has_heat_map = False
    for name, draw, height, guide in _FIGURES:
        if (
            (only and name not in only)
            or not _is_expected(name, trace)
            or (name == "heat" and has_heat_map)
        ):
            continue
        try:
            figure = draw(trace)
        except InputError as error:
            missing.append(render_note(error.problem))
            continue
        if name == "gantt" and figure.data[0].type == "heatmap":
            has_heat_map, guide = True, "A pale row has a low utilisation, a dark row a high one."
        if name == "sessions" and len(figure.data[-1].x) < 2:
            continue  # a single session has no structure to show
        if where:
            figure.update_layout(title_text=f"{figure.layout.title.text}, {where}")
        if name not in _NOT_OVER_TIME:
            figure.update_xaxes(range=span)
        page.add_figure(
            f"{prefix}{name}", figure, height or figure.layout.height or 360,
            over_time=name not in _NOT_OVER_TIME and not prefix, guide=guide,
        )  # fmt: skip
    if missing:
        page.add_section("Omitted figures", *missing)


def _is_expected(name: str, trace: Trace) -> bool:
    """Whether a run of this kind should have the figure, so that its absence is reported."""
    tasks = trace.tasks
    if name == "usage":  # only a recorded run should have samples
        return trace.usage.height > 0 or trace.manifest.kind == "recorded"
    if name == "heat":
        placements = trace.placements
        return placements["machine"].null_count() < placements.height
    if name == "instances":
        return trace.instances["cloud"].count() > 0
    if name == "power_states":
        return trace.power.height > 0 and _has_switched_hosts(trace)
    if name == "transfers":
        return trace.transfers.height > 0
    if name == "carbon":
        try:
            return trace.power.height > 0 and get_intensity(trace) is not None
        except InputError:
            return True
    if name == "lateness":
        return has_noticeable_lateness(trace)
    if name == "sessions":
        return tasks["user"].null_count() < tasks.height
    return True


def _has_switched_hosts(trace: Trace) -> bool:
    """Whether a run has clouds, or hosts that a controller has switched off."""
    return bool(
        trace.instances["cloud"].count()
        or trace.node_states["state"].is_in(("off", "switching-off", "switching-on")).any()
    )


def _describe_origin(trace: Trace) -> str:
    manifest = trace.manifest
    parts = [format_count(trace.tasks.height, "task")]
    if trace.nodes.height:
        parts.append(format_count(trace.nodes.height, "node"))
    if manifest.source:
        parts.append(f"format {manifest.source.format}")
    run = manifest.facts.get("run")
    if isinstance(run, dict) and run.get("skipped"):
        parts.append(f"{format_count(run['skipped'], 'record')} skipped because they cannot be run")
    if manifest.seed is not None:
        parts.append(f"seed {manifest.seed}")
    parts.append(f"twinloop {manifest.programs.get('twinloop', 'unknown')}")
    return ", ".join(parts)


def render_key_figures(trace: Trace) -> list[Markup]:
    """Render the key figures of a run, and the notes on them.

    >>> "makespan" in render_key_figures(Trace())[0]
    False
    """
    prices = (trace.manifest.scenario or {}).get("prices")
    key_figures = figures(trace, prices=None if prices is None else Prices.from_dict(prices))
    return [render_cards(list_key_figures(key_figures)), *map(render_note, key_figures.notes)]
