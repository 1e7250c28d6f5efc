"""The part of `twinloop calibrate` that compares levels of detail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import print_json, require_positive, show_status
from twinloop.cli.recording_options import print_resume_hint
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.trace import Trace

#: Exit status if searches failed.
INCOMPLETE = 1


def compare_levels(
    runs: Mapping[str, Trace],
    held_out: Mapping[str, Trace],
    levels: Path,
    output: Path,
    *,
    seed: int,
    seeds: int,
    workers: int | None,
    json: bool,
    **options: Any,
) -> None:
    """Calibrate all versions, write the page, and print the study."""
    from twinloop.calibration import calibrate_levels
    from twinloop.report import write_detail_study_page

    require_positive(workers=workers, seeds=seeds)
    with print_resume_hint(output), _show_progress() as progress:
        study = calibrate_levels(
            list(runs.values()),
            levels,
            validation=list(held_out.values()),
            names=[*runs, *held_out],
            seeds=range(seed, seed + seeds),
            folder=output,
            workers=workers,
            progress=progress,
            **options,
        )
    with show_status("writing the report"):
        write_detail_study_page(study, output / "report.html")
    err.print(escape(f"wrote {output}"), soft_wrap=True)
    if json:
        document = {"output": str(output), **study.to_dict(), **study.compute_results()}
        print_json(document | {"summary": study.summarise().to_dicts()})
    else:
        out.print(str(study), markup=False, soft_wrap=True)
    if study.failed:
        err.print(f"{study.failed:,} searches failed: see searches.csv")
        raise typer.Exit(INCOMPLETE)


def refuse_options(applicable: str, **options: Any) -> None:
    """Raise an error if an option is given that does not apply.

    >>> refuse_options("--levels", choose=None, warm_start=True)
    Traceback (most recent call last):
    twinloop.InputError: --warm-start applies to --levels [TL1103]
    """
    for name, given in options.items():
        if given not in (None, False, []):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} applies to {applicable}", kind="inapplicable-option")


@contextmanager
def _show_progress() -> Iterator[Callable[[Any], None]]:
    """Show the progress: a bar on a terminal, otherwise a line every ten seconds."""
    if not err.is_terminal:
        yield _make_line_printer()
        return
    columns = (
        TextColumn("calibrating all versions"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None, state="")

        def update(state: Any) -> None:
            text = _describe(state)
            bar.update(task, completed=state.done, total=state.total, state=text)

        yield update


def _make_line_printer() -> Callable[[Any], None]:
    last = 0.0

    def update(state: Any) -> None:
        nonlocal last
        if state.seconds - last >= 10.0:
            last = state.seconds
            err.print(_describe(state))

    return update


def _describe(state: Any) -> str:
    failed = f", {state.failed:,} failed" if state.failed else ""
    return f"{state.done:,} of {state.total:,} searches and analyses{failed}"
