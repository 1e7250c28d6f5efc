"""Quantities as people say them."""

from __future__ import annotations

from twinloop.trace.trace import counted as count

__all__ = ["count", "duration", "number", "shortened", "size"]

_DURATIONS = ((86400.0 * 365.25, "y"), (86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(seconds: float | None) -> str:
    """A length of time in the unit that suits it.

    >>> duration(5400), duration(0.25), duration(None)
    ('1.5 h', '0.25 s', '-')
    """
    if seconds is None:
        return "-"
    for size, unit in _DURATIONS:
        if abs(seconds) >= 2 * size or (unit == "h" and abs(seconds) >= size):
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds)} s"


def size(count: float | None) -> str:
    """An amount of memory or data.

    >>> size(3 * 1024**3)
    '3 GiB'
    """
    if count is None:
        return "-"
    step = 0
    while abs(count) >= 1024 and step < len(_BYTES) - 1:
        count, step = count / 1024, step + 1
    return f"{number(count)} {_BYTES[step]}"


def number(value: float | None) -> str:
    """A number with three digits that matter.

    >>> number(28475), number(0.70412), number(3.0)
    ('28,475', '0.704', '3')
    """
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def shortened(name: str, longest: int) -> str:
    """A name that is no longer than this, its middle left out.

    >>> shortened("C01-H01-001", 11), shortened("compute-rack-01-node-001", 11)
    ('C01-H01-001', 'compu…e-001')
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return f"{name[: longest - 1 - end]}…{name[-end:]}"
