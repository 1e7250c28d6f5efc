"""The examples of docstrings as blocks of code, wherever they stand in the text."""

from typing import Any

import griffe


def fenced(text: str) -> str:
    """The text with a fence around every paragraph that is a session at the prompt."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        shown = paragraph.startswith(">>>")
        paragraphs.append(f"```pycon\n{paragraph}\n```" if shown else paragraph)
    return "\n\n".join(paragraphs)


class Examples(griffe.Extension):
    """Fences the examples of every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object once it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
