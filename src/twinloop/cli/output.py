"""Output of all commands: results on stdout, everything else on stderr.

The consoles are imported where they are used, because JSON output needs no rich.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from twinloop import report
from twinloop.description.errors import (
    InputError,
    TwinloopError,
    TwinloopWarning,
    input_error_from_os_error,
)
from twinloop.description.replacement import check_not_input, check_regular_file
from twinloop.description.safe_text import escape_json

if TYPE_CHECKING:
    from twinloop.description import Cleaning
    from twinloop.trace import Audit

#: Variables by which a user tells rich whether a stream is a terminal.
_TERMINAL_VARIABLES: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})

#: Exit status if the input cannot be used.
BAD_INPUT = 2

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout.")]

Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace an existing output.",
    ),
]


@contextmanager
def report_errors(as_json: bool) -> Iterator[None]:
    """Report input errors as a message or as JSON, and end with `BAD_INPUT`.

    Errors of the operating system (permissions, a full disk) count as input errors, and the message
    names the file. Warnings of Twinloop are printed to stderr, one line each.
    """
    previous = warnings.showwarning
    warnings.showwarning = _print_warning
    try:
        yield
    except BrokenPipeError:
        raise
    except (TwinloopError, OSError) as problem:
        error = input_error_from_os_error(problem) if isinstance(problem, OSError) else problem
        if as_json:
            print_error(error)
        else:
            from rich.markup import escape

            from twinloop.cli.console import err

            err.print(f"[bold red]error[/]: {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None
    finally:
        warnings.showwarning = previous


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    from twinloop.cli.console import err, escape

    if issubclass(category, TwinloopWarning):
        err.print(f"[bold yellow]warning[/]: {escape(message)}", soft_wrap=True)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        err.print(text, markup=False, soft_wrap=True, end="")


def is_terminal() -> bool:
    """Whether stderr is a terminal, by the rules of rich.

    Without these variables the answer is that of the stream, and needs no rich if it is no.
    """
    if not _TERMINAL_VARIABLES & os.environ.keys() and not sys.stderr.isatty():
        return False
    from twinloop.cli.console import err

    return err.is_terminal


def print_message(text: str) -> None:
    """Print a text to stderr, escaped."""
    from twinloop.cli.console import err, escape

    err.print(escape(text))


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show a status line on a terminal while a step is running."""
    if is_terminal():
        from twinloop.cli.console import err

        with err.status(what):
            yield
    else:
        yield


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON object; NaN and infinity become null, control characters `\\uXXXX`."""
    from twinloop.description.json_values import to_json_values

    text = json.dumps(to_json_values(document), indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(escape_json(text))


def print_cleanings(notes: Iterable[Cleaning]) -> None:
    """Print what was skipped, repaired, invented, assumed or ignored, one line each."""
    from twinloop.cli.console import escape, out

    for note in notes:
        out.print(f"  {escape(note)}", soft_wrap=True)


def refuse_existing(path: Path, overwrite: bool, *inputs: Path | None) -> None:
    """Raise an error if an output exists already and is not to be replaced.

    Nothing is written inside an input, and an input or a folder that contains one is never
    replaced. The other rules are in `twinloop.description.replacement`.
    """
    check_not_input(path, [given for given in inputs if given is not None])
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise InputError(
            "exists already", kind="output-exists", file=path, remedy="--overwrite replaces it"
        )
    if not path.is_dir():
        check_regular_file(path)


def refuse_page(path: Path, overwrite: bool, *inputs: Path | None) -> None:
    """Raise an error if a page exists already and is not to be replaced, or is not a file."""
    refuse_existing(path, overwrite, *inputs)
    check_regular_file(path)


def refuse_inside(page: Path, folder: Path | None) -> None:
    """Raise an error if a page would be written into the folder of a run."""
    if folder is not None and page.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"is in {folder}, which contains only the files of the run",
            kind="outside-folder",
            file=page,
            remedy="choose a path outside of it",
        )


def print_audit(audit: Audit) -> None:
    """Print the result of the quality gate and the violated rules."""
    from twinloop.cli.console import out

    gate = "[bold green]open[/]" if audit.ok else "[bold red]closed[/]"
    broken = (*audit.errors, *audit.warnings)
    satisfied = sum(finding.applies for finding in audit.findings) - len(broken)
    not_applicable = sum(not finding.applies for finding in audit.findings)
    count = report.format_count
    out.print(
        f"the gate is {gate}: {count(len(audit.errors), 'error')}, "
        f"{count(len(audit.warnings), 'warning')}; {count(satisfied, 'rule')} satisfied, "
        f"{not_applicable} not applicable"
    )
    for finding in broken:
        colour = "red" if finding.severity == "error" else "yellow"
        out.print(
            f"  [{colour}]{finding.severity}[/] {finding.rule}: {finding.broken:,} of "
            f"{finding.rows:,} rows. {finding.law} \\[{finding.code}]",
            soft_wrap=True,
        )
        for example in finding.examples:
            out.print(f"    {example}", markup=False, soft_wrap=True)


def require_positive(**options: int | None) -> None:
    """Raise an error if an option is given and less than 1.

    >>> require_positive(top=3, workers=0)
    Traceback (most recent call last):
    twinloop.InputError: --workers: must be at least 1, not 0 [TL0206]
    """
    for name, value in options.items():
        if value is not None and value < 1:
            raise InputError(
                f"must be at least 1, not {value}", kind="out-of-range", field=f"--{name}"
            )


def parse_pairs(values: Iterable[str] | None, option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` words into a dictionary."""
    pairs = {}
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {value}: expected NAME=VALUE", kind="malformed-option")
        if name in pairs:
            raise InputError(
                f"{option} {value}: {name} is set twice",
                kind="conflicting-options",
                remedy="give it once",
            )
        pairs[name] = rest
    return pairs


def print_error(error: TwinloopError) -> None:
    """Print an error as one JSON object."""
    parts = ("problem", "code", "file", "line", "field", "remedy")
    described = {"message": str(error)} | {part: getattr(error, part, None) for part in parts}
    print_json({"error": described})
