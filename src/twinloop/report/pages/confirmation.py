"""Page of a confirmation: verdicts on the recommendations, measured results, rankings, runs."""

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
from twinloop.report.pages.fragments import (
    render_answer,
    render_cards,
    render_details,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_status,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_count, format_duration, format_number

if TYPE_CHECKING:
    from markupsafe import Markup
    from plotly.graph_objects import Figure

    from twinloop.exploration.confirmation.result import Confirmation

_GUIDES: Final = {
    "differences": "An interval that excludes zero is a significant difference. It agrees with the "
    "prediction if it lies on the same side of zero as the diamond, which can be the worse side.",
    "ranks": "Crossing lines are configurations whose measured means are in another order than "
    "predicted. The table above counts a pair as wrong only if its difference is significant.",
    "course": "A trend over all runs indicates drift of the machine. The order of the runs is "
    "random, so that drift affects all configurations alike.",
}


def write_confirmation_page(
    confirmation: Confirmation, path: str | Path, *, title: str | None = None
) -> Path:
    """Write a confirmation as one HTML file: verdicts, predicted and measured results, runs.

    Args:
        confirmation: The measured runs and their verdicts.
        path: The file to write; an existing file is replaced.
        title: The heading.

    >>> import tempfile
    >>> from twinloop.report.examples import make_confirmation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_confirmation_page(make_confirmation(), folder + "/real.html")
    ...     text = page.read_text("utf-8")
    >>> "as predicted (10 %): holds" in text
    True
    """
    heading = "Confirmation by real runs" if title is None else title
    page = Page(heading, above="measured: each configuration was executed on real machines")
    page.add(render_status(confirmation.status, big=True))
    page.add(
        render_paragraph("Verdict on the first recommendation; the verdicts on all of them follow.")
    )
    page.add(
        render_answer(describe_recommendations(confirmation)),
        render_cards(_list_key_figures(confirmation)),
    )
    add_confirmation(page, confirmation)
    return page.write(path)


def describe_recommendations(confirmation: Confirmation) -> list[str]:
    """Describe the verdict on each recommendation in a sentence.

    >>> from twinloop.report.examples import make_confirmation
    >>> describe_recommendations(make_confirmation())[0].endswith(": holds.")
    True
    """
    sentences, lower = [], confirmation.objectives[0].lower
    for each in confirmation.recommendations:
        probability = each.probability
        if probability is not None and each.predicted and (each.predicted > 0) == lower:
            probability = 1.0 - probability  # the prediction is a deterioration
        suffix = (
            "" if probability is None else f" (predicted probability {100 * probability:.3g} %)"
        )
        sentences.append(f"{expand_kpi_names(each.sentence).removesuffix('.')}{suffix}.")
        sentences += [f"Unsupported: {expand_kpi_names(reason)}" for reason in each.unsupported]
    return sentences


def add_confirmation(page: Page, confirmation: Confirmation, prefix: str = "") -> None:
    """Add the tables and the figures of a confirmation to a page.

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
    for index, metric in enumerate(others):
        _add_figure(
            page, missing, f"{prefix}differences-{index}",
            lambda metric=metric: plot_differences(confirmation, metric),  # type: ignore[misc]
        )  # fmt: skip
    _add_diagnosis(page, confirmation)
    _add_figure(page, missing, f"{prefix}course", lambda: plot_course(confirmation))
    _add_runs(page, confirmation)
    if missing:
        page.add_section("Omitted figures", *map(render_note, missing))
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
        yield "total run time", format_duration(float(runs["seconds"].sum()))
    for row in confirmation.ranks.filter(pl.col("metric") == confirmation.by).rows(named=True):
        order = "as predicted" if row["same"] else "not as predicted"
        yield f"ranking by {name_kpi(row['metric'])}", order
        if row["tau"] is not None:
            yield "Kendall's tau", f"{row['tau']:.2g}"


def _add_comparison(page: Page, confirmation: Confirmation) -> None:
    names = ["metric", "configuration", "predicted", "real", "standard deviation", "error"]
    names += ["predicted rank", "real rank"]
    rows = []
    for row in confirmation.table.rows(named=True):
        base = " (baseline)" if row["baseline"] else ""
        error = "-" if None in (row["predicted"], row["real"]) else format_change(
            row["predicted"], row["real"]
        )  # fmt: skip
        rows.append([
            label_kpi(row["metric"]), f"{row['candidate']}{base}",
            *(format_scaled(row["metric"], row[name]) for name in ("predicted", "real", "real_sd")),
            error, _format_rank(row["predicted_rank"]), _format_rank(row["real_rank"]),
        ])  # fmt: skip
    orders = [
        [
            name_kpi(row["metric"]), {True: "yes", False: "no", None: "-"}[row["same"]],
            "-" if row["tau"] is None else f"{row['tau']:.2g}",
            *(str(row[name]) for name in ("pairs", "agree", "disagree", "ties")),
        ]
        for row in confirmation.ranks.rows(named=True)
    ]  # fmt: skip
    utilisations = confirmation.table.filter(metric="utilisation")
    is_overcommitted = bool(
        (utilisations.select(pl.max_horizontal("predicted", "real")).to_series() > 1.0).any()
    )
    order_names = ("metric", "same ranks", "tau", "pairs", "right", "wrong", "not significant")
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
    pair_names = ("metric", "first", "second", "predicted", "real", "from", "to", "verdict")
    page.add_section(
        "Predicted and measured results",
        render_table(names, rows, numbers=names[2:]),
        render_note(OVERCOMMITTED) if is_overcommitted else "",
        render_heading("Agreement of the rankings"),
        render_paragraph(
            "A pair counts as right or wrong only if its 90 % interval excludes zero."
        ),
        render_table(order_names, orders, numbers=order_names[2:]),
        render_details("All pairs", render_table(pair_names, pairs, numbers=pair_names[3:7])),
    )


def _format_rank(rank: float | None) -> str:
    return "-" if rank is None else f"{rank:g}"


def _add_diagnosis(page: Page, confirmation: Confirmation) -> None:
    diagnosis = confirmation.diagnosis
    if diagnosis is None:
        return
    page.add_section(
        "Diagnosis of a reversed ranking",
        *render_diagnosis(diagnosis),
        render_note(diagnosis.fitted_to),
    )


def render_diagnosis(diagnosis: Any) -> list[Markup]:
    """Render a diagnosis: its sentence, then a table with a row per option.

    >>> from types import SimpleNamespace
    >>> tried = pl.DataFrame({"option": ["contention"], "loss": [0.25]})
    >>> sentence = "Contention would have ranked them right."
    >>> print(*render_diagnosis(SimpleNamespace(sentence=sentence, table=tried)))
    <p>Contention would...</p> ...<td>contention</td><td class="number">0.25</td>...
    """
    frame: pl.DataFrame = diagnosis.table
    names = [name.replace("_", " ") for name in frame.columns]
    numbers = [
        label
        for label, name in zip(names, frame.columns, strict=True)
        if frame.schema[name].is_numeric()
    ]
    rows = [[_format_cell(value) for value in row] for row in frame.iter_rows()]
    return [
        render_paragraph(expand_kpi_names(diagnosis.sentence)),
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
