"""Page that compares runs: a table of figures, bar charts, the difference of two runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from twinloop.metrics import FIGURES, difference
from twinloop.metrics.trace_figures import figures
from twinloop.report.difference_text import describe_difference, format_amounts
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.pages.fragments import (
    render_link,
    render_note,
    render_paragraph,
    render_preformatted,
    render_status,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import shorten_name
from twinloop.report.view.listing import make_address
from twinloop.scenario import Prices
from twinloop.trace import Trace

if TYPE_CHECKING:
    from markupsafe import Markup
    from plotly.graph_objects import Figure

#: Maximum number of runs in one comparison.
MAX_RUNS: Final = 12
#: The figures with a bar chart, if more than one run has them.
_CHARTED_KPIS: Final = (
    "makespan_s", "wait_mean_s", "wait_p95_s", "bounded_slowdown_mean", "utilisation",
    "energy_per_task_j", "carbon_g", "cost",
)  # fmt: skip
_REAL: Final = frozenset({"recorded", "log"})


def write_comparison_page(runs: Mapping[str, Trace], path: str | Path, base: str = "/") -> Path:
    """Write a comparison of runs as one HTML file: figures, bar charts, the difference of two runs.

    If one of two runs is real and the other simulated, the simulated one is also assessed as the
    twin of the real one.

    Args:
        runs: The runs by their names, two or more.
        path: The file to write; an existing file is replaced.
        base: The URL path of the server.

    >>> import tempfile, polars as pl
    >>> run = Trace(placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_comparison_page({"one": run, "other": run}, folder + "/both.html").name
    'both.html'
    """
    # Real runs first, because the others are compared with them.
    order = sorted(runs, key=lambda name: runs[name].manifest.kind not in _REAL)
    runs = {name: runs[name] for name in order}
    page = Page(
        " and ".join(runs) if len(runs) == 2 else f"Comparison of {len(runs)} runs"
    )  # fmt: skip
    if len(runs) == 2:
        _add_assessment(page, runs, base)
        text = describe_difference(difference(*runs.values()))
        letters = ", ".join(f"{letter}: {name}" for letter, name in zip("AB", runs, strict=True))
        page.add_section("Differences", render_paragraph(letters), render_preformatted(text))
    figures_by_run = {name: _compute_figures(trace) for name, trace in runs.items()}
    page.add_section("Figures", _render_figure_table(figures_by_run, base))
    for kpi in _CHARTED_KPIS:
        values_by_run = [values[kpi] for values in figures_by_run.values()]
        if sum(value is not None for value in values_by_run) > 1:
            height = 110 + 34 * len(runs)
            page.add_figure(kpi, _plot_bars(kpi, list(figures_by_run), values_by_run), height)
    return page.write(path)


def find_real_and_twin(runs: Mapping[str, Trace]) -> tuple[str, str] | None:
    """Return the names of the real run and of its twin.

    None unless there is exactly one real and one simulated run.

    >>> from twinloop.trace import Manifest
    >>> twin = Trace(manifest=Manifest(kind="simulated"))
    >>> find_real_and_twin({"twin": twin, "log": Trace()})
    ('log', 'twin')
    >>> find_real_and_twin({"twin": twin, "again": twin})
    """
    real = [name for name, trace in runs.items() if trace.manifest.kind in _REAL]
    simulated = [name for name, trace in runs.items() if trace.manifest.kind == "simulated"]
    return (real[0], simulated[0]) if (len(real), len(simulated)) == (1, 1) else None


def _add_assessment(page: Page, runs: Mapping[str, Trace], base: str) -> None:
    pair = find_real_and_twin(runs)
    if pair is None:
        page.add(render_note("no assessment: it needs one real and one simulated run"))
        return
    from twinloop.fidelity import assess

    real, twin = pair
    verdict = assess(runs[real], runs[twin])
    address = f"{base}assess?{urlencode({'real': real, 'twin': twin})}"
    page.add(
        render_paragraph(verdict.provenance, "above"),
        render_status(verdict.status, big=True),
        render_paragraph(f"Assessment of {twin} as the twin of {real}."),
        render_table(("metric", "verdict"), verdict.metrics.items()),
        render_paragraph(render_link(address, "Complete assessment")),
    )


def _compute_figures(trace: Trace) -> dict[str, Any]:
    prices = (trace.manifest.scenario or {}).get("prices")
    return figures(trace, prices=None if prices is None else Prices.from_dict(prices)).to_dict()


def _render_figure_table(figures_by_run: Mapping[str, Mapping[str, Any]], base: str) -> Markup:
    """Render a row per figure and a column per run, with a link to the page of the run."""
    rows = []
    for name, figure in FIGURES.items():
        values = [each.get(name) for each in figures_by_run.values()]
        if any(values):  # figures that are unknown or zero in all runs are left out
            amounts = format_amounts(values, figure.unit, name)
            rows.append([_name_figure(name), *amounts, figure.meaning])
    links = {name: make_address(name, base) for name in figures_by_run}
    return render_table(
        ["figure", *figures_by_run, "meaning"], rows, numbers=list(figures_by_run), links=links
    )


def _plot_bars(kpi: str, names: Sequence[str], values: Sequence[float | None]) -> Figure:
    from plotly.graph_objects import Bar, Figure

    description = FIGURES[kpi]
    texts = format_amounts(values, description.unit, kpi)
    unit = f", {description.unit}" if description.unit else ""
    figure = Figure(
        Bar(
            x=[math.nan if value is None else float(value) for value in values],
            y=list(range(len(names))),
            text=texts,
            hovertext=[f"{escape_label(n)}: {text}" for n, text in zip(names, texts, strict=True)],
            hoverinfo="text",
            orientation="h",
            cliponaxis=False,
        )
    )
    short = [escape_label(shorten_name(name, 24)) for name in names]
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=short, autorange="reversed")
    figure.update_xaxes(title=f"{_name_figure(kpi)}{unit}", rangemode="tozero")
    heading = _name_figure(kpi)
    figure.update_layout(title=f"{heading[0].upper()}{heading[1:]}", showlegend=False)
    figure.update_layout(meta={"notes": [description.meaning]})
    return figure


def _name_figure(name: str) -> str:
    """Return the name of a figure without its unit."""
    for unit in ("_per_s", "_s", "_j", "_g"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
