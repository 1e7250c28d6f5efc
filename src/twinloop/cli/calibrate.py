"""`twinloop calibrate`: fit the simulator to real runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import Json, err, escape, out, print_json, speaking, working
from twinloop.cli.recording_options import DryRun, going_on, print_commands
from twinloop.cli.scenario_options import AllowCode, find_code
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.calibration import Bench
    from twinloop.execution.task_commands import Survey
    from twinloop.trace import Trace


class HoldOut(StrEnum):
    """By what runs are told apart."""

    run = "run"
    size = "size"
    time = "time"


Real = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders of recorded runs, or logs with --scenario.", show_default=False),
]


def calibrate(
    real: Real = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to keep it in.")
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help="The values to move and their ranges, in YAML.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Evaluations, or a time: 2000, 60s.")] = "2000",
    scenario: Annotated[
        Path | None, typer.Option(help="What was run, if the runs do not say it themselves.")
    ] = None,
    validate: Annotated[
        list[Path] | None, typer.Option(help="A run to hold out. May be given several times.")
    ] = None,
    hold_out: Annotated[
        HoldOut | None, typer.Option(help="Hold some of the runs out, and validate on them.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="What is made small: a loss by its name; else matched.")
    ] = None,
    aggregate: Annotated[
        str | None, typer.Option(help="Over several scenarios: avg or max.")
    ] = None,
    optimiser: Annotated[str, typer.Option(help="Who searches.")] = "auto",
    choose: Annotated[
        bool,
        typer.Option(
            "--choose", help="First find out which loss and which optimiser do best here."
        ),
    ] = False,
    analysis: Annotated[
        int | None,
        typer.Option(
            help="Evaluations to spend on what the data can tell; 0: none. By default by the "
            "size of the runs, and none for a black box."
        ),
    ] = None,
    criteria: Annotated[
        Path | None, typer.Option(help="The thresholds of the verdicts, in YAML.")
    ] = None,
    black_box: Annotated[
        Path | None,
        typer.Option(help="A foreign simulator and what was measured, in YAML, in place of runs."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Where to simulate: runs on threads here, a black box on processes, unless it "
            "is said: processes, threads, dask, or tls://HOST:PORT."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many at the same time.")] = None,
    seed: Annotated[int, typer.Option(help="Where all randomness starts.")] = 0,
    strict: Strict = False,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Fit the simulator to real runs: find the values with which it is most like them.

    Every run carries the scenario that it was made from; that is simulated with the work that was
    declared. Runs of one scenario count as repetitions. Writes into the folder: `scenario.yaml`
    with the fitted model (one for each scenario), `fit.json` with every value, `report.html` and
    `report.md`, and what was tried; with --choose also `choice.csv`, how near each loss and
    optimiser came. Nothing is overwritten. One that was interrupted, even by kill -9, goes on when
    the same command is given again. With --black-box `commands.txt` in the folder has every
    distinct command that is run, with parameters in braces, and --dry-run prints them.

    Keys of --json: `output`, and those of `fit.json`: `twinloop` (the version), `values`,
    `defaults` (the values before), `loss`, `loss_before`, `validation_loss`, `floor`, `loss_name`,
    `aggregation`, `optimiser`, `seed`, `evaluations`, `failed`, `seconds`, `asked` (parameters with
    their ranges, budget, optimiser, analysis, criteria), `noise`, `runs` (name, manifest_sha256,
    used, mode, tasks, injected), `identifiability`, `verdicts` (before, after), `recipe`,
    `warnings`, `scenarios`. With --dry-run: those of `twinloop execute --dry-run`.

    Examples: `twinloop calibrate runs/first runs/second -o fit`, `twinloop calibrate runs/a
    --params params.yaml --budget 60s --validate runs/b -o fit`, `twinloop calibrate --black-box
    box.yaml --params params.yaml -o fit`.
    """
    from twinloop.calibration import Bench
    from twinloop.calibration.fit import JOURNAL, refuse_kept

    with speaking(json):
        if dry_run:
            if black_box is None:
                raise InputError("--dry-run is for --black-box: a fit to runs runs no command")
            print_commands({"": _survey(Bench.load(black_box))}, json)
            return
        if output is None:
            raise InputError("there is no folder to keep the fit in", remedy="-o fit")
        refuse_kept(output)
        if (output / JOURNAL).exists():
            err.print(escape(f"goes on from {output / JOURNAL}"), soft_wrap=True)
        find_code(allow_code)
        if black_box is not None:
            for option, given in {
                "REAL": real, "--scenario": scenario, "--validate": validate, "--loss": loss,
                "--hold-out": hold_out, "--choose": choose, "--criteria": criteria,
            }.items():  # fmt: skip
                if given:
                    raise InputError(
                        f"{option} is for runs; a black box is held against what its file says"
                    )
            fit = _foreign(
                black_box,
                params,
                output,
                how=aggregate or "avg",
                optimiser=optimiser,
                budget=budget,
                seed=seed,
                analysis=analysis or 0,
                on=on,
                workers=workers,
            )
        else:
            fit = _ours(
                _read(real or [], strict),
                _read(validate or [], strict),
                hold_out,
                output,
                parameters=params,
                scenario=scenario,
                loss=loss or "matched",
                how=aggregate,
                optimiser=optimiser,
                budget=budget,
                seed=seed,
                criteria=criteria,
                analysis=analysis,
                on=on,
                **{"threads" if on is None else "workers": workers},
                allow_code=allow_code,
                choose=choose,
            )
        err.print(escape(f"wrote {output}"), soft_wrap=True)
        if json:
            print_json({"output": str(output)} | fit.to_dict())
        else:
            out.print(str(fit), markup=False, soft_wrap=True)


def _read(paths: list[Path], strict: bool) -> dict[str, Trace]:
    found = {}
    for path in paths:
        if str(path) in found:
            raise InputError("is given twice", file=path)
        found[str(path)] = read_trace(path, None, strict)
    return found


def _written(output: Path, choice: Any = None) -> Callable[[Any], None]:
    """Writes the reports into the folder, and how loss and optimiser were chosen, if they were."""

    def write(fit: Any) -> None:
        from twinloop.description.files import writing
        from twinloop.report import write_calibration_page

        if choice is not None:
            with writing(output / "choice.csv") as stream:
                choice.table.write_csv(stream)
        with working("drawing"):
            with writing(output / "report.md") as stream:
                stream.write(fit.markdown().encode())
            write_calibration_page(fit, output / "report.html")

    return write


def _ours(
    runs: dict[str, Trace],
    held_out: dict[str, Trace],
    by: HoldOut | None,
    output: Path,
    *,
    choose: bool,
    **options: Any,
) -> Any:
    from twinloop.calibration import calibrate as fit_to
    from twinloop.calibration import chosen, hold_out

    if twice := sorted(runs.keys() & held_out.keys()):
        raise InputError("is fitted to, so it cannot be held out", file=twice[0])
    if not runs:
        raise InputError("there is no run to fit to", remedy="twinloop calibrate runs/first -o fit")
    if by is not None:
        if held_out:
            raise InputError("--hold-out and --validate cannot stand beside each other")
        split = hold_out(list(runs.values()), by=by.value, seed=options["seed"])
        called = {id(trace): name for name, trace in runs.items()}
        runs = {called.get(id(t), f"early part of {i + 1}"): t for i, t in enumerate(split.train)}
        held_out = {
            called.get(id(t), f"late part of {i + 1}"): t for i, t in enumerate(split.validation)
        }
    ranking = None
    if choose:
        with working("trying losses and optimisers on hidden values"):
            ranking = chosen(
                list(runs.values()),
                parameters=options["parameters"],
                scenario=options["scenario"],
                seed=options["seed"],
            )
        err.print(str(ranking), markup=False, soft_wrap=True)
        options["loss"], options["optimiser"] = ranking.best
    with going_on(output), _progress() as told:
        return fit_to(
            list(runs.values()),
            validation=list(held_out.values()),
            names=[*runs, *held_out],
            folder=output,
            progress=told,
            report=_written(output, ranking),
            **options,
        )


def _foreign(path: Path, params: Path | None, output: Path, **options: Any) -> Any:
    from twinloop.calibration import Bench, calibrate_black_box
    from twinloop.description.safe_text import escape_name
    from twinloop.execution.announcement import write_commands

    bench = Bench.load(path)
    space = bench.space if params is None else params
    if space is None:
        raise InputError(
            "nobody said which values to move", field="parameters", remedy="--params params.yaml"
        )
    said = escape_name(f"runs {bench.black_box.describe()}")
    err.print(said, markup=False, soft_wrap=True)
    file = write_commands(output, {"": _survey(bench)})
    err.print(f"every command: {escape_name(str(file))}", markup=False, soft_wrap=True)
    with going_on(output), _progress() as told:
        return calibrate_black_box(
            bench.black_box,
            bench.experiments,
            space,
            folder=output,
            progress=told,
            report=_written(output),
            **options,
        )


def _survey(bench: Bench) -> Survey:
    return bench.black_box.survey(each.case for each in bench.experiments)


@contextmanager
def _progress() -> Iterator[Callable[[str, Any], None] | None]:
    """A bar with the time left for whoever watches, a line now and then for a log."""
    if not err.is_terminal:
        yield _lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("searching", total=1.0, said="")

        def told(what: str, at: Any) -> None:
            said = f"{at.evaluations:,} tried, best {at.best:.4g}"
            # Whoever sees a full bar should know what they wait for.
            doing = what if at.share < 1.0 else "looking at what the data can tell"
            bar.update(task, description=doing, completed=at.share, said=said)

        yield told


def _lines() -> Callable[[str, Any], None]:
    last = 0.0

    def told(what: str, at: Any) -> None:
        nonlocal last
        if at.seconds - last >= 10.0 or at.share >= 1.0:
            last = at.seconds
            err.print(f"{what}: {at.evaluations:,} tried, best {at.best:.4g} ({at.share:.0%})")

    return told
