"""Parts of a page, as markup: paragraphs, notes, lists, tables, key figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.pages.templating import render_fragment

if TYPE_CHECKING:
    from markupsafe import Markup


def render_paragraph(text: str, kind: str = "") -> Markup:
    """Render a paragraph of plain text, with a CSS class if one is given.

    >>> print(render_paragraph("a < b"))
    <p>a &lt; b</p>
    """
    return render_fragment("paragraph", text, kind)


def render_heading(text: str, level: int = 3) -> Markup:
    """Render a heading, by default one inside a section.

    >>> print(render_heading("By user"))
    <h3>By user</h3>
    """
    return render_fragment("heading", text, level)


def render_link(address: str, text: str) -> Markup:
    """Render a link to another page.

    >>> print(render_link("/page/a", "a"))
    <a href="/page/a">a</a>
    """
    return render_fragment("link", address, text)


def render_answer(sentences: Iterable[str]) -> Markup:
    """Render the main result of a page, in sentences.

    >>> print(render_answer(["Take the second."]))
    <div class="answer"><p>Take the second.</p></div>
    """
    return render_fragment("answer", sentences)


def render_note(text: str) -> Markup:
    """Render a remark in small type, with a full stop and with the full names of KPIs.

    >>> print(render_note("three tasks have no wait_p95_s"))
    <p class="note">three tasks have no 95th percentile wait.</p>
    """
    return render_paragraph(f"{expand_kpi_names(text).removesuffix('.')}.", "note")


def render_list(items: Iterable[str]) -> Markup:
    """Render a list of sentences.

    >>> print(render_list(["one", "two"]))
    <ul><li>one</li><li>two</li></ul>
    """
    return render_fragment("list", items)


def render_contents(chapters: Iterable[tuple[str, str]]) -> Markup:
    """Render a list of the chapters of a page, each by its anchor and its heading.

    >>> print(render_contents([("real", "What was measured")]))
    <nav aria-label="Contents"><ol><li><a href="#real">What was measured</a></li></ol></nav>
    """
    return render_fragment("contents", chapters)


def render_cards(figures: Iterable[tuple[str, str]]) -> Markup:
    """Render key figures side by side: name and value of each; a status has its colour.

    >>> print(render_cards([("tasks", "3")]).splitlines()[1])
    <div><dt>tasks</dt><dd>3</dd></div>
    """
    return render_fragment("cards", figures)


def render_table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Collection[str] = (),
    links: Mapping[str, str] | None = None,
) -> Markup:
    """Render a table of plain text.

    A cell that is a status (PASS, FAIL, not assessable; holds, reversed, tie) has its colour.

    Args:
        names: The headings of the columns.
        rows: The cells, as many in each row as there are headings.
        numbers: The headings of the columns that are aligned to the right.
        links: The addresses of the headings that are links.

    >>> print(render_table(["task", "error"], [["a & b", "3 s"]], numbers=["error"]))
    <div ...><td>a &amp; b</td><td class="number">3 s</td>...
    """
    return render_fragment("table", names, rows, numbers, links or {})


def render_status(text: str, *, big: bool = False) -> Markup:
    """Render a status in its colour.

    >>> print(render_status("PASS"))
    <span class="status pass">PASS</span>
    """
    return render_fragment("status", text, big)


def render_details(summary: str, *parts: str) -> Markup:
    """Render parts that are hidden until the reader opens them.

    >>> print(render_details("Methods", render_paragraph("by hand")))
    <details><summary>Methods</summary><p>by hand</p></details>
    """
    return render_fragment("details", summary, parts)


def render_preformatted(text: str) -> Markup:
    """Render lines of text with their breaks and spaces.

    >>> print(render_preformatted("a: 1"))
    <pre>a: 1</pre>
    """
    return render_fragment("preformatted", text)
