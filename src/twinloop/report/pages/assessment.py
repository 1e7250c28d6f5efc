"""Page of an assessment: verdict, criteria, figures, errors, thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.report.figures.assessment import plot_available
from twinloop.report.pages.fragments import (
    render_cards,
    render_details,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_preformatted,
    render_status,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_count, format_number

if TYPE_CHECKING:
    from markupsafe import Markup

    from twinloop.fidelity.errors import Errors
    from twinloop.fidelity.verdict import Finding, Verdict

#: Height of each picture in pixels.
_HEIGHTS: Final = {"waits": 460, "completions": 460, "usage": 520, "trend": 460, "segments": 420}
_OVER_TIME: Final = frozenset({"completions", "trend", "segments"})
#: Maximum number of rows of a table of errors.
MAX_LISTED: Final = 20

#: The headings of the columns of the errors: means over the tasks, times in s.
_HEADINGS: Final = {
    "cores_class": "cores",
    "run_time_class": "run time",
    **{
        f"{quantity}_{part}": f"{quantity.replace('_', ' ')}, {label} (s)"
        for quantity in ("wait", "turnaround", "run_time")
        for part, label in (
            ("real", "real"),
            ("twin", "twin"),
            ("error", "error"),
            ("off", "absolute error"),
        )
    },
}


def write_assessment_page(verdict: Verdict, path: str | Path, *, title: str | None = None) -> Path:
    """Write an assessment as one HTML file: verdict, criteria, figures, errors, thresholds.

    The first line has the mode of the twin, replay or predict, and the data injected from the
    real run. The page lists the figures that are omitted for lack of data.

    Args:
        verdict: The result of `assess`.
        path: The file to write; an existing file is replaced.
        title: The heading.

    >>> import tempfile
    >>> import polars as pl
    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_assessment_page(assess(run, run), folder + "/verdict.html").name
    'verdict.html'
    """
    heading = "Assessment of the twin" if title is None else title
    page = Page(heading, above=verdict.provenance)
    page.add(render_status(verdict.status, big=True), render_cards(verdict.metrics.items()))
    _add_criteria(page, verdict)
    figures, missing = plot_available(verdict)
    for name, figure in figures.items():
        page.add_figure(name, figure, _HEIGHTS[name], over_time=name in _OVER_TIME)
    if missing:
        page.add_section("Omitted figures", *map(render_note, missing))
    _add_errors(page, verdict.errors)
    page.add_section(
        "Thresholds",
        render_paragraph(f"{verdict.criteria_summary[0].upper()}{verdict.criteria_summary[1:]}."),
        render_details(
            "All thresholds and conditions",
            render_preformatted(verdict.criteria.to_commented_yaml()),
        ),
    )
    notes = render_list(verdict.notes) if verdict.notes else render_paragraph("There are no notes.")
    page.add_section("Notes on the data", notes)
    return page.write(path)


def _add_criteria(page: Page, verdict: Verdict) -> None:
    # Imported here because every command loads this package and few need an assessment.
    from twinloop.fidelity.verdict_text import format_figure

    names = ["metric", "criterion", "verdict", "figure", "threshold"]
    names += ["noise floor"] if verdict.repeats else []
    names += ["without alignment"] if verdict.alignment is not None else []
    rows = []
    for finding in verdict.findings:
        row = [finding.metric, finding.name, finding.status, finding.figure_text, finding.threshold]
        row += [format_figure(finding.floor, finding.unit)] if verdict.repeats else []
        row += (
            [format_figure(finding.unaligned, finding.unit)]
            if verdict.alignment is not None
            else []
        )
        rows.append([*row, finding.note])
    notes = [render_note("no repetition of the real run was given: the noise floor is not known")]
    if verdict.repeats:
        runs = format_count(verdict.repeats + 1, "real run")
        weak = " (weak: one pair)" if verdict.repeats == 1 else ""
        notes = [
            render_note(
                f"noise floor: the figure of a real run that is assessed as the twin of another, "
                f"median over {runs}{weak}"
            )
        ]
    if verdict.alignment is not None:
        notes.append(
            render_note(f"the real data are aligned before the comparison: {verdict.alignment}")
        )
    numbers = ("figure", "noise floor", "without alignment")
    page.add_section(
        "Criteria",
        render_table([*names, "note"], rows, numbers=numbers),
        *notes,
        render_details("Methods", render_list(map(_describe_method, verdict.findings))),
    )


def _describe_method(finding: Finding) -> str:
    figures = ", ".join(f"{name} {format_number(value)}" for name, value in finding.figures.items())
    return (
        f"{finding.metric}, {finding.name}: {finding.method}{f' ({figures})' if figures else ''}."
    )


def _add_errors(page: Page, errors: Errors) -> None:
    figures = errors.figures
    names = ["error of", "real", "twin", "error", "relative"]
    has_floor = figures["floor"].null_count() < figures.height
    names += ["noise floor"] if has_floor else []
    parts = [render_list(errors.lines())]
    if figures.height:
        rows = (_make_error_row(row, has_floor) for row in figures.rows(named=True))
        parts.append(render_table(names, rows, numbers=names[1:]))
    for heading, frame in (("By user", errors.users), ("By size", errors.sizes)):
        if frame.height:
            parts += [render_heading(heading), _render_frame(frame.head(MAX_LISTED))]
        if frame.height > MAX_LISTED:
            parts.append(render_note(f"the first {MAX_LISTED} of {frame.height:,}"))
    page.add_section("Errors", *parts)


def _make_error_row(row: dict[str, Any], with_floor: bool) -> list[str]:
    from twinloop.fidelity.verdict_text import format_figure

    cells = [format_figure(row[name], row["unit"]) for name in ("real", "twin", "error")]
    shares = ["relative", "floor"] if with_floor else ["relative"]
    return [row["figure"], *cells, *(format_figure(row[name], "share") for name in shares)]


def _render_frame(frame: pl.DataFrame) -> Markup:
    """Render a frame as a table, with times in s and without empty columns."""
    frame = frame[[each.name for each in frame if each.null_count() < frame.height]]
    names = [_HEADINGS.get(name, name.replace("_", " ")) for name in frame.columns]
    numbers = [
        name for name, dtype in zip(names, frame.dtypes, strict=True) if dtype.is_numeric()
    ]  # fmt: skip
    return render_table(
        names, ([_format_cell(value) for value in row] for row in frame.rows()), numbers=numbers
    )


def _format_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return format_number(value) if isinstance(value, float) else str(value)
