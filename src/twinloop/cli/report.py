"""`twinloop report`: what was found, on one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.output import Json, err, escape, out, print_json, speaking, working
from twinloop.description.errors import InputError

Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open it in the browser of this desktop; without either, if a terminal and a display "
        "are there.",
        show_default=False,
    ),
]
_PAGES = (".html", ".htm")


def report(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="X",
            help="A run (a folder or a log), or the folder of a fit, a study, a confirmation or a "
            "loop.",
            show_default=False,
        ),
    ],
    twin: Annotated[
        Path | None,
        typer.Argument(
            help="A simulated run: the page is then the assessment of it against X.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The page: FILE.html. By default report.html in the folder of a fit, a study, a "
            "confirmation or a loop, and NAME.html beside a run.",
        ),
    ] = None,
    open: Open = None,
    json: Json = False,
) -> None:
    """Write the page that shows a run, a fit, a study, a confirmation, a loop or an assessment.

    It is one file that needs nothing else: it can be sent, printed and read on a phone. A page that
    is there is written anew; another file of that name is left alone.

    Keys of --json: `input` (paths), `kind` (run, fit, study, confirmation, loop, assessment),
    `report` (what was written), `size` (in bytes), `opened`.

    Examples: `twinloop report runs/real`, `twinloop report runs/real runs/twin -o trust.html`,
    `twinloop report study --open`.
    """
    # Pictures take a moment to load.
    from twinloop.report.pages.page import check_page
    from twinloop.report.view.kinds import choose_page_path, find_kind

    given = [what] if twin is None else [what, twin]
    with speaking(json):
        if output is not None and output.suffix.lower() not in _PAGES:
            raise InputError("is no name of a page", file=output, remedy="it ends with .html")
        if twin is None:
            kind = find_kind(what)
            called, page = kind.name, output or choose_page_path(what, kind)
            check_page(page)
            with working(f"writing {page}"):
                kind.write(what, page)
        else:
            called, page = "assessment", _assessed(what, twin, output)
        opened = _opened(page, (not json and opens()) if open is None else open)
        if json:
            said = {"input": list(map(str, given)), "kind": called, "report": str(page)}
            print_json(said | {"size": page.stat().st_size, "opened": opened})
        else:
            out.print(f"wrote {escape(page)}", soft_wrap=True)
            if open and not opened:
                err.print("no browser could be started here: open the file yourself")


def _assessed(real: Path, twin: Path, output: Path | None) -> Path:
    """Write the assessment of one run against another."""
    from twinloop.fidelity import assess
    from twinloop.report.pages.assessment import write_assessment_page
    from twinloop.report.pages.page import check_page
    from twinloop.report.view.kinds import make_page_path, read_run

    page = output or make_page_path(twin, "-assessment")
    check_page(page)
    with working("assessing"):
        return write_assessment_page(assess(read_run(real), read_run(twin)), page)


def opens() -> bool:
    """Whether somebody sits before this terminal who would see a browser open."""
    desktop = sys.platform in ("win32", "darwin")
    display = desktop or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return display and out.is_terminal


def _opened(page: Path, wanted: bool) -> bool:
    return wanted and webbrowser.open(page.resolve().as_uri())
