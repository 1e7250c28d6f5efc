"""How every command speaks: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from twinloop import report
from twinloop.trace.errors import InputError, TwinloopError, refused

if TYPE_CHECKING:
    from twinloop.trace import Audit, Cleaning

#: What a command ends with when what it was given cannot be used.
BAD_INPUT = 2

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else there.")
]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that is there.")]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@contextmanager
def speaking(as_json: bool) -> Iterator[None]:
    """Turn what goes wrong with the input into a message, and into JSON where that is wanted.

    What the operating system refuses (a name that is too long, a file of another user) is said in
    its own words.
    """
    try:
        yield
    except TwinloopError as error:
        _refuse(error, as_json)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of stdout has had enough
            raise
        _refuse(refused(error), as_json)


def _refuse(error: TwinloopError, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": _explained(error)})
    else:
        err.print(f"[bold red]error[/]: {escape(str(error))}", soft_wrap=True)
    raise typer.Exit(BAD_INPUT) from None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done, while it is being done, to whoever watches."""
    if err.is_terminal:
        with err.status(what):
            yield
    else:
        yield


def print_json(document: dict[str, Any]) -> None:
    """One JSON object; what is no number in JSON becomes null."""
    from twinloop.trace.plain import plain

    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_cleanings(notes: Iterable[Cleaning]) -> None:
    """What was skipped, repaired, invented, assumed or ignored, a line each."""
    for note in notes:
        out.print(f"  {escape(str(note))}", soft_wrap=True)


def refuse_existing(path: Path, overwrite: bool, *inputs: Path) -> None:
    """An output that is there already is replaced only when asked for; an input never."""
    if any(given.exists() and path.exists() and path.samefile(given) for given in inputs):
        raise InputError("is the input", file=path, remedy="write to another place")
    if path.exists() and not overwrite:
        raise InputError("is there already", file=path, remedy="--overwrite replaces it")


def print_audit(audit: Audit) -> None:
    """The verdict of the quality gate, and the rules that were broken."""
    gate = "[bold green]open[/]" if audit.ok else "[bold red]closed[/]"
    broken = (*audit.errors, *audit.warnings)
    held = sum(finding.applies for finding in audit.findings) - len(broken)
    apart = sum(not finding.applies for finding in audit.findings)
    count = report.words.count
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
        found[name] = rest
    return found


def _explained(error: TwinloopError) -> dict[str, Any]:
    parts = ("problem", "file", "line", "field", "remedy")
    return {"message": str(error)} | {part: getattr(error, part, None) for part in parts}
