"""Page of a study of the level of detail: verdict, versions, differences, identifiability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.calibration.detail.study_tables import FITTED
from twinloop.calibration.detail.text import (
    describe_mode,
    describe_references,
    describe_search,
    format_difference,
    format_loss,
    list_identifiability_rows,
    list_version_rows,
)
from twinloop.report.figures.detail_study import plot_detail_study
from twinloop.report.pages.fragments import (
    render_answer,
    render_cards,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from twinloop.calibration.detail.differences import LossDifference
    from twinloop.calibration.detail.study import DetailStudy

_DEFINITIONS: Final = (
    ("version", "the scenario with one level of each factor"),
    ("before", "the loss with the values in the scenario, without calibration"),
    ("predict", "nothing measured in a run is an input of its simulation"),
    ("replay", "measured quantities of a run are inputs of its simulation"),
)
_GUIDES: Final = {
    "versions": "Shorter bars are better; a bar near the noise floor leaves nothing to explain.",
    "searches": "A line that still falls at the end needs a larger budget.",
}


def write_detail_study_page(
    study: DetailStudy, path: str | Path, *, title: str | None = None
) -> Path:
    """Write a study of the level of detail as one HTML file.

    Args:
        study: A finished study.
        path: The file to write; an existing file is replaced.
        title: The heading.
    """
    page = Page("Level of detail" if title is None else title, above=describe_mode(study))
    page.add(
        render_paragraph(f"{describe_search(study)}."),
        render_answer(study.verdict),
        render_cards(_list_key_figures(study)),
        *map(render_note, study.notes),
    )
    for name, figure in plot_detail_study(study).items():
        page.add_figure(name, figure, int(figure.layout.height or 420), guide=_GUIDES[name])
        if name == "versions":
            _add_versions(page, study)
    _add_differences(page, study)
    _add_identifiability(page, study)
    _add_values(page, study)
    page.define_terms(_DEFINITIONS)
    return page.write(path)


def _list_key_figures(study: DetailStudy) -> Iterator[tuple[str, str]]:
    name = study.loss_name
    means = {number: float(each.mean()) for number, each in study.compared_losses.items()}
    for label, version in (("best version", study.best), ("recommended", study.recommended)):
        if version is not None:
            yield label, version.name
            yield f"loss of {label}", format_loss(name, means[version.number])
    ideal, baseline = study.ideal, study.baseline
    yield "noise floor", "unknown" if ideal is None else format_loss(name, ideal["loss"])
    yield "crude baseline", "-" if baseline is None else format_loss(name, baseline["loss"])


def _add_versions(page: Page, study: DetailStudy) -> None:
    head, *rows = list_version_rows(study)
    page.add_section(
        "Versions",
        render_paragraph(f"{describe_mode(study)[:1].upper()}{describe_mode(study)[1:]}."),
        render_table(head, rows, numbers=head[1:]),
        render_list(f"{line[:1].upper()}{line[1:]}." for line in describe_references(study)),
    )


def _add_differences(page: Page, study: DetailStudy) -> None:
    """Add the differences between levels, and those from the best version."""
    name = study.loss_name

    def list_cells(difference: LossDifference) -> tuple[str, str]:
        return format_difference(name, difference), difference.verdict

    levels = [
        (each.factor, each.level, each.other, str(each.pairs), *list_cells(each.difference))
        for each in study.level_differences
    ]
    from_best = [
        (study.get_version(number).name, *list_cells(each))
        for number, each in study.differences_from_best.items()
    ]
    parts: list[Markup] = []
    if levels:
        names = ("factor", "level", "minus", "pairs of versions", "difference", "verdict")
        parts.append(render_table(names, levels, numbers=names[3:5]))
    if from_best and study.best is not None:
        heads = ("version", f"minus {study.best.name}", "verdict")
        parts.append(
            render_details("Differences from the best version", render_table(heads, from_best))
        )
    if parts:
        page.add_section(
            "Differences between levels",
            *parts,
            render_note("intervals of 95 % for all comparisons of a factor together"),
        )


def _add_identifiability(page: Page, study: DetailStudy) -> None:
    names = ("parameter", "value", "interval", "identifiable", "reason")
    parts = []
    for version in study.versions:
        rows = list_identifiability_rows(study, version.number)
        if rows:
            skipped = study.skipped[version.number]
            parts.append(
                render_details(
                    version.name,
                    render_list(study.sentences.get(version.number, ())),
                    render_table(names, rows, numbers=names[1:3]),
                    render_note(f"not in this version: {', '.join(skipped)}") if skipped else "",
                )
            )
    if parts:
        page.add_section("Identifiability", *parts)


def _add_values(page: Page, study: DetailStudy) -> None:
    """Add the fitted values: the mean, the smallest and the largest of the searches."""
    rows = []
    for (number, parameter), found in study.values.filter(values=FITTED).group_by(
        "version", "parameter", maintain_order=True
    ):
        numbers = found["number"]
        if numbers.null_count():
            cells = [", ".join(found["value"].unique(maintain_order=True)), "-", "-"]
        else:
            figures = found.select(
                pl.col("number").mean().alias("mean"),
                pl.col("number").min().alias("min"),
                pl.col("number").max().alias("max"),
            ).row(0)
            cells = [format_number(each) for each in figures]
        name = study.get_version(int(number)).name
        rows.append((name, str(parameter), *cells))
    names = ("version", "parameter", "mean", "min", "max")
    if rows:
        page.add_section(
            "Fitted values",
            render_details("By version", render_table(names, rows, numbers=names[2:])),
            render_note("over the searches with all seeds"),
        )
