"""`twinloop diff`: the differences between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from twinloop.cli.console import escape, out
from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import Json, print_json, report_errors, show_status

if TYPE_CHECKING:
    from twinloop.metrics import Difference


def diff(
    a: Annotated[Path, typer.Argument(help="A log or a trace.", show_default=False)],
    b: Annotated[
        Path, typer.Argument(help="The log or trace to compare with.", show_default=False)
    ],
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Show how two runs differ.

    Compares figures, tasks, users and scenarios. Tasks are matched by id; a change is B minus A.
    Real and simulated runs can be compared with each other.

    - `twinloop diff runs/fcfs runs/easy`
    - `twinloop diff log.swf runs/twin --json`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.metrics import difference

    with report_errors(json):
        before, after = (read_trace(path, None, strict) for path in (a, b))
        with show_status("comparing"):
            result = difference(before, after)
        if json:
            print_json({"a": str(a), "b": str(b)} | result.to_dict())
        else:
            _show(a, b, result)


def _show(a: Path, b: Path, result: Difference) -> None:
    from twinloop.report.difference_text import describe_difference, find_differing_figures

    out.print(f"[bold]A[/]  {escape(a)}", soft_wrap=True)
    out.print(f"[bold]B[/]  {escape(b)}", soft_wrap=True)
    out.print()
    out.print(describe_difference(result), markup=False, soft_wrap=True)
    if rows := list(find_differing_figures(result)):
        out.print()
        out.print(_make_figure_table(rows))


def _make_figure_table(rows: list[dict[str, Any]]) -> Table:
    from twinloop.report.difference_text import format_amounts, format_relative_change

    table = Table("", "A", "B", "change", "", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        values = [row[name] for name in ("a", "b", "change")]
        cells = format_amounts(values, row["unit"], row["figure"])
        table.add_row(row["figure"], *cells, format_relative_change(row["a"], row["b"]))
    return table
