"""Parsing of JSON text into plain values with line numbers, which are computed on demand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from twinloop.description.document import (
    MAX_DEPTH,
    Address,
    ParsedDocument,
    is_representable,
    make_depth_error,
    make_range_error,
)
from twinloop.description.errors import InputError


def parse_json(text: str, file: str | None) -> ParsedDocument:
    """Parse JSON text; a key that occurs twice in one object is an error."""
    twice: list[str] = []

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return object_from_pairs(pairs, on_repeat=twice.append)

    def refuse(constant: str) -> Any:
        raise InputError(f"{constant} is no number in JSON", kind="not-json", file=file)

    try:
        data = json.loads(text, object_pairs_hook=make_object, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is no JSON: {error.msg}", kind="not-json", file=file, line=error.lineno
        ) from None
    except RecursionError:
        raise make_depth_error(file) from None
    except InputError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise InputError(f"is no JSON: {error}", kind="not-json", file=file) from None
    if twice:
        line = next((at for name, at in _find_repeats(text) if name == twice[0]), None)
        raise InputError(
            f"the key '{twice[0]}' occurs twice", kind="duplicate-name", file=file, line=line
        )
    document = ParsedDocument(data, file, lambda: _number_lines(text))
    _check_values(document)
    return document


def object_from_pairs(
    pairs: list[tuple[str, Any]], *, on_repeat: Callable[[str], None]
) -> dict[str, Any]:
    """Make a JSON object of its members, for the `object_pairs_hook` of `json.loads`.

    `on_repeat` is called with each name that occurs more than once, and may raise an error: the
    standard library would keep the last value without a warning.

    >>> repeats = []
    >>> object_from_pairs([("a", 1), ("b", 2), ("a", 3)], on_repeat=repeats.append), repeats
    ({'a': 3, 'b': 2}, ['a'])
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        for name, count in counts.items():
            if count > 1:
                on_repeat(name)
    return values


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def _number_lines(text: str) -> dict[Address, int]:
    lines: dict[Address, int] = {}
    for address, line in _list_addresses(text):
        lines.setdefault(address, line)
    return lines


def _find_repeats(text: str) -> list[tuple[str, int]]:
    seen: set[Address] = set()
    repeats = []
    for address, line in _list_addresses(text):
        if address in seen:
            repeats.append((str(address[-1]), line))
        seen.add(address)
    return repeats


def _list_addresses(text: str) -> list[tuple[Address, int]]:
    """List all values of a valid JSON text with their lines; a member has the line of its name."""
    found: list[tuple[Address, int]] = []
    place: list[str | int] = []  # the open member or item of each open object or list
    open_objects: list[bool] = []
    line, counted = 1, 0
    name_next = False
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted, token.start())
        counted = token.start()
        mark = token[0]
        if mark in "}]":
            open_objects.pop()
            place.pop()
            name_next = False
        elif mark == ",":
            name_next = open_objects[-1]
            if not name_next:
                place[-1] = int(place[-1]) + 1
        elif mark == ":":
            name_next = False
        elif name_next:
            place[-1] = json.loads(mark)
            found.append((tuple(place), line))
        else:
            if not open_objects or not open_objects[-1]:
                found.append((tuple(place), line))
            if mark in "{[":
                name_next = mark == "{"
                open_objects.append(name_next)
                place.append("" if name_next else 0)
    return found


def _check_values(document: ParsedDocument) -> None:
    """Raise an error for data that is nested too deep and for numbers that no field can hold."""
    rest: list[tuple[Any, Address]] = [(document.data, ())]
    while rest:
        value, address = rest.pop()
        if len(address) > MAX_DEPTH:
            raise make_depth_error(document.file)
        if isinstance(value, dict):
            rest += [(item, (*address, key)) for key, item in value.items()]
        elif isinstance(value, list):
            rest += [(item, (*address, index)) for index, item in enumerate(value)]
        elif isinstance(value, int | float) and not is_representable(value):
            raise make_range_error(document.file, document.line(address))
