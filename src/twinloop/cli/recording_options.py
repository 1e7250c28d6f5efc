"""The options of commands that run or record something real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli.commands import INTERRUPTED
from twinloop.cli.output import err, escape, out, print_json
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.execution.task_commands import Survey


@contextmanager
def going_on(output: Path | None, how: str = "") -> Iterator[None]:
    """Say on Ctrl-C that nothing is lost of what is kept in a folder, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        again = f"the same command {how}".rstrip()
        said = f"interrupted: {again} goes on from {output}"
        err.print(escape(said), soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Run nothing, and write nothing: print every distinct command."),
]


def print_commands(surveys: Mapping[str, Survey], as_json: bool) -> None:
    """Print every distinct command that would be run, escaped, on stdout."""
    from twinloop.execution.announcement import describe_commands, list_commands

    if as_json:
        print_json(describe_commands(surveys))
    else:
        out.print(list_commands(surveys), markup=False, soft_wrap=True, end="")


class Power(StrEnum):
    """Whether counters of power are read."""

    auto = "auto"
    none = "none"


Interval = Annotated[
    str, typer.Option(help="Time between two samples, at least 50ms.", metavar="TIME")
]
PowerOption = Annotated[
    Power, typer.Option(help="Read the counters of power, where there are any.")
]


def duration(text: str, option: str) -> float:
    """The time (s) that an option says.

    >>> duration("1min30s", "--interval")
    90.0
    >>> duration("soon", "--interval")
    Traceback (most recent call last):
    twinloop.InputError: --interval must be a duration, not 'soon' ...
    """
    from twinloop.description.quantities import DURATION

    try:
        return DURATION.read(text)
    except InputError as error:
        raise InputError(f"{option} {error.problem}", remedy=error.remedy) from None
