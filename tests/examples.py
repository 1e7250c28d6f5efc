"""How many random examples a test draws, under every profile of conftest.py."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

#: Of the default profile.
USUAL = 25


def examples(count: int, **others: Any) -> settings:
    """So many examples in `make test`, and in proportion more in `make verify`."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL), **others)


def every(step: int) -> int:
    """The step through a long list of cases: all of them in `make verify`."""
    return step if settings.default.max_examples <= USUAL else 1
