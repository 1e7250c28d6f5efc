"""Jinja2 templates of the report pages: HTML with every value escaped.

Jinja2 is imported when the first page is rendered, because most commands write none and their
start-up time matters.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: The CSS class of each status; a cell with another text is plain.
STATUS_CLASSES: Final = {
    "PASS": "pass",
    "FAIL": "fail",
    "not assessable": "open",
    "holds": "pass",
    "reversed": "fail",
    "tie": "open",
    "not measured": "open",
}


@cache
def load_environment() -> Environment:
    """Create the environment of all templates; each template is compiled once per process.

    An undefined variable is an error, so that a misspelt name cannot leave a gap in a page.

    >>> load_environment().from_string("{{ name }}").render(name="<b>")
    '&lt;b&gt;'
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("twinloop.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        cache_size=-1,
    )
    environment.globals["status_classes"] = STATUS_CLASSES
    return environment


def render_template(name: str, **values: Any) -> str:
    """Render a template as a whole document.

    >>> page = render_template("message.html.j2", text="2 < 3", base="", refresh=False)
    >>> "<p>2 &lt; 3</p>" in page
    True
    """
    return load_environment().get_template(name).render(values)


@cache
def _load_macros() -> Any:
    return load_environment().get_template("fragments.html.j2").module


def render_fragment(macro: str, *values: Any) -> Markup:
    """Render a macro of `fragments.html.j2` as markup that no template escapes again.

    >>> render_fragment("paragraph", "2 < 3")
    Markup('<p>2 &lt; 3</p>')
    """
    fragment: Markup = getattr(_load_macros(), macro)(*values)
    return fragment


def read_asset(package: str, name: str) -> Markup:
    """Read a style sheet or a script of this package, which a template inserts unchanged.

    >>> read_asset("twinloop.report.pages", "page.js").startswith('"use strict"')
    True
    """
    from markupsafe import Markup

    # A file of this package is not an input of a user, so it may contain markup.
    return Markup(importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8"))
