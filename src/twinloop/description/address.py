"""Addresses of values as dotted paths such as `platform.clusters[0].hosts[2].cores`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from twinloop.description.document import Address
from twinloop.description.errors import InputError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(rf'\.?({_NAME.pattern})|\[([0-9]{{1,9}})\]|\[("(?:[^"\\]|\\.)*")\]')


def address_to_path(address: Sequence[str | int]) -> str:
    """Write an address as a dotted path; `address_from_path` is the inverse.

    >>> address_to_path(("hosts", 2, "cores")), address_to_path(("overrides", "a.b"))
    ('hosts[2].cores', 'overrides["a.b"]')
    """
    path = ""
    for step in address:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _NAME.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step, ensure_ascii=False)}]"
    return path


def address_from_path(path: str) -> Address:
    """Parse a dotted path into an address.

    >>> address_from_path('clusters[0].power.idle')
    ('clusters', 0, 'power', 'idle')
    """
    address: list[str | int] = []
    end = 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None or (path[end] == ".") != (bool(end) and step[1] is not None):
            raise InputError(
                f"'{path}' is not a path",
                kind="invalid-path",
                remedy="write it like clusters[0].hosts[2].cores",
            )
        name, index, quoted = step.groups()
        if name is not None:
            address.append(name)
        elif index is not None:
            address.append(int(index))
        else:
            address.append(_unquote(quoted, path))
        end = step.end()
    if not address:
        raise InputError(
            "the path is empty",
            kind="invalid-path",
            remedy="write it like clusters[0].hosts[2].cores",
        )
    return tuple(address)


def _unquote(quoted: str, path: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise InputError(
            f"'{path}' is not a path: {quoted} is not a valid JSON string",
            kind="invalid-path",
            remedy="escape backslashes and quotes as in JSON",
        ) from None


def set_value(data: Any, address: Address, value: Any, parent: Address = ()) -> Any:
    """Copy plain data with one value set.

    Every step of the address must exist, except that the last one may be a new key of a mapping.
    `parent` is the address of `data` in the whole document, for error messages.
    """
    parent_path = address_to_path(parent) or None
    step, rest = address[0], address[1:]
    if isinstance(data, dict) and isinstance(step, str):
        if rest and step not in data:
            raise InputError(
                f"has no '{step}'",
                kind="invalid-path",
                field=parent_path,
                remedy=suggest_name(step, list(data)),
            )
        inner = set_value(data[step], rest, value, (*parent, step)) if rest else value
        return {**data, step: inner}
    if isinstance(data, list) and isinstance(step, int):
        if step >= len(data):
            raise InputError(
                f"has no item {step}: it has {len(data)} items",
                kind="invalid-path",
                field=parent_path,
            )
        inner = set_value(data[step], rest, value, (*parent, step)) if rest else value
        return [*data[:step], inner, *data[step + 1 :]]
    if data is None:
        raise InputError(
            "is not set, so no field of it can be set",
            kind="invalid-path",
            field=parent_path,
            remedy="set the whole value",
        )
    data_type = (
        "a list"
        if isinstance(data, list)
        else "a mapping"
        if isinstance(data, dict)
        else "one value"
    )
    raise InputError(
        f"is {data_type}, which has no {address_to_path((step,))}",
        kind="invalid-path",
        field=parent_path,
    )


def suggest_name(name: str, known: Sequence[str], *, listed: int = 20) -> str:
    """Return the remedy for an unknown name: the closest known name, or a list of so many of them.

    >>> suggest_name("core", ["cores", "memory"])
    "did you mean 'cores'?"
    """
    if close := get_close_matches(name, known, n=1, cutoff=0.6):
        return f"did you mean '{close[0]}'?"
    shown = ", ".join(known[:listed]) + (", ..." if len(known) > listed else "")
    return f"known: {shown}" if known else "no name is known"
