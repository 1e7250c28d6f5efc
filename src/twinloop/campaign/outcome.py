"""The outcome of a call: the value, or the error in one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: Maximum length of an item in a message (characters).
_MAX_ITEM_LENGTH: Final = 120


class Outcome(NamedTuple):
    """The result of a function for one item.

    >>> Outcome(2.5, None, 0.01).ok, Outcome(None, "ValueError: no", 0.01).ok
    (True, False)
    """

    #: Return value of the function; None if it failed.
    value: Any | None
    #: The error in one line; None if the function did not fail.
    error: str | None
    #: Duration of the call on the worker (s).
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the function returned a value."""
        return self.error is None


def evaluate(function: Callable[[Any], Any], item: Any) -> Outcome:
    """Call a function with one item; an exception becomes an error of the outcome.

    Only exceptions that end this process, such as KeyboardInterrupt, are not caught.

    >>> evaluate(abs, -3).value
    3
    >>> print(evaluate(int, "three").error)
    ValueError: invalid literal for int() with base 10: 'three', for 'three'
    """
    began = time.perf_counter()
    try:
        value = function(item)
    except (Exception, SystemExit) as error:  # a simulator that calls sys.exit has failed
        return Outcome(None, format_failure(error, item), time.perf_counter() - began)
    return Outcome(value, None, time.perf_counter() - began)


def format_failure(error: BaseException, item: Any) -> str:
    """Format an exception and the item that raised it in one line.

    >>> format_failure(KeyError("speed"), {"latency": 0.5})
    "KeyError: 'speed', for {'latency': 0.5}"
    """
    name = type(error).__name__
    text = " ".join(str(error).split())
    return (
        f"{name}: {text}, for {format_item(item)}" if text else f"{name}, for {format_item(item)}"
    )


def format_item(item: Any) -> str:
    """Format an item in one short line.

    >>> format_item({"speed": 2.0}), len(format_item(list(range(1000))))
    ("{'speed': 2.0}", 120)
    """
    try:
        text = " ".join(repr(item).split())
    except Exception:
        text = f"an item of the kind {type(item).__name__}"
    return text if len(text) <= _MAX_ITEM_LENGTH else f"{text[: _MAX_ITEM_LENGTH - 3]}..."
