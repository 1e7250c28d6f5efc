"""The options that say how to read a log, the same for every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli.output import pairs, working
from twinloop.description.errors import FormatError, InputError

if TYPE_CHECKING:
    from twinloop.trace import Trace

InputPath = Annotated[
    Path,
    typer.Argument(
        help="A log or a trace: SWF, GWF, CSV, sacct output, WfCommons JSON, a folder of OpenDC "
        "or Core Trace Schema files, or a trace folder. Compressed files are read as they are.",
        show_default=False,
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The format of the input; found by its content if not given. One of: trace, "
        "unfinished, cts, opendc, wfcommons, swf, gwf, sacct, csv.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first row that cannot be read."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="For CSV: TARGET=NAME, e.g. --column id=JobID --column submit=SubmitTime.",
        metavar="TARGET=NAME",
    ),
]
Units = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        help="For CSV: TARGET=UNIT, e.g. --unit submit=ms --unit requested_memory=MiB.",
        metavar="TARGET=UNIT",
    ),
]
ReferenceMhz = Annotated[
    float | None,
    typer.Option(
        "--reference-mhz",
        help="For OpenDC: the clock of the core whose seconds are counted. Without it the clock "
        "in the topology beside the log, else what most tasks ask for per core.",
    ),
]
SstatFile = Annotated[
    Path | None,
    typer.Option("--sstat", help="For sacct: samples of the jobs, as sstat printed them."),
]
UtcOffset = Annotated[
    float | None,
    typer.Option(
        "--utc-offset", help="For sacct: hours that the clock of the cluster is ahead of UTC."
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
    *,
    beside: bool = False,
) -> Trace:
    """Read an input of a command.

    One that is read `beside` another may be of another kind, which the options are not for.
    """
    from twinloop.trace import read

    name = _format_of(path, format, mapped=bool(columns))
    options: dict[str, Any] = {}
    for option, form, key, value in (
        ("--column", "csv", "columns", pairs(columns, "--column")),
        ("--unit", "csv", "units", pairs(units, "--unit")),
        ("--reference-mhz", "opendc", "reference_mhz", reference_mhz),
        ("--sstat", "sacct", "sstat", sstat),
        ("--utc-offset", "sacct", "utc_offset", utc_offset),
    ):
        if value in (None, {}):
            continue
        if name == form:
            options[key] = value
        elif not beside:
            raise InputError(f"is in the format {name}; {option} is for {form}", file=path)
    with working(f"reading {path}"):
        return read(path, name, strict=strict, **options)


def _format_of(path: Path, named: str | None, *, mapped: bool) -> str:
    """The format of an input: as named, as its content says, or CSV where a map was given."""
    from twinloop.trace.formats import format_named, recognise

    if named is not None:
        return format_named(named).name
    try:
        return recognise(path).name
    except FormatError:
        if mapped:
            return "csv"
        raise
