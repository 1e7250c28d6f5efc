"""Shorthand notation of a platform: `NODESxCORES@CLOCK/MEMORY`."""

from __future__ import annotations

import re
from typing import Any, Final

from twinloop.description.errors import InputError
from twinloop.description.quantities import FREQUENCY, MEMORY, number_to_text

#: The maximum `count` of a group of hosts.
_MAX_NODES: Final = 1_000_000

# Longer than _MAX_NODES: too many nodes are an error in the shorthand, not the name of a file.
_SHORTHAND = re.compile(r"\s*([0-9]{1,60})\s*x\s*([0-9.]{1,16})\s*(?:@([^/]*))?(?:/(.*))?")

#: The pattern of the shorthand in the JSON schema.
PATTERN: Final = r"^\s*[0-9]{1,7}\s*x\s*[0-9.]{1,16}\s*(@[^/]*)?(/.*)?$"


def is_shorthand(text: str) -> bool:
    """Whether a text has the form of a shorthand, valid or not, rather than of a path."""
    return _SHORTHAND.fullmatch(text) is not None


def expand_shorthand(text: str) -> dict[str, Any]:
    """Convert a shorthand to the plain values of a platform."""
    match = _SHORTHAND.fullmatch(text)
    if match is None:
        raise InputError(
            f"'{text[:60]}' is not a platform",
            kind="not-a-platform",
            remedy="write one like 100x1 or 2x8@2400MHz/64GiB",
        )
    count, cores, clock, memory = match.groups()
    host: dict[str, Any] = {"count": int(count)}
    if host["count"] < 1:
        raise _make_error("number of nodes", text, "must be at least 1, not 0", kind="out-of-range")
    if host["count"] > _MAX_NODES:
        raise _make_error(
            "number of nodes",
            text,
            f"too many nodes, at most {_MAX_NODES:,} are allowed",
            kind="too-large",
        )
    for field, part, quantity, parse in (
        ("cores", "number of cores", cores, _parse_number),
        ("mhz", "clock", clock, FREQUENCY.read),
        ("memory", "memory", memory, MEMORY.read),
    ):
        if quantity is None:
            continue
        try:
            host[field] = parse(quantity)
        except InputError as error:
            raise _make_error(part, text, error.problem, error.remedy, kind=error.kind) from None
        if host[field] <= 0:
            raise _make_error(
                part,
                text,
                f"must be positive, not {number_to_text(host[field])}",
                kind="out-of-range",
            )
    return {"clusters": [{"hosts": [host]}]}


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a number", kind="wrong-type") from None


def _make_error(
    part: str, text: str, problem: str, remedy: str | None = None, *, kind: str
) -> InputError:
    return InputError(f"the {part} in '{text.strip()[:60]}': {problem}", kind=kind, remedy=remedy)
