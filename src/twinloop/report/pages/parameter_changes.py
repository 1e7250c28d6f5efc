"""Parameter changes of a calibration and their reasons, as a nested list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.pages.templating import render_fragment
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from markupsafe import Markup

#: A detail with this word is about a changed value.
_MOVED: Final = " moved"


def render_parameter_changes(lines: Sequence[str], *, once: bool = False) -> Markup:
    """Render sentences as a list; a line that starts with two spaces is a detail of the one before.

    Args:
        lines: The reasons and the changes.
        once: Whether a changed value is listed under its first reason only, and counted under
            the others.

    >>> print(render_parameter_changes(["too slow:", "  speed moved"]))
    <ul><li>too slow:<ul><li>speed moved</li></ul></li></ul>
    >>> print(render_parameter_changes(["slow:", "  a moved", "late:", "  a moved"], once=True))
    <ul>...<li>late:<ul><li>1 value as above</li></ul></li></ul>
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
        listed = [each for each in details if not (once and each in seen and _MOVED in each)]
        if repeated := len(details) - len(listed):
            listed.insert(0, f"{format_count(repeated, 'value')} as above")
        seen.update(details)
        items.append((expand_kpi_names(cause), [expand_kpi_names(each) for each in listed]))
    return render_fragment("nested_list", items)
