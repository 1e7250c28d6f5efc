"""Quantities as text: durations, sizes, numbers and counts."""

from __future__ import annotations

from twinloop.trace.trace import format_count as format_count

__all__ = [
    "format_bandwidth",
    "format_count",
    "format_duration",
    "format_number",
    "format_size",
    "shorten_name",
]

_DURATIONS = ((86400.0 * 365.25, "y"), (86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_duration(seconds: float | None) -> str:
    """Format a length of time in the largest unit of which it has at least two (hours: one).

    >>> format_duration(5400), format_duration(0.25), format_duration(None)
    ('1.5 h', '0.25 s', '-')
    """
    if seconds is None:
        return "-"
    for size, unit in _DURATIONS:
        if abs(seconds) >= 2 * size or (unit == "h" and abs(seconds) >= size):
            return f"{format_number(seconds / size)} {unit}"
    return f"{format_number(seconds)} s"


def format_size(count: float | None) -> str:
    """Format an amount of memory or data in binary units.

    >>> format_size(3 * 1024**3)
    '3 GiB'
    """
    if count is None:
        return "-"
    power = 0
    while abs(count) >= 1024 and power < len(_BYTES) - 1:
        count, power = count / 1024, power + 1
    return f"{format_number(count)} {_BYTES[power]}"


def format_bandwidth(rate: float) -> str:
    """Format a bandwidth (bytes/s) in decimal units, as descriptions have it.

    >>> format_bandwidth(125e6), format_bandwidth(1.25e9), format_bandwidth(20.0)
    ('125 MB/s', '1.25 GB/s', '20 B/s')
    """
    for size, unit in ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if rate >= size:
            return f"{format_number(rate / size)} {unit}"
    return f"{format_number(rate)} B/s"


def format_price(value: float) -> str:
    """Format a price with two decimals, or as an integer, or with three digits if it is small.

    >>> format_price(1282.0), format_price(1282.5), format_price(0.00704)
    ('1,282', '1,282.50', '0.00704')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


def format_number(value: float | None) -> str:
    """Format a number with three significant digits; from 1,000 on as an integer.

    >>> format_number(28475), format_number(0.70412), format_number(3.0)
    ('28,475', '0.704', '3')
    """
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def shorten_name(name: str, max_length: int) -> str:
    """Shorten a name to this length by leaving out its middle.

    >>> shorten_name("C01-H01-001", 11), shorten_name("compute-rack-01-node-001", 11)
    ('C01-H01-001', 'compu…e-001')
    """
    if len(name) <= max_length:
        return name
    end = (max_length - 1) // 2
    return f"{name[: max_length - 1 - end]}…{name[-end:]}"
