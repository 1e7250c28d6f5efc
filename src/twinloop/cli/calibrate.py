"""`twinloop calibrate`: fit the simulator to real runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop.cli.calibrate_levels import compare_levels, refuse_options
from twinloop.cli.console import err, escape, out
from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import Json, print_json, report_errors, require_positive, show_status
from twinloop.cli.recording_options import DryRun, print_commands, print_resume_hint
from twinloop.cli.scenario_options import AllowCode, add_import_path
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.calibration import BlackBoxCalibration
    from twinloop.execution.task_commands import CommandSurvey
    from twinloop.trace import Trace


class HoldOut(StrEnum):
    """How runs are divided into training and validation data."""

    run = "run"
    size = "size"
    time = "time"


Real = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Recorded runs, or logs with --scenario; with --client also folders, patterns.",
        show_default=False,
    ),
]


def calibrate(
    context: typer.Context,
    real: Real = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the fit.")
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help="Parameters and their ranges, in YAML.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Evaluations, or a duration: 60s.")] = "2000",
    scenario: Annotated[Path | None, typer.Option(help="The scenario of runs without one.")] = None,
    validate: Annotated[
        list[Path] | None, typer.Option(help="A run for validation; repeatable.", metavar="RUN")
    ] = None,
    hold_out: Annotated[HoldOut | None, typer.Option(help="Hold out runs for validation.")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss to minimise. \\[default: matched]")] = None,
    aggregate: Annotated[
        str | None, typer.Option(help="Aggregate over scenarios: avg or max.")
    ] = None,
    optimiser: Annotated[str, typer.Option(help="Optimiser.")] = "auto",
    choose: Annotated[
        bool,
        typer.Option("--choose", help="Select loss and optimiser."),
    ] = False,
    analysis: Annotated[
        int | None,
        typer.Option(help="Evaluations for the identifiability analysis."),
    ] = None,
    criteria: Annotated[
        Path | None, typer.Option(help="Criteria of the verdicts, in YAML.")
    ] = None,
    black_box: Annotated[
        Path | None,
        typer.Option(help="An external simulator, in YAML."),
    ] = None,
    client: Annotated[
        bool,
        typer.Option("--client", help="Fit boots and errors of predictions to executions."),
    ] = False,
    unit: Annotated[
        str | None, typer.Option(help="With --client: the unit of billing. \\[default: 1h]")
    ] = None,
    levels: Annotated[
        Path | None,
        typer.Option(help="Levels of detail to compare, in YAML."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Searches of each version. \\[default: 3]")
    ] = None,
    spec_sheet: Annotated[
        Path | None, typer.Option(help="Values to compare with --levels.")
    ] = None,
    warm_start: Annotated[
        bool,
        typer.Option("--warm-start", help="Search also from other versions."),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(help="threads, processes, dask, tls://H:P."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of workers.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    strict: Strict = False,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Fit the simulator to real runs.

    The scenario of each run is simulated with its declared work; runs of one scenario are
    repetitions. The output folder gets `scenario.yaml` with the fitted model, `fit.json`,
    `report.html` and `report.md`. An interrupted calibration resumes when the same command is
    given again. With --client it gets `models.yaml`, `models.json` and, with --scenario,
    `scenario.yaml` with the models; with --levels the tables of all versions.

    - `twinloop calibrate runs/first runs/second -o fit`
    - `twinloop calibrate runs/a --params params.yaml --budget 60s --validate runs/b -o fit`
    - `twinloop calibrate --black-box box.yaml --params params.yaml -o fit`
    - `twinloop calibrate --client runs --scenario cloud.yaml -o fit`
    - `twinloop calibrate runs/a --levels levels.yaml --validate runs/b -o detail`
    """
    from twinloop.calibration import BlackBoxCalibration
    from twinloop.calibration.fit import JOURNAL, refuse_existing

    with report_errors(json):
        if client:
            from twinloop.cli.calibrate_client import fit_client

            fit_client(
                context,
                real or [],
                output,
                scenario=scenario,
                unit=unit,
                strict=strict,
                json=json,
            )
            return
        if unit is not None:
            raise InputError("--unit applies to --client", kind="inapplicable-option")
        if dry_run:
            if black_box is None:
                raise InputError(
                    "--dry-run applies to --black-box: a fit to runs starts no command",
                    kind="inapplicable-option",
                )
            print_commands({"": _survey_commands(BlackBoxCalibration.load(black_box))}, json)
            return
        if output is None:
            raise InputError("an output folder is needed", kind="missing-argument", remedy="-o fit")
        require_positive(workers=workers)
        if levels is not None:
            refuse_options(
                "a fit of one model, not to --levels",
                choose=choose,
                black_box=black_box,
                criteria=criteria,
            )
            add_import_path(allow_code)
            training, held_out = _divide_runs(
                _read_runs(real or [], strict), _read_runs(validate or [], strict), hold_out, seed
            )
            compare_levels(
                training,
                held_out,
                levels,
                output,
                seed=seed,
                seeds=3 if seeds is None else seeds,
                workers=workers,
                json=json,
                parameters=params,
                scenario=scenario,
                loss=loss or "matched",
                aggregate=aggregate,
                optimiser=optimiser,
                budget=budget,
                analysis=analysis,
                spec_sheet=spec_sheet,
                warm_start=warm_start,
                on=on,
                allow_code=allow_code,
            )
            return
        refuse_options("--levels", seeds=seeds, spec_sheet=spec_sheet, warm_start=warm_start)
        refuse_existing(output)
        if (output / JOURNAL).exists():
            err.print(escape(f"resuming from {output / JOURNAL}"), soft_wrap=True)
        add_import_path(allow_code)
        if black_box is not None:
            for option, given in {
                "REAL": real, "--scenario": scenario, "--validate": validate, "--loss": loss,
                "--hold-out": hold_out, "--choose": choose, "--criteria": criteria,
            }.items():  # fmt: skip
                if given:
                    raise InputError(
                        f"{option} applies to recorded runs, not to --black-box",
                        kind="inapplicable-option",
                    )
            fit = _fit_black_box(
                black_box,
                params,
                output,
                aggregate=aggregate or "avg",
                optimiser=optimiser,
                budget=budget,
                seed=seed,
                analysis=analysis or 0,
                on=on,
                workers=workers,
            )
        else:
            fit = _fit_runs(
                _read_runs(real or [], strict),
                _read_runs(validate or [], strict),
                hold_out,
                output,
                parameters=params,
                scenario=scenario,
                loss=loss or "matched",
                aggregate=aggregate,
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


def _read_runs(paths: list[Path], strict: bool) -> dict[str, Trace]:
    """Read runs, by their paths; a path that occurs twice is an error."""
    runs = {}
    for path in paths:
        if str(path) in runs:
            raise InputError("is given twice", kind="repeated-run", file=path)
        runs[str(path)] = read_trace(path, None, strict)
    return runs


def _divide_runs(
    runs: dict[str, Trace], held_out: dict[str, Trace], by: HoldOut | None, seed: int
) -> tuple[dict[str, Trace], dict[str, Trace]]:
    """Divide runs into those of the fit and those of the validation, by their names."""
    from twinloop.calibration import hold_out

    if duplicates := sorted(runs.keys() & held_out.keys()):
        raise InputError(
            "is training data, so it cannot be validation data",
            kind="training-data",
            file=duplicates[0],
        )
    if not runs:
        raise InputError(
            "at least one run is needed",
            kind="missing-argument",
            remedy="twinloop calibrate runs/first -o fit",
        )
    if by is not None:
        if held_out:
            raise InputError(
                "--hold-out and --validate exclude each other", kind="conflicting-options"
            )
        split = hold_out(list(runs.values()), by=by.value, seed=seed)
        names = {id(trace): name for name, trace in runs.items()}
        runs = {names.get(id(t), f"early part of {i + 1}"): t for i, t in enumerate(split.train)}
        held_out = {
            names.get(id(t), f"late part of {i + 1}"): t for i, t in enumerate(split.validation)
        }
    return runs, held_out


def _make_report_writer(output: Path, choice: Any = None) -> Callable[[Any], None]:
    """Make the function that writes the reports into the output folder."""

    def write(fit: Any) -> None:
        from twinloop.description.files import write_atomically
        from twinloop.report import write_calibration_page

        if choice is not None:
            with write_atomically(output / "choice.csv") as stream:
                choice.table.write_csv(stream)
        with show_status("writing the report"):
            with write_atomically(output / "report.md") as stream:
                stream.write(fit.markdown().encode())
            write_calibration_page(fit, output / "report.html")

    return write


def _fit_runs(
    runs: dict[str, Trace],
    held_out: dict[str, Trace],
    by: HoldOut | None,
    output: Path,
    *,
    choose: bool,
    **options: Any,
) -> Any:
    from twinloop.calibration import calibrate as fit_to
    from twinloop.calibration import rank_losses_and_optimisers

    runs, held_out = _divide_runs(runs, held_out, by, options["seed"])
    ranking = None
    if choose:
        with show_status("selecting loss and optimiser on synthetic data"):
            ranking = rank_losses_and_optimisers(
                list(runs.values()),
                parameters=options["parameters"],
                scenario=options["scenario"],
                seed=options["seed"],
            )
        err.print(str(ranking), markup=False, soft_wrap=True)
        options["loss"], options["optimiser"] = ranking.best
    with print_resume_hint(output), _show_progress() as progress:
        return fit_to(
            list(runs.values()),
            validation=list(held_out.values()),
            names=[*runs, *held_out],
            folder=output,
            progress=progress,
            report=_make_report_writer(output, ranking),
            **options,
        )


def _fit_black_box(path: Path, params: Path | None, output: Path, **options: Any) -> Any:
    from twinloop.calibration import BlackBoxCalibration, calibrate_black_box
    from twinloop.description.safe_text import escape_name
    from twinloop.execution.announcement import write_commands

    calibration = BlackBoxCalibration.load(path)
    space = calibration.space if params is None else params
    if space is None:
        raise InputError(
            "the parameters to fit are missing",
            kind="missing-argument",
            field="parameters",
            remedy="--params params.yaml",
        )
    text = escape_name(f"runs {calibration.black_box.describe()}")
    err.print(text, markup=False, soft_wrap=True)
    file = write_commands(output, {"": _survey_commands(calibration)})
    err.print(f"every command: {escape_name(str(file))}", markup=False, soft_wrap=True)
    with print_resume_hint(output), _show_progress() as progress:
        return calibrate_black_box(
            calibration.black_box,
            calibration.experiments,
            space,
            folder=output,
            progress=progress,
            report=_make_report_writer(output),
            **options,
        )


def _survey_commands(calibration: BlackBoxCalibration) -> CommandSurvey:
    return calibration.black_box.survey(each.case for each in calibration.experiments)


@contextmanager
def _show_progress() -> Iterator[Callable[[str, Any], None] | None]:
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
        task = bar.add_task("searching", total=1.0, state="")

        def update(step: str, state: Any) -> None:
            text = f"{state.evaluations:,} tried, best {state.best:.4g}"
            # After the search, the analysis of identifiability and uncertainty still takes time.
            shown_step = step if state.share < 1.0 else "analysing identifiability"
            bar.update(task, description=shown_step, completed=state.share, state=text)

        yield update


def _make_line_printer() -> Callable[[str, Any], None]:
    last = 0.0

    def update(step: str, state: Any) -> None:
        nonlocal last
        if state.seconds - last >= 10.0 or state.share >= 1.0:
            last = state.seconds
            text = f"{state.evaluations:,} tried, best {state.best:.4g} ({state.share:.0%})"
            err.print(f"{step}: {text}")

    return update
