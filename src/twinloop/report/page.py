"""A run on one page: key figures and all pictures in a file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.metrics.figures import figures
from twinloop.report import words
from twinloop.report.axis import TimeAxis, extent
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.document import Document, cards, note, paragraph, table
from twinloop.report.gantt import gantt
from twinloop.report.key_figures import key_figures
from twinloop.report.page_title import page_title
from twinloop.report.usage import usage
from twinloop.scenario import Prices
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.trace import required

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Name on the page, what draws it, its height in pixels.
_PICTURES: Final[tuple[tuple[str, Callable[[Trace], Figure], int], ...]] = (
    ("gantt", gantt, 560),
    ("queue", queue, 380),
    ("utilisation", utilisation, 320),
    ("usage", usage, 360),
    ("power", power, 300),
    ("waits", waits, 320),
)


def run_page(trace: Trace, path: str | Path, *, title: str | None = None) -> Path:
    """Write a run as one HTML file: key figures, Gantt, queue, utilisation, power, waits.

    A run with samples also has its CPU use.

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
    page.add(*_figures(trace))
    _pictures(page, trace)
    _cleaned(page, trace)
    return page.write(path)


def _pictures(page: Document, trace: Trace) -> None:
    missing = []
    first, last = extent(trace)
    span = TimeAxis.of(trace).at(np.array([first, last])).tolist() if last > first else None
    for name, draw, height in _PICTURES:
        if name == "usage" and not trace.usage.height and trace.manifest.kind != "recorded":
            continue  # only who records can be expected to have samples
        try:
            figure = draw(trace)
        except InputError as error:
            missing.append(note(error.problem))
            continue
        if name != "waits":
            figure.update_xaxes(range=span)
        page.picture(name, figure, height, over_time=name != "waits")
    if missing:
        page.section("Not drawn", *missing)


def _origin(trace: Trace) -> str:
    manifest = trace.manifest
    parts = [words.count(trace.tasks.height, "task")]
    if trace.nodes.height:
        parts.append(words.count(trace.nodes.height, "node"))
    if manifest.source:
        parts.append(f"format {manifest.source.format}")
    run = manifest.facts.get("run")
    if isinstance(run, dict) and run.get("skipped"):
        parts.append(f"{words.count(run['skipped'], 'record')} skipped that could not be run")
    if manifest.seed is not None:
        parts.append(f"seed {manifest.seed}")
    parts.append(f"twinloop {manifest.programs.get('twinloop', 'unknown')}")
    return ", ".join(parts)


def _figures(trace: Trace) -> list[str]:
    prices = (trace.manifest.scenario or {}).get("prices")
    found = figures(trace, prices=None if prices is None else Prices.from_dict(prices))
    return [cards(key_figures(found)), *map(note, found.notes)]


def _cleaned(page: Document, trace: Trace) -> None:
    notes = trace.manifest.cleaned
    rows = [(each.kind, f"{each.count:,}", each.what, ", ".join(each.examples)) for each in notes]
    page.section(
        "What was not taken as it stood",
        table(("what", "times", "of what", "first places"), rows, numbers=("times",))
        if notes
        else paragraph("Everything was taken as it stood."),
    )
