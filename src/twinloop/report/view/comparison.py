"""Runs side by side: their figures in a table and as bars, and how two of them differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from twinloop.metrics import FIGURES, difference
from twinloop.metrics.trace_figures import figures
from twinloop.report.difference_text import amounts, difference_words
from twinloop.report.pages.page import Document, note, paragraph, source, status, table
from twinloop.report.quantity_text import shorten_name
from twinloop.report.view.listing import address
from twinloop.scenario import Prices
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: How many runs are compared at once.
MOST: Final = 12
#: What is drawn as bars, where more than one run knows it.
_DRAWN: Final = (
    "makespan_s", "wait_mean_s", "wait_p95_s", "bounded_slowdown_mean", "utilisation",
    "energy_per_task_j", "carbon_g", "cost",
)  # fmt: skip
_REAL: Final = frozenset({"recorded", "log"})


def comparison_page(runs: Mapping[str, Trace], path: str | Path, base: str = "/") -> Path:
    """Write runs side by side as one HTML file: figures, bars and, of two, what differs.

    Of a real run and a simulated one it also says how far the twin can be trusted.

    Args:
        runs: The runs by their names, two or more.
        path: The file to write; one that is there is replaced.
        base: The path below which it is served.

    >>> import tempfile, polars as pl
    >>> run = Trace(placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}))
    >>> with tempfile.TemporaryDirectory() as there:
    ...     comparison_page({"one": run, "other": run}, there + "/both.html").name
    'both.html'
    """
    # What really happened is what the others are held against.
    order = sorted(runs, key=lambda name: runs[name].manifest.kind not in _REAL)
    runs = {name: runs[name] for name in order}
    page = Document(
        " and ".join(runs) if len(runs) == 2 else f"{len(runs)} runs side by side"
    )  # fmt: skip
    if len(runs) == 2:
        _assessed(page, runs, base)
        said = difference_words(difference(*runs.values()))
        letters = ", ".join(f"{letter}: {name}" for letter, name in zip("AB", runs, strict=True))
        page.section("What differs", paragraph(letters), source(said))
    found = {name: _figures(trace) for name, trace in runs.items()}
    page.section("Figures", _table(found, base))
    for kpi in _DRAWN:
        known = [values[kpi] for values in found.values()]
        if sum(value is not None for value in known) > 1:
            height = 110 + 34 * len(runs)
            page.picture(kpi, _bars(kpi, list(found), known), height)
    return page.write(path)


def twin_of(runs: Mapping[str, Trace]) -> tuple[str, str] | None:
    """The names of the real run and of its twin, if two runs are one of each.

    >>> from twinloop.trace import Manifest
    >>> twin = Trace(manifest=Manifest(kind="simulated"))
    >>> twin_of({"twin": twin, "log": Trace()}), twin_of({"twin": twin, "again": twin})
    (('log', 'twin'), None)
    """
    real = [name for name, trace in runs.items() if trace.manifest.kind in _REAL]
    others = [name for name, trace in runs.items() if trace.manifest.kind == "simulated"]
    return (real[0], others[0]) if (len(real), len(others)) == (1, 1) else None


def _assessed(page: Document, runs: Mapping[str, Trace], base: str) -> None:
    pair = twin_of(runs)
    if pair is None:
        page.add(note("neither run is the twin of the other, so nothing is assessed"))
        return
    from twinloop.fidelity import assess

    real, twin = pair
    verdict = assess(runs[real], runs[twin])
    where = f"{base}assess?{urlencode({'real': real, 'twin': twin})}"
    page.add(
        f'<p class="above">{escape(verdict.provenance)}</p>',
        status(verdict.status, big=True),
        paragraph(f"This is how far {twin} can be trusted as the twin of {real}."),
        table(("metric", "verdict"), verdict.metrics.items()),
        f'<p><a href="{escape(where)}">The whole assessment</a></p>',
    )


def _figures(trace: Trace) -> dict[str, Any]:
    prices = (trace.manifest.scenario or {}).get("prices")
    return figures(trace, prices=None if prices is None else Prices.from_dict(prices)).to_dict()


def _table(found: Mapping[str, Mapping[str, Any]], base: str) -> str:
    """A row for each figure that any run knows, a column for each run, linked to its page."""
    rows = []
    for name, said in FIGURES.items():
        values = [each.get(name) for each in found.values()]
        if any(values):  # what no run knows, and what is nothing in all of them, says nothing
            rows.append([_called(name), *amounts(values, said.unit), said.meaning])
    markup = table(["figure", *found, "what it is"], rows, numbers=list(found))
    for name in found:
        heading = f'<th class="number">{escape(name)}</th>'
        link = f'<a href="{escape(address(name, base))}">{escape(name)}</a>'
        markup = markup.replace(heading, heading.replace(escape(name), link, 1), 1)
    return markup


def _bars(kpi: str, names: Sequence[str], values: Sequence[float | None]) -> Figure:
    from plotly.graph_objects import Bar, Figure

    known = FIGURES[kpi]
    said = amounts(values, known.unit)
    unit = f", {known.unit}" if known.unit else ""
    figure = Figure(
        Bar(
            x=[math.nan if value is None else float(value) for value in values],
            y=list(range(len(names))),
            text=said,
            hovertext=[f"{escape(n)}: {text}" for n, text in zip(names, said, strict=True)],
            hoverinfo="text",
            orientation="h",
            cliponaxis=False,
        )
    )
    short = [escape(shorten_name(name, 24), quote=False) for name in names]
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=short, autorange="reversed")
    figure.update_xaxes(title=f"{_called(kpi)}{unit}", rangemode="tozero")
    heading = _called(kpi)
    figure.update_layout(title=f"{heading[0].upper()}{heading[1:]}", showlegend=False)
    figure.update_layout(meta={"notes": [known.meaning]})
    return figure


def _called(name: str) -> str:
    """A figure without its unit."""
    for unit in ("_per_s", "_s", "_j", "_g"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
