"""The options that say how to read a log, the same for every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop.cli.output import pairs, working
from twinloop.trace import InputError, Trace, read, recognise

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
    typer.Option("--format", help="The format of the input; found by its content if not given."),
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
        "in the topology beside the log, else the fastest core that a task asks for.",
    ),
]


def read_trace(
    path: Path,
    format: str | None,
    strict: bool,
    columns: list[str] | None = None,
    units: list[str] | None = None,
    reference_mhz: float | None = None,
) -> Trace:
    """Read the input of a command."""
    options: dict[str, Any] = {"strict": strict}
    if columns:
        options["columns"] = pairs(columns, "--column")
        format = format or "csv"
    if units:
        options["units"] = pairs(units, "--unit")
    if reference_mhz is not None:
        options["reference_mhz"] = reference_mhz
    with working(f"reading {path}"):
        try:
            return read(path, format, **options)
        except TypeError as error:
            if "unexpected keyword" not in str(error):
                raise
            name = format or recognise(path).name
            raise InputError(f"an option that the format '{name}' does not have: {error}") from None
