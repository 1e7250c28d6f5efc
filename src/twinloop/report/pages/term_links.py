"""Links from the terms of a page to their definitions in the appendix of the page."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final

from twinloop.report.glossary import TERMS, Term
from twinloop.report.pages.templating import render_fragment

if TYPE_CHECKING:
    from markupsafe import Markup

#: Terms are linked in the text of the first elements, unless it is inside one of the second;
#: `answer` is a class of `div`.
_LINKED: Final = frozenset({"p", "li", "dt", "th"})
_EXCLUDED: Final = frozenset({"a", "answer", "button", "nav", "pre", "summary"})
#: Elements without an end tag.
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


def link_terms(parts: list[str]) -> tuple[list[Markup], list[Term]]:
    """Link the first occurrence of each term in the parts of a page, and list these terms.

    Only the first occurrence is linked, so that the text remains legible. The main result of a
    page has no links for the same reason; table cells and preformatted text are data.

    >>> from twinloop.report.pages.fragments import render_paragraph
    >>> parts, terms = link_terms([render_paragraph("The makespan; another makespan.")])
    >>> print(parts[0])
    <p>The <a class="term" href="#term-makespan">makespan</a>; another makespan.</p>
    >>> [term.name for term in terms]
    ['makespan']
    """
    from markupsafe import Markup, escape

    linker = _TermLinker()
    linked = []
    for part in parts:
        linker.feed(str(escape(part)))
        linker.close()
        # The output is markup of the templates, with links that are rendered by a template.
        linked.append(Markup("".join(linker.output)))
        linker.output.clear()
    return linked, [term for term in TERMS if term.name in linker.linked_names]


class _TermLinker(HTMLParser):
    """Copy of a page in which the first occurrence of each term is a link."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.output: list[str] = []
        self.linked_names: set[str] = set()
        self._open: list[str] = []
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._flush()
        self.output.append(self.get_starttag_text() or "")
        if tag not in _VOID:
            self._open.append("answer" if ("class", "answer") in attrs else tag)

    def handle_endtag(self, tag: str) -> None:
        self._flush()
        self.output.append(f"</{tag}>")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_entityref(self, name: str) -> None:
        self._text += f"&{name};"

    def handle_charref(self, name: str) -> None:
        self._text += f"&#{name};"

    def close(self) -> None:
        super().close()
        self._flush()

    def _flush(self) -> None:
        """Append the text since the last tag, which is still escaped, with its links."""
        if _EXCLUDED.isdisjoint(self._open) and not _LINKED.isdisjoint(self._open):
            self._text = _compile_pattern().sub(self._link, self._text)
        self.output.append(self._text)
        self._text = ""

    def _link(self, match: re.Match[str]) -> str:
        from markupsafe import Markup

        term = _list_forms()[match[1].lower()]
        if term.name in self.linked_names:
            return match[0]
        self.linked_names.add(term.name)
        # The match is a part of escaped text.
        return render_fragment("term_link", term.anchor, Markup(match[0]))


@cache
def _list_forms() -> dict[str, Term]:
    """Map each form of each term, escaped and in lower case, to the term."""
    from markupsafe import escape

    return {str(escape(form)).lower(): term for term in TERMS for form in (term.name, *term.forms)}


@cache
def _compile_pattern() -> re.Pattern[str]:
    """Compile the pattern of all forms, the longest first, because the first match is used."""
    forms = sorted(_list_forms(), key=len, reverse=True)
    # A form inside an identifier, a path or a number with a unit does not match.
    return re.compile(
        rf"(?<![\w./-])({'|'.join(map(re.escape, forms))})s?(?![\w/-]|\.\w)", re.IGNORECASE
    )
