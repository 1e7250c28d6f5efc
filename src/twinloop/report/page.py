"""A run on one page: key figures and all pictures in a file that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import importlib.resources
import json
from collections.abc import Callable, Collection
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.metrics.figures import figures
from twinloop.report import words
from twinloop.report.axis import TimeAxis, extent
from twinloop.report.curves import power, queue, utilisation, waits
from twinloop.report.gantt import gantt
from twinloop.report.key_figures import key_figures
from twinloop.report.page_title import page_title
from twinloop.report.usage import usage
from twinloop.scenario import Prices
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.files import writing
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

# Pixels of a letter and of all else to the left of a picture, and the longest name shown there.
_LETTER, _BESIDE, _LEFT, _LONGEST = 7.6, 20.0, 64.0, 27

# The page loads nothing, whatever is in it.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
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
    path = Path(path)
    page = _page(required(trace), page_title(trace) if title is None else title)
    with writing(path) as stream:
        stream.write(page.encode())
    return path


def _page(trace: Trace, title: str) -> str:
    figures: dict[str, Figure] = {}
    sections, missing = [], []
    first, last = extent(trace)
    span = TimeAxis.of(trace).at(np.array([first, last])).tolist() if last > first else None
    for name, draw, height in _PICTURES:
        if name == "usage" and not trace.usage.height and trace.manifest.kind != "recorded":
            continue  # only who records can be expected to have samples
        try:
            figure = draw(trace)
        except InputError as error:
            missing.append(f'<p class="note">{escape(error.problem)}.</p>')
            continue
        notes = (figure.layout.meta or {}).get("notes", [])
        heading = figure.layout.title.text
        figure.update_layout(title=None, template="none")
        if name != "waits":
            figure.update_xaxes(range=span)
        figures[name] = figure
        said = "".join(f'<p class="note">{escape(note)}.</p>' for note in notes)
        sections.append(
            f'<section><h2>{escape(heading)}</h2><div class="picture" id="{name}" '
            f'style="height:{height}px" role="img" aria-label="{escape(heading)}"></div>'
            f"{said}</section>"
        )
    if missing:
        sections.append(f"<section><h2>Not drawn</h2>{''.join(missing)}</section>")
    _align(figures.values())
    pictures = {name: json.loads(figure.to_json()) for name, figure in figures.items()}
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{_origin(trace)}
{_figures(trace)}
<noscript><p class="note">The pictures need JavaScript; nothing is loaded from elsewhere.</p>\
</noscript>
<p class="note" id="problem" hidden></p>
{chr(10).join(sections)}
{_cleaned(trace)}
</main>
<!-- plotly.js, Copyright Plotly, Inc., MIT licence; its text is packed with gzip. -->
<script type="application/gzip" id="plotly">{_packed(_plotly())}</script>
<script type="application/gzip" id="pictures">{_packed(json.dumps(pictures))}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _align(figures: Collection[Figure]) -> None:
    """Give all pictures the same margins, so that a moment is at the same place in all."""
    longest = max((_shorten(figure) for figure in figures), default=0)
    left = max(_LEFT, _BESIDE + _LETTER * longest)
    above = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom",
             "len": 0.3, "thickness": 10, "title": {"side": "top"}}  # fmt: skip
    for figure in figures:
        figure.update_layout(margin_l=left)
        figure.update_traces(colorbar=above, selector={"type": "heatmap"})


def _shorten(figure: Figure) -> int:
    """Shorten the names to the left of a picture; how long the longest then is."""
    maps = [drawn for drawn in figure.data if drawn.type == "heatmap"]
    names = maps[0].y if maps else figure.layout.yaxis.ticktext or ()
    short = [words.shortened(unescape(name), _LONGEST) for name in names]
    said = [escape(name, quote=False) for name in short]
    if not maps:
        figure.update_yaxes(ticktext=said or None)
    elif len(set(said)) == len(said):  # rows of a map that share a name would become one
        maps[0].y = said
    return max(map(len, short), default=0)


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
    return f'<p class="origin">{escape(", ".join(parts))}</p>'


def _figures(trace: Trace) -> str:
    prices = (trace.manifest.scenario or {}).get("prices")
    found = figures(trace, prices=None if prices is None else Prices.from_dict(prices))
    cards = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(said)}</dd></div>\n"
        for name, said in key_figures(found)
    )
    notes = "".join(f'<p class="note">{escape(note)}.</p>\n' for note in found.notes)
    return f'<dl class="figures">\n{cards}</dl>\n{notes}'


def _cleaned(trace: Trace) -> str:
    notes = trace.manifest.cleaned
    head = "<section><h2>What was not taken as it stood</h2>"
    if not notes:
        return f"{head}<p>Everything was taken as it stood.</p></section>"
    rows = "".join(
        f"<tr><td>{escape(note.kind)}</td><td>{note.count:,}</td><td>{escape(note.what)}</td>"
        f"<td>{escape(', '.join(note.examples))}</td></tr>\n"
        for note in notes
    )
    names = "<tr><th>what</th><th>times</th><th>of what</th><th>first places</th></tr>"
    return (
        f'{head}<div class="wide"><table><thead>{names}</thead><tbody>{rows}</tbody></table>'
        "</div></section>"
    )


def _packed(text: str) -> str:
    # Without a time stamp: the same trace gives the same bytes.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
