"""Data quality of a run: quality gate, data cleaning, missing data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.report.pages.fragments import (
    render_details,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.manifest import Edit
from twinloop.trace.quality import check
from twinloop.trace.quality.audit import Audit, RuleFinding

if TYPE_CHECKING:
    from markupsafe import Markup

#: The treatments of faulty records, most severe first, and the kinds of cleaning of each.
_TREATMENTS: Final = {
    "dropped": ("skipped", "removed", "ignored"),
    "repaired": ("repaired",),
    "imputed": ("invented", "assumed"),
    "unchanged": ("noticed",),
}


def add_data_quality(page: Page, trace: Trace, heading: str = "Data quality") -> None:
    """Add the data quality of a run to a page.

    >>> page = Page("A run")
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [1.0]})
    >>> add_data_quality(page, Trace(tasks=tasks))
    >>> "No record was changed." in page.render()
    True
    """
    audit = check(trace)
    page.add_section(
        heading,
        render_paragraph(_describe_quality(trace, audit)),
        *_render_gate(audit),
        render_heading("Data cleaning"),
        *_render_cleaning(trace),
        render_heading("Missing data"),
        render_list(list_missing_data(trace))
        if any(list_missing_data(trace))
        else render_paragraph("No data are missing."),
    )


def _describe_quality(trace: Trace, audit: Audit) -> str:
    counts = dict.fromkeys(_TREATMENTS, 0)
    for treatment, kinds in _TREATMENTS.items():
        counts[treatment] = sum(each.count for each in trace.manifest.cleaned if each.kind in kinds)
    changes = ", ".join(f"{count:,} {treatment}" for treatment, count in counts.items() if count)
    cleaned = f"records: {changes}" if changes else "no record was dropped, repaired or imputed"
    if audit.ok and not audit.warnings:
        return f"The quality gate found no violation; {cleaned}."
    errors, warnings = (
        format_count(len(findings), noun)
        for findings, noun in ((audit.errors, "error"), (audit.warnings, "warning"))
    )
    return f"The quality gate found {errors} and {warnings}; {cleaned}."


def _render_gate(audit: Audit) -> Iterator[Markup]:
    broken = [*audit.errors, *audit.warnings]
    names = ("rule", "severity", "violations", "condition", "first example")
    if broken:
        yield render_table(names, map(_make_rule_row, broken), numbers=("violations",))
    satisfied = [finding for finding in audit.findings if finding.applies and not finding.broken]
    not_applicable = [finding.rule for finding in audit.findings if not finding.applies]
    lines = [f"{finding.rule}: {finding.law} ({finding.rows:,} checked)" for finding in satisfied]
    if not_applicable:
        lines.append(
            f"not applicable, because the data to check are missing: {', '.join(not_applicable)}"
        )
    yield render_details(f"{format_count(len(satisfied), 'rule')} satisfied", render_list(lines))


def _make_rule_row(finding: RuleFinding) -> tuple[str, ...]:
    example = str(finding.examples[0]) if finding.examples else ""
    return (
        finding.rule, finding.severity, f"{finding.broken:,} of {finding.rows:,}", finding.law,
        example,
    )  # fmt: skip


def _render_cleaning(trace: Trace) -> Iterator[Markup]:
    cleaned = trace.manifest.cleaned
    if not cleaned:
        yield render_paragraph("No record was changed.")
    else:
        rows = [
            (treatment, each.kind, f"{each.count:,}", each.what, ", ".join(each.examples))
            for treatment, kinds in _TREATMENTS.items()
            for each in cleaned
            if each.kind in kinds
        ]
        names = ("treatment", "kind", "count", "records", "first locations")
        yield render_table(names, rows, numbers=("count",))
    if edits := trace.manifest.edits:
        yield render_note(f"requested edits of the log: {'; '.join(map(_describe_edit, edits))}")


def _describe_edit(step: Edit) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in step.parameters.items())
    return f"{step.operation} ({parameters})"


def list_missing_data(trace: Trace) -> list[str]:
    """List the data that a run does not have, and the results that are missing for that reason.

    >>> list_missing_data(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})))[0]
    'start and end times of tasks: no figures of the run, no wait times and no makespan'
    """
    tasks, placements = trace.tasks, trace.placements

    def count_unknown(frame: pl.DataFrame, column: str) -> int:
        return frame[column].null_count()

    missing = []
    if not placements.height and count_unknown(tasks, "run_time") == tasks.height:
        missing.append(
            "start and end times of tasks: no figures of the run, no wait times and no makespan"
        )
    if placements.height and count_unknown(placements, "machine") == placements.height:
        missing.append("machines of tasks: no figures by machine")
    if tasks.height and count_unknown(tasks, "user") == tasks.height:
        missing.append("users of tasks: no sessions and no figures by user")
    if tasks.height and count_unknown(tasks, "status") == tasks.height:
        missing.append("status of tasks: failed tasks are not known")
    if not trace.nodes.height:
        missing.append("nodes of the platform")
    if not trace.usage.height:
        missing.append("samples of tasks: a running task counts as busy")
    if not trace.power.height:
        missing.append("power: no energy and no carbon emissions")
    for column in ("user", "status"):
        if 0 < (count := count_unknown(tasks, column)) < tasks.height:
            missing.append(f"{column} of {format_count(count, 'task')} of {tasks.height:,}")
    return missing
