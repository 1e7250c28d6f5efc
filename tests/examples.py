"""The number of random examples of a test under each profile of conftest.py."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

#: Number of examples of the default profile.
USUAL = 25


def examples(count: int, **others: Any) -> settings:
    """Set the number of examples in `make test`; `make verify` has more in proportion."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL), **others)


def every(step: int) -> int:
    """Return the step through a long list of cases; `make verify` uses all of them."""
    return step if settings.default.max_examples <= USUAL else 1
