"""The first page of a folder: what there is, to be opened, filtered and compared."""

from __future__ import annotations

import importlib.resources
import time
from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import quote

from twinloop.report.pages.page import render_status
from twinloop.report.quantity_text import format_count, format_duration, shorten_name
from twinloop.report.view.index import LISTED, Entry

_HEADINGS: Final = ("", "name", "kind", "what", "tasks", "makespan", "policy", "found", "when")
_NUMBERS: Final = frozenset({"tasks", "makespan"})
_STATUSES: Final = frozenset({"PASS", "FAIL", "not assessable", "holds", "reversed", "tie"})


def make_address(path: str, base: str = "/") -> str:
    """Where the page of a run or study is served.

    >>> make_address("runs/a b"), make_address(".", "/secret/")
    ('/page/runs/a%20b', '/secret/page/')
    """
    return f"{base}page/{'' if path == '.' else quote(path)}"


def render_listing(
    folder: str, entries: Sequence[Entry], more: bool, nonce: str, base: str = "/"
) -> str:
    """The list as an HTML page; its one script and its style carry the nonce.

    Its links lead to pages below the path `base`.

    >>> entries = [Entry("easy", "simulated run", 0.0, is_run=True)]
    >>> page = render_listing("runs", entries, False, "abc")
    >>> '<a href="/page/easy">easy</a>' in page
    True
    """
    notes = "" if not more else f'<p class="note">Only the first {LISTED:,} are listed.</p>'
    rows = "\n".join(_render_row(entry, base) for entry in entries)
    head = "".join(
        f"<th{_make_class(name)}>{name or chr(60) + 'span class=hidden>compare</span>'}</th>"
        for name in _HEADINGS
    )
    table = (
        f'<form action="{base}compare" method="get">\n<p class="pick"><label>Filter '
        f'<input type="search" id="filter" placeholder="name, kind, policy ..." autocomplete="off">'
        f'</label>\n<button id="compare">Compare the ticked runs</button>'
        f' <span class="note" id="ticked" role="status"></span></p>\n'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody id="list">\n{rows}\n'
        f"</tbody></table></div>\n</form>"
    )
    style = "".join(
        _read_asset(*place)
        for place in (
            ("twinloop.report.pages", "page.css"),
            ("twinloop.report.view", "listing.css"),
        )
    )
    nothing = (
        '<p id="nothing">There is no run, fit, study, confirmation or loop below this folder.</p>'
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(folder)}</title>
<style nonce="{nonce}">
{style}</style>
</head>
<body>
<main>
<h1>{escape(folder)}</h1>
<p class="origin">{format_count(len(entries), "thing")} to look at, newest first</p>
{notes}{table if entries else nothing}
</main>
<script nonce="{nonce}">
{_read_asset("twinloop.report.view", "listing.js")}</script>
</body>
</html>
"""


def _render_row(entry: Entry, base: str) -> str:
    name = escape(entry.path)
    tick = (
        f'<input type="checkbox" name="run" value="{name}" aria-label="compare {name}">'
        if entry.is_run
        else ""
    )
    verdict = render_status(entry.verdict) if entry.verdict in _STATUSES else escape(entry.verdict)
    if entry.problem:
        verdict = f'<span class="status fail">{escape(entry.problem)}</span>'
    cells = (
        tick,
        f'<a href="{escape(make_address(entry.path, base))}">{name}</a>',
        escape(entry.kind),
        escape(shorten_name(entry.title, 60)),
        "" if entry.tasks is None else f"{entry.tasks:,}",
        "" if entry.makespan is None else format_duration(entry.makespan),
        escape(entry.policy),
        verdict,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed)),
    )
    inside = "".join(
        f"<td{_make_class(heading)}>{cell}</td>"
        for heading, cell in zip(_HEADINGS, cells, strict=True)
    )  # fmt: skip
    return f"<tr>{inside}</tr>"


def _make_class(heading: str) -> str:
    return ' class="number"' if heading in _NUMBERS else ""


def _read_asset(package: str, name: str) -> str:
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
