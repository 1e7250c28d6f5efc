"""How every command speaks: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape as escape_markup
from rich.segment import Segment
from rich.text import Text

from twinloop import report
from twinloop.description.errors import InputError, TwinloopError, TwinloopWarning, refused
from twinloop.description.replacement import check_file, refuse_input
from twinloop.description.safe_text import escape_controls, escape_json, escape_name

if TYPE_CHECKING:
    from twinloop.description import Cleaning
    from twinloop.trace import Audit

#: What a command ends with when what it was given cannot be used.
BAD_INPUT = 2

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else there.")
]

Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace an output that is there: a file of this name, or a folder that this command "
        "wrote and that holds nothing else.",
    ),
]


class SafeConsole(Console):
    """A console on which no text can be taken for a command to the terminal.

    What every command prints passes through here, also tables, errors and pictures that change.
    Control characters of the text, which may come from names in files, are written out; the styles
    of rich, which it adds later, are not text.

    >>> SafeConsole(color_system=None).print("a\\x1b]0;b\\x07")
    a\\x1b]0;b\\x07
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text; escaped first, so that the layout counts what is shown."""
        return super().render_str(escape_controls(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Turn anything that can be printed into segments, whose text is escaped."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                safe = escape_controls(segment.text)
                yield segment if safe == segment.text else segment._replace(text=safe)
            else:
                yield segment


out = SafeConsole(highlight=False, emoji=False)
err = SafeConsole(stderr=True, highlight=False, emoji=False)


def escape(text: object) -> str:
    """A name, or a line with names in it, for a console: neither markup nor a line of its own.

    >>> escape("a[/]\\nb")
    'a\\\\[/]\\\\nb'
    """
    return escape_markup(escape_name(text))


@contextmanager
def speaking(as_json: bool) -> Iterator[None]:
    """Turn what goes wrong with the input into a message, and into JSON where that is wanted.

    What the system refuses (a file that may not be read or written, a disk that is full) is wrong
    input too: the message names the file. Warnings of Twinloop are a line each on stderr.
    """
    before = warnings.showwarning
    warnings.showwarning = _warn
    try:
        yield
    except BrokenPipeError:
        raise
    except (TwinloopError, OSError) as problem:
        error = refused(problem) if isinstance(problem, OSError) else problem
        if as_json:
            print_json({"error": _explained(error)})
        else:
            err.print(f"[bold red]error[/]: {escape_markup(str(error))}", soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None
    finally:
        warnings.showwarning = before


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, TwinloopWarning):
        err.print(f"[bold yellow]warning[/]: {escape(message)}", soft_wrap=True)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        err.print(text, markup=False, soft_wrap=True, end="")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done, while it is being done, to whoever watches."""
    if err.is_terminal:
        with err.status(what):
            yield
    else:
        yield


def print_json(document: dict[str, Any]) -> None:
    """One JSON object; what is no number in JSON becomes null, and control characters `\\uXXXX`."""
    from twinloop.description.json_values import plain

    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(escape_json(text))


def print_cleanings(notes: Iterable[Cleaning]) -> None:
    """What was skipped, repaired, invented, assumed or ignored, a line each."""
    for note in notes:
        out.print(f"  {escape(note)}", soft_wrap=True)


def refuse_existing(path: Path, overwrite: bool, *inputs: Path | None) -> None:
    """Raise an error if an output is there already, unless it is to be replaced.

    What is an input, holds one or lies in one is never replaced. What else must not be replaced,
    the function says that writes: `twinloop.description.replacement` has the rules.
    """
    if not os.path.lexists(path):
        return
    refuse_input(path, [given for given in inputs if given is not None])
    if not overwrite:
        raise InputError("is there already", file=path, remedy="--overwrite replaces it")
    if not path.is_dir():
        check_file(path)


def refuse_page(path: Path, overwrite: bool, *inputs: Path | None) -> None:
    """Raise an error if a file cannot be written: like `refuse_existing`, and for no folder."""
    refuse_existing(path, overwrite, *inputs)
    check_file(path)


def refuse_inside(page: Path, folder: Path | None) -> None:
    """Raise an error if a page is to lie in the folder of a run, which owns its own files only."""
    if folder is not None and page.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"lies in {folder}, which holds the files of the run alone",
            file=page,
            remedy="choose a place beside it",
        )


def print_audit(audit: Audit) -> None:
    """The verdict of the quality gate, and the rules that were broken."""
    gate = "[bold green]open[/]" if audit.ok else "[bold red]closed[/]"
    broken = (*audit.errors, *audit.warnings)
    held = sum(finding.applies for finding in audit.findings) - len(broken)
    apart = sum(not finding.applies for finding in audit.findings)
    count = report.format_count
    out.print(
        f"the gate is {gate}: {count(len(audit.errors), 'error')}, "
        f"{count(len(audit.warnings), 'warning')}; {count(held, 'rule')} kept, "
        f"{apart} about things that are not in this log"
    )
    for finding in broken:
        colour = "red" if finding.severity == "error" else "yellow"
        out.print(
            f"  [{colour}]{finding.severity}[/] {finding.rule}: {finding.broken:,} of "
            f"{finding.rows:,} rows. {finding.law}",
            soft_wrap=True,
        )
        for example in finding.examples:
            out.print(f"    {example}", markup=False, soft_wrap=True)


def pairs(values: Iterable[str] | None, option: str) -> dict[str, str]:
    """`NAME=VALUE` words as a dictionary."""
    found = {}
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {value}: expected NAME=VALUE")
        if name in found:
            raise InputError(f"{option} {value}: {name} is set twice", remedy="give it once")
        found[name] = rest
    return found


def _explained(error: TwinloopError) -> dict[str, Any]:
    parts = ("problem", "file", "line", "field", "remedy")
    return {"message": str(error)} | {part: getattr(error, part, None) for part in parts}
