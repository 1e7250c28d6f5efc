"""What the words on a page mean, in a sentence each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Final

from twinloop.policy.registry import list_policies
from twinloop.report.quantity_text import format_count

_SHORTHAND: Final = re.compile(r"(\d+)x(\d+)")
_TWIN: Final = "The simulation that is to behave like the real machines."
_PROBE: Final = "A short real run that is made only to learn how tasks disturb each other."
_OVERCOMMIT: Final = (
    "How many cores a node gives away for each that it has; above 1, tasks share cores."
)


def glossary(levels: Iterable[str], probed: bool = True) -> list[tuple[str, str]]:
    """Words and what they mean: those that every loop uses, then the levels that are known words.

    Args:
        levels: What was varied: names of policies, platforms such as `2x1`; others are left out.
        probed: Whether there were probe runs.

    >>> for word, meaning in glossary(["2x1", "fcfs", "7"])[-2:]:
    ...     print(f"{word}: {meaning}")
    2x1: 2 nodes of 1 core each.
    fcfs (policy): First come, first served: the first task that does not fit stops all behind it.
    """
    meant = {"twin": _TWIN} | ({"probe": _PROBE} if probed else {}) | {"overcommit": _OVERCOMMIT}
    known = list_policies()
    for level in levels:
        if shape := _SHORTHAND.fullmatch(level):
            nodes, cores = (int(part) for part in shape.groups())
            each = " each" if nodes > 1 else ""
            meant[level] = f"{format_count(nodes, 'node')} of {format_count(cores, 'core')}{each}."
        elif level in known:
            told = inspect.getdoc(known[level]) or ""
            meant[f"{level} (policy)"] = (
                f"{' '.join(told.split(chr(10) * 2)[0].split()).removesuffix('.')}."
            )
    return list(meant.items())
