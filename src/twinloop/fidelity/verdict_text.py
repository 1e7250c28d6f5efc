"""Verdicts as text, HTML and Markdown."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from twinloop.description.safe_text import join_lines

if TYPE_CHECKING:
    from twinloop.fidelity.errors import Errors
    from twinloop.fidelity.verdict import Finding, Verdict

#: Maximum width of a line of text (characters).
MAX_WIDTH = 100


def format_figure(value: float | None, unit: str) -> str:
    """Format a figure with three significant digits and its unit.

    >>> format_figure(0.0213, "share"), format_figure(6.0, "s")
    ('2.13 %', '6 s')
    >>> format_figure(0.98234, ""), format_figure(None, "s")
    ('0.982', '-')
    """
    if value is None:
        return "-"
    if unit == "share":
        return f"{_format_digits(value * 100)} %"
    return f"{_format_digits(value)} {unit}".rstrip()


def verdict_to_text(verdict: Verdict) -> str:
    """Format a verdict as a text table."""
    lines = [line for text in _list_summary(verdict) for line in _wrap(text)]
    columns = _list_columns(verdict)
    rows = [(kind, row) for kind, row in _list_rows(verdict) if kind != "note" or row[0]]
    widths = [
        max(len(row[index]) for row in [columns, *(row for kind, row in rows if kind != "note")])
        for index in range(len(columns))
    ]
    lines += ["", _format_line(columns, widths)]
    for kind, row in rows:
        if kind == "note":
            lines += _wrap(row[0], "    ")
        else:
            lines.append(_format_line(row, widths))
    lines += ["", *_list_error_lines(verdict)]
    return join_lines(lines)


def verdict_to_html(verdict: Verdict) -> str:
    """Format a verdict as HTML tables."""
    parts = [f"<p>{html.escape(text)}</p>" for text in _list_summary(verdict)]
    parts.append(
        _format_html_table(_list_columns(verdict), [row for _, row in _list_rows(verdict)])
    )
    parts.append(_format_html_table(*_make_error_table(verdict.errors)))
    parts += [f"<p>{html.escape(line)}</p>" for line in verdict.errors.lines()]
    return "".join(parts)


def verdict_to_markdown(verdict: Verdict) -> str:
    """Format a verdict as a Markdown document."""
    mode, *rest = _list_summary(verdict)
    lines = [mode, "", "# Assessment of a twin", *(part for text in rest for part in ("", text))]
    rows = [row for kind, row in _list_rows(verdict) if kind != "note"]
    lines += ["", *_format_markdown_table(_list_columns(verdict), rows), "", "## Methods"]
    for finding in verdict.findings:
        figures = ", ".join(
            f"{name} {_format_digits(value)}" for name, value in finding.figures.items()
        )
        lines.append("")
        lines.append(f"**{finding.metric}, {finding.name}**: {finding.status}. {finding.method}.")
        lines += [f"Note: {finding.note}."] if finding.note else []
        lines += [f"Figures: {figures}."] if figures else []
    lines += ["", "## Errors", "", *_format_markdown_table(*_make_error_table(verdict.errors))]
    lines += ["", *(f"- {line}" for line in verdict.errors.lines())]
    lines += _list_frames(verdict.errors)
    lines += [
        "",
        "## Criteria",
        "",
        "```yaml",
        verdict.criteria.to_commented_yaml().rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _list_summary(verdict: Verdict) -> Iterator[str]:
    yield verdict.provenance
    statuses = [finding.status for finding in verdict.findings]
    yield (
        f"{verdict.status}: {statuses.count('PASS')} criteria pass, {statuses.count('FAIL')} fail, "
        f"{statuses.count('not assessable')} not assessable"
    )
    yield verdict.criteria_summary
    if verdict.alignment is not None:
        yield f"alignment: {verdict.alignment}; unaligned figures are also shown"
    if verdict.repeats:
        weak = " (weak: one pair)" if verdict.repeats == 1 else ""
        runs = f"{verdict.repeats + 1} runs{weak}"
        yield f"floor: median score of a repetition of the real run as its twin, over {runs}"
    else:
        yield "no repetition of the real run was given: the noise floor is not known"
    yield from (f"note: {note}" for note in verdict.notes)


def _list_columns(verdict: Verdict) -> list[str]:
    columns = ["criterion", "figure", "threshold"]
    columns += ["floor"] if verdict.repeats else []
    columns += ["unaligned"] if verdict.alignment is not None else []
    return [*columns, "verdict"]


def _list_rows(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the table, each with its kind: metric, finding or note."""
    empty_cells = [""] * (len(_list_columns(verdict)) - 2)
    for metric, status in verdict.metrics.items():
        yield "metric", [metric, *empty_cells, status]
        notes: dict[str, list[str]] = {}
        for finding in verdict.findings:
            if finding.metric != metric:
                continue
            yield "finding", _make_row(finding, verdict)
            if finding.note:
                notes.setdefault(finding.note, []).append(finding.name)
        for note, names in notes.items():
            yield "note", [f"{', '.join(names)}: {note}", *empty_cells, ""]


def _make_row(finding: Finding, verdict: Verdict) -> list[str]:
    cells = [f"  {finding.name}", finding.figure_text, finding.threshold]
    if verdict.repeats:
        cells.append(format_figure(finding.floor, finding.unit))
    if verdict.alignment is not None:
        cells.append(format_figure(finding.unaligned, finding.unit))
    return [*cells, f"{finding.status} (weak)" if finding.is_weak else finding.status]


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *middle = (
        cell.ljust(width) if index in (0, 2) else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells[:-1], widths[:-1], strict=True))
    )
    return "  ".join([first, *middle, cells[-1]]).rstrip()


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        MAX_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )


def _list_error_lines(verdict: Verdict) -> Iterator[str]:
    columns, rows = _make_error_table(verdict.errors)
    if rows:
        widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
        for row in [columns, *rows]:
            first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            yield "  ".join([row[0].ljust(len(first)), *others]).rstrip()
    for line in verdict.errors.lines():
        yield from _wrap(line)


def _make_error_table(errors: Errors) -> tuple[list[str], list[list[str]]]:
    has_floor = errors.figures["floor"].null_count() < errors.figures.height
    columns = ["error of", "real", "twin", "error", "relative", *(["floor"] if has_floor else [])]
    rows = []
    for row in errors.figures.iter_rows(named=True):
        cells = [format_figure(row[name], row["unit"]) for name in ("real", "twin", "error")]
        shares = ["relative", *(["floor"] if has_floor else [])]
        rows.append(
            [row["figure"], *cells, *(format_figure(row[name], "share") for name in shares)]
        )
    return columns, rows


def _list_frames(errors: Errors) -> Iterator[str]:
    for title, frame in (
        ("Worst tasks", errors.worst),
        ("By user", errors.users.head(20)),
        ("By size", errors.sizes),
    ):
        if frame.height:
            yield from ("", f"### {title}", "")
            columns = [name.replace("_", " ") for name in frame.columns]
            yield from _format_markdown_table(
                columns, [[_format_cell(v) for v in row] for row in frame.rows()]
            )


def _format_cell(value: object) -> str:
    if value is None:
        return "-"
    return _format_digits(value) if isinstance(value, float) else str(value)


def _format_digits(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _format_markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in row)} |"


def _format_html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
