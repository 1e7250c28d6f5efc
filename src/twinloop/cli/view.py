"""`twinloop view`: browse runs and studies."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import Json, print_json, report_errors
from twinloop.cli.report import Open, can_open_browser


def view(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder with runs, fits, studies, confirmations and loops.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free port.")
    ] = 0,
    open: Open = None,
    json: Json = False,
) -> None:
    """Browse a folder of runs and studies in the browser.

    The server listens on this machine only and requires the token in its address. Pages are made
    on request; nothing in the folder is changed. Ctrl-C ends it.

    - `twinloop view runs`
    - `twinloop view . --port 8000 --no-open`
    """
    # Imported here, because figures are slow to import.
    from twinloop.report.view.server import Server

    with report_errors(json):
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
            should_open = (not json and can_open_browser()) if open is None else open
            if should_open and not webbrowser.open(server.make_single_use_url()):
                err.print("no browser could be started: open the address yourself")
            server.serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit from None
