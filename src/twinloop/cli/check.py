"""`twinloop check`: the quality gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.console import err, escape
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
    print_json,
    refuse_page,
    report_errors,
    show_status,
)

#: Exit status if a rule of severity error is violated.
GATE_CLOSED = 1


def check(
    path: InputPath,
    format: FormatName = None,
    strict: Strict = False,
    column: Columns = None,
    unit: Units = None,
    reference_mhz: ReferenceMhz = None,
    sstat: SstatFile = None,
    utc_offset: UtcOffset = None,
    dag: DagFile = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the audit as Markdown.")
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Check a log against the rules of the quality gate.

    Prints every violated rule with the number of rows and examples. Violations of severity error
    close the gate: results of such a log are not reliable. Exit status: 0 gate open, 1 gate closed,
    2 log not readable.

    - `twinloop check log.swf`
    - `twinloop check runs/first -o audit.md`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.description.files import write_atomically
    from twinloop.trace import check as check_quality

    with report_errors(json):
        if output is not None:
            refuse_page(output, overwrite, path, sstat, dag)
        trace = read_trace(
            path, format, strict, column, unit, reference_mhz, sstat, utc_offset, dag
        )
        with show_status("checking"):
            audit = check_quality(trace)
        if output is not None:
            with write_atomically(output) as stream:
                stream.write(audit.to_markdown().encode())
            err.print(escape(f"wrote {output}"))
        if json:
            print_json({"path": str(path)} | audit.to_dict())
        else:
            print_audit(audit)
        if not audit.ok:
            raise typer.Exit(GATE_CLOSED)
