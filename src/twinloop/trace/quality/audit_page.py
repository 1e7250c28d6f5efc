"""The audit as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinloop.trace.quality.audit import Audit, RuleFinding


def format_audit(audit: Audit) -> str:
    """Format an audit as a Markdown page."""
    return "\n".join(_format_lines(audit)) + "\n"


def _format_lines(audit: Audit) -> Iterator[str]:
    yield "# Audit of a trace"
    yield ""
    counts = f"{len(audit.errors)} rules broken as errors, {len(audit.warnings)} as warnings"
    verdict = "**The gate is open.**" if audit.ok else "**The gate is closed.**"
    yield f"{verdict} {audit.tasks:,} tasks; {counts}."
    yield from _format_origin(audit)
    yield from [
        "",
        "## Rules",
        "",
        "| rule | severity | rows | broken | law |",
        "|---|---|--:|--:|---|",
    ]
    for finding in audit.findings:
        yield f"| {' | '.join(_format_cells(finding))} |"
    broken = (*audit.errors, *audit.warnings)
    if broken:
        yield from ["", "## Examples"]
    for finding in broken:
        yield from [
            "",
            f"`{finding.rule}` ({finding.code}, {finding.severity}, {finding.broken:,} rows)",
            "",
        ]
        yield from (f"- {_escape(str(example))}" for example in finding.examples)
        if finding.fix:
            yield f"- *What `repair` does:* {finding.fix}"
    notes = [str(note) for note in audit.manifest.cleaned]
    yield from ["", "## Data cleaning", ""]
    yield from (f"- {_escape(note)}" for note in notes or ["nothing"])
    if audit.manifest.edits:
        yield from ["", "## Edits", ""]
        for step in audit.manifest.edits:
            parameters = ", ".join(f"{name}={value!r}" for name, value in step.parameters.items())
            yield f"- {step.operation}({_escape(parameters)})"


def _format_origin(audit: Audit) -> Iterator[str]:
    source = audit.manifest.source
    yield from ["", "## Source", ""]
    if source is None:
        yield f"Not read from files ({audit.manifest.kind})."
        return
    yield f"Format `{source.format}`."
    if source.files:
        yield from ["", "| file | bytes | SHA-256 |", "|---|--:|---|"]
    for file in source.files:
        yield f"| {_escape(file.name)} | {file.size:,} | `{file.sha256}` |"


def _format_cells(finding: RuleFinding) -> tuple[str, ...]:
    figures = (
        (f"{finding.rows:,}", f"{finding.broken:,}") if finding.applies else ("", "not applicable")
    )
    broken = f"**{figures[1]}**" if finding.broken else figures[1]
    return f"`{finding.rule}`", finding.severity, figures[0], broken, finding.law


def _escape(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")
