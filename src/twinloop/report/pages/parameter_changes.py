"""What a calibration moved and why, as a list whose details are nested."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.quantity_text import format_count

#: What a detail says of a value, and no other detail does.
_MOVED: Final = " moved"


def render_parameter_changes(lines: Sequence[str], *, once: bool = False) -> str:
    """Sentences as a list; a line that begins with two spaces is a detail of the one before.

    Args:
        lines: What moved and why.
        once: Whether a value that moved is named under its first cause, and then only counted.

    >>> render_parameter_changes(["too slow:", "  speed moved"])
    '<ul><li>too slow:<ul><li>speed moved</li></ul></li></ul>'
    >>> render_parameter_changes(["slow:", "  a moved", "late:", "  a moved"], once=True)
    '...<li>late:<ul><li>1 value as above</li></ul></li></ul>'
    """
    causes: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("  ") and causes:
            causes[-1][1].append(line.strip())
        else:
            causes.append((line.strip(), []))
    seen: set[str] = set()
    items = []
    for cause, details in causes:
        told = [each for each in details if not (once and each in seen and _MOVED in each)]
        if again := len(details) - len(told):
            told.insert(0, f"{format_count(again, 'value')} as above")
        seen.update(details)
        inside = "".join(f"<li>{escape(expand_kpi_names(each))}</li>" for each in told)
        nested = f"<ul>{inside}</ul>" if inside else ""
        items.append(f"<li>{escape(expand_kpi_names(cause))}{nested}</li>")
    return f"<ul>{''.join(items)}</ul>"
