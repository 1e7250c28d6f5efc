"""`twinloop inspect`: the contents of a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from twinloop import report
from twinloop.cli.console import err, escape, out
from twinloop.cli.log_options import (
    Columns,
    DagFile,
    FormatName,
    InputPath,
    ReferenceMhz,
    SstatFile,
    Strict,
    Units,
    UtcOffset,
    read_trace,
)
from twinloop.cli.output import (
    Json,
    Overwrite,
    print_audit,
    print_cleanings,
    print_json,
    refuse_page,
    report_errors,
    show_status,
)

if TYPE_CHECKING:
    from twinloop.trace import Audit, Summary, Trace
    from twinloop.trace.summary import Spread


def inspect(
    path: InputPath,
    format: FormatName = None,
    strict: Strict = False,
    column: Columns = None,
    unit: Units = None,
    reference_mhz: ReferenceMhz = None,
    sstat: SstatFile = None,
    utc_offset: UtcOffset = None,
    dag: DagFile = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Write the load over time as an HTML page."),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show what is in a log: counts, ranges, users, load.

    Also shown: what the reader skipped, repaired or assumed, and the rules of the quality gate
    that are violated.

    - `twinloop inspect log.swf.gz`
    - `twinloop inspect runs/first --picture load.html`
    - `twinloop inspect jobs.csv --column id=JobID --column submit=Submit --unit submit=ms`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.calibration.losses import list_unsupported_losses
    from twinloop.description.files import write_atomically
    from twinloop.trace import Summary, check

    with report_errors(json):
        if picture is not None:
            refuse_page(picture, overwrite, path, sstat, dag)
        trace = read_trace(
            path, format, strict, column, unit, reference_mhz, sstat, utc_offset, dag
        )
        with show_status("summarising"):
            summary, audit = Summary.from_trace(trace), check(trace)
            is_run = summary.graph is not None and summary.kind != "generated"
            unsupported = list_unsupported_losses(trace) if is_run else None
        if picture is not None:
            page = report.plot_load(trace).to_html(include_plotlyjs=True, full_html=True)
            with write_atomically(picture) as stream:
                stream.write(page.encode())
            err.print(escape(f"wrote {picture}"))
        if json:
            print_json(_make_document(path, trace, summary, audit, unsupported))
        else:
            _show(path, trace, summary, audit, unsupported)


def _make_document(
    path: Path, trace: Trace, summary: Summary, audit: Audit, unsupported: dict[str, str] | None
) -> dict[str, Any]:
    from twinloop.trace import compute_load_over_time

    return {
        "path": str(path),
        "summary": summary.model_dump(),
        "load": compute_load_over_time(trace).to_dicts(),
        "unsupported_losses": unsupported,
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
        "problems": {finding.rule: finding.broken for finding in (*audit.errors, *audit.warnings)},
        "manifest": trace.manifest.model_dump(mode="json"),
    }


def _show(
    path: Path, trace: Trace, summary: Summary, audit: Audit, unsupported: dict[str, str] | None
) -> None:
    from twinloop.trace import compute_load_over_time

    source = f"{summary.format}, " if summary.format else ""
    out.print(f"[bold]{escape(path)}[/]  {source}{summary.kind}")
    span = (summary.last_submit or 0.0) - (summary.first_submit or 0.0)
    start = f"from {summary.epoch}, " if summary.epoch else ""
    out.print(f"  {start}submissions over {report.format_duration(span)}")
    counts = [
        report.format_count(number, noun)
        for number, noun in (
            (summary.users, "user"),
            (summary.groups, "group"),
            (summary.queues, "queue"),
        )
        if number
    ]
    out.print(f"  {', '.join([report.format_count(summary.tasks, 'task'), *counts])}")
    if summary.statuses:
        parts = (f"{number:,} {escape(status)}" for status, number in summary.statuses.items())
        out.print(f"  status: {', '.join(parts)}")
    for line in _describe_workflow(summary, unsupported):
        out.print(f"  {escape(line)}", soft_wrap=True)
    for name, rows in summary.rows.items():
        if name != "tasks":
            out.print(f"  {report.format_count(rows, 'row')} of {name.replace('_', ' ')}")
    if summary.offered_load is not None and summary.capacity:
        share = f"{summary.offered_load:.0%}"
        out.print(f"  work for {share} of {report.format_number(summary.capacity)} cores")
    out.print(_make_spread_table(summary))
    load = compute_load_over_time(trace, bins=min(100, max(20, out.width - 12)))
    if load.height > 1:
        out.print(report.render_load_chart(load))
    else:
        out.print("all tasks were submitted at the same time: no load over time")
    if trace.manifest.cleaned:
        out.print("\ndata cleaning")
        print_cleanings(trace.manifest.cleaned)
    out.print()
    print_audit(audit)


def _describe_workflow(summary: Summary, unsupported: dict[str, str] | None) -> list[str]:
    """Describe the graph and the files of a workflow, and what a simulation of it lacks."""
    lines = []
    if graph := summary.graph:
        lines += [
            f"{report.format_count(summary.with_parents, 'task')} with dependencies",
            f"depth {report.format_count(graph.levels, 'level')}, largest level "
            f"{report.format_count(graph.width, 'task')}, "
            f"{report.format_count(graph.dependencies, 'dependency', 'dependencies')}, "
            f"{report.format_count(graph.sources, 'source')}, "
            f"{report.format_count(graph.sinks, 'sink')}",
        ]
    if graph and graph.blocked:
        lines.append(f"{report.format_count(graph.blocked, 'task')} in or behind a cycle")
    if files := summary.files:
        roles = (
            (files.input_files, files.input_bytes, "input"),
            (files.intermediate_files, files.intermediate_bytes, "intermediate"),
            (files.output_files, files.output_bytes, "output"),
            (files.unused_files, files.unused_bytes, "unused"),
        )
        parts = (
            f"{name} {report.format_size(size)} in {count:,}"
            for count, size, name in roles
            if count
        )
        lines += [
            f"{report.format_size(files.bytes)} of data in "
            f"{report.format_count(files.files, 'file')}: {', '.join(parts)}",
            f"tasks read {report.format_size(files.read_bytes)}, "
            f"write {report.format_size(files.written_bytes)}",
        ]
    if summary.transferred_bytes:
        moved = (
            f"{kind} {report.format_size(amount)}"
            for kind, amount in summary.transferred_bytes.items()
        )
        lines.append(f"recorded transfers: {', '.join(moved)}")
    if summary.missing:
        facts = (f"{what}: {number:,}" for what, number in summary.missing.items())
        lines.append(f"incomplete for a simulation: {'; '.join(facts)}")
    if unsupported is not None:
        lines += _describe_losses(unsupported)
    return lines


def _describe_losses(unsupported: dict[str, str]) -> list[str]:
    """Describe which losses of workflows a log supports, and which losses need start times."""
    from twinloop.calibration.losses import LOSSES, WORKFLOW_LOSSES

    supported = [name for name in WORKFLOW_LOSSES if name not in unsupported]
    lines = [f"supported losses of workflows: {', '.join(supported) or 'none'}"]
    reasons: dict[str, list[str]] = {}
    for name in WORKFLOW_LOSSES:
        if name in unsupported:
            reasons.setdefault(unsupported[name], []).append(name)
    lines += [f"not {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    timed = [name for name, loss in LOSSES.items() if loss.needs & {"start", "end", "wait"}]
    refused = [name for name in timed if name in unsupported]
    if refused:
        lines.append(f"not {', '.join(refused)}: {unsupported[refused[0]]}")
    return lines


def _make_spread_table(summary: Summary) -> Table:
    table = Table("", "known", "min", "median", "mean", "95 %", "max", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    rows: tuple[tuple[str, Spread | None, Any], ...] = (
        ("cores", summary.cores, report.format_number),
        ("run time", summary.run_time, report.format_duration),
        ("wait", summary.wait, report.format_duration),
        ("requested time", summary.requested_time, report.format_duration),
        ("memory", summary.memory, report.format_size),
    )
    for name, spread, format_value in rows:
        if spread is None:
            table.add_row(f"  {name}", "none", *[""] * 5)
        else:
            figures = (spread.minimum, spread.median, spread.mean, spread.p95, spread.maximum)
            table.add_row(f"  {name}", f"{spread.known:,}", *map(format_value, figures))
    return table
