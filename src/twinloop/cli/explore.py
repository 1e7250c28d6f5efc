"""`twinloop explore`: what if, for all combinations of some levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from twinloop import report
from twinloop.cli.output import Json, err, escape, out, print_json, speaking, working
from twinloop.cli.recording_options import going_on
from twinloop.cli.scenario_options import AllowCode, find_code
from twinloop.description.errors import InputError

#: What it ends with when runs failed.
INCOMPLETE = 1
#: So many different reasons of failures are said.
REASONS = 3


def explore(
    scenario: Annotated[
        Path,
        typer.Argument(
            help="A scenario; factors that name theirs; or the folder of a study, to look at it."
        ),
    ],
    factors: Annotated[
        Path | None, typer.Argument(help="Factors and levels, in YAML.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to keep the study in.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="A calibration: its values, and the doubt that it leaves.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="The KPI that is to be good; makespan_s if not said.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the best to list.")] = 3,
    on: Annotated[
        str | None, typer.Option(help="threads, processes, serial, dask, or tls://HOST:PORT.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many runs at the same time.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Make failed runs again.")] = False,
    allow_code: AllowCode = False,
    json: Json = False,
) -> None:
    """Simulate a scenario with all combinations of some levels, and rank them.

    The factors name fields of the scenario and the values that they take; `twinloop explore`
    writes a folder with one table of all runs and one of all configurations (CSV and Parquet) and
    `report.html`. Given again, the same command runs only what is missing: after an interruption,
    or with new levels. With the folder alone it says how far the study is, also while it runs.

    It ends with 1 if runs failed, and says why; with 2 if nothing can be run or ranked.

    Keys of --json: `output`, `planned`, `done`, `failed`, `errors` (the first reasons),
    `configurations`, `factors`, `by`, `notes`, `top` (rank, name, levels, kpis, probability, tie,
    `fewer_tasks`: fewer complete than in others, unsupported), `pareto` (names), `objectives`,
    `effects` (factor, level, mean, effect, share).

    Examples: `twinloop explore scenario.yaml factors.yaml -o study`, `twinloop explore
    examples/what-if.yaml -o study`, `twinloop explore
    scenario.yaml factors.yaml -o study --fit fit --by wait_p95_s`, `twinloop explore study`.
    """
    from twinloop.exploration import Objective, Study
    from twinloop.exploration.study.study import MANIFEST

    ran = False
    with speaking(json):
        if by is not None:
            Objective.of(by)
        if (scenario / MANIFEST).is_file() and factors is None:
            _refuse(output=output, fit=fit)
            study = Study.load(scenario)
            study = study if by is None else replace(study, by=by)
        else:
            options: dict[str, Any] = {"on": on, "workers": workers, "retry": retry}
            study = _made(
                scenario,
                factors,
                output,
                fit,
                by=by or "makespan_s",
                allow_code=allow_code,
                **options,
            )
            err.print(escape(f"wrote {output}"), soft_wrap=True)
            ran = True
        _check_objective(study)
        if json:
            print_json(_told(study, top))
        else:
            from twinloop.exploration.study.text import study_text

            out.print(study_text(study, top), markup=False, soft_wrap=True)
    if ran and study.failed:
        _say_failures(study)
        raise typer.Exit(INCOMPLETE)


def _say_failures(study: Any) -> None:
    """How many runs failed, and the first reasons."""
    runs = report.format_count(study.planned, "run")
    err.print(f"{study.failed:,} of {runs} failed; --retry makes them again:")
    for reason in study.errors[:REASONS]:
        err.print(escape(f"  {reason}"), soft_wrap=True)
    if len(study.errors) > REASONS:
        err.print(f"  and {len(study.errors) - REASONS:,} other reasons: see runs.csv")


def _check_objective(study: Any) -> None:
    """Refuse to end without an answer where runs are over, and none has the KPI asked for."""
    from twinloop.exploration import Objective

    kpi = Objective.of(study.by).kpi
    if study.kpis and kpi not in study.kpis:
        why = study.why_unknown(kpi) or f"they have: {', '.join(study.kpis)}"
        raise InputError(f"no run can be ranked by {kpi}: {why}", field="--by")


def _refuse(**options: Any) -> None:
    for name, given in options.items():
        if given is not None:
            raise InputError(
                f"--{name} is for a study that is to run", remedy="name a scenario and the factors"
            )


def _made(
    scenario: Path,
    factors: Path | None,
    output: Path | None,
    fit: Path | None,
    *,
    allow_code: bool,
    **options: Any,
) -> Any:
    from twinloop.exploration import explore as study_of
    from twinloop.exploration.factors.design import design_of
    from twinloop.report import write_study_page

    if factors is None:
        factors, design = scenario, design_of(scenario)
        if design.scenario is None:
            raise InputError(
                "names no scenario",
                file=factors,
                field="scenario",
                remedy="twinloop explore scenario.yaml factors.yaml -o study",
            )
        scenario = Path(design.scenario)
    if output is None:
        raise InputError("nobody said where to keep the study", remedy="-o study")
    find_code(allow_code)
    with going_on(output), _progress() as told:
        study = study_of(
            scenario,
            factors,
            fit,
            folder=output,
            allow_code=allow_code,
            progress=told,
            **options,
        )
    with working("drawing"):
        write_study_page(study, output / "report.html")
    return study


def _told(study: Any, top: int) -> dict[str, Any]:
    ranking = study.top(top) if study.failed < study.done else None
    return {
        "output": None if study.folder is None else str(study.folder),
        "planned": study.planned,
        "done": study.done,
        "failed": study.failed,
        "errors": list(study.errors[:REASONS]),
        "configurations": len(study.planned_configurations),
        "factors": list(study.factors),
        "by": study.by,
        "notes": list(study.notes),
        "top": []
        if ranking is None
        else [
            {
                "rank": row["rank"],
                "name": each.name,
                "levels": dict(each.levels),
                "kpis": dict(each.predicted),
                "probability": row["probability"],
                "tie": row["tie"],
                "fewer_tasks": place.fewer,
                "unsupported": list(each.unsupported),
            }
            for each, place, row in zip(
                ranking, ranking.places, ranking.table.iter_rows(named=True), strict=True
            )
        ],
        "objectives": list(study.objectives),
        "pareto": [] if ranking is None else study.pareto()["name"].to_list(),
        "effects": []
        if ranking is None
        else study.effects().select("factor", "level", "mean", "effect", "share").to_dicts(),
    }


@contextmanager
def _progress() -> Iterator[Callable[[Any], None]]:
    """A bar with the time left for whoever watches, a line now and then for a log."""
    if not err.is_terminal:
        yield _lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} runs{task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("exploring", total=None, failed="")

        def told(at: Any) -> None:
            failed = f", {at.failed:,} failed" if at.failed else ""
            bar.update(task, completed=at.done, total=at.total, failed=failed)

        yield told


def _lines() -> Callable[[Any], None]:
    last = 0.0

    def told(at: Any) -> None:
        nonlocal last
        if at.seconds - last >= 10.0:
            last = at.seconds
            left = "" if at.left is None else f", about {at.left:.0f} s left"
            err.print(f"{at.done:,} of {at.total:,} runs, {at.failed:,} failed{left}")

    return told
