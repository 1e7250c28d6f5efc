"""A calibration on one page: what was fitted, how sure it is, and what it changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twinloop.calibration.fit_text import below_floor
from twinloop.report.calibration_result import Fitted
from twinloop.report.figures.acceptable_set import looked_at
from twinloop.report.figures.calibration import drawn
from twinloop.report.figures.scales import said
from twinloop.report.kpi_text import in_words
from twinloop.report.pages.page import Document, bullets, cards, note, paragraph, table
from twinloop.report.pages.parameter_changes import recipe
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from twinloop.fidelity.verdict import Finding, Verdict


#: The columns of `criteria`.
CRITERIA: Final = (
    "run", "criterion", "threshold", "figure before", "figure after", "before", "after",
)  # fmt: skip


def calibration_page(fit: Fitted, path: str | Path, *, title: str | None = None) -> Path:
    """Write a calibration as one HTML file, in the order in which a reader asks.

    What was fitted on what; the values before and after with their intervals, and in plain words
    how far the data determine them; what moved and why; the losses; the verdicts before and after;
    the pictures. What a calibration does not have is left out, and the page says so.

    Args:
        fit: A calibration that has ended.
        path: The file to write; one that is there is replaced.
        title: The heading.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> import polars as pl
    >>> fit = SimpleNamespace(values={"speed": 1.07}, defaults={"speed": 1.0}, loss=0.01,
    ...     loss_before=0.5, loss_name="makespan", floor=None, validation_loss=None,
    ...     optimiser="cma", runs=[{"name": "a", "used": "training"}], history=pl.DataFrame(),
    ...     cloud=None, identifiability=None, recipe=["speed rose by 7 %"], before=[], after=[],
    ...     warnings=[])
    >>> with tempfile.TemporaryDirectory() as there:
    ...     calibration_page(fit, there + "/fit.html").name
    'fit.html'
    """
    page = Document("Calibration" if title is None else title, above=_provenance(fit))
    page.add(paragraph(_summary(fit)))
    if fit.warnings:
        page.section("Warnings", bullets(map(in_words, fit.warnings)))
    values(page, fit)
    if fit.recipe:
        page.section("What moved and why", recipe(fit.recipe))
    _losses(page, fit)
    _verdicts(page, fit)
    figures, missing = drawn(fit)
    for name, figure in figures.items():
        look = looked_at(fit) if name == "cloud" else ""
        page.picture(name, figure, figure.layout.height or 360, look=look)
    if missing:
        page.section("Not drawn", *map(note, missing))
    return page.write(path)


def _provenance(fit: Fitted) -> str:
    """Replay or predict, and what was taken from the truth; nothing of a black box."""
    modes = {
        run["mode"]: ", ".join(run.get("injected", ())) or "nothing"
        for run in fit.runs
        if "mode" in run
    }
    return "; ".join(f"{mode}: {taken} taken from the real runs" for mode, taken in modes.items())


def _summary(fit: Fitted) -> str:
    """What was fitted on what."""
    fitted, held_out = (
        [str(run["name"]) for run in fit.runs if run["used"] == used]
        for used in ("training", "validation")
    )
    to = f"{format_count(len(fitted), 'run')} ({', '.join(fitted)})" if fitted else "no named run"
    if held_out:
        to += f", with {format_count(len(held_out), 'run')} held out ({', '.join(held_out)})"
    evaluations = format_count(fit.history.height, "evaluation")
    return (
        f"{format_count(len(fit.values), 'value')} fitted to {to}: the least {fit.loss_name} loss "
        f"that {fit.optimiser} found in {evaluations}."
    )


def values(page: Document, fit: Fitted) -> None:
    """Put on a page what was fitted, and how far the data determine it.

    >>> from types import SimpleNamespace
    >>> page = Document("Mine")
    >>> fit = SimpleNamespace(values={"speed": 1.07}, defaults={"speed": 1.0}, identifiability=None)
    >>> values(page, fit)
    >>> "was not examined" in page.html()
    True
    """
    found = fit.identifiability
    rows = {} if found is None else {row["parameter"]: row for row in found.table.rows(named=True)}
    sure = paragraph("How far the data determine these values was not examined.")
    if found is not None:
        sure = bullets(map(in_words, found.sentences)) if found.sentences else ""
    names = ("parameter", "before", "after", "interval", "identifiable", "why")
    page.section(
        "Values",
        sure,
        table(
            names,
            (
                (name, said(fit.defaults.get(name)), said(value), *_sure(rows.get(name)))
                for name, value in fit.values.items()
            ),
            numbers=("before", "after", "interval"),
        ),
    )


def _sure(row: dict[str, Any] | None) -> tuple[str, str, str]:
    """Interval, identifiable or not, and why."""
    if row is None:
        return "-", "-", ""
    ends = row["low"], row["high"]
    low, high = ("unknown" if end is None else said(end) for end in ends)
    interval = "unknown" if ends == (None, None) else f"{low} to {high}"
    if row.get("levels"):
        interval = ", ".join(row["levels"])
    known = row["identifiable"]
    return interval, "unknown" if known is None else "yes" if known else "no", row["why"] or ""


def _losses(page: Document, fit: Fitted) -> None:
    found = [("before", said(fit.loss_before)), ("fitted", said(fit.loss))]
    if fit.validation_loss is not None:
        found.append(("on runs held out", said(fit.validation_loss)))
    if fit.floor is not None:
        found.append(("between real runs", said(fit.floor)))
    history = fit.history
    if history.height:
        found.append(("evaluations", f"{history.height:,}"))
    if "failed" in history.columns and (failed := history["failed"].sum()):
        found.append(("failed evaluations", f"{failed:,}"))
    held_out = [] if fit.validation_loss is not None else [note("no run was held out")]
    if below := below_floor(fit.loss, fit.floor):
        held_out.append(note(below))
    page.section(
        f"Loss: {fit.loss_name}",
        paragraph("How far the twin is from the runs; 0 is the same."),
        cards(found),
        *held_out,
    )


def _verdicts(page: Document, fit: Fitted) -> None:
    before, after = dict(fit.before), dict(fit.after)
    runs = list(dict.fromkeys((*before, *after)))
    if not runs:
        page.section("Verdicts before and after", paragraph("No run was assessed."))
        return
    overall = [(run, _status(before.get(run)), _status(after.get(run))) for run in runs]
    details = [row for run in runs for row in criteria(run, before.get(run), after.get(run))]
    page.section(
        "Verdicts before and after",
        table(("run", "before", "after"), overall),
        "<h3>Criterion by criterion</h3>",
        table(CRITERIA, details, numbers=CRITERIA[3:5]),
    )


def _status(verdict: Verdict | None) -> str:
    return "-" if verdict is None else verdict.status


def criteria(run: str, before: Verdict | None, after: Verdict | None) -> Iterator[Sequence[str]]:
    """A row per criterion that either verdict has, with the columns of `CRITERIA`.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> next(criteria("real", None, assess(Trace(), Trace())))[:2]
    ('real', 'wait times, KS p')
    """
    old, new = (
        {} if each is None else {(found.metric, found.name): found for found in each.findings}
        for each in (before, after)
    )
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        either = now or was
        if either is not None:
            yield (
                run, f"{either.metric}, {either.name}", rounded(either.threshold), _figure(was),
                _figure(now), was.status if was else "-", now.status if now else "-",
            )  # fmt: skip


def rounded(threshold: str) -> str:
    """A threshold with three digits that matter.

    >>> rounded("<= 0.123456 s"), rounded(">= 0.95")
    ('<= 0.123 s', '>= 0.95')
    """
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda found: f"{float(found[0]):.3g}", threshold)


def _figure(finding: Finding | None) -> str:
    return "-" if finding is None else finding.said
