"""An assessment on one page: the verdict, what it rests on, and where the twin is off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.report.figures.assessment import drawn
from twinloop.report.pages.page import (
    Document,
    bullets,
    cards,
    folded,
    note,
    paragraph,
    source,
    status,
    table,
)
from twinloop.report.quantity_text import format_count, format_number

if TYPE_CHECKING:
    from twinloop.fidelity.errors import Errors
    from twinloop.fidelity.verdict import Finding, Verdict

#: Height of each picture in pixels.
_HEIGHTS: Final = {"waits": 460, "completions": 460, "usage": 520, "trend": 460, "segments": 420}
_OVER_TIME: Final = frozenset({"completions", "trend", "segments"})
#: So many rows of a table of errors are listed.
LISTED: Final = 20

#: What the columns of the errors are called: means over the tasks, times in s.
_HEADINGS: Final = {
    "cores_class": "cores",
    "run_time_class": "run time",
    **{
        f"{quantity}_{part}": f"{quantity.replace('_', ' ')}, {said} (s)"
        for quantity in ("wait", "turnaround", "run_time")
        for part, said in (
            ("real", "real"),
            ("twin", "twin"),
            ("error", "error"),
            ("off", "size of error"),
        )
    },
}


def assessment_page(verdict: Verdict, path: str | Path, *, title: str | None = None) -> Path:
    """Write an assessment as one HTML file: verdict, criteria, pictures, errors, thresholds.

    Its first line says whether the twin replayed or predicted, and what it was given of the
    truth. What there are no data for is left out, and the page says so.

    Args:
        verdict: What `assess` found.
        path: The file to write; one that is there is replaced.
        title: The heading.

    >>> import tempfile
    >>> import polars as pl
    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}),
    ... )
    >>> with tempfile.TemporaryDirectory() as there:
    ...     assessment_page(assess(run, run), there + "/verdict.html").name
    'verdict.html'
    """
    heading = "How far the twin can be trusted" if title is None else title
    page = Document(heading, above=verdict.provenance)
    page.add(status(verdict.status, big=True), cards(verdict.metrics.items()))
    _criteria(page, verdict)
    figures, missing = drawn(verdict)
    for name, figure in figures.items():
        page.picture(name, figure, _HEIGHTS[name], over_time=name in _OVER_TIME)
    if missing:
        page.section("Not drawn", *map(note, missing))
    _errors(page, verdict.errors)
    page.section(
        "Thresholds",
        paragraph(f"{verdict.declared[0].upper()}{verdict.declared[1:]}."),
        folded("All thresholds and conditions", source(verdict.criteria.commented())),
    )
    left_out = bullets(verdict.notes) if verdict.notes else paragraph("There is nothing to note.")
    page.section("Notes on the data", left_out)
    return page.write(path)


def _criteria(page: Document, verdict: Verdict) -> None:
    # Loading what assesses takes a moment, and every command loads the reports.
    from twinloop.fidelity.verdict_text import figure

    names = ["metric", "criterion", "verdict", "figure", "threshold"]
    names += ["noise floor"] if verdict.repeats else []
    names += ["without alignment"] if verdict.alignment is not None else []
    rows = []
    for found in verdict.findings:
        row = [found.metric, found.name, found.status, found.said, found.threshold]
        row += [figure(found.floor, found.unit)] if verdict.repeats else []
        row += [figure(found.unaligned, found.unit)] if verdict.alignment is not None else []
        rows.append([*row, found.note])
    said = [note("no repetition of the real run was given: the noise floor is not known")]
    if verdict.repeats:
        runs = format_count(verdict.repeats + 1, "real run")
        weak = " (weak: one pair)" if verdict.repeats == 1 else ""
        said = [note(f"noise floor: what a real run scores as the twin of another, the median "
                     f"over {runs}{weak}")]  # fmt: skip
    if verdict.alignment is not None:
        said.append(
            note(f"the real data are changed before they are compared: {verdict.alignment}")
        )
    numbers = ("figure", "noise floor", "without alignment")
    page.section(
        "Criteria",
        table([*names, "note"], rows, numbers=numbers),
        *said,
        folded("How each was worked out", bullets(map(_method, verdict.findings))),
    )


def _method(found: Finding) -> str:
    beside = ", ".join(f"{name} {format_number(value)}" for name, value in found.figures.items())
    return f"{found.metric}, {found.name}: {found.method}{f' ({beside})' if beside else ''}."


def _errors(page: Document, errors: Errors) -> None:
    figures = errors.figures
    names = ["error of", "real", "twin", "error", "relative"]
    known = figures["floor"].null_count() < figures.height
    names += ["noise floor"] if known else []
    parts = [bullets(errors.lines())]
    if figures.height:
        parts.append(table(names, (_figure(row, known) for row in figures.rows(named=True)),
                           numbers=names[1:]))  # fmt: skip
    for heading, frame in (("By user", errors.users), ("By size", errors.sizes)):
        if frame.height:
            parts += [f"<h3>{heading}</h3>", _frame(frame.head(LISTED))]
        if frame.height > LISTED:
            parts.append(note(f"the first {LISTED} of {frame.height:,}"))
    page.section("Errors", *parts)


def _figure(row: dict[str, Any], with_floor: bool) -> list[str]:
    from twinloop.fidelity.verdict_text import figure

    cells = [figure(row[name], row["unit"]) for name in ("real", "twin", "error")]
    shares = ["relative", "floor"] if with_floor else ["relative"]
    return [row["figure"], *cells, *(figure(row[name], "share") for name in shares)]


def _frame(frame: pl.DataFrame) -> str:
    """A frame as it stands, times in s; columns of which nothing is known are left out."""
    frame = frame[[each.name for each in frame if each.null_count() < frame.height]]
    names = [_HEADINGS.get(name, name.replace("_", " ")) for name in frame.columns]
    numbers = [
        name for name, kind in zip(names, frame.dtypes, strict=True) if kind.is_numeric()
    ]  # fmt: skip
    return table(names, ([_cell(value) for value in row] for row in frame.rows()), numbers=numbers)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return format_number(value) if isinstance(value, float) else str(value)
