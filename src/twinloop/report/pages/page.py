"""Self-contained HTML page: text, tables, figures and the scripts that draw them in one file."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twinloop.description.errors import InputError
from twinloop.description.files import is_file, read_first_bytes, write_atomically
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.glossary import TERMS, Term
from twinloop.report.pages.fragments import render_note, render_paragraph
from twinloop.report.pages.templating import read_asset, render_fragment, render_template
from twinloop.report.pages.term_links import link_terms
from twinloop.report.quantity_text import shorten_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


# The width of a letter and of the ticks to the left of a figure, and the minimum left margin, in
# pixels; and the maximum number of characters of a name there.
_LETTER_WIDTH, _TICK_WIDTH, _MIN_LEFT_MARGIN, _MAX_NAME_LENGTH = 7.6, 20.0, 64.0, 27

#: The tag that marks the pages of this program, which may be overwritten.
_GENERATOR_TAG: Final = '<meta name="generator" content="Twinloop">'


class Page:
    """Page that is composed of parts and written as one HTML file.

    It works from disk and without a network, in light and dark, on a phone and on paper. Its
    terms are linked to a glossary at its end. The same parts give the same bytes.

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
        self._parts: list[str] = [render_fragment("title", title, above)]
        self._figures: dict[str, Figure] = {}
        self._over_time: set[str] = set()
        self._level = 2
        self._definitions: dict[str, str] = {}
        self._terms: set[str] = set()

    def add(self, *parts: str) -> None:
        """Append these parts."""
        self._parts += parts

    def add_section(self, heading: str, *parts: str) -> None:
        """Append a section of these parts with a heading."""
        self._parts.append(render_fragment("section", self._level, heading, parts))

    def add_chapter(self, anchor: str, heading: str, *parts: str) -> None:
        """Start a chapter that `render_contents` can link to; the next sections belong to it."""
        self._level = 3
        self._parts += [render_fragment("chapter", anchor, heading), *parts]

    def add_figure(
        self, name: str, figure: Figure, height: int, *, over_time: bool = False, guide: str = ""
    ) -> None:
        """Append a figure with its title above and its notes below.

        A reader can save it as PNG and SVG, and its data as CSV.

        Args:
            name: The id of the figure on the page.
            figure: Its title, notes and height are moved to the page.
            height: In pixels.
            over_time: Whether its time axis is linked to those of the other figures.
            guide: How to read the figure, in a sentence.
        """
        if not self._figures:
            self._parts.append(render_fragment("no_script"))
        # The title is escaped, because Plotly reads it as HTML.
        heading = unescape(figure.layout.title.text)
        notes = (figure.layout.meta or {}).get("notes", [])
        figure.update_layout(title=None, height=None, meta=None, template="none")
        self._figures[name] = figure
        if over_time:
            self._over_time.add(name)
        self.add_section(
            heading,
            render_paragraph(guide) if guide else "",
            render_fragment("chart", name, heading, height, over_time),
            *map(render_note, notes),
        )

    def define_terms(
        self, definitions: Iterable[tuple[str, str]], terms: Iterable[str] = ()
    ) -> None:
        """Add definitions to the glossary of the page.

        Args:
            definitions: Words that occur only on this page, with their definitions.
            terms: Names of terms that are defined even if they occur in no text of the page.
        """
        self._definitions |= dict(definitions)
        self._terms.update(terms)

    def render(self) -> str:
        """Render the whole page as HTML."""
        _align_margins(self._figures, self._over_time)
        pictures = {name: json.loads(figure.to_json()) for name, figure in self._figures.items()}
        parts = self._parts if pictures else [*self._parts, render_fragment("no_script")]
        linked, terms = link_terms(parts)
        return render_template(
            "page.html.j2",
            title=self._title,
            style=read_asset(__package__, "page.css"),
            script=read_asset(__package__, "page.js"),
            parts=[*linked, self._render_glossary(terms)],
            plotly=_compress_plotly(),
            pictures=_compress(json.dumps(pictures)),
        )

    def _render_glossary(self, terms: Iterable[Term]) -> str:
        """Render the definitions of the linked terms and of the words of this page."""
        shown = {*terms, *(term for term in TERMS if term.name in self._terms)}
        entries = [(term.title, term.definition, term.anchor) for term in shown]
        entries += [(name, text, "") for name, text in self._definitions.items()]
        entries.sort(key=lambda entry: entry[0].lower())
        kind = "chapter" if self._level > 2 else ""
        return render_fragment("glossary", kind, entries) if entries else ""

    def write(self, path: str | Path) -> Path:
        """Write the page to this file atomically; an existing file is replaced."""
        path = Path(path)
        page = self.render()
        with write_atomically(path) as stream:
            stream.write(page.encode())
        return path


def check_page(path: Path) -> None:
    """Raise an error if the file exists and is not a page of this program.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = Path(folder, "week.html")
    ...     _ = notes.write_text("<h1>my own notes</h1>")
    ...     check_page(notes)
    Traceback (most recent call last):
    twinloop.InputError: ...week.html: exists and is not a page of Twinloop, so ...
    """
    if is_file(path) and _GENERATOR_TAG.encode() not in read_first_bytes(path):
        raise InputError(
            "exists and is not a page of Twinloop, so it is not replaced",
            kind="not-replaceable",
            file=path,
            remedy="give another file with -o, or move this one",
        )


def _align_margins(figures: Mapping[str, Figure], over_time: Collection[str]) -> None:
    """Align the left margins, so that a time has the same position in all figures over time.

    The other figures have the same margin, or a wider one for long names.
    """
    needed = {
        name: max(_MIN_LEFT_MARGIN, _TICK_WIDTH + _LETTER_WIDTH * _shorten_names(figure))
        for name, figure in figures.items()
    }
    shared = max((needed[name] for name in over_time), default=_MIN_LEFT_MARGIN)
    colour_bar = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom",
             "len": 0.4, "thickness": 10, "nticks": 3, "title": {"side": "top"}}  # fmt: skip
    for name, figure in figures.items():
        figure.update_layout(margin_l=shared if name in over_time else max(shared, needed[name]))
        figure.update_traces(colorbar=colour_bar, selector={"type": "heatmap"})


def _shorten_names(figure: Figure) -> int:
    """Shorten the names to the left of a figure, and return the length of the longest."""
    ticks = figure.layout.yaxis.ticktext
    maps = [] if ticks else [series for series in figure.data if series.type == "heatmap"]
    names = maps[0].y if maps else ticks or ()
    short = [shorten_name(unescape(name), _MAX_NAME_LENGTH) for name in names]
    labels = [escape_label(name) for name in short]
    if not maps:
        figure.update_yaxes(ticktext=labels or None)
    elif len(set(labels)) == len(labels):  # Plotly merges the rows of a map with equal names
        maps[0].y = labels
    return max(map(len, short), default=0)


def _compress(text: str) -> str:
    # Without a time stamp, so that the same parts give the same bytes.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache  # the compression takes longer than the rest of a page
def _compress_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _compress(str(get_plotlyjs()))
