"""How every command speaks: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from twinloop.trace import Cleaning, InputError, TwinloopError

#: What a command ends with when what it was given cannot be used.
BAD_INPUT = 2

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else there.")
]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@contextmanager
def speaking(as_json: bool) -> Iterator[None]:
    """Turn what goes wrong with the input into a message, and into JSON where that is wanted."""
    try:
        yield
    except TwinloopError as error:
        if as_json:
            print_json({"error": _explained(error)})
        else:
            err.print(f"[bold red]error[/]: {_escaped(str(error))}", soft_wrap=True)
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
    typer.echo(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_cleanings(notes: Iterable[Cleaning]) -> None:
    """What was skipped, repaired, invented, assumed or ignored, a line each."""
    for note in notes:
        out.print(f"  {_escaped(str(note))}", soft_wrap=True)


def refuse_existing(path: Path, overwrite: bool) -> None:
    """An output that is there already is replaced only when asked for."""
    if path.exists() and not overwrite:
        raise InputError("is there already", file=path, remedy="--overwrite replaces it")


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


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
