"""`twinloop report`: HTML reports."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import Json, print_json, report_errors, show_status
from twinloop.description.errors import InputError

Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open the page in a browser; by default if there is a terminal and a display.",
        show_default=False,
    ),
]
_PAGE_SUFFIXES = (".html", ".htm")
_PICTURE_SUFFIX = ".svg"


def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="X",
            help="A run, or the folder of a fit, study, confirmation or loop.",
            show_default=False,
        ),
    ],
    twin: Annotated[
        Path | None,
        typer.Argument(
            help="A simulated run to assess against X.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The page, FILE.html; by default report.html in the folder, NAME.html for a run. "
            "FILE.svg: a static picture of a run or a study.",
        ),
    ] = None,
    open: Open = None,
    json: Json = False,
) -> None:
    """Write an HTML report of a run, fit, study or loop.

    The page is one self-contained file. An existing page of Twinloop is replaced; any other file
    is left alone.

    - `twinloop report runs/real`
    - `twinloop report runs/real runs/twin -o trust.html`
    - `twinloop report study --open`
    - `twinloop report study -o front.svg`
    """
    # Imported here, because figures are slow to import.
    from twinloop.report.pages.page import check_page
    from twinloop.report.view.kinds import choose_page_path, find_kind, write_picture

    given = [source] if twin is None else [source, twin]
    with report_errors(json):
        is_picture = output is not None and output.suffix.lower() == _PICTURE_SUFFIX
        if output is not None and not is_picture and output.suffix.lower() not in _PAGE_SUFFIXES:
            raise InputError("must end with .html or .svg", kind="unsupported-page", file=output)
        if is_picture and twin is not None:
            raise InputError(
                "an assessment has no picture",
                kind="unsupported-page",
                file=output,
                remedy="give a page, FILE.html",
            )
        if output is not None and is_picture:
            kind_name, page = find_kind(source).name, output
            with show_status(f"writing {page}"):
                write_picture(source, page)
        elif twin is None:
            kind = find_kind(source)
            kind_name, page = kind.name, output or choose_page_path(source, kind)
            check_page(page)
            with show_status(f"writing {page}"):
                kind.write(source, page)
        else:
            kind_name, page = "assessment", _write_assessment(source, twin, output)
        opened = _open_page(page, (not json and can_open_browser()) if open is None else open)
        if json:
            document = {"input": list(map(str, given)), "kind": kind_name, "report": str(page)}
            print_json(document | {"size": page.stat().st_size, "opened": opened})
        else:
            out.print(f"wrote {escape(page)}", soft_wrap=True)
            if open and not opened:
                err.print("no browser could be started: open the file yourself")


def _write_assessment(real: Path, twin: Path, output: Path | None) -> Path:
    """Write the assessment of one run against another."""
    from twinloop.fidelity import assess
    from twinloop.report.pages.assessment import write_assessment_page
    from twinloop.report.pages.page import check_page
    from twinloop.report.view.kinds import make_page_path, read_run

    page = output or make_page_path(twin, "-assessment")
    check_page(page)
    with show_status("assessing"):
        return write_assessment_page(assess(read_run(real), read_run(twin)), page)


def can_open_browser() -> bool:
    """Whether there is a terminal, and a display for a browser."""
    desktop = sys.platform in ("win32", "darwin")
    display = desktop or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return display and out.is_terminal


def _open_page(page: Path, enabled: bool) -> bool:
    return enabled and webbrowser.open(page.resolve().as_uri())
