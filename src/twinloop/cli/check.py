"""`twinloop check`: can this log be trusted?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.log_options import (
    Columns,
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
    err,
    escape,
    print_audit,
    print_json,
    refuse_page,
    speaking,
    working,
)

#: What the command ends with when a rule is broken as an error.
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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the audit here, as Markdown.")
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Hold a log against the quality gate: every rule, how many rows break it, and where.

    Errors close the gate: a log that breaks such a rule is not simulated. Warnings are counted
    and shown. Ends with 0 if the gate is open, 1 if it is closed, 2 if the log cannot be read.

    Keys of --json: `path`, `ok`, and the audit: `rules` (name, severity, law, rows, broken,
    examples), `cleaned`, `source`.

    Examples: `twinloop check log.swf`, `twinloop check runs/first -o audit.md`.
    """
    # They take a moment to load, for which nobody waits who asks for help.
    from twinloop.description.files import writing
    from twinloop.trace import check as check_quality

    with speaking(json):
        if output is not None:
            refuse_page(output, overwrite, path, sstat)
        trace = read_trace(path, format, strict, column, unit, reference_mhz, sstat, utc_offset)
        with working("checking"):
            audit = check_quality(trace)
        if output is not None:
            with writing(output) as stream:
                stream.write(audit.to_markdown().encode())
            err.print(escape(f"wrote {output}"))
        if json:
            print_json({"path": str(path)} | audit.to_dict())
        else:
            print_audit(audit)
        if not audit.ok:
            raise typer.Exit(GATE_CLOSED)
