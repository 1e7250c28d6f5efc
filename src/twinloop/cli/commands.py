"""The commands by purpose; the module of a command is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_controls

#: The commands by purpose, in the order of the help, each with the first line of its own help.
COMMANDS: Final = {
    "Logs": {
        "inspect": "Show what is in a log: counts, ranges, users, load.",
        "check": "Check a log against the rules of the quality gate.",
        "convert": "Convert, cut, filter, scale, repair or merge logs.",
        "generate": "Generate a synthetic log from a seed.",
    },
    "Simulate": {
        "simulate": "Simulate a scenario and print its figures.",
    },
    "Run for real": {
        "nodes": "Show what this machine can provide for real runs.",
        "burn": "Run a known amount of real work on CPU, memory or disk.",
        "record": "Record what a command or a running process uses.",
        "execute": "Run a scenario with real processes and record it.",
    },
    "Trust": {
        "assess": "Assess a simulated run against a real one.",
        "calibrate": "Fit the simulator to real runs.",
    },
    "Decide": {
        "explore": "Simulate all combinations of factor levels and rank them.",
        "confirm": "Run the best configurations for real and compare.",
        "loop": "Record, simulate, assess, calibrate, explore and confirm.",
    },
    "Look": {
        "report": "Write an HTML report of a run, fit, study or loop.",
        "view": "Browse a folder of runs and studies in the browser.",
        "diff": "Show how two runs differ.",
        "explain": "Explain the code of an error or of a quality rule.",
    },
}

#: The first line of the help of each command.
SUMMARIES: Final = {
    name: summary for commands in COMMANDS.values() for name, summary in commands.items()
}

#: Exit status of a command that the user interrupted.
INTERRUPTED: Final = 130

#: The key of the words of the command line in the context of a command.
_WORDS: Final = "twinloop.words"


class CommandGroup(TyperGroup):
    """A group that lists its commands without importing them.

    >>> sorted(CommandGroup(name="twinloop").commands)[:3]
    ['assess', 'burn', 'calibrate']
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for purpose, commands in COMMANDS.items():
            for name, summary in commands.items():
                self.add_command(TyperCommand(name, help=summary, rich_help_panel=purpose))

    def make_context(self, info_name: Any, args: list[str], *more: Any, **options: Any) -> Any:
        """Parse the command line."""
        words = list(args)
        with _report_usage(words):
            context = super().make_context(info_name, args, *more, **options)
        context.meta[_WORDS] = words
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C while it is imported ends it without a traceback."""
        try:
            with _report_usage(ctx.meta.get(_WORDS, [])):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a command line, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest


@contextmanager
def _report_usage(words: list[str]) -> Iterator[None]:
    """Report usage errors of these words: as JSON too if that is requested, and escaped.

    A message may repeat file names matched by `*`.
    """
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = escape_controls(message)  # type: ignore[attr-defined]
        # Words after `--` belong to another program.
        is_json = "--json" in (words[: words.index("--")] if "--" in words else words)
        if is_json and hasattr(error, "format_message"):
            from twinloop.cli.output import print_error

            print_error(_describe_usage_error(error))
        raise


def _describe_usage_error(error: Any) -> InputError:
    """Convert a usage error of the parser of the command line."""
    text = error.format_message()
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    field = getattr(error, "option_name", None)
    remedy = None if context is None else f"see {context.command_path} --help"
    kind = "invalid-input"
    if text.startswith("No such "):
        kind = "unknown-name"
        if field is not None:
            possible = getattr(error, "possibilities", None)
            remedy = suggest_name(field, possible) if possible else remedy
            text = "is not an option of this command"
    elif parameter is not None:
        field = max(parameter.opts, key=len)
        is_missing = text.startswith("Missing ")
        kind = "missing-argument" if is_missing else "malformed-option"
        text = "is missing" if is_missing else error.message.replace("Input should", "must")
    elif field is not None:
        kind = "malformed-option"
    return InputError(text, kind=kind, field=field, remedy=remedy)


def load_command(name: str) -> Any:
    """Import a command with its options; its module has the same name.

    >>> [option.name for option in load_command("nodes").params]
    ['json']
    """
    module = import_module(f"twinloop.cli.{name}")
    command = getattr(module, name)
    if isinstance(command, typer.Typer):
        return get_command(command)
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, context_settings=getattr(module, "SETTINGS", None))(command)
    return get_command(single)
