"""A run on one page: key figures and all pictures in a file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import figures
from twinloop.report.figures.carbon import carbon, series_of
from twinloop.report.figures.curves import power, queue, utilisation, waits
from twinloop.report.figures.gantt import gantt
from twinloop.report.figures.heat import heat
from twinloop.report.figures.lateness import lateness, noticeable
from twinloop.report.figures.sessions import sessions
from twinloop.report.figures.time_axis import TimeAxis, extent
from twinloop.report.figures.usage import usage
from twinloop.report.key_figures import key_figures
from twinloop.report.pages.data_quality import quality
from twinloop.report.pages.page import Document, cards, note
from twinloop.report.pages.run_title import page_title
from twinloop.report.quantity_text import format_count
from twinloop.scenario import Prices
from twinloop.trace import Trace
from twinloop.trace.trace import required

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Name on the page, what draws it, its height in pixels (0: as the figure says), what to look at.
_PICTURES: Final[tuple[tuple[str, Callable[[Trace], Figure], int, str], ...]] = (
    ("gantt", gantt, 560, "Each bar is a task; gaps are idle cores."),
    ("queue", queue, 380, "A queue that keeps growing says that the machines cannot keep up."),
    ("utilisation", utilisation, 320, "What lies between the curve and the dotted line was idle."),
    ("heat", heat, 0, "A pale row is a machine that had little to do."),
    ("usage", usage, 360, "The cores that tasks kept busy, which may be fewer than they held."),
    ("power", power, 300, "The area under the curve is the energy."),
    ("carbon", carbon, 380, "The same power weighs more while the intensity below is high."),
    ("waits", waits, 320, "The sooner the curve is near 100 %, the shorter people waited."),
    ("lateness", lateness, 0, "Long bars are users who were held up most."),
    ("sessions", sessions, 0, "Each bar is a period of work of the user with most tasks."),
)  # fmt: skip
_NOT_OVER_TIME: Final = frozenset({"waits", "lateness", "sessions"})


def run_page(trace: Trace, path: str | Path, *, title: str | None = None) -> Path:
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
    ...     run_page(trace, there + "/run.html").name
    'run.html'
    """
    page = Document(page_title(required(trace)) if title is None else title)
    page.add(f'<p class="origin">{escape(_origin(trace))}</p>')
    page.add(*summary(trace))
    pictures(page, trace)
    quality(page, trace)
    return page.write(path)


def pictures(
    page: Document, trace: Trace, prefix: str = "", only: Collection[str] = (), where: str = ""
) -> None:
    """Put the pictures of a run on a page, and say which there are no data for.

    Args:
        page: Where they are put.
        trace: Any trace, real or simulated.
        prefix: Before the names that they have on the page.
        only: Which; by default all.
        where: After their headings.

    >>> import polars as pl
    >>> page = Document("A run")
    >>> pictures(page, Trace(placements=pl.DataFrame({"task": ["a"], "start": 0.0, "end": 5.0})))
    >>> 'id="utilisation"' in page.html(), "there is no power to draw" in page.html()
    (True, True)
    """
    missing = []
    first, last = extent(trace)
    span = TimeAxis.of(trace).at(np.array([first, last])).tolist() if last > first else None
    mapped = False
    for name, draw, height, look in _PICTURES:
        if (only and name not in only) or not _expected(name, trace) or (name == "heat" and mapped):
            continue
        try:
            figure = draw(trace)
        except InputError as error:
            missing.append(note(error.problem))
            continue
        if name == "gantt" and figure.data[0].type == "heatmap":
            mapped, look = True, "A pale row was idle; a dark one was full."
        if name == "sessions" and len(figure.data[-1].x) < 2:
            continue  # one bar says nothing
        if where:
            figure.update_layout(title_text=f"{figure.layout.title.text}, {where}")
        if name not in _NOT_OVER_TIME:
            figure.update_xaxes(range=span)
        page.picture(
            f"{prefix}{name}", figure, height or figure.layout.height or 360,
            over_time=name not in _NOT_OVER_TIME and not prefix, look=look,
        )  # fmt: skip
    if missing:
        page.section("Not drawn", *missing)


def _expected(name: str, trace: Trace) -> bool:
    """Whether a run of this kind should have such a picture, so that it is said if it has none."""
    tasks = trace.tasks
    if name == "usage":  # only who records can be expected to have samples
        return trace.usage.height > 0 or trace.manifest.kind == "recorded"
    if name == "heat":
        ran = trace.placements
        return ran["machine"].null_count() < ran.height
    if name == "carbon":
        try:
            return trace.power.height > 0 and series_of(trace) is not None
        except InputError:
            return True
    if name == "lateness":
        return noticeable(trace)
    if name == "sessions":
        return tasks["user"].null_count() < tasks.height
    return True


def _origin(trace: Trace) -> str:
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


def summary(trace: Trace) -> list[str]:
    """The key figures of a run as they stand on a page.

    >>> "makespan" in summary(Trace())[0]
    False
    """
    prices = (trace.manifest.scenario or {}).get("prices")
    found = figures(trace, prices=None if prices is None else Prices.from_dict(prices))
    return [cards(key_figures(found)), *map(note, found.notes)]
