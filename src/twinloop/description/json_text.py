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
    repeated_keys: list[str] = []

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return object_from_pairs(pairs, on_repeat=repeated_keys.append)

    def refuse(constant: str) -> Any:
        raise InputError(f"{constant} is not a number in JSON", kind="not-json", file=file)

    try:
        data = json.loads(text, object_pairs_hook=make_object, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON: {error.msg}", kind="not-json", file=file, line=error.lineno
        ) from None
    except RecursionError:
        raise make_depth_error(file) from None
    except InputError:
        raise
    except ValueError as error:  # an integer with more digits than Python converts
        raise InputError(f"cannot be read: {error}", kind="not-json", file=file) from None
    if repeated_keys:
        line = next(
            (number for name, number in _find_repeats(text) if name == repeated_keys[0]), None
        )
        raise InputError(
            f"the key '{repeated_keys[0]}' occurs twice",
            kind="duplicate-name",
            file=file,
            line=line,
        )
    document = ParsedDocument(data, file, lambda: _find_lines(text))
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


def _find_lines(text: str) -> dict[Address, int]:
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
    """List the address and line of every value of a valid JSON text.

    The line of a member of an object is that of its key.
    """
    addresses: list[tuple[Address, int]] = []
    address: list[str | int] = []  # the current key or index in each open object or list
    is_object: list[bool] = []  # for each open object or list, whether it is an object
    line, counted_to = 1, 0
    key_expected = False
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted_to, token.start())
        counted_to = token.start()
        token_text = token[0]
        if token_text in "}]":
            is_object.pop()
            address.pop()
            key_expected = False
        elif token_text == ",":
            key_expected = is_object[-1]
            if not key_expected:
                address[-1] = int(address[-1]) + 1
        elif token_text == ":":
            key_expected = False
        elif key_expected:
            address[-1] = json.loads(token_text)
            addresses.append((tuple(address), line))
        else:
            if not is_object or not is_object[-1]:
                addresses.append((tuple(address), line))
            if token_text in "{[":
                key_expected = token_text == "{"
                is_object.append(key_expected)
                address.append("" if key_expected else 0)
    return addresses


def _check_values(document: ParsedDocument) -> None:
    """Raise an error for data nested too deep, and for numbers not finite or beyond 64 bits."""
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
