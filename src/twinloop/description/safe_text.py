"""Escaping of text from files for output on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: Characters that are escaped: control characters (C0, DEL, C1), directional marks, line
#: separators, surrogates.
_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE: Final = f"\x7f-\x9f{_DIRECTIONS}\u2028\u2029\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_IN_NAMES: Final = re.compile(f"[\x00-\x1f{_UNSAFE}]")
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_controls(text: str) -> str:
    """Escape control characters as in a Python literal; newlines and tabs stay.

    Names in logs and descriptions come from other people. On a terminal a control character in a
    name could change the title or the colours of the window, or the text printed before.

    >>> escape_controls("a\\x1b[31mb\\x9bc\\nd")
    'a\\\\x1b[31mb\\\\x9bc\\nd'
    """
    return _IN_TEXT.sub(_escape_match, text)


def escape_name(name: object) -> str:
    """Escape control characters, newlines and tabs, so that a name is on one line.

    >>> escape_name("a\\nerror: b")
    'a\\\\nerror: b'
    """
    return _IN_NAMES.sub(_escape_match, str(name))


def join_lines(lines: Iterable[str]) -> str:
    """Join lines of text that contain names; a newline in a name is escaped.

    >>> join_lines(["task a", "task b\\nc"])
    'task a\\ntask b\\\\nc'
    """
    return "\n".join(map(escape_name, lines))


def escape_json(text: str) -> str:
    """Escape control characters in JSON text; the document stays the same.

    >>> escape_json('{"a": "\\x9b\u202e"}')
    '{"a": "\\\\u009b\\\\u202e"}'
    """
    return _IN_TEXT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
