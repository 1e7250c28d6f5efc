"""The command line: `twinloop`."""

from typing import Annotated

import typer

from twinloop import __version__
from twinloop.cli.commands import CommandGroup

app = typer.Typer(
    name="twinloop",
    cls=CommandGroup,
    help=(
        "A simulator of clusters and clouds that measures how far it can be trusted.\n\n"
        "First steps: `twinloop generate lublin log.swf`, then `twinloop simulate --workload "
        "log.swf --platform 128x1 --policy easy`. With --json a command prints one JSON object; "
        "docs/json.md lists the keys."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"twinloop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
