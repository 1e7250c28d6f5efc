"""`twinloop check`: can this log be trusted?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.output import Json, err, out, print_json, refuse_existing, speaking, working
from twinloop.cli.reading import (
    Columns,
    FormatName,
    InputPath,
    ReferenceMhz,
    Strict,
    Units,
    read_trace,
)
from twinloop.report import words
from twinloop.trace import Audit
from twinloop.trace import check as check_quality
from twinloop.trace.formats.streams import writing

#: What the command ends with when a rule is broken as an error.
GATE_CLOSED = 1


def check(
    path: InputPath,
    format: FormatName = None,
    strict: Strict = False,
    column: Columns = None,
    unit: Units = None,
    reference_mhz: ReferenceMhz = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the audit here, as Markdown.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an audit that is there.")] = False,
    json: Json = False,
) -> None:
    """Hold a log against the quality gate: every rule, how many rows break it, and where.

    Errors close the gate: a log that breaks such a rule is not simulated. Warnings are counted
    and shown. Ends with 0 if the gate is open, 1 if it is closed, 2 if the log cannot be read.

    Keys of --json: `path`, `ok`, and the audit: `rules` (name, severity, law, rows, broken,
    examples), `cleaned`, `source`.

    Examples: `twinloop check log.swf`, `twinloop check runs/first -o audit.md`.
    """
    with speaking(json):
        if output is not None:
            refuse_existing(output, overwrite)
        trace = read_trace(path, format, strict, column, unit, reference_mhz)
        with working("checking"):
            audit = check_quality(trace)
        if output is not None:
            with writing(output) as stream:
                stream.write(audit.to_markdown().encode())
            err.print(f"wrote {output}")
        if json:
            print_json({"path": str(path)} | audit.to_dict())
        else:
            _show(audit)
        if not audit.ok:
            raise typer.Exit(GATE_CLOSED)


def _show(audit: Audit) -> None:
    gate = "[bold green]open[/]" if audit.ok else "[bold red]closed[/]"
    broken = (*audit.errors, *audit.warnings)
    held = sum(finding.applies for finding in audit.findings) - len(broken)
    apart = sum(not finding.applies for finding in audit.findings)
    out.print(
        f"the gate is {gate}: {words.count(len(audit.errors), 'error')}, "
        f"{words.count(len(audit.warnings), 'warning')}; {words.count(held, 'rule')} kept, "
        f"{apart} about things that are not in this log"
    )
    for finding in broken:
        colour = "red" if finding.severity == "error" else "yellow"
        out.print(
            f"  [{colour}]{finding.severity}[/] {finding.rule}: {finding.broken:,} of "
            f"{finding.rows:,} rows. {finding.law}"
        )
        for example in finding.examples:
            out.print(f"    {example}", markup=False, soft_wrap=True)
