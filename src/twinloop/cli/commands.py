"""The commands by name; each is loaded when it is called, so that none waits for the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from twinloop.description.safe_text import escape_controls

#: What each command is for, in the order of the help: how its own help begins.
SUMMARIES: Final = {
    "inspect": "Say what is in a log: counts, ranges, users, load over time, problems.",
    "check": "Hold a log against the quality gate: every rule, how many rows break it, and where.",
    "convert": "Bring a log into another form, or cut, subset, scale, repair and merge it.",
    "simulate": "Simulate a scenario, and say how it went.",
    "nodes": "Say what this machine can offer to a real run: CPUs, memory, isolation, counters.",
    "burn": "Keep a core, a cache, the memory or a disk busy with a known amount of real work.",
    "record": "Record what a command uses, or what runs already.",
    "execute": "Run a scenario for real, on nodes laid onto this machine, and record it.",
    "assess": (
        "Assess a twin against reality: PASS, FAIL or not assessable, criterion by criterion."
    ),
    "calibrate": "Fit the simulator to real runs: find the values with which it is most like them.",
    "explore": "Simulate a scenario with all combinations of some levels, and rank them.",
    "confirm": (
        "Run the best of a study and its baseline for real, and say which recommendation holds."
    ),
    "loop": (
        "Go round the whole loop: run a scenario for real, simulate it, judge the twin, fit "
        "it, explore what-ifs, and run the best of them for real."
    ),
    "report": (
        "Write the page that shows a run, a fit, a study, a confirmation, a loop or an assessment."
    ),
    "view": "Serve a folder of runs and studies on this machine, to browse and to compare.",
    "diff": "Say in words and figures how two runs differ: figures, tasks, users, scenarios.",
    "generate": "Make up a log, so that everything can be tried without one.",
}

#: What a command ends with that the user interrupted.
INTERRUPTED: Final = 130


class Commands(TyperGroup):
    """A group that knows what its commands are for without loading them.

    >>> sorted(Commands(name="twinloop").commands)[:3]
    ['assess', 'burn', 'calibrate']
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in SUMMARIES.items():
            self.add_command(TyperCommand(name, help=summary))

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Take the words of the command line apart."""
        with _escaping():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, which may take a moment to load in which the user has had enough."""
        try:
            with _escaping():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that words call, whole."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and loaded(known.name or ""), rest


@contextmanager
def _escaping() -> Iterator[None]:
    """Escape what a usage error repeats: a word may be the name of a file that matched `*`."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = escape_controls(message)  # type: ignore[attr-defined]
        raise


def loaded(name: str) -> Any:
    """A command with its options: what its module calls by its name.

    >>> [option.name for option in loaded("nodes").params]
    ['json']
    """
    module = import_module(f"twinloop.cli.{name}")
    called = getattr(module, name)
    if isinstance(called, typer.Typer):
        return get_command(called)
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    alone.command(name, context_settings=getattr(module, "SETTINGS", None))(called)
    return get_command(alone)
