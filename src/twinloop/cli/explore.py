"""`twinloop explore`: simulate all combinations of factor levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop import report
from twinloop.cli.console import err, escape, out
from twinloop.cli.explore_executions import (
    is_over_executions,
    load_execution_study,
    print_execution_study,
    run_execution_study,
)
from twinloop.cli.output import Json, print_json, report_errors, require_positive, show_status
from twinloop.cli.recording_options import print_resume_hint
from twinloop.cli.scenario_options import AllowCode, add_import_path
from twinloop.cli.study_progress import show_study_progress
from twinloop.description.errors import InputError

#: Exit status if runs failed.
INCOMPLETE = 1
#: Number of different reasons of failures that are printed.
MAX_REASONS = 3


def explore(
    scenario: Annotated[
        Path,
        typer.Argument(
            help="A scenario, a file of factors that names one, or the folder of a study."
        ),
    ],
    factors: Annotated[
        Path | None, typer.Argument(help="Factors and levels, in YAML.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the study.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="Folder of a calibration: values and uncertainty.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="KPI to rank by. \\[default: makespan_s]")] = None,
    top: Annotated[int, typer.Option(help="Number of best configurations to list.")] = 3,
    on: Annotated[
        str | None,
        typer.Option(help="threads, processes, serial, dask, tls://H:P."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of workers.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat failed runs.")] = False,
    allow_code: AllowCode = False,
    json: Json = False,
) -> None:
    """Simulate all combinations of factor levels and rank them.

    The output folder gets a table of all runs, a table of all configurations and `report.html`.
    The same command runs only what is missing. With a study's folder alone the command shows its
    state. Factors `run` and `inject` simulate recorded executions again and compute the errors.
    Exit status: 0, 1 if runs failed, 2 if nothing can be run or ranked.

    - `twinloop explore scenario.yaml factors.yaml -o study`
    - `twinloop explore examples/what-if.yaml -o study`
    - `twinloop explore scenario.yaml factors.yaml -o study --fit fit --by wait_p95_s`
    - `twinloop explore executions.yaml -o study`
    - `twinloop explore study`
    """
    from twinloop.exploration import Objective
    from twinloop.exploration.study.study import MANIFEST

    with report_errors(json):
        require_positive(top=top, workers=workers)
        if by is not None:
            Objective.of(by)
        is_stored = (scenario / MANIFEST).is_file() and factors is None
        if is_stored:
            _refuse_options(
                "a new study", "name a scenario and the factors", output=output, fit=fit
            )
        options: dict[str, Any] = {"on": on, "workers": workers, "retry": retry}
        options["allow_code"] = allow_code
        if is_over_executions(scenario, factors, is_stored=is_stored):
            _refuse_options("other studies", "leave it out", by=by, fit=fit)
            study = (
                load_execution_study(scenario)
                if is_stored
                else run_execution_study(scenario, factors, output, **options)
            )
            print_execution_study(study, top, json=json)
        else:
            study = (
                _load_study(scenario, by)
                if is_stored
                else _run_study(scenario, factors, output, fit, by=by or "makespan_s", **options)
            )
            _print_study(study, top, json=json)
    if not is_stored and study.failed:
        _print_failures(study)
        raise typer.Exit(INCOMPLETE)


def _load_study(folder: Path, by: str | None) -> Any:
    from twinloop.exploration import Study

    study = Study.load(folder)
    return study if by is None else replace(study, by=by)


def _print_study(study: Any, top: int, *, json: bool) -> None:
    """Print a study and its best configurations."""
    from twinloop.exploration.study.text import study_to_text

    _check_objective(study)
    if json:
        print_json(_make_document(study, top))
    else:
        out.print(study_to_text(study, top), markup=False, soft_wrap=True)


def _print_failures(study: Any) -> None:
    """Print how many runs failed, and the first reasons."""
    runs = report.format_count(study.planned, "run")
    err.print(f"{study.failed:,} of {runs} failed; --retry repeats them:")
    for reason in study.errors[:MAX_REASONS]:
        err.print(escape(f"  {reason}"), soft_wrap=True)
    if len(study.errors) > MAX_REASONS:
        err.print(f"  and {len(study.errors) - MAX_REASONS:,} other reasons: see runs.csv")


def _check_objective(study: Any) -> None:
    """Raise an error if runs have ended and none has the requested KPI."""
    from twinloop.exploration import Objective

    kpi = Objective.of(study.by).kpi
    if study.kpis and kpi not in study.kpis:
        why = study.why_unknown(kpi) or f"they have: {', '.join(study.kpis)}"
        raise InputError(f"no run can be ranked by {kpi}: {why}", kind="not-ranked", field="--by")


def _refuse_options(applicable: str, remedy: str, **options: Any) -> None:
    """Raise an error if an option is given that applies to other arguments."""
    for name, given in options.items():
        if given is not None:
            raise InputError(
                f"--{name} applies to {applicable}", kind="inapplicable-option", remedy=remedy
            )


def _run_study(
    scenario: Path,
    factors: Path | None,
    output: Path | None,
    fit: Path | None,
    *,
    allow_code: bool,
    **options: Any,
) -> Any:
    from twinloop.exploration import explore as run_study
    from twinloop.exploration.factors.design import read_design
    from twinloop.report import write_study_page

    if factors is None:
        factors, design = scenario, read_design(scenario)
        if design.scenario is None:
            raise InputError(
                "names no scenario",
                kind="missing-argument",
                file=factors,
                field="scenario",
                remedy="twinloop explore scenario.yaml factors.yaml -o study",
            )
        scenario = Path(design.scenario)
    if output is None:
        raise InputError("an output folder is needed", kind="missing-argument", remedy="-o study")
    add_import_path(allow_code)
    with print_resume_hint(output), show_study_progress() as progress:
        study = run_study(
            scenario,
            factors,
            fit,
            folder=output,
            allow_code=allow_code,
            progress=progress,
            **options,
        )
    with show_status("writing the report"):
        write_study_page(study, output / "report.html")
    err.print(escape(f"wrote {output}"), soft_wrap=True)
    return study


def _make_document(study: Any, top: int) -> dict[str, Any]:
    ranking = study.top(top) if study.failed < study.done else None
    return {
        "output": None if study.folder is None else str(study.folder),
        "planned": study.planned,
        "done": study.done,
        "failed": study.failed,
        "errors": list(study.errors[:MAX_REASONS]),
        "configurations": len(study.planned_configurations),
        "factors": list(study.factors),
        "by": study.by,
        "notes": list(study.notes),
        "top": []
        if ranking is None
        else [
            {
                "rank": row["rank"],
                "name": candidate.name,
                "levels": dict(candidate.levels),
                "kpis": dict(candidate.predicted),
                "probability": row["probability"],
                "tie": row["tie"],
                "fewer_tasks": place.fewer,
                "unsupported": list(candidate.unsupported),
            }
            for candidate, place, row in zip(
                ranking, ranking.places, ranking.table.iter_rows(named=True), strict=True
            )
        ],
        "objectives": list(study.objectives),
        "pareto": [] if ranking is None else study.pareto()["name"].to_list(),
        "intervals": [] if ranking is None else study.intervals().drop("configuration").to_dicts(),
        "effects": []
        if ranking is None
        else study.effects()
        .select("factor", "level", "mean", "effect", "share", "fewer_tasks")
        .to_dicts(),
    }
