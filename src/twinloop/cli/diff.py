"""`twinloop diff`: how two runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import Json, escape, out, print_json, speaking, working

if TYPE_CHECKING:
    from twinloop.metrics import Difference

_RUN = "A log or a trace, as `twinloop inspect` takes it: a folder that a run wrote, SWF, ..."


def diff(
    a: Annotated[Path, typer.Argument(help=_RUN, show_default=False)],
    b: Annotated[Path, typer.Argument(help="The other one.", show_default=False)],
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Say in words and figures how two runs differ: figures, tasks, users, scenarios.

    Tasks are matched by their ids; a change is B minus A. Real and simulated runs can be compared
    with each other.

    Keys of --json: `a`, `b` (paths), `figures` (a list: figure, unit, a, b, change, relative),
    `without_scenario` (neither keeps one), `scenario` (a list of the fields that differ: field, a,
    b), `tasks` (matched, only_a and only_b with count and examples, earlier, later, same,
    elsewhere, statuses, starts: those that moved most), `users` (gains and losses: who waits less
    and more), `notes` (what could not be counted).

    Examples: `twinloop diff runs/fcfs runs/easy`, `twinloop diff log.swf runs/twin --json`.
    """
    # It takes a moment to load, for which nobody waits who asks for help.
    from twinloop.metrics import difference

    with speaking(json):
        before, after = (read_trace(path, None, strict) for path in (a, b))
        with working("comparing"):
            found = difference(before, after)
        if json:
            print_json({"a": str(a), "b": str(b)} | found.to_dict())
        else:
            _show(a, b, found)


def _show(a: Path, b: Path, found: Difference) -> None:
    from twinloop.report.difference_text import describe_difference, find_differing_figures

    out.print(f"[bold]A[/]  {escape(a)}", soft_wrap=True)
    out.print(f"[bold]B[/]  {escape(b)}", soft_wrap=True)
    out.print()
    out.print(describe_difference(found), markup=False, soft_wrap=True)
    if rows := list(find_differing_figures(found)):
        out.print()
        out.print(_figures(rows))


def _figures(rows: list[dict[str, Any]]) -> Table:
    from twinloop.report.difference_text import format_amounts, format_relative_change

    table = Table("", "A", "B", "change", "", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        cells = format_amounts([row[name] for name in ("a", "b", "change")], row["unit"])
        table.add_row(row["figure"], *cells, format_relative_change(row["a"], row["b"]))
    return table
