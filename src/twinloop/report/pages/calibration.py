"""Page of a calibration: fitted values, identifiability, losses, verdicts, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twinloop.calibration.fit_text import explain_loss_below_floor
from twinloop.report.calibration_result import CalibrationResult
from twinloop.report.figures.calibration import plot_available
from twinloop.report.figures.confidence_region import explain_confidence_region
from twinloop.report.figures.scales import format_value
from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.pages.fragments import (
    render_cards,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.pages.parameter_changes import render_parameter_changes
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from twinloop.fidelity.verdict import Finding, Verdict


#: The columns of the table of criteria.
CRITERIA: Final = (
    "run", "criterion", "threshold", "figure before", "figure after", "before", "after",
)  # fmt: skip


def write_calibration_page(
    fit: CalibrationResult, path: str | Path, *, title: str | None = None
) -> Path:
    """Write a calibration as one HTML file.

    The page has the training runs, the values before and after with their intervals and
    identifiability, the reasons of the changes, the losses, the verdicts before and after, and
    the figures. It lists the figures that are omitted for lack of data.

    Args:
        fit: A finished calibration.
        path: The file to write; an existing file is replaced.
        title: The heading.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> fit = SimpleNamespace(values={"speed": 1.07}, defaults={"speed": 1.0}, loss=0.01,
    ...     loss_before=0.5, loss_name="makespan", floor=None, validation_loss=None,
    ...     optimiser="cma", runs=[{"name": "a", "used": "training"}], history=pl.DataFrame(),
    ...     confidence_region=None, identifiability=None, recipe=["speed rose by 7 %"], before=[],
    ...     after=[], warnings=[])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_calibration_page(fit, folder + "/fit.html").name
    'fit.html'
    """
    page = Page("Calibration" if title is None else title, above=_describe_provenance(fit))
    page.add(render_paragraph(_describe_fit(fit)))
    if fit.warnings:
        page.add_section("Warnings", render_list(map(expand_kpi_names, fit.warnings)))
    add_values(page, fit)
    if fit.recipe:
        page.add_section("Parameter changes and reasons", render_parameter_changes(fit.recipe))
    _add_losses(page, fit)
    _add_verdicts(page, fit)
    figures, missing = plot_available(fit)
    for name, figure in figures.items():
        guide = explain_confidence_region(fit) if name == "confidence_region" else ""
        page.add_figure(name, figure, figure.layout.height or 360, guide=guide)
    if missing:
        page.add_section("Omitted figures", *map(render_note, missing))
    return page.write(path)


def _describe_provenance(fit: CalibrationResult) -> str:
    """Describe the modes of the runs and the injected data; empty for a black box."""
    modes = {
        run["mode"]: ", ".join(run.get("injected", ())) or "nothing"
        for run in fit.runs
        if "mode" in run
    }
    return "; ".join(
        f"{mode}: {injected} injected from the real runs" for mode, injected in modes.items()
    )


def _describe_fit(fit: CalibrationResult) -> str:
    """Describe the fitted parameters and the runs of the calibration."""
    fitted, held_out = (
        [str(run["name"]) for run in fit.runs if run["used"] == used]
        for used in ("training", "validation")
    )
    runs = f"{format_count(len(fitted), 'run')} ({', '.join(fitted)})" if fitted else "no named run"
    if held_out:
        runs += f", with {format_count(len(held_out), 'run')} held out ({', '.join(held_out)})"
    evaluations = format_count(fit.history.height, "evaluation")
    return (
        f"{format_count(len(fit.values), 'parameter')} fitted to {runs}: the lowest "
        f"{fit.loss_name} loss that the optimiser {fit.optimiser} found in {evaluations}."
    )


def add_values(page: Page, fit: CalibrationResult) -> None:
    """Add the fitted values and their identifiability to a page.

    >>> from types import SimpleNamespace
    >>> page = Page("Mine")
    >>> fit = SimpleNamespace(values={"speed": 1.07}, defaults={"speed": 1.0}, identifiability=None)
    >>> add_values(page, fit)
    >>> "was not analysed" in page.render()
    True
    """
    identifiability = fit.identifiability
    rows = (
        {}
        if identifiability is None
        else {row["parameter"]: row for row in identifiability.table.rows(named=True)}
    )
    findings: str = render_paragraph("The identifiability of these values was not analysed.")
    if identifiability is not None:
        findings = (
            render_list(map(expand_kpi_names, identifiability.sentences))
            if identifiability.sentences
            else ""
        )
    names = ("parameter", "before", "after", "interval", "identifiable", "reason")
    page.add_section(
        "Fitted values",
        findings,
        render_table(
            names,
            (
                (
                    name,
                    format_value(fit.defaults.get(name)),
                    format_value(value),
                    *_describe_identifiability(rows.get(name)),
                )
                for name, value in fit.values.items()
            ),
            numbers=("before", "after", "interval"),
        ),
    )


def _describe_identifiability(row: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return the interval of a value, whether it is identifiable, and the reason."""
    if row is None:
        return "-", "-", ""
    ends = row["low"], row["high"]
    low, high = ("unknown" if end is None else format_value(end) for end in ends)
    interval = "unknown" if ends == (None, None) else f"{low} to {high}"
    if row.get("levels"):
        interval = ", ".join(row["levels"])
    identifiable = row["identifiable"]
    return (
        interval,
        "unknown" if identifiable is None else "yes" if identifiable else "no",
        row["why"] or "",
    )


def _add_losses(page: Page, fit: CalibrationResult) -> None:
    cards = [("before", format_value(fit.loss_before)), ("fitted", format_value(fit.loss))]
    if fit.validation_loss is not None:
        cards.append(("on hold-out runs", format_value(fit.validation_loss)))
    if fit.floor is not None:
        cards.append(("noise floor", format_value(fit.floor)))
    history = fit.history
    if history.height:
        cards.append(("evaluations", f"{history.height:,}"))
    if "failed" in history.columns and (failed := history["failed"].sum()):
        cards.append(("failed evaluations", f"{failed:,}"))
    notes = [] if fit.validation_loss is not None else [render_note("no run was held out")]
    if below := explain_loss_below_floor(fit.loss, fit.floor):
        notes.append(render_note(below))
    page.add_section(
        f"Loss: {fit.loss_name}",
        render_paragraph("Distance between the twin and the real runs; 0 means no difference."),
        render_cards(cards),
        *notes,
    )


def _add_verdicts(page: Page, fit: CalibrationResult) -> None:
    before, after = dict(fit.before), dict(fit.after)
    runs = list(dict.fromkeys((*before, *after)))
    if not runs:
        page.add_section("Verdicts before and after", render_paragraph("No run was assessed."))
        return
    overall = [(run, _get_status(before.get(run)), _get_status(after.get(run))) for run in runs]
    details = [row for run in runs for row in list_criteria(run, before.get(run), after.get(run))]
    page.add_section(
        "Verdicts before and after",
        render_table(("run", "before", "after"), overall),
        render_heading("Criteria"),
        render_table(CRITERIA, details, numbers=CRITERIA[3:5]),
    )


def _get_status(verdict: Verdict | None) -> str:
    return "-" if verdict is None else verdict.status


def list_criteria(
    run: str, before: Verdict | None, after: Verdict | None
) -> Iterator[Sequence[str]]:
    """List a row per criterion of either verdict, with the columns of `CRITERIA`.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> next(list_criteria("real", None, assess(Trace(), Trace())))[:2]
    ('real', 'wait times, KS p')
    """
    old, new = (
        {}
        if each is None
        else {(finding.metric, finding.name): finding for finding in each.findings}
        for each in (before, after)
    )
    for key in dict.fromkeys((*old, *new)):
        before_finding, after_finding = old.get(key), new.get(key)
        either = after_finding or before_finding
        if either is not None:
            yield (
                run, f"{either.metric}, {either.name}", round_threshold(either.threshold),
                _get_figure(before_finding), _get_figure(after_finding),
                before_finding.status if before_finding else "-",
                after_finding.status if after_finding else "-",
            )  # fmt: skip


def round_threshold(threshold: str) -> str:
    """Round the numbers of a threshold to three significant digits.

    >>> round_threshold("<= 0.123456 s"), round_threshold(">= 0.95")
    ('<= 0.123 s', '>= 0.95')
    """
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda match: f"{float(match[0]):.3g}", threshold)


def _get_figure(finding: Finding | None) -> str:
    return "-" if finding is None else finding.figure_text
