"""A confirmation on one page: which recommendations hold, first of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import OVERCOMMITTED
from twinloop.report.figures.confirmation import plot_course, plot_differences, plot_ranks
from twinloop.report.kpi_text import (
    expand_kpi_names,
    format_change,
    format_scaled,
    label_kpi,
    name_kpi,
)
from twinloop.report.pages.page import (
    Page,
    render_answer,
    render_cards,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_status,
    render_table,
)
from twinloop.report.quantity_text import format_count, format_duration, format_number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.exploration.confirmation.result import Confirmation

_GUIDES: Final = {
    "differences": "A bar that does not touch zero is a difference that is really there; it is as "
    "predicted if it lies on the same side of zero as the diamond, which may be the worse side.",
    "ranks": "Where lines cross, the means came out in another order than predicted; the table "
    "above counts that as wrong only if the two really differ, and else as not told apart.",
    "course": "A trend over all runs would be drift of the machine; the order was drawn at random, "
    "so that drift falls on all alike.",
}


def write_confirmation_page(
    confirmation: Confirmation, path: str | Path, *, title: str | None = None
) -> Path:
    """Write a confirmation as one HTML file: verdicts, predicted and real, ranks, the runs.

    Args:
        confirmation: What was run for real.
        path: The file to write; one that is there is replaced.
        title: The heading.

    >>> import tempfile
    >>> from twinloop.report.examples import make_confirmation
    >>> with tempfile.TemporaryDirectory() as there:
    ...     page = write_confirmation_page(make_confirmation(), there + "/real.html")
    ...     text = page.read_text("utf-8")
    >>> "as predicted (10 %): holds" in text
    True
    """
    heading = "Recommended, then run for real" if title is None else title
    page = Page(heading, above="measured: each configuration was run for real")
    page.add(render_status(confirmation.status, big=True))
    page.add(
        render_paragraph("This is the verdict on the first recommendation; here are all of them.")
    )
    page.add(
        render_answer(describe_recommendations(confirmation)),
        render_cards(_list_key_figures(confirmation)),
    )
    add_confirmation(page, confirmation)
    return page.write(path)


def describe_recommendations(confirmation: Confirmation) -> list[str]:
    """What became of each recommendation, in sentences.

    >>> from twinloop.report.examples import make_confirmation
    >>> describe_recommendations(make_confirmation())[0].endswith(": holds.")
    True
    """
    said, lower = [], confirmation.objectives[0].lower
    for each in confirmation.recommendations:
        sure = each.probability
        if sure is not None and each.predicted and (each.predicted > 0) == lower:
            sure = 1.0 - sure  # it was foretold to be worse: so sure of that
        foretold = "" if sure is None else f" (the twin was {100 * sure:.3g} % sure)"
        said.append(f"{expand_kpi_names(each.sentence).removesuffix('.')}{foretold}.")
        said += [f"Unsupported: {expand_kpi_names(leans)}" for leans in each.unsupported]
    return said


def add_confirmation(page: Page, confirmation: Confirmation, prefix: str = "") -> None:
    """Put the tables and the pictures of a confirmation on a page.

    >>> from twinloop.report.examples import make_confirmation
    >>> page = Page("Mine")
    >>> add_confirmation(page, make_confirmation())
    >>> 'id="ranks"' in page.render()
    True
    """
    missing: list[str] = []
    _add_figure(page, missing, f"{prefix}differences", lambda: plot_differences(confirmation))
    _add_comparison(page, confirmation)
    _add_figure(page, missing, f"{prefix}ranks", lambda: plot_ranks(confirmation))
    others = [each.kpi for each in confirmation.objectives[1:]]
    for at, metric in enumerate(others):
        _add_figure(
            page, missing, f"{prefix}differences-{at}",
            lambda metric=metric: plot_differences(confirmation, metric),  # type: ignore[misc]
        )  # fmt: skip
    _add_diagnosis(page, confirmation)
    _add_figure(page, missing, f"{prefix}course", lambda: plot_course(confirmation))
    _add_runs(page, confirmation)
    if missing:
        page.add_section("Not drawn", *map(render_note, missing))
    if confirmation.notes:
        page.add_section("Notes", render_list(map(expand_kpi_names, confirmation.notes)))


def _add_figure(page: Page, missing: list[str], name: str, draw: Callable[[], Figure]) -> None:
    try:
        figure = draw()
    except InputError as error:
        missing.append(error.problem)
        return
    kind = next(each for each in _GUIDES if each in name)
    page.add_figure(name, figure, figure.layout.height or 400, guide=_GUIDES[kind])


def _list_key_figures(confirmation: Confirmation) -> Iterator[tuple[str, str]]:
    yield "configurations", f"{len(confirmation.candidates) + 1:,}"
    yield "repetitions", f"{confirmation.repetitions:,}"
    runs = confirmation.runs
    yield "runs", f"{runs.height:,}"
    if failed := runs["error"].count():
        yield "failed runs", f"{failed:,}"
    if runs["seconds"].count():
        yield "time of all runs", format_duration(float(runs["seconds"].sum()))
    for row in confirmation.ranks.filter(pl.col("metric") == confirmation.by).rows(named=True):
        yield "order by " + name_kpi(row["metric"]), "as predicted" if row["same"] else "another"
        if row["tau"] is not None:
            yield "Kendall's tau", f"{row['tau']:.2g}"


def _add_comparison(page: Page, confirmation: Confirmation) -> None:
    names = ["metric", "configuration", "predicted", "real", "standard deviation", "off by"]
    names += ["predicted rank", "real rank"]
    rows = []
    for row in confirmation.table.rows(named=True):
        base = " (baseline)" if row["baseline"] else ""
        off = "-" if None in (row["predicted"], row["real"]) else format_change(
            row["predicted"], row["real"]
        )  # fmt: skip
        rows.append([
            label_kpi(row["metric"]), f"{row['candidate']}{base}",
            *(format_scaled(row["metric"], row[name]) for name in ("predicted", "real", "real_sd")),
            off, _format_rank(row["predicted_rank"]), _format_rank(row["real_rank"]),
        ])  # fmt: skip
    orders = [
        [
            name_kpi(row["metric"]), {True: "yes", False: "no", None: "-"}[row["same"]],
            "-" if row["tau"] is None else f"{row['tau']:.2g}",
            *(str(row[name]) for name in ("pairs", "agree", "disagree", "ties")),
        ]
        for row in confirmation.ranks.rows(named=True)
    ]  # fmt: skip
    held = confirmation.table.filter(metric="utilisation")
    above = bool((held.select(pl.max_horizontal("predicted", "real")).to_series() > 1.0).any())
    heads = ("metric", "same ranks", "tau", "pairs", "right", "wrong", "not told apart")
    pairs = [
        [
            label_kpi(row["metric"]), row["one"], row["other"],
            *(
                format_scaled(row["metric"], row[name])
                for name in ("predicted", "real", "low", "high")
            ),
            row["verdict"],
        ]
        for row in confirmation.pairs.rows(named=True)
    ]  # fmt: skip
    of_pairs = ("metric", "one", "other", "predicted", "real", "from", "to", "verdict")
    page.add_section(
        "Predicted and real",
        render_table(names, rows, numbers=names[2:]),
        render_note(OVERCOMMITTED) if above else "",
        "<h3>How far the order is right</h3>",
        render_paragraph("Only pairs whose 90 % interval leaves out zero count as right or wrong."),
        render_table(heads, orders, numbers=heads[2:]),
        render_details("All pairs", render_table(of_pairs, pairs, numbers=of_pairs[3:7])),
    )


def _format_rank(place: float | None) -> str:
    return "-" if place is None else f"{place:g}"


def _add_diagnosis(page: Page, confirmation: Confirmation) -> None:
    found = confirmation.diagnosis
    if found is None:
        return
    page.add_section(
        "Why a ranking was reversed", *render_diagnosis(found), render_note(found.fitted_to)
    )


def render_diagnosis(found: Any) -> list[str]:
    """A diagnosis as it stands on a page: its sentence, then a row per option.

    >>> from types import SimpleNamespace
    >>> tried = pl.DataFrame({"option": ["contention"], "loss": [0.25]})
    >>> sentence = "Contention would have ranked them right."
    >>> render_diagnosis(SimpleNamespace(sentence=sentence, table=tried))
    ['<p>Contention would...</p>', '...<td>contention</td><td class="number">0.25</td>...']
    """
    frame: pl.DataFrame = found.table
    names = [name.replace("_", " ") for name in frame.columns]
    numbers = [
        said
        for said, name in zip(names, frame.columns, strict=True)
        if frame.schema[name].is_numeric()
    ]
    rows = [[_format_cell(value) for value in row] for row in frame.iter_rows()]
    return [
        render_paragraph(expand_kpi_names(found.sentence)),
        render_table(names, rows, numbers=numbers),
    ]


def _format_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return format_number(value)
    return "-" if value is None else str(value)


def _add_runs(page: Page, confirmation: Confirmation) -> None:
    metrics = [each.kpi for each in confirmation.objectives if each.kpi in confirmation.runs]
    names = ["run", "configuration", "repetition", *map(label_kpi, metrics), "error"]
    rows = [
        [
            str(row["order"]), row["candidate"], str(row["repetition"]),
            *(format_scaled(metric, row[metric]) for metric in metrics), row["error"] or "",
        ]
        for row in confirmation.runs.sort("order").rows(named=True)
    ]  # fmt: skip
    page.add_section(
        "All runs",
        render_details(
            format_count(len(rows), "run"), render_table(names, rows, numbers=["run", *names[2:-1]])
        ),
    )
