"""How good the data of a run are: what was dropped, repaired, invented, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from twinloop.report.pages.page import (
    Page,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.manifest import Edit
from twinloop.trace.quality import check
from twinloop.trace.quality.audit import Audit, RuleFinding

#: What became of it, in the order of how much it weighs, and the kinds of cleaning that mean it.
_FATES: Final = {
    "dropped": ("skipped", "removed", "ignored"),
    "repaired": ("repaired",),
    "invented": ("invented", "assumed"),
    "odd, left as it is": ("noticed",),
}


def add_data_quality(page: Page, trace: Trace, heading: str = "Data quality") -> None:
    """Put on a page how good the data of a run are.

    >>> page = Page("A run")
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [1.0]})
    >>> add_data_quality(page, Trace(tasks=tasks))
    >>> "Everything was taken as it stood." in page.render()
    True
    """
    audit = check(trace)
    page.add_section(
        heading,
        render_paragraph(_describe_quality(trace, audit)),
        *_render_gate(audit),
        "<h3>What was not taken as it stood</h3>",
        *_render_cleaning(trace),
        "<h3>What was not recorded</h3>",
        render_list(list_missing_data(trace))
        if any(list_missing_data(trace))
        else render_paragraph("All was recorded."),
    )


def _describe_quality(trace: Trace, audit: Audit) -> str:
    counts = dict.fromkeys(_FATES, 0)
    for fate, kinds in _FATES.items():
        counts[fate] = sum(each.count for each in trace.manifest.cleaned if each.kind in kinds)
    done = ", ".join(f"{count:,} {fate}" for fate, count in counts.items() if count)
    taken = done or "nothing was dropped, repaired or invented"
    if audit.ok and not audit.warnings:
        return f"The quality gate finds nothing wrong; {taken}."
    errors, warnings = (
        format_count(len(found), what)
        for found, what in ((audit.errors, "error"), (audit.warnings, "warning"))
    )
    return f"The quality gate finds {errors} and {warnings}; {taken}."


def _render_gate(audit: Audit) -> Iterator[str]:
    broken = [*audit.errors, *audit.warnings]
    names = ("rule", "weight", "rows that break it", "what it says", "first example")
    if broken:
        yield render_table(names, map(_make_rule_row, broken), numbers=("rows that break it",))
    kept = [found for found in audit.findings if found.applies and not found.broken]
    rest = [found.rule for found in audit.findings if not found.applies]
    said = [f"{found.rule}: {found.law} ({found.rows:,} looked at)" for found in kept]
    if rest:
        said.append(f"do not apply, for there is nothing they speak of: {', '.join(rest)}")
    yield render_details(f"{format_count(len(kept), 'rule')} kept", render_list(said))


def _make_rule_row(found: RuleFinding) -> tuple[str, ...]:
    first = str(found.examples[0]) if found.examples else ""
    return (
        found.rule, found.severity, f"{found.broken:,} of {found.rows:,}", found.law, first,
    )  # fmt: skip


def _render_cleaning(trace: Trace) -> Iterator[str]:
    cleaned = trace.manifest.cleaned
    if not cleaned:
        yield render_paragraph("Everything was taken as it stood.")
    else:
        rows = [
            (fate, each.kind, f"{each.count:,}", each.what, ", ".join(each.examples))
            for fate, kinds in _FATES.items()
            for each in cleaned
            if each.kind in kinds
        ]
        names = ("what became of it", "how", "times", "of what", "first places")
        yield render_table(names, rows, numbers=("times",))
    if edits := trace.manifest.edits:
        yield render_note(
            f"the log was changed on request: {'; '.join(map(_describe_edit, edits))}"
        )


def _describe_edit(step: Edit) -> str:
    given = ", ".join(f"{name} {value}" for name, value in step.parameters.items())
    return f"{step.operation} ({given})"


def list_missing_data(trace: Trace) -> list[str]:
    """What a run does not say, and what cannot be known for that, in sentences.

    >>> list_missing_data(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})))[0]
    'when tasks ran: no picture of the run, no waits and no makespan'
    """
    tasks, ran = trace.tasks, trace.placements

    def unknown(frame: pl.DataFrame, column: str) -> int:
        return frame[column].null_count()

    said = []
    if not ran.height and unknown(tasks, "run_time") == tasks.height:
        said.append("when tasks ran: no picture of the run, no waits and no makespan")
    if ran.height and unknown(ran, "machine") == ran.height:
        said.append("where tasks ran: nothing can be said of single machines")
    if tasks.height and unknown(tasks, "user") == tasks.height:
        said.append("whose tasks they are: no sessions and no figures by user")
    if tasks.height and unknown(tasks, "status") == tasks.height:
        said.append("how tasks ended: none is known to have failed")
    if not trace.nodes.height:
        said.append("the nodes of the platform")
    if not trace.usage.height:
        said.append("what tasks really used of the CPU: a task counts as busy while it runs")
    if not trace.power.height:
        said.append("power: no energy and no carbon")
    for table_of, column, what in ((tasks, "user", "user"), (tasks, "status", "status")):
        if 0 < (missing := unknown(table_of, column)) < table_of.height:
            said.append(f"the {what} of {format_count(missing, 'task')} of {table_of.height:,}")
    return said
