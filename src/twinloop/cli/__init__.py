"""The command line: `twinloop`."""

from typing import Annotated

import typer

from twinloop import __version__
from twinloop.cli.commands import Commands

app = typer.Typer(
    name="twinloop",
    cls=Commands,
    help=(
        "A simulator of clusters and clouds that knows how far it can be trusted.\n\n"
        "Start with `twinloop generate lublin log.swf`, which makes a log, or with a log of your "
        "own: `twinloop inspect log.swf` says what is in it, `twinloop check log.swf` whether it "
        "can be trusted, and `twinloop convert log.swf log.trace` brings it into another form. "
        "`twinloop simulate --workload log.swf --platform 128x1 --policy easy` says what would "
        "happen, and `twinloop diff A B` how two runs differ. `twinloop execute scenario.yaml -o "
        "DIR` runs a scenario for real on this machine, `twinloop simulate DIR` replays that, and "
        "`twinloop record -o DIR -- CMD` records one command. `twinloop assess REAL TWIN` says how "
        "far the simulator can be trusted, and `twinloop calibrate REAL -o FIT` fits it. "
        "`twinloop explore scenario.yaml factors.yaml -o STUDY` asks what if, `twinloop confirm "
        "STUDY` runs the best for real, `twinloop loop loop.yaml -o DIR` does all of this in one "
        "go, and `twinloop report DIR` or `twinloop view DIR` shows it in a browser.\n\n"
        "Every command takes --json: one JSON object on stdout, nothing else."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twinloop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass
