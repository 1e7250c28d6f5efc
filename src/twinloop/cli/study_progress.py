"""Progress of a study: a bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop.cli.console import err


@contextmanager
def show_study_progress() -> Iterator[Callable[[Any], None]]:
    """Show the progress: a bar on a terminal, otherwise a line every ten seconds."""
    if not err.is_terminal:
        yield _make_line_printer()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        # The number of runs is not known before the first one.
        task = bar.add_task("exploring", total=None, state="")

        def update(state: Any) -> None:
            failed = f", {state.failed:,} failed" if state.failed else ""
            text = f"{state.done:,} of {state.total:,} runs{failed}"
            bar.update(task, completed=state.done, total=state.total, state=text)

        yield update


def _make_line_printer() -> Callable[[Any], None]:
    last = 0.0

    def update(state: Any) -> None:
        nonlocal last
        if state.seconds - last >= 10.0:
            last = state.seconds
            remaining = "" if state.left is None else f", about {state.left:.0f} s left"
            err.print(f"{state.done:,} of {state.total:,} runs, {state.failed:,} failed{remaining}")

    return update
