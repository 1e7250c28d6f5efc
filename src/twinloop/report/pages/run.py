"""A run on one page: key figures and all pictures in a file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import figures
from twinloop.report.figures.carbon import get_intensity, plot_carbon
from twinloop.report.figures.curves import plot_power, plot_queue, plot_utilisation, plot_waits
from twinloop.report.figures.gantt import plot_gantt
from twinloop.report.figures.heat import plot_heat
from twinloop.report.figures.lateness import has_noticeable_lateness, plot_lateness
from twinloop.report.figures.sessions import plot_sessions
from twinloop.report.figures.time_axis import TimeAxis, find_extent
from twinloop.report.figures.usage import plot_usage
from twinloop.report.key_figures import list_key_figures
from twinloop.report.pages.data_quality import add_data_quality
from twinloop.report.pages.page import Page, render_cards, render_note
from twinloop.report.pages.run_title import describe_run
from twinloop.report.quantity_text import format_count
from twinloop.scenario import Prices
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Name on the page, what draws it, its height in pixels (0: as the figure says), what to look at.
_PICTURES: Final[tuple[tuple[str, Callable[[Trace], Figure], int, str], ...]] = (
    ("gantt", plot_gantt, 560, "Each bar is a task; gaps are idle cores."),
    ("queue", plot_queue, 380, "A queue that keeps growing says that the machines cannot keep up."),
    ("utilisation", plot_utilisation, 320,
     "What lies between the curve and the dotted line was idle."),
    ("heat", plot_heat, 0, "A pale row is a machine that had little to do."),
    ("usage", plot_usage, 360,
     "The cores that tasks kept busy, which may be fewer than they held."),
    ("power", plot_power, 300, "The area under the curve is the energy."),
    ("carbon", plot_carbon, 380, "The same power weighs more while the intensity below is high."),
    ("waits", plot_waits, 320, "The sooner the curve is near 100 %, the shorter people waited."),
    ("lateness", plot_lateness, 0, "Long bars are users who were held up most."),
    ("sessions", plot_sessions, 0, "Each bar is a period of work of the user with most tasks."),
)  # fmt: skip
_NOT_OVER_TIME: Final = frozenset({"waits", "lateness", "sessions"})


def write_run_page(trace: Trace, path: str | Path, *, title: str | None = None) -> Path:
    """Write a run as one HTML file: key figures, pictures, and how good its data are.

    Pictures: Gantt, queue, utilisation, how busy each machine was, power, waits; where they are
    known also CPU use, carbon, lateness and the sessions of the user with most tasks. Each can be
    saved as PNG and SVG, and its data as CSV.

    The file works from disk and without a network, in light and dark, on a phone and on paper. It
    appears whole or not at all. What a trace does not have is left out, and the page says so.

    Args:
        trace: Any trace, real or simulated.
        path: The file to write; one that is there is replaced.
        title: The heading; by default what the trace is, from its manifest: of which workload,
            under which policy, on which platform.

    >>> import tempfile, polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}))
    >>> with tempfile.TemporaryDirectory() as there:
    ...     write_run_page(trace, there + "/run.html").name
    'run.html'
    """
    page = Page(describe_run(require_trace(trace)) if title is None else title)
    page.add(f'<p class="origin">{escape(_describe_origin(trace))}</p>')
    page.add(*render_key_figures(trace))
    add_run_figures(page, trace)
    add_data_quality(page, trace)
    return page.write(path)


def add_run_figures(
    page: Page, trace: Trace, prefix: str = "", only: Collection[str] = (), where: str = ""
) -> None:
    """Put the pictures of a run on a page, and say which there are no data for.

    Args:
        page: Where they are put.
        trace: Any trace, real or simulated.
        prefix: Before the names that they have on the page.
        only: Which; by default all.
        where: After their headings.

    >>> import polars as pl
    >>> page = Page("A run")
    >>> placements = pl.DataFrame({"task": ["a"], "start": 0.0, "end": 5.0})
    >>> add_run_figures(page, Trace(placements=placements))
    >>> 'id="utilisation"' in page.render(), "there is no power to draw" in page.render()
    (True, True)
    """
    missing = []
    first, last = find_extent(trace)
    span = TimeAxis.of(trace).at(np.array([first, last])).tolist() if last > first else None
    mapped = False
    for name, draw, height, guide in _PICTURES:
        if (
            (only and name not in only)
            or not _is_expected(name, trace)
            or (name == "heat" and mapped)
        ):
            continue
        try:
            figure = draw(trace)
        except InputError as error:
            missing.append(render_note(error.problem))
            continue
        if name == "gantt" and figure.data[0].type == "heatmap":
            mapped, guide = True, "A pale row was idle; a dark one was full."
        if name == "sessions" and len(figure.data[-1].x) < 2:
            continue  # one bar says nothing
        if where:
            figure.update_layout(title_text=f"{figure.layout.title.text}, {where}")
        if name not in _NOT_OVER_TIME:
            figure.update_xaxes(range=span)
        page.add_figure(
            f"{prefix}{name}", figure, height or figure.layout.height or 360,
            over_time=name not in _NOT_OVER_TIME and not prefix, guide=guide,
        )  # fmt: skip
    if missing:
        page.add_section("Not drawn", *missing)


def _is_expected(name: str, trace: Trace) -> bool:
    """Whether a run of this kind should have such a picture, so that it is said if it has none."""
    tasks = trace.tasks
    if name == "usage":  # only who records can be expected to have samples
        return trace.usage.height > 0 or trace.manifest.kind == "recorded"
    if name == "heat":
        ran = trace.placements
        return ran["machine"].null_count() < ran.height
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


def _describe_origin(trace: Trace) -> str:
    manifest = trace.manifest
    parts = [format_count(trace.tasks.height, "task")]
    if trace.nodes.height:
        parts.append(format_count(trace.nodes.height, "node"))
    if manifest.source:
        parts.append(f"format {manifest.source.format}")
    run = manifest.facts.get("run")
    if isinstance(run, dict) and run.get("skipped"):
        parts.append(f"{format_count(run['skipped'], 'record')} skipped that could not be run")
    if manifest.seed is not None:
        parts.append(f"seed {manifest.seed}")
    parts.append(f"twinloop {manifest.programs.get('twinloop', 'unknown')}")
    return ", ".join(parts)


def render_key_figures(trace: Trace) -> list[str]:
    """The key figures of a run as they stand on a page.

    >>> "makespan" in render_key_figures(Trace())[0]
    False
    """
    prices = (trace.manifest.scenario or {}).get("prices")
    found = figures(trace, prices=None if prices is None else Prices.from_dict(prices))
    return [render_cards(list_key_figures(found)), *map(render_note, found.notes)]
