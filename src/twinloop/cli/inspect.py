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
        if picture is not None:
            page = report.plot_load(trace).to_html(include_plotlyjs=True, full_html=True)
            with write_atomically(picture) as stream:
                stream.write(page.encode())
            err.print(escape(f"wrote {picture}"))
        if json:
            print_json(_make_document(path, trace, summary, audit))
        else:
            _show(path, trace, summary, audit)


def _make_document(path: Path, trace: Trace, summary: Summary, audit: Audit) -> dict[str, Any]:
    from twinloop.trace import compute_load_over_time

    return {
        "path": str(path),
        "summary": summary.model_dump(),
        "load": compute_load_over_time(trace).to_dicts(),
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
        "problems": {finding.rule: finding.broken for finding in (*audit.errors, *audit.warnings)},
        "manifest": trace.manifest.model_dump(mode="json"),
    }


def _show(path: Path, trace: Trace, summary: Summary, audit: Audit) -> None:
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
    if summary.with_parents:
        out.print(f"  {report.format_count(summary.with_parents, 'task')} with dependencies")
    if summary.data_bytes is not None:
        out.print(f"  {report.format_size(summary.data_bytes)} of data")
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
