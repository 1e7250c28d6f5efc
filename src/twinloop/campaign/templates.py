"""Texts with names in braces, which values take the place of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from twinloop.description.address import nearest
from twinloop.description.errors import InputError
from twinloop.description.quantities import plain, shown

# A parameter may be called after the field that it is about, such as `contention.kinds.io.pressure`
# or `contention.table[0]`.
_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.\[\]-]*)\}|[{}]")


def names_in(template: str) -> set[str]:
    """The names that a text has in braces; two braces stand for one.

    >>> sorted(names_in("--speed={speed} {case.input} {{}}"))
    ['case.input', 'speed']
    >>> names_in("{speed")
    Traceback (most recent call last):
    twinloop.InputError: '{speed' has a brace that stands alone (write {{ for a brace)
    """
    names = set()
    for match in _BRACES.finditer(template):
        if match[1] is not None:
            names.add(match[1])
        elif match[0] not in ("{{", "}}"):
            raise InputError(
                f"{shown(template)} has a brace that stands alone",
                remedy=f"write {match[0] * 2} for a brace",
            )
    return names


def filled(template: str, values: Mapping[str, Any]) -> str:
    """The text with the values in place of their names.

    Numbers are written so that they read back as the same.

    >>> filled("--speed={speed} -n {case.tasks}", {"speed": 0.1, "case.tasks": 20.0})
    '--speed=0.1 -n 20'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name not in values:
            raise unknown(name, values)
        return _text(values[name])

    return _BRACES.sub(value, template)


def unknown(name: str, known: Iterable[str]) -> InputError:
    """The refusal of a name that nobody gave a value.

    >>> str(unknown("sped", ["speed"]))
    "{sped} stands for nothing that was given (did you mean 'speed'?)"
    """
    return InputError(
        f"{{{name}}} stands for nothing that was given", remedy=nearest(name, list(known))
    )


def _text(value: Any) -> str:
    if hasattr(value, "item") and callable(value.item) and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a number of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(value) if isinstance(value, float) else str(value)
