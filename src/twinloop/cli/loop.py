"""`twinloop loop`: record, simulate, assess, calibrate, explore and confirm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import Json, print_json, report_errors, show_status
from twinloop.cli.recording_options import DryRun, print_commands, print_resume_hint
from twinloop.description.errors import InputError

#: The heading of each step.
STEPS = {
    "run": "Real run",
    "probe": "Probe run: cost of sharing cores",
    "check": "Quality of the recording",
    "simulate": "Simulation",
    "assess": "Assessment of the simulation",
    "calibrate": "Calibration",
    "explore": "Exploration",
    "confirm": "Confirmation by real runs",
}


def loop(
    plan: Annotated[Path, typer.Argument(help="Plan of the loop, in YAML.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the loop.")
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            help="Use recordings instead of running: an earlier loop, or an archive of one."
        ),
    ] = None,
    isolation: Annotated[
        str, typer.Option(help="auto, cgroup2, cgroup1, affinity, none.")
    ] = "auto",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an existing loop.",
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Record, simulate, assess, calibrate, explore and confirm.

    The command first prints which programs it will run; `commands.txt` in the output folder lists
    all commands. `report.html` explains the result. An interrupted loop resumes when the same
    command is given again, without --overwrite. Exit status: 0 the first recommendation holds, 1
    it is reversed, 3 undecided.

    - `twinloop loop examples/demo/loop.yaml -o demo`
    """
    from twinloop.exploration import loop as run_loop

    with report_errors(json):
        if dry_run:
            from twinloop.exploration.closed_loop.run import preview_commands

            print_commands(preview_commands(plan), json)
            return
        if output is None:
            raise InputError("an output folder is needed", kind="missing-argument", remedy="-o DIR")
        with print_resume_hint(output, "without --overwrite" if overwrite else ""):
            result = run_loop(
                plan,
                output,
                traces=traces,
                isolation=isolation,
                overwrite=overwrite,
                say=_StepPrinter(),
            )
        page = output / "report.html"
        with show_status("writing the report"):
            from twinloop.report import write_loop_page

            write_loop_page(result, page)
        status = "not assessable" if result.confirmation is None else result.confirmation.status
        if json:
            print_json(_make_document(result, page, status))
        else:
            err.print()
            for line in result.lines:
                out.print(line, markup=False, soft_wrap=True)
            err.print()
            err.print(escape(f"Report: {page}"), soft_wrap=True)
    raise typer.Exit({"holds": 0, "reversed": 1}.get(status, 3))


class _StepPrinter:
    """Printer of the messages of a loop, with a heading when a step begins."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, text: str) -> None:
        if step != self._step:
            self._step = step
            err.print(f"\n[bold green]{STEPS[step]}[/]")
        err.print(escape(f"  {text}"), soft_wrap=True)


def _make_document(result: Any, page: Path, status: str) -> dict[str, Any]:
    return {
        "output": str(result.folder),
        "report": str(page),
        "lines": list(result.lines),
        "notes": list(result.notes),
        "before": result.before.status,
        "after": result.after.status,
        "unseen": None if result.unseen is None else result.unseen.status,
        "values": result.fit.values,
        "best": result.study.top(1, result.plan.by)[0].name,
        "status": status,
    }
