"""Text that comes from files, made fit for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: What a terminal, or a reader, takes for something else than a character: control characters (C0,
#: DEL, C1), marks that turn the direction of writing, separators of lines, halves of characters.
_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE: Final = f"\x7f-\x9f{_DIRECTIONS}\u2028\u2029\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_IN_NAMES: Final = re.compile(f"[\x00-\x1f{_UNSAFE}]")
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_controls(text: str) -> str:
    """Write control characters as Python does in a literal; newlines and tabs stay.

    Names in logs and descriptions come from other people. On a terminal a control character in one
    could change the title or the colours of the window, or what was printed before.

    >>> escape_controls("a\\x1b[31mb\\x9bc\\nd")
    'a\\\\x1b[31mb\\\\x9bc\\nd'
    """
    return _IN_TEXT.sub(_escaped, text)


def escape_name(name: object) -> str:
    """Write a name in one line: as `escape_controls`, and newlines and tabs as well.

    >>> escape_name("a\\nerror: b")
    'a\\\\nerror: b'
    """
    return _IN_NAMES.sub(_escaped, str(name))


def join_lines(lines: Iterable[str]) -> str:
    """Lines of text that hold names, one below the other; no name can make a line of its own.

    >>> join_lines(["task a", "task b\\nc"])
    'task a\\ntask b\\\\nc'
    """
    return "\n".join(map(escape_name, lines))


def escape_json(text: str) -> str:
    """JSON without control characters: the same document, fit for a terminal.

    >>> escape_json('{"a": "\\x9b\u202e"}')
    '{"a": "\\\\u009b\\\\u202e"}'
    """
    return _IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
