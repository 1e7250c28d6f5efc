"""Figures as text and as HTML tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from twinloop.description.safe_text import join_lines
from twinloop.metrics.catalogue import DISTRIBUTIONS, FIGURES, MEASURES, add_unit

_Values = Mapping[str, float | int | None]
_DISTRIBUTION_FIGURES = {
    add_unit(f"{quantity}_{measure}", unit)
    for quantity, (unit, _) in DISTRIBUTIONS.items()
    for measure in MEASURES
}


def figures_to_text(values: _Values, notes: Sequence[str]) -> str:
    """Format the known figures, one per line, except counts of zero; distributions as a table.

    >>> print(figures_to_text({"tasks": 2, "makespan_s": 20.0, "energy_j": None}, ["something"]))
    tasks                      2
    makespan_s                20
    note: something
    """
    lines = [
        f"{name:<22}{format_number(value):>14}" for name, value in _list_single_figures(values)
    ]
    distributions = list(_list_distributions(values))
    if distributions:
        lines.append(f"{'':<22}" + "".join(f"{measure:>14}" for measure in MEASURES))
        for name, statistics in distributions:
            lines.append(
                f"{name:<22}" + "".join(f"{format_number(number):>14}" for number in statistics)
            )
    return join_lines([*lines, *(f"note: {note}" for note in notes)])


def figures_to_html(values: _Values, notes: Sequence[str]) -> str:
    """Format the known figures, except counts of zero, as an HTML table.

    >>> figures_to_html({"tasks": 2}, [])
    '<table><tr><th>tasks</th><td>2</td><td></td><td>tasks counted</td></tr></table>'
    """
    from html import escape

    rows = [
        f"<tr><th>{name}</th><td>{format_number(value)}</td><td>{FIGURES[name].unit}</td>"
        f"<td>{escape(FIGURES[name].meaning)}</td></tr>"
        for name, value in values.items()
        if _is_shown(name, value)
    ]
    paragraphs = "".join(f"<p>note: {escape(note)}</p>" for note in notes)
    return f"<table>{''.join(rows)}</table>{paragraphs}"


def format_number(value: float | int | None) -> str:
    """Format a number with six significant digits and thousands separators.

    >>> [format_number(value) for value in (28475, 1234567.8, 0.123456789, None)]
    ['28,475', '1,234,568', '0.123457', '-']
    """
    if value is None:
        return "-"
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


def _is_shown(name: str, value: float | int | None) -> bool:
    """Whether a figure is known and not a count of zero."""
    return value is not None and (value != 0 or FIGURES[name].unit != "" or name == "tasks")


def _list_single_figures(values: _Values) -> Iterator[tuple[str, float | int | None]]:
    for name, value in values.items():
        if name not in _DISTRIBUTION_FIGURES and _is_shown(name, value):
            yield name, value


def _list_distributions(values: _Values) -> Iterator[tuple[str, list[float | int | None]]]:
    for quantity, (unit, _) in DISTRIBUTIONS.items():
        parts = [values.get(add_unit(f"{quantity}_{m}", unit)) for m in MEASURES]
        if parts[0] is not None:
            yield add_unit(quantity, unit), parts
