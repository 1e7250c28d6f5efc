"""Text templates with names in braces that are replaced by values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.description.quantities import number_to_text, quote_value

# The name of a parameter may be that of a field, such as `contention.kinds.io.pressure` or
# `contention.table[0]`.
_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.\[\]-]*)\}|[{}]")


def find_names(template: str) -> set[str]:
    """Find the names in braces in a template; a doubled brace is a literal brace.

    >>> sorted(find_names("--speed={speed} {case.input} {{}}"))
    ['case.input', 'speed']
    >>> find_names("{speed")
    Traceback (most recent call last):
    twinloop.InputError: '{speed' has a brace that encloses no name (write {{ for a brace) [TL0222]
    """
    names = set()
    for match in _BRACES.finditer(template):
        if match[1] is not None:
            names.add(match[1])
        elif match[0] not in ("{{", "}}"):
            raise InputError(
                f"{quote_value(template)} has a brace that encloses no name",
                kind="invalid-template",
                remedy=f"write {match[0] * 2} for a brace",
            )
    return names


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Replace the names in a template by their values.

    Numbers are written so that they read back unchanged.

    >>> fill_template("--speed={speed} -n {case.tasks}", {"speed": 0.1, "case.tasks": 20.0})
    '--speed=0.1 -n 20'
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]  # a doubled brace
        if name not in values:
            raise make_unknown_name_error(name, values)
        return _format_value(values[name])

    return _BRACES.sub(replace, template)


def make_unknown_name_error(name: str, known: Iterable[str]) -> InputError:
    """Make the error for a name in braces that has no value.

    >>> str(make_unknown_name_error("sped", ["speed"]))
    "{sped} has no value (did you mean 'speed'?) [TL0222]"
    """
    return InputError(
        f"{{{name}}} has no value", kind="invalid-template", remedy=suggest_name(name, list(known))
    )


def _format_value(value: Any) -> str:
    if hasattr(value, "item") and callable(value.item) and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a NumPy scalar
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_to_text(value) if isinstance(value, float) else str(value)
