"""Options of commands that run or record real processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli.commands import INTERRUPTED
from twinloop.cli.output import print_json
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.execution.task_commands import CommandSurvey


@contextmanager
def print_resume_hint(output: Path | None, how: str = "") -> Iterator[None]:
    """Print on Ctrl-C how to resume from the output folder, and end the command.

    `how` is added to "the same command". Without an output folder nothing is saved.
    """
    try:
        yield
    except KeyboardInterrupt:
        from twinloop.cli.console import err, escape

        again = f"the same command {how}".rstrip()
        hint = "nothing is saved" if output is None else f"{again} resumes from {output}"
        err.print(escape(f"interrupted: {hint}"), soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only print the commands."),
]


def print_commands(surveys: Mapping[str, CommandSurvey], as_json: bool) -> None:
    """Print every distinct command that would be run, escaped, on stdout."""
    from twinloop.execution.announcement import describe_commands, list_commands

    if as_json:
        print_json(describe_commands(surveys))
    else:
        from twinloop.cli.console import out

        out.print(list_commands(surveys), markup=False, soft_wrap=True, end="")


class Power(StrEnum):
    """Whether power counters are read."""

    auto = "auto"
    none = "none"


Interval = Annotated[str, typer.Option(help="Sampling period, at least 50ms.", metavar="TIME")]
PowerOption = Annotated[Power, typer.Option(help="Read power counters where available.")]


def parse_duration(text: str, option: str) -> float:
    """Parse a duration given as an option, in seconds.

    >>> parse_duration("1min30s", "--interval")
    90.0
    >>> parse_duration("soon", "--interval")
    Traceback (most recent call last):
    twinloop.InputError: --interval must be a duration, not 'soon' ...
    """
    from twinloop.description.quantities import DURATION

    try:
        return DURATION.read(text)
    except InputError as error:
        raise InputError(
            f"{option} {error.problem}", kind=error.kind, remedy=error.remedy
        ) from None
