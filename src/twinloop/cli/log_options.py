"""Options for reading a log, shared by all commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli.output import parse_pairs, show_status
from twinloop.description.errors import FormatError, InputError

if TYPE_CHECKING:
    from twinloop.trace import Trace

InputPath = Annotated[
    Path,
    typer.Argument(
        help="A log (SWF, GWF, CSV, sacct, WfCommons, Nextflow, Schlouder, FlowBench, OpenDC, CTS) "
        "or a trace.",
        show_default=False,
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Input format; by default detected. One of: trace, unfinished, cts, opendc, "
        "wfcommons, schlouder, flowbench, swf, gwf, sacct, nextflow, csv.",
        metavar="NAME",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first unreadable row."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="CSV: column of a field: id=JobID.",
        metavar="FIELD=NAME",
    ),
]
Units = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        help="CSV: unit of a field: submit=ms.",
        metavar="FIELD=UNIT",
    ),
]
ReferenceMhz = Annotated[
    float | None,
    typer.Option(
        "--reference-mhz",
        help="OpenDC: clock of the reference core.",
    ),
]
SstatFile = Annotated[
    Path | None,
    typer.Option("--sstat", help="sacct: samples printed by sstat."),
]
UtcOffset = Annotated[
    float | None,
    typer.Option("--utc-offset", help="sacct, nextflow: hours ahead of UTC."),
]
DagFile = Annotated[
    Path | None,
    typer.Option(
        "--dag",
        help="Dependencies; flowbench: a JSON file, nextflow: the workflow diagram (.mmd, .dot, "
        ".html).",
    ),
]


def read_trace(
    path: Path,
    format: str | None,
    strict: bool,
    columns: list[str] | None = None,
    units: list[str] | None = None,
    reference_mhz: float | None = None,
    sstat: Path | None = None,
    utc_offset: float | None = None,
    dag: Path | None = None,
    *,
    is_additional: bool = False,
) -> Trace:
    """Read an input of a command.

    With `is_additional` the input is an additional log, to which options of other
    formats do not apply.
    """
    from twinloop.trace import read

    name = _find_format(path, format, has_columns=bool(columns))
    options: dict[str, Any] = {}
    for option, formats, key, value in (
        ("--column", ("csv",), "columns", parse_pairs(columns, "--column")),
        ("--unit", ("csv",), "units", parse_pairs(units, "--unit")),
        ("--reference-mhz", ("opendc",), "reference_mhz", reference_mhz),
        ("--sstat", ("sacct",), "sstat", sstat),
        ("--utc-offset", ("sacct", "nextflow"), "utc_offset", utc_offset),
        ("--dag", ("flowbench", "nextflow"), "dag", dag),
    ):
        if value in (None, {}):
            continue
        if name in formats:
            options[key] = value
        elif not is_additional:
            raise InputError(
                f"is in the format {name}; {option} applies to {' and '.join(formats)}",
                kind="inapplicable-option",
                file=path,
            )
    with show_status(f"reading {path}"):
        return read(path, name, strict=strict, **options)


def _find_format(path: Path, named: str | None, *, has_columns: bool) -> str:
    """Find the format of an input: as named, by content, or CSV if columns are given."""
    from twinloop.trace.formats import get_format, recognise

    if named is not None:
        return get_format(named).name
    try:
        return recognise(path).name
    except FormatError:
        if has_columns:
            return "csv"
        raise
