"""`twinloop burn`: real work of a known amount."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from twinloop.cli.output import Json, speaking
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
            help="As much work as an undisturbed core does in S seconds, on each thread.",
            show_default=False,
        ),
    ] = None,
    work: Annotated[
        str | None,
        typer.Option(metavar="W", help="W units of the kind, on each thread.", show_default=False),
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads at a time. \\[default: 1]")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(metavar="I", help="Decides what is worked on, not how much. \\[default: 0]"),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="R",
            help="Units per CPU second, as cpu=2.5e8,cache=7e7. Without, those of "
            "TWINLOOP_BURN_RATES; what that lacks is measured first.",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the rates of the kinds, or of all.")
    ] = False,
    json: Json = False,
) -> None:
    """Keep a core, a cache, the memory or a disk busy with a known amount of real work.

    It becomes the program `twinloop-burn`, which starts in a millisecond and which tasks of a
    scenario call by its own name. What comes out is always one JSON object.

    Keys: `kind`, `units` (on each thread), `threads`, `seed`, `cpu_s` (of all threads), `wall_s`,
    `checksum` (the same for the same kind, units, threads and seed). With --calibrate: units per
    CPU second by kind.

    Example: `twinloop burn cache --seconds 2 --threads 2`.
    """
    # It takes a moment to load, for which nobody waits who asks for help.
    from twinloop.execution.burn_program import program

    given = {
        "--seconds": seconds,
        "--work": work,
        "--threads": threads,
        "--seed": seed,
        "--rates": rates,
    }
    with speaking(json):
        path = program()
    words = [f"{option}={value}" for option, value in given.items() if value is not None]
    flags = ["--calibrate"] if calibrate else []
    with speaking(json):
        for word in (*(kind or []), *words):
            if escape_name(word) != word:
                raise InputError(f"{word!r} holds control characters")
    sys.stdout.flush()
    os.execv(path, [path.name, *flags, *(kind or []), *words])
