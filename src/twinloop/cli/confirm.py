"""`twinloop confirm`: run the recommendations of a study for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinloop import report
from twinloop.cli.console import err, escape, out
from twinloop.cli.log_options import read_trace
from twinloop.cli.output import Json, print_json, report_errors, show_status
from twinloop.cli.recording_options import DryRun, parse_duration, print_commands, print_resume_hint
from twinloop.cli.scenario_options import AllowCode, add_import_path
from twinloop.description.errors import InputError

#: Exit status by the verdict on the first recommendation.
EXIT_STATUS: Final = {"holds": 0, "reversed": 1, "tie": 3, "not assessable": 3, "not measured": 3}


def confirm(
    study: Annotated[Path, typer.Argument(help="Folder of a study.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the confirmation.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of configurations to run.")] = 3,
    by: Annotated[
        str | None,
        typer.Option(help="KPI; by default that of the study."),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Repetitions of each configuration.")] = 5,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for all runs: 2min."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write a bundle for another machine."),
    ] = None,
    traces: Annotated[Path | None, typer.Option(help="Read the runs of a bundle.")] = None,
    fitted_to: Annotated[
        list[Path] | None,
        typer.Option(help="A run used by the fit; repeatable.", metavar="RUN"),
    ] = None,
    diagnosis: Annotated[
        bool,
        typer.Option("--diagnosis/--no-diagnosis", help="Explain a wrong ranking."),
    ] = True,
    isolation: Annotated[
        str,
        typer.Option(help="auto, cgroup2, cgroup1, affinity, none."),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Random seed of the run order.")] = 0,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run the best configurations for real and compare.

    Each repetition runs the best configurations of a study and its baseline in random order. A
    recommendation holds if the 90 % confidence interval of its paired difference to the baseline
    excludes zero on the predicted side. Commands run as the current user, without a shell;
    `commands.txt` lists them. An interrupted confirmation resumes when the same command is given
    again. Exit status: 0 holds, 1 reversed, 3 undecided, 130 interrupted.

    - `twinloop confirm study -o confirmed`
    - `twinloop confirm study --top 1 --by wait_p95_s --budget 2min -o confirmed`
    - `twinloop confirm study --bundle bundle` (for another machine), then `--traces bundle`
    """
    from twinloop.exploration import Objective, Study

    with report_errors(json):
        if by is not None:
            Objective.of(by)
        if not dry_run:
            _check_outputs(output, bundle, traces)
        seconds = None if budget is None else parse_duration(budget, "--budget")
        add_import_path(allow_code)
        ranking = Study.load(study, allow_code=allow_code).top(top, by)
        if dry_run:
            from twinloop.exploration.confirmation.run import preview_commands

            print_commands(preview_commands(ranking, allow_code=allow_code), json)
            return
        if bundle is not None:
            _write_bundle(ranking, bundle, repetitions, seed, json)
            return
        runs = [read_trace(path, None, False) for path in fitted_to or ()]
        confirmation = _run_confirmation(
            ranking,
            output,
            repetitions=repetitions,
            budget=seconds,
            traces=traces,
            seed=seed,
            isolation=isolation,
            allow_code=allow_code,
            diagnose=diagnosis,
            fitted_to=runs,
        )
        if json:
            print_json({"output": None if output is None else str(output)} | confirmation.to_dict())
        else:
            out.print(str(confirmation), markup=False, soft_wrap=True)
    raise typer.Exit(EXIT_STATUS[confirmation.status])


def _check_outputs(output: Path | None, bundle: Path | None, traces: Path | None) -> None:
    """Raise an error unless the options name one valid combination of outputs."""
    if bundle is not None and (traces is not None or output is not None):
        other = "--traces" if traces is not None else "-o"
        raise InputError(f"--bundle and {other} exclude each other", kind="conflicting-options")
    if output is None and bundle is None and traces is None:
        raise InputError(
            "an output folder is needed", kind="missing-argument", remedy="-o confirmed"
        )


def _write_bundle(ranking: Any, folder: Path, repetitions: int, seed: int, json: bool) -> None:
    from twinloop.exploration.confirmation.bundles import bundle
    from twinloop.exploration.confirmation.plan import load_plan

    with show_status("copying"):
        bundle(ranking, folder, repetitions=repetitions, seed=seed)
    plan = load_plan(folder)
    runs = len(plan[0]["runs"]) if plan is not None else 0
    err.print(escape(f"wrote {folder}"), soft_wrap=True)
    if json:
        print_json({"bundle": str(folder), "runs": runs})
    else:
        text = f"{report.format_count(runs, 'run')} to execute: see {folder}/README.md"
        out.print(escape(text), soft_wrap=True)


def _run_confirmation(ranking: Any, output: Path | None, **options: Any) -> Any:
    from twinloop.exploration.confirmation.run import confirm as confirm_ranking
    from twinloop.report import write_confirmation_page

    with print_resume_hint(output), _show_progress() as progress:
        confirmation = confirm_ranking(
            ranking,
            folder=output,
            announce=lambda text: err.print(text, markup=False, soft_wrap=True),
            progress=progress,
            **options,
        )
    if output is not None:
        with show_status("writing the report"):
            write_confirmation_page(confirmation, output / "report.html")
        err.print(escape(f"wrote {output}"), soft_wrap=True)
    return confirmation


@contextmanager
def _show_progress() -> Iterator[Callable[[Any], None]]:
    """Show the progress: a bar on a terminal, otherwise a line per run."""
    if not err.is_terminal:
        yield _make_line_printer()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("running", total=1.0, state="")

        def update(state: Any) -> None:
            remaining = (
                "" if state.left is None else f", about {report.format_duration(state.left)} left"
            )
            run_share = 0.0
            if state.moment is not None and state.moment.tasks:
                run_share = state.moment.over / state.moment.tasks
            bar.update(
                task,
                description=escape(f"{state.name}, repetition {state.repetition}"),
                completed=(state.done + run_share) / state.planned,
                state=f"{state.done} of {state.planned} runs{remaining}",
            )

        yield update


def _make_line_printer() -> Callable[[Any], None]:
    last = 0

    def update(state: Any) -> None:
        nonlocal last
        if state.done > last:
            last = state.done
            text = (
                f"{state.done} of {state.planned} runs: {state.name}, repetition {state.repetition}"
            )
            err.print(text, markup=False, soft_wrap=True)

    return update
