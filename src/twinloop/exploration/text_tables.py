"""Tables of text: for a terminal, and for Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def align_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Format rows as lines with aligned columns; columns with these indices are right-aligned.

    >>> align_columns([["a", "b"], ["long", "c"]])
    ['a     b', 'long  c']
    >>> align_columns([["policy", "wait"], ["easy", "12"]], right=[1])
    ['policy  wait', 'easy      12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def format_figure(value: float) -> str:
    """Format a value with four significant digits; from 10,000 on as an integer.

    >>> format_figure(4577.96), format_figure(10604.3), format_figure(20.25)
    ('4578', '10,604', '20.25')
    """
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def make_markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as a Markdown table.

    >>> make_markdown_table([["a", "b"], ["1", "x|y"]])
    ['| a | b |', '|---|---|', '| 1 | x\\\\|y |']
    """
    escaped = [[each.replace("|", r"\|") for each in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]
