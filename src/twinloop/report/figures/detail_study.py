"""Figures of a study of the level of detail: the loss of each version, and the searches."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import polars as pl

from twinloop.calibration.detail.levels import DetailFactor, Version
from twinloop.calibration.detail.study_tables import FITTED
from twinloop.calibration.detail.text import RELATIVE, format_loss
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.calibration.detail.study import DetailStudy

#: Pixels of a bar, and of the rest of the figure of the versions.
_BAR_HEIGHT, _REST_HEIGHT = 22, 170


def plot_version_losses(study: DetailStudy) -> Figure:
    """Plot the loss of each version as a bar, with the smallest and the largest of a run.

    The colour is the level of the factor with the fewest levels; the bars are grouped by those of
    the others. Lines mark the noise floor and the crude baseline.
    """
    scale, unit = _choose_unit(study)
    used = "held-out" if study.used == "validation" else "training"
    figure = create_figure(f"Loss of each version on {used} runs: {study.loss_name}")
    coloured, others = _divide_factors(study.factors)
    groups = list(_list_groups(others))
    rows = {row["version"]: row for row in study.summarise().iter_rows(named=True)}
    names = [_name_group(others, group) for group in groups]
    for place, label in enumerate(coloured.levels):
        versions = [
            _find_version(study.versions, {**group, coloured.path: label}) for group in groups
        ]
        shown = [
            (name, version, rows[version.number])
            for name, version in zip(names, versions, strict=True)
            if version is not None and rows[version.number]["mean"] is not None
        ]
        means = [scale * row["mean"] for _, _, row in shown]
        figure.add_bar(
            y=[escape_label(name) for name, _, _ in shown],
            x=means,
            orientation="h",
            name=escape_label(f"{coloured.name}: {label}"),
            marker={"color": colours.GROUPS[place % len(colours.GROUPS)]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [scale * (row["highest"] - row["mean"]) for _, _, row in shown],
                "arrayminus": [scale * (row["mean"] - row["lowest"]) for _, _, row in shown],
                "color": colours.LIMIT,
            },
            customdata=[
                [escape_label(version.name), scale * row["lowest"], scale * row["highest"]]
                for _, version, row in shown
            ],
            hovertemplate="%{customdata[0]}: %{x:.4g} (%{customdata[1]:.4g} to "
            "%{customdata[2]:.4g})<extra></extra>",
            meta={
                "columns": {
                    "y": "group",
                    "x": f"mean loss{unit}",
                    "customdata": ["version", f"lowest{unit}", f"highest{unit}"],
                }
            },
        )
    _add_references(figure, study, scale, names)
    figure.update_layout(
        barmode="group",
        height=_REST_HEIGHT + _BAR_HEIGHT * max(len(study.versions), len(groups)),
        xaxis={"title": {"text": f"loss {study.loss_name}{unit}"}, "rangemode": "tozero"},
        yaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [escape_label(name) for name in reversed(names)],
            "tickvals": [escape_label(name) for name in names],
            "ticktext": [escape_label(name) for name in names],
        },
        hovermode="closest",
    )
    return attach_notes(
        figure,
        [
            "bars are means over runs and searches; their error bars are from the run with the "
            "smallest loss to that with the largest",
            *(["no search of some versions succeeded"] if study.failed else []),
        ],
    )


def plot_searches(study: DetailStudy) -> Figure:
    """Plot the smallest training loss so far over the evaluations, the median of the seeds."""
    scale, unit = _choose_unit(study)
    figure = create_figure("Training loss during the searches")
    best = (
        study.history.filter(values=FITTED)
        .group_by("version", "evaluation", maintain_order=True)
        .agg(pl.col("best").median())
    )
    for (number,), rows in best.group_by("version", maintain_order=True):
        version = study.get_version(int(number))
        figure.add_scatter(
            x=rows["evaluation"].to_list(),
            y=[None if loss is None else scale * loss for loss in rows["best"]],
            mode="lines",
            line={"shape": "hv", "color": colours.GROUPS[(version.number - 1) % 9]},
            name=escape_label(version.name),
            hovertemplate="%{x}: %{y:.4g}",
            meta={"columns": {"x": "evaluations", "y": f"smallest loss{unit}"}},
        )
    figure.update_layout(
        xaxis={"title": {"text": "evaluations"}},
        yaxis={"title": {"text": f"loss {study.loss_name}{unit}"}, "rangemode": "tozero"},
    )
    return figure


def plot_detail_study(study: DetailStudy) -> dict[str, Figure]:
    """Plot the figures of a study of the level of detail, by name."""
    return {"versions": plot_version_losses(study), "searches": plot_searches(study)}


def _choose_unit(study: DetailStudy) -> tuple[float, str]:
    return (100.0, " (%)") if study.loss_name in RELATIVE else (1.0, "")


def _divide_factors(
    factors: tuple[DetailFactor, ...],
) -> tuple[DetailFactor, tuple[DetailFactor, ...]]:
    """Divide the factors into that of the colours and those of the groups."""
    coloured = min(factors, key=lambda each: len(each.levels))
    return coloured, tuple(each for each in factors if each is not coloured)


def _list_groups(factors: tuple[DetailFactor, ...]) -> list[dict[str, str]]:
    """List the combinations of levels; the last factor changes last."""
    turned = factors[::-1]
    return [
        {factor.path: label for factor, label in zip(turned, labels, strict=True)}
        for labels in product(*(factor.levels for factor in turned))
    ]


def _name_group(factors: tuple[DetailFactor, ...], group: dict[str, str]) -> str:
    if not factors:
        return "all"
    return ", ".join(
        label if label[:1].isalpha() else f"{factor.name}={label}"
        for factor in factors
        for label in [group[factor.path]]
    )


def _find_version(versions: tuple[Version, ...], labels: dict[str, str]) -> Version | None:
    return next((each for each in versions if dict(each.labels) == labels), None)


def _add_references(figure: Figure, study: DetailStudy, scale: float, names: list[str]) -> None:
    """Add a line for the noise floor, and one for the crude baseline."""
    for name, reference, dash in (
        ("noise floor", study.ideal, "dot"),
        ("crude baseline", study.baseline, "dash"),
    ):
        if reference is None:
            continue
        loss = reference["loss"]
        figure.add_scatter(
            x=[scale * loss] * len(names),
            y=[escape_label(each) for each in names],
            mode="lines+markers",
            line={"color": colours.LIMIT, "dash": dash},
            marker={"symbol": "line-ns-open", "size": 14},
            name=f"{name}: {format_loss(study.loss_name, loss)}",
            hovertemplate=f"{name}: %{{x:.4g}}<extra></extra>",
            meta={"columns": {"y": "group", "x": name}},
        )
