"""Consoles of all commands: stdout for results, stderr for everything else.

The module is imported where something is printed: a command with JSON output needs no rich.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape as escape_markup
from rich.segment import Segment
from rich.text import Text

from twinloop.description.safe_text import escape_controls, escape_name


class SafeConsole(Console):
    """A console that escapes control characters in all text.

    All output of commands passes through it: tables, errors and live displays. Names in files may
    contain control sequences that a terminal would execute; the styles that rich adds are not text.

    >>> SafeConsole(color_system=None).print("a\\x1b]0;b\\x07")
    a\\x1b]0;b\\x07
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string to text, escaped first, so that its width is that of the shown text."""
        return super().render_str(escape_controls(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Convert a renderable to segments, and escape their text."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                safe = escape_controls(segment.text)
                yield segment if safe == segment.text else segment._replace(text=safe)
            else:
                yield segment


out = SafeConsole(highlight=False, emoji=False)
err = SafeConsole(stderr=True, highlight=False, emoji=False)


def escape(text: object) -> str:
    """Escape markup, control characters and line breaks in a text with names.

    >>> escape("a[/]\\nb")
    'a\\\\[/]\\\\nb'
    """
    return escape_markup(escape_name(text))
