"""`twinloop loop`: record, simulate, judge, fit, explore, confirm: all in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop.cli.output import Json, err, escape, out, print_json, speaking, working
from twinloop.cli.recording_options import DryRun, going_on, print_commands
from twinloop.description.errors import InputError

#: What each step is, for whoever watches.
STEPS = {
    "run": "Run it for real",
    "probe": "Probe: what does sharing cost",
    "check": "Check what was recorded",
    "simulate": "Simulate the same",
    "assess": "Judge the twin",
    "calibrate": "Fit the twin",
    "explore": "Explore what-ifs",
    "confirm": "Confirm the best for real",
}


def loop(
    plan: Annotated[Path, typer.Argument(help="What to do, in YAML.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to keep it in.")
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(help="Run nothing; take what an earlier loop recorded in this folder."),
    ] = None,
    isolation: Annotated[
        str, typer.Option(help="auto, cgroup2, cgroup1, affinity or none.")
    ] = "auto",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace a loop that is in the folder, once the plan and all inputs are checked; "
            "never other files.",
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Go round the whole loop: run a scenario for real, simulate it, judge the twin, fit it,
    explore what-ifs, and run the best of them for real.

    It says first which programs it will run; `commands.txt` in the folder has every distinct
    command, and --dry-run prints them. Writes everything into the folder, and `report.html`,
    which explains it. A loop that was interrupted goes on when the same command is given again,
    without --overwrite. The exit status is 0 if the first recommendation holds, 1 if it is
    reversed, 3 if the measurements do not decide it.

    Keys of --json: `output`, `report`, `lines` (five sentences), `notes`, `before`, `after`,
    `unseen` (statuses of the verdicts), `values` (what was fitted), `best` (name), `status`. With
    --dry-run: those of `twinloop execute --dry-run`.

    Examples: `twinloop loop examples/demo/loop.yaml -o demo`, `twinloop loop
    examples/demo/loop.yaml --traces examples/demo/recorded -o demo`.
    """
    from twinloop.exploration import loop as going

    with speaking(json):
        if dry_run:
            from twinloop.exploration.closed_loop.run import preview

            print_commands(preview(plan), json)
            return
        if output is None:
            raise InputError("there is no folder to keep the loop in", remedy="-o DIR")
        with going_on(output, "without --overwrite" if overwrite else ""):
            made = going(
                plan,
                output,
                traces=traces,
                isolation=isolation,
                overwrite=overwrite,
                say=_Said(),
            )
        page = output / "report.html"
        with working("drawing"):
            from twinloop.report import write_loop_page

            write_loop_page(made, page)
        status = "not assessable" if made.confirmation is None else made.confirmation.status
        if json:
            print_json(_told(made, page, status))
        else:
            err.print()
            for line in made.lines:
                out.print(line, markup=False, soft_wrap=True)
            err.print()
            err.print(escape(f"Open {page} in a browser: it shows all of this."), soft_wrap=True)
    raise typer.Exit({"holds": 0, "reversed": 1}.get(status, 3))


class _Said:
    """Prints a heading when a step begins, and what it says below."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, text: str) -> None:
        if step != self._step:
            self._step = step
            err.print(f"\n[bold green]{STEPS[step]}[/]")
        err.print(escape(f"  {text}"), soft_wrap=True)


def _told(made: Any, page: Path, status: str) -> dict[str, Any]:
    return {
        "output": str(made.folder),
        "report": str(page),
        "lines": list(made.lines),
        "notes": list(made.notes),
        "before": made.before.status,
        "after": made.after.status,
        "unseen": None if made.unseen is None else made.unseen.status,
        "values": made.fit.values,
        "best": made.study.top(1, made.plan.by)[0].name,
        "status": status,
    }
