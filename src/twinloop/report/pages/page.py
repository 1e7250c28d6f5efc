"""A page that needs nothing else: words, tables, pictures and what draws them in one file."""

from __future__ import annotations

import base64
import gzip
import importlib.resources
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twinloop.description.errors import InputError
from twinloop.description.files import is_file, read_first_bytes, write_atomically
from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.quantity_text import shorten_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Pixels of a letter and of all else to the left of a picture, and the longest name shown there.
_LETTER, _BESIDE, _LEFT, _LONGEST = 7.6, 20.0, 64.0, 27

#: By this a page is known again, and may be replaced by its successor.
_MARK: Final = '<meta name="generator" content="Twinloop">'
# The page loads nothing, whatever is in it.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
_NO_SCRIPT: Final = (
    '<noscript><p class="note">The pictures need JavaScript; nothing is loaded from elsewhere.'
    '</p></noscript>\n<p class="note" id="problem" hidden></p>'
)


class Page:
    """A page that is put together part by part, and then written as one HTML file.

    It works from disk and without a network, in light and dark, on a phone and on paper. The same
    parts give the same bytes.

    Args:
        title: The heading.
        above: A line above the heading.

    >>> page = Page("Mine & yours")
    >>> page.add_section("Result", render_paragraph("2 < 3"))
    >>> "<h1>Mine &amp; yours</h1>" in page.render() and "2 &lt; 3" in page.render()
    True
    """

    def __init__(self, title: str, *, above: str = "") -> None:
        self._title = title
        self._parts = [f'<p class="above">{escape(above)}</p>'] if above else []
        self._parts.append(f"<h1>{escape(title)}</h1>")
        self._figures: dict[str, Figure] = {}
        self._over_time: set[str] = set()
        self._level = 2

    def add(self, *markup: str) -> None:
        """Put these parts next."""
        self._parts += markup

    def add_section(self, heading: str, *markup: str) -> None:
        """Put these parts next, under a heading."""
        level = f"h{self._level}"
        self._parts.append(
            f"<section><{level}>{escape(heading)}</{level}>{''.join(markup)}</section>"
        )

    def add_chapter(self, anchor: str, heading: str, *markup: str) -> None:
        """Begin a chapter that `contents` can point to; the sections that follow belong to it."""
        self._level = 3
        self._parts.append(f'<h2 class="chapter" id="{anchor}">{escape(heading)}</h2>')
        self._parts += markup

    def add_figure(
        self, name: str, figure: Figure, height: int, *, over_time: bool = False, guide: str = ""
    ) -> None:
        """Put a figure next, under its title, with its notes below it.

        It can be saved as PNG and SVG, and its data as CSV.

        Args:
            name: What it is called on the page.
            figure: It loses its title, its notes and its height to the page.
            height: In pixels.
            over_time: Whether it follows what is chosen in the other pictures over time.
            guide: What to look at, in a sentence.
        """
        if not self._figures:
            self._parts.append(_NO_SCRIPT)
        heading = figure.layout.title.text
        notes = (figure.layout.meta or {}).get("notes", [])
        figure.update_layout(title=None, height=None, meta=None, template="none")
        self._figures[name] = figure
        follows = ' data-over="time"' if over_time else ""
        if over_time:
            self._over_time.add(name)
        self.add_section(
            heading,
            render_paragraph(guide) if guide else "",
            f'<div class="shown">{_render_tools(name, heading)}'
            f'<div class="picture" id="{name}" style="height:{height}px" role="img" '
            f'aria-label="{escape(heading)}"{follows}></div></div>',
            *(render_note(said) for said in notes),
        )

    def render(self) -> str:
        """The whole page."""
        _align_margins(self._figures, self._over_time)
        pictures = {name: json.loads(figure.to_json()) for name, figure in self._figures.items()}
        parts = self._parts if pictures else [*self._parts, _NO_SCRIPT]
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{_MARK}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{escape(self._title)}</title>
<style>
{_read_asset("page.css")}</style>
</head>
<body>
<main>
{chr(10).join(parts)}
</main>
<!-- plotly.js, Copyright Plotly, Inc., MIT licence; its text is packed with gzip. -->
<script type="application/gzip" id="plotly">{_compress_plotly()}</script>
<script type="application/gzip" id="pictures">{_compress(json.dumps(pictures))}</script>
<script>
{_read_asset("page.js")}</script>
</body>
</html>
"""

    def write(self, path: str | Path) -> Path:
        """Write the page to this file, whole or not at all; one that is there is replaced."""
        path = Path(path)
        page = self.render()
        with write_atomically(path) as stream:
            stream.write(page.encode())
        return path


def check_page(path: Path) -> None:
    """Raise an error if a file is there that is no page of this program.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     notes = Path(there, "week.html")
    ...     _ = notes.write_text("<h1>my own notes</h1>")
    ...     check_page(notes)
    Traceback (most recent call last):
    twinloop.InputError: ...week.html: is there, and is no page of Twinloop, so ...
    """
    if is_file(path) and _MARK.encode() not in read_first_bytes(path):
        raise InputError(
            "is there, and is no page of Twinloop, so it is not replaced",
            file=path,
            remedy="name another file with -o, or move it away",
        )


def render_paragraph(said: str) -> str:
    """A paragraph of plain text.

    >>> render_paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{escape(said)}</p>"


def render_answer(said: Iterable[str]) -> str:
    """What a page has to say first, in sentences.

    >>> render_answer(["Take the second."])
    '<div class="answer"><p>Take the second.</p></div>'
    """
    return f'<div class="answer">{"".join(map(render_paragraph, said))}</div>'


def render_note(said: str) -> str:
    """A remark in small type, a clause without its full stop; KPIs are called as people do.

    >>> render_note("three tasks have no wait_p95_s")
    '<p class="note">three tasks have no 95th percentile wait.</p>'
    """
    return f'<p class="note">{escape(expand_kpi_names(said).removesuffix("."))}.</p>'


def render_list(said: Iterable[str]) -> str:
    """A list of sentences.

    >>> render_list(["one", "two"])
    '<ul><li>one</li><li>two</li></ul>'
    """
    return f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in said)}</ul>"


def render_contents(chapters: Iterable[tuple[str, str]]) -> str:
    """A list of the chapters of a page, each by its anchor and its heading.

    >>> render_contents([("real", "What was measured")])
    '<nav aria-label="Contents"><ol><li><a href="#real">What was measured</a></li></ol></nav>'
    """
    inside = "".join(
        f'<li><a href="#{anchor}">{escape(said)}</a></li>' for anchor, said in chapters
    )
    return f'<nav aria-label="Contents"><ol>{inside}</ol></nav>'


def render_cards(figures: Iterable[tuple[str, str]]) -> str:
    """Key figures side by side: name and value of each; a status has its colour.

    >>> render_cards([("tasks", "3")]).splitlines()[1]
    '<div><dt>tasks</dt><dd>3</dd></div>'
    """
    inside = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{_render_cell(said)}</dd></div>\n"
        for name, said in figures
    )
    return f'<dl class="figures">\n{inside}</dl>\n'


def render_table(
    names: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()
) -> str:
    """A table of plain text; the columns of these names hold numbers.

    A cell that is a status (PASS, FAIL, not assessable; holds, reversed, tie) has its colour.

    >>> render_table(["task", "error"], [["a & b", "3 s"]], numbers=["error"])
    '...<td>a &amp; b</td><td class="number">3 s</td>...'
    """
    kinds = [' class="number"' if name in numbers else "" for name in names]
    head = "".join(
        f"<th{kind}>{escape(name)}</th>" for name, kind in zip(names, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{_render_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    rows_of_both = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{rows_of_both}</table></div>'


_STATUSES: Final = {
    "PASS": "pass",
    "FAIL": "fail",
    "not assessable": "open",
    "holds": "pass",
    "reversed": "fail",
    "tie": "open",
    "not measured": "open",
}


def render_status(said: str, *, big: bool = False) -> str:
    """A status in its colour.

    >>> render_status("PASS")
    '<span class="status pass">PASS</span>'
    """
    size = " big" if big else ""
    kind = _STATUSES.get(said, "open")
    return f'<span class="status {kind}{size}">{escape(said)}</span>'


def _render_cell(said: str) -> str:
    return render_status(said) if said in _STATUSES else escape(said)


def render_details(summary: str, markup: str) -> str:
    """A part that is shown when asked for.

    >>> render_details("Methods", render_paragraph("by hand"))
    '<details><summary>Methods</summary><p>by hand</p></details>'
    """
    return f"<details><summary>{escape(summary)}</summary>{markup}</details>"


def render_preformatted(text: str) -> str:
    """Lines of text as they stand.

    >>> render_preformatted("a: 1")
    '<pre>a: 1</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


def _render_tools(name: str, heading: str) -> str:
    """The buttons that save a picture."""
    kinds = {"png": "the picture as PNG", "svg": "the picture as SVG", "csv": "its data as CSV"}
    buttons = "".join(
        f'<button type="button" data-of="{name}" data-save="{kind}" title="Save {said}" '
        f'aria-label="{escape(heading)}: save {said}">{kind.upper()}</button>'
        for kind, said in kinds.items()
    )
    return f'<div class="tools">{buttons}</div>'


def _align_margins(figures: Mapping[str, Figure], over_time: Collection[str]) -> None:
    """Give all pictures over time the same margins: a moment is at the same place in all.

    The others have these too, or wider ones where their names need them.
    """
    needed = {
        name: max(_LEFT, _BESIDE + _LETTER * _shorten_names(figure))
        for name, figure in figures.items()
    }
    shared = max((needed[name] for name in over_time), default=_LEFT)
    above = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom",
             "len": 0.4, "thickness": 10, "nticks": 3, "title": {"side": "top"}}  # fmt: skip
    for name, figure in figures.items():
        figure.update_layout(margin_l=shared if name in over_time else max(shared, needed[name]))
        figure.update_traces(colorbar=above, selector={"type": "heatmap"})


def _shorten_names(figure: Figure) -> int:
    """Shorten the names to the left of a picture; how long the longest then is."""
    maps = [drawn for drawn in figure.data if drawn.type == "heatmap"]
    names = maps[0].y if maps else figure.layout.yaxis.ticktext or ()
    short = [shorten_name(unescape(name), _LONGEST) for name in names]
    said = [escape(name, quote=False) for name in short]
    if not maps:
        figure.update_yaxes(ticktext=said or None)
    elif len(set(said)) == len(said):  # rows of a map that share a name would become one
        maps[0].y = said
    return max(map(len, short), default=0)


def _compress(text: str) -> str:
    # Without a time stamp: the same parts give the same bytes.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache  # packing it takes longer than all the rest of a page
def _compress_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _compress(str(get_plotlyjs()))


def _read_asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
