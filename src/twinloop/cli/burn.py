"""`twinloop burn`: a known amount of real work."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from twinloop.cli.output import Json, report_errors
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name

Kind = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND",
        help="cpu, memory, stream, cache, mixed, sleep or io; several with --calibrate.",
        show_default=False,
    ),
]


def burn(
    kind: Kind = None,
    seconds: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Work of S seconds on an idle core, per thread.",
            show_default=False,
        ),
    ] = None,
    work: Annotated[
        str | None,
        typer.Option(metavar="W", help="Units of work, per thread.", show_default=False),
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Number of threads. \\[default: 1]")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="I", help="Random seed of the data, not of the amount. \\[default: 0]"
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="R",
            help="Units per CPU second: cpu=2.5e8,cache=7e7; by default TWINLOOP_BURN_RATES, else "
            "measured.",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the rates of the given kinds, or of all.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a known amount of real work on CPU, memory or disk.

    The command replaces itself by the program `twinloop-burn`, which starts within a millisecond
    and which tasks of a scenario can call directly. It always prints one JSON object.

    - `twinloop burn cache --seconds 2 --threads 2`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.execution.burn_program import find_burn_program

    options = {
        "--seconds": seconds,
        "--work": work,
        "--threads": threads,
        "--seed": seed,
        "--rates": rates,
    }
    with report_errors(json):
        program = find_burn_program()
    words = [f"{option}={value}" for option, value in options.items() if value is not None]
    flags = ["--calibrate"] if calibrate else []
    with report_errors(json):
        for word in (*(kind or []), *words):
            if escape_name(word) != word:
                raise InputError(f"{word!r} contains control characters", kind="invalid-command")
    sys.stdout.flush()
    os.execv(program, [program.name, *flags, *(kind or []), *words])
