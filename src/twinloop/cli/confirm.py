"""`twinloop confirm`: run what a study recommends for real, and say what holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinloop import report
from twinloop.cli.log_options import read_trace
from twinloop.cli.output import Json, err, escape, out, print_json, speaking, working
from twinloop.cli.recording_options import DryRun, duration, going_on, print_commands
from twinloop.cli.scenario_options import AllowCode, find_code
from twinloop.description.errors import InputError

#: What the command ends with, by the verdict on the first recommendation.
STATUS: Final = {"holds": 0, "reversed": 1, "tie": 3, "not assessable": 3, "not measured": 3}


def confirm(
    study: Annotated[Path, typer.Argument(help="The folder of a study.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to keep it in.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the best to run.")] = 3,
    by: Annotated[
        str | None,
        typer.Option(help="The KPI that they are the best by; what the study is by if not said."),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="How often each is run.")] = 5,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for all runs: as many repetitions as fit, but at least two: 2min."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Run nothing: write into this folder what to run on another machine."),
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(help="Run nothing: read what came back of such a folder.")
    ] = None,
    fitted_to: Annotated[
        list[Path] | None,
        typer.Option(help="A run that the study's fit was made on. May be given several times."),
    ] = None,
    diagnosis: Annotated[
        bool,
        typer.Option("--diagnosis/--no-diagnosis", help="Look for the cause of a wrong order."),
    ] = True,
    isolation: Annotated[
        str,
        typer.Option(
            help="What keeps tasks to their nodes: auto, cgroup2, cgroup1, affinity, none."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Where the randomness of the order starts.")] = 0,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run the best of a study and its baseline for real, and say which recommendation holds.

    It says first what it will run; the commands of the tasks run as you, without a shell.
    `commands.txt` in the folder has every distinct command, and --dry-run prints them. Each
    repetition runs all of them, in a random order. A recommendation holds if the 90 % interval of
    the difference to the baseline, repetition by repetition, excludes zero on the predicted side;
    it is reversed if on the other, and else a tie. If two that really differ were ranked the wrong
    way round, it looks for the option of the model that would have ranked them right. One that was
    interrupted, even by kill -9, goes on when the same command is given again.

    Without the platform at hand, `--bundle` writes what to run there, and `--traces` reads what
    came back, also logs of another scheduler.

    Keys of --json: `output`, and those of `confirmation.json`: `twinloop` (the version), `by`,
    `status` (of the first recommendation), `seed`, `repetitions`, `metrics`, `recommendations`
    (candidate, against, metric, predicted, real, low, high, verdict, probability, unsupported,
    sentence), `table`, `ranks`, `pairs`, `notes`, `diagnosis`, `candidates`, `baseline`. With
    --bundle: `bundle` and `runs`. With --dry-run: those of `twinloop execute --dry-run`.

    Ends with 0 if the first recommendation holds, with 1 if it is reversed, with 3 if nobody can
    tell, with 130 if you interrupted it.

    Examples: `twinloop confirm study -o confirmed`, `twinloop confirm study --top 1 --by
    wait_p95_s --repetitions 3 --budget 2min -o confirmed`, `twinloop confirm study --bundle
    bundle`, then there `./run.sh`, then here `twinloop confirm study --traces bundle`.
    """
    from twinloop.exploration import Objective, Study

    with speaking(json):
        if by is not None:
            Objective.of(by)
        if not dry_run:
            _refuse_both(output, bundle, traces)
        seconds = None if budget is None else duration(budget, "--budget")
        find_code(allow_code)
        ranking = Study.load(study, allow_code=allow_code).top(top, by)
        if dry_run:
            from twinloop.exploration.confirmation.run import preview

            print_commands(preview(ranking, allow_code=allow_code), json)
            return
        if bundle is not None:
            _bundled(ranking, bundle, repetitions, seed, json)
            return
        runs = [read_trace(path, None, False) for path in fitted_to or ()]
        found = _confirmed(
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
            print_json({"output": None if output is None else str(output)} | found.to_dict())
        else:
            out.print(str(found), markup=False, soft_wrap=True)
    raise typer.Exit(STATUS[found.status])


def _refuse_both(output: Path | None, bundle: Path | None, traces: Path | None) -> None:
    if bundle is not None and (traces is not None or output is not None):
        other = "--traces" if traces is not None else "-o"
        raise InputError(f"--bundle runs nothing, so {other} cannot stand beside it")
    if output is None and bundle is None and traces is None:
        raise InputError("there is no folder to keep the runs in", remedy="-o confirmed")


def _bundled(ranking: Any, folder: Path, repetitions: int, seed: int, json: bool) -> None:
    from twinloop.exploration.confirmation.bundles import bundle
    from twinloop.exploration.confirmation.plan import kept_plan

    with working("copying"):
        bundle(ranking, folder, repetitions=repetitions, seed=seed)
    kept = kept_plan(folder)
    runs = len(kept[0]["runs"]) if kept is not None else 0
    err.print(escape(f"wrote {folder}"), soft_wrap=True)
    if json:
        print_json({"bundle": str(folder), "runs": runs})
    else:
        said = f"{report.format_count(runs, 'run')} to make there: {folder}/README.md says how"
        out.print(escape(said), soft_wrap=True)


def _confirmed(ranking: Any, output: Path | None, **options: Any) -> Any:
    from twinloop.exploration.confirmation.run import confirm as confirm_ranking
    from twinloop.report import write_confirmation_page

    with going_on(output), _progress() as told:
        found = confirm_ranking(
            ranking,
            folder=output,
            announce=lambda text: err.print(text, markup=False, soft_wrap=True),
            progress=told,
            **options,
        )
    if output is not None:
        with working("drawing"):
            write_confirmation_page(found, output / "report.html")
        err.print(escape(f"wrote {output}"), soft_wrap=True)
    return found


@contextmanager
def _progress() -> Iterator[Callable[[Any], None]]:
    """A bar with what runs and the time left for whoever watches, a line per run for a log."""
    if not err.is_terminal:
        yield _lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("running", total=1.0, said="")

        def told(at: Any) -> None:
            left = "" if at.left is None else f", about {report.format_duration(at.left)} left"
            inside = 0.0
            if at.moment is not None and at.moment.tasks:
                inside = at.moment.over / at.moment.tasks
            bar.update(
                task,
                description=escape(f"{at.name}, repetition {at.repetition}"),
                completed=(at.done + inside) / at.planned,
                said=f"{at.done} of {at.planned} runs{left}",
            )

        yield told


def _lines() -> Callable[[Any], None]:
    last = 0

    def told(at: Any) -> None:
        nonlocal last
        if at.done > last:
            last = at.done
            said = f"{at.done} of {at.planned} runs: {at.name}, repetition {at.repetition}"
            err.print(said, markup=False, soft_wrap=True)

    return told
