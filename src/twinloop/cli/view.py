"""`twinloop view`: a folder of runs and studies in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.output import Json, err, escape, out, print_json, speaking
from twinloop.cli.report import Open, opens


def view(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder with runs, fits, studies, confirmations and loops below it.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")
    ] = 0,
    open: Open = None,
    json: Json = False,
) -> None:
    """Serve a folder of runs and studies on this machine, to browse and to compare.

    Only this machine can reach it, and only who has the address with its token. Pages are made
    when they are asked for; nothing in the folder is changed. Ctrl-C ends it.

    Keys of --json: `folder`, `url` (with the token), `port`; printed when the server is ready.

    Examples: `twinloop view runs`, `twinloop view . --port 8000 --no-open`.
    """
    # Pictures take a moment to load.
    from twinloop.report.view.server import Server

    with speaking(json):
        server = Server(folder, port)
    try:
        with server:
            if json:
                print_json(
                    {"folder": str(folder), "url": server.url, "port": server.server_address[1]}
                )
            else:
                out.print(f"{escape(folder)} at {server.url}", soft_wrap=True)
                err.print("Ctrl-C ends it")
            wanted = (not json and opens()) if open is None else open
            if wanted and not webbrowser.open(server.make_single_use_url()):
                err.print("no browser could be started here: open the address yourself")
            server.serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit from None
