"""Progress of a real run: a live display on a terminal, otherwise plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from twinloop.cli.console import err, escape
from twinloop.description.safe_text import escape_name
from twinloop.execution.run_progress import ProgressCallback, RunProgress
from twinloop.report.quantity_text import format_count

#: Minimum time between two lines if stderr is not a terminal (s).
_LINE_PERIOD: Final = 5.0
#: Largest number of nodes and of tasks per node that are shown by name.
_MAX_NODES: Final = 16
_MAX_TASKS: Final = 8
#: Largest width of the column of node names (characters).
_MAX_NAME_WIDTH: Final = 24


@contextmanager
def display_run() -> Iterator[ProgressCallback]:
    """Yield a function that displays the state of a run."""
    if not err.is_terminal:
        yield _make_line_printer()
        return
    with Live(console=err, refresh_per_second=5, transient=True) as live:
        yield lambda moment: live.update(render(moment))


def describe(moment: RunProgress) -> str:
    """Describe the state of a run in one line.

    >>> ended = {"completed": 4, "failed": 1}
    >>> describe(RunProgress(3.0, 10, ended, 2, {"n1": ("a", "b"), "n2": ()}))
    '3.0 s: 5 of 10 tasks ended (4 completed, 1 failed), 2 running, 2 waiting'
    """
    ended = ", ".join(f"{count:,} {status}" for status, count in sorted(moment.ended.items()))
    running = len({task for tasks in moment.running.values() for task in tasks})
    return (
        f"{moment.t:,.1f} s: {moment.over:,} of {format_count(moment.tasks, 'task')} ended"
        f"{f' ({ended})' if ended else ''}, {running:,} running, {moment.waiting:,} waiting"
    )


def render(moment: RunProgress) -> Table:
    """Render the state of a run: progress, and the tasks on each node.

    >>> from rich.console import Console
    >>> moment = RunProgress(3.0, 10, {"completed": 4}, 2, {"n1": ("a", "b"), "n2": ()})
    >>> with (console := Console(width=70, color_system=None)).capture() as shown:
    ...     console.print(render(moment))
    >>> print("\\n".join(line.rstrip() for line in shown.get().splitlines()))
    3.0 s: 4 of 10 tasks ended (4 completed), 2 running, 2 waiting
    ━━━━━━━━━━━━━━━━━━━━━━━━
    n1  a b
    n2  -
    """
    nodes = Table.grid(padding=(0, 2), expand=True)
    nodes.add_column(no_wrap=True, max_width=_MAX_NAME_WIDTH)
    nodes.add_column(no_wrap=True, ratio=1)
    for name, tasks in list(moment.running.items())[:_MAX_NODES]:
        shown = " ".join(map(escape_name, tasks[:_MAX_TASKS])) + (
            " ..." if len(tasks) > _MAX_TASKS else ""
        )
        nodes.add_row(escape(name), Text(shown or "-", style="" if tasks else "dim"))
    if len(moment.running) > _MAX_NODES:
        nodes.add_row("...", f"and {len(moment.running) - _MAX_NODES} more nodes")
    bar = ProgressBar(total=max(1, moment.tasks), completed=moment.over, width=60)
    # A grid ends each row with a line break; the bar alone does not.
    display = Table.grid()
    for part in (Text(describe(moment)), bar, nodes):
        display.add_row(part)
    return display


def _make_line_printer() -> ProgressCallback:
    last = -_LINE_PERIOD

    def update(moment: RunProgress) -> None:
        nonlocal last
        if moment.t - last >= _LINE_PERIOD or moment.over == moment.tasks:
            last = moment.t
            err.print(describe(moment), markup=False, soft_wrap=True)

    return update
