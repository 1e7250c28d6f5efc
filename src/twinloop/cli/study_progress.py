"""Progress of a study: a bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop.cli.console import err


@contextmanager
def show_study_progress(
    title: str = "exploring", parts: str = "runs"
) -> Iterator[Callable[[Any], None]]:
    """Show the progress: a bar on a terminal, otherwise a line every ten seconds.

    Args:
        title: What the study does.
        parts: What is counted.
    """
    if not err.is_terminal:
        yield _make_line_printer(parts)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        # The number of parts is not known before the first one.
        task = bar.add_task(title, total=None, state="")

        def update(state: Any) -> None:
            failed = f", {state.failed:,} failed" if state.failed else ""
            text = f"{state.done:,} of {state.total:,} {parts}{failed}"
            bar.update(task, completed=state.done, total=state.total, state=text)

        yield update


def _make_line_printer(parts: str) -> Callable[[Any], None]:
    last = 0.0

    def update(state: Any) -> None:
        nonlocal last
        if state.seconds - last >= 10.0:
            last = state.seconds
            left = getattr(state, "left", None)
            remaining = "" if left is None else f", about {left:.0f} s left"
            counted = f"{state.done:,} of {state.total:,} {parts}, {state.failed:,} failed"
            err.print(f"{counted}{remaining}")

    return update
