"""The shorthand of a platform: `NODESxCORES@CLOCK/MEMORY`."""

from __future__ import annotations

import re
from typing import Any, Final

from twinloop.platform.quantities import FREQUENCY, MEMORY
from twinloop.trace.errors import InputError

_SHORTHAND = re.compile(r"\s*([0-9]{1,7})\s*x\s*([0-9.]{1,16})\s*(?:@([^/]*))?(?:/(.*))?")

#: The same for a JSON Schema.
PATTERN: Final = r"^\s*[0-9]{1,7}\s*x\s*[0-9.]{1,16}\s*(@[^/]*)?(/.*)?$"


def is_shorthand(text: str) -> bool:
    """Whether a text is meant as the shorthand of a platform, right or wrong, not as a path."""
    return _SHORTHAND.fullmatch(text) is not None


def expanded(text: str) -> dict[str, Any]:
    """The plain values of the platform that a shorthand stands for."""
    match = _SHORTHAND.fullmatch(text)
    if match is None:
        raise InputError(
            f"'{text[:60]}' is no platform", remedy="write one like 100x1 or 2x8@2400MHz/64GiB"
        )
    count, cores, clock, memory = match.groups()
    host: dict[str, Any] = {"count": int(count)}
    try:
        host["cores"] = float(cores)
    except ValueError:
        raise InputError(f"'{cores}' is no number of cores") from None
    if clock is not None:
        host["mhz"] = FREQUENCY.read(clock)
    if memory is not None:
        host["memory"] = MEMORY.read(memory)
    return {"clusters": [{"hosts": [host]}]}
