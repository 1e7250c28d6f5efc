"""List of the results in a folder, as a page with links, a filter and a comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from twinloop.report.pages.templating import read_asset, render_template
from twinloop.report.quantity_text import format_count, format_duration, shorten_name
from twinloop.report.view.index import MAX_LISTED, Entry


def make_address(path: str, base: str = "/") -> str:
    """Make the address of the page of a result.

    >>> make_address("runs/a b"), make_address(".", "/secret/")
    ('/page/runs/a%20b', '/secret/page/')
    """
    return f"{base}page/{'' if path == '.' else quote(path)}"


def render_listing(
    folder: str, entries: Sequence[Entry], more: bool, nonce: str, base: str = "/"
) -> str:
    """Render the list as an HTML page; its script and its style have the nonce.

    Its links lead to pages below the path `base`.

    >>> entries = [Entry("easy", "simulated run", 0.0, is_run=True)]
    >>> page = render_listing("runs", entries, False, "abc")
    >>> '<a href="/page/easy">easy</a>' in page
    True
    """
    pages, view = "twinloop.report.pages", "twinloop.report.view"
    return render_template(
        "listing.html.j2",
        folder=folder,
        rows=[_describe_entry(entry, base) for entry in entries],
        count=format_count(len(entries), "result"),
        more=more,
        limit=f"{MAX_LISTED:,}",
        nonce=nonce,
        base=base,
        style=read_asset(pages, "page.css") + read_asset(view, "listing.css"),
        script=read_asset(view, "listing.js"),
    )


def _describe_entry(entry: Entry, base: str) -> dict[str, Any]:
    """Describe an entry by the texts of its cells."""
    return {
        "path": entry.path,
        "is_run": entry.is_run,
        "address": make_address(entry.path, base),
        "kind": entry.kind,
        "title": shorten_name(entry.title, 60),
        "tasks": "" if entry.tasks is None else f"{entry.tasks:,}",
        "makespan": "" if entry.makespan is None else format_duration(entry.makespan),
        "policy": entry.policy,
        "verdict": entry.verdict,
        "problem": entry.problem,
        "changed": time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed)),
    }
