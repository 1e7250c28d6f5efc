"""`twinloop simulate`: simulate a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop import report
from twinloop.cli.blas_threads import import_numpy_with_one_thread
from twinloop.cli.output import (
    Json,
    Overwrite,
    is_terminal,
    parse_pairs,
    print_json,
    print_message,
    refuse_existing,
    refuse_inside,
    refuse_page,
    report_errors,
    show_status,
)
from twinloop.cli.recording_options import parse_duration
from twinloop.cli.scenario_options import (
    AllowCode,
    OptionOption,
    PlatformOption,
    PolicyOption,
    ScenarioFile,
    SeedOption,
    SetOption,
    SourceOption,
    TimeScaleOption,
    WorkloadOption,
    add_import_path,
    list_inputs,
    make_scenario,
)
from twinloop.description.errors import InputError
from twinloop.description.replacement import check_replaceable

if TYPE_CHECKING:
    from twinloop.engine import CompiledScenario

#: Exit status if no task ran.
NOTHING_RAN = 1


def simulate(
    scenario: ScenarioFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the trace.")
    ] = None,
    workload: WorkloadOption = None,
    platform: PlatformOption = None,
    policy: PolicyOption = None,
    option: OptionOption = None,
    source: SourceOption = None,
    time_scale: TimeScaleOption = None,
    speed: Annotated[float | None, typer.Option(help="Factor on the speed of every host.")] = None,
    seed: SeedOption = None,
    set_: SetOption = None,
    warm_up: Annotated[float, typer.Option(help="Exclude tasks of an initial period (s).")] = 0.0,
    power_step: Annotated[
        float | None, typer.Option(help="Sampling interval of the power table (s).")
    ] = None,
    power_per_node: Annotated[
        bool, typer.Option("--power-per-node", help="Power of every node.")
    ] = False,
    usage: Annotated[
        str | None,
        typer.Option(
            help="Windows of the usage table: 1s; or none.",
            metavar="TIME",
        ),
    ] = None,
    most_rows: Annotated[
        float | None,
        typer.Option(
            help="Row limit per table. \\[default: 1e7]",
            metavar="ROWS",
        ),
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Write an HTML page of the run.")] = None,
    allow_code: AllowCode = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Simulate a scenario and print its figures.

    The scenario is a YAML file, the folder of a recorded run (which is replayed), or given by
    options. Exit status: 0, or 1 if no task could run.

    - `twinloop simulate scenario.yaml -o runs/first`
    - `twinloop simulate --workload log.swf.gz --platform 100x1 --policy easy`
    """
    started = perf_counter()
    if not allow_code:  # a simulation itself uses no linear algebra
        import_numpy_with_one_thread()
    # Imported here, because --help should not wait for them.
    from twinloop.cli.run_summary import compute_figures, make_document, show, wall_time
    from twinloop.engine import CompiledScenario
    from twinloop.engine import simulate as run_scenario
    from twinloop.engine.table_size import MAX_ROWS
    from twinloop.scenario.carbon import check_carbon, has_carbon_series
    from twinloop.trace.folder import make_ownership_rule

    with report_errors(json):
        resolved_scenario = make_scenario(
            scenario,
            {
                "workload": workload,
                "platform": platform,
                "policy": policy,
                "source": source,
                "time_scale": time_scale,
                "model.speed_factor": speed,
                "seed": seed,
            },
            parse_pairs(option, "--option"),
            parse_pairs(set_, "--set"),
        )
        inputs = list_inputs(scenario, resolved_scenario)
        if picture is not None and picture.suffix.lower() not in (".html", ".htm"):
            raise InputError("must end with .html", kind="unsupported-page", file=picture)
        if output is not None:
            refuse_existing(output, overwrite, *inputs)
            # Checked before the simulation, which may take an hour, and not only after it.
            check_replaceable(output, make_ownership_rule("simulated"))
        if picture is not None:
            refuse_page(picture, overwrite, *inputs)
            refuse_inside(picture, output)
        add_import_path(allow_code)
        check_carbon(resolved_scenario)
        with show_status("reading"):
            compiled = CompiledScenario(resolved_scenario, allow_code=allow_code)
        if compiled.epoch_ms is None and has_carbon_series(resolved_scenario):
            raise InputError(
                "changes over time, but the workload has no start date",
                kind="unknown-date",
                field="platform.clusters[...].carbon",
                remedy="add the date to the scenario (start: 2024-07-01, or --set "
                "start=2024-07-01), or give a constant (carbon: 300 g/kWh)",
            )
        with _show_progress() as progress:
            trace = run_scenario(
                compiled,
                power_step=power_step,
                power_per_node=power_per_node,
                usage_step=_parse_window(usage),
                most_rows=MAX_ROWS if most_rows is None else most_rows,
                progress=progress,
            )
        if power_step is not None and not trace.power.height:
            print_message("no host has a power model, so there is no power table")
        with show_status("computing the figures"):
            run_figures, trace = compute_figures(resolved_scenario, trace, warm_up)
        if output is not None:
            trace.save(output, overwrite=overwrite)
            print_message(f"wrote {output}")
        if picture is not None:
            report.write_run_page(trace, picture)
            print_message(f"wrote {picture}")
        if json:
            total = perf_counter() - started
            print_json(make_document(trace, run_figures, output, total, allow_code=allow_code))
        else:
            from twinloop.cli.console import out

            show(trace, run_figures, allow_code=allow_code)
            run = trace.manifest.facts["run"]
            wall = wall_time(trace)
            rate = run["events"] / wall if wall > 0 else 0.0
            out.print(
                f"\n{run['events']:,} events in {wall:.3f} s ({rate / 1e6:.2f} million per "
                f"second); {perf_counter() - started:.2f} s in total, with input and figures",
                soft_wrap=True,
            )
    if not trace.placements.height:
        print_message(f"no task could run: {_count_statuses(trace)}{_describe_boots(trace)}")
        if _has_only_predictions(compiled):
            print_message(
                "tasks without a run time run as long as requested with `workload: inject: "
                "predictions`, or --set workload.inject=predictions"
            )
        raise typer.Exit(NOTHING_RAN)


def _has_only_predictions(compiled: CompiledScenario) -> bool:
    """Whether all tasks of a replayed log were skipped, and have a requested time."""
    if compiled.trace is None or len(compiled.arrays):
        return False
    tasks = compiled.trace.tasks
    return bool(tasks["requested_time"].count() and not tasks["run_time"].count())


def _count_statuses(trace: Any) -> str:
    """Describe the number of tasks with each status, for a run in which no task ran."""
    counts = trace.tasks["status"].value_counts(sort=True).rows()
    parts = [f"{count:,} {status or 'of unknown status'}" for status, count in counts]
    if skipped := trace.manifest.facts["run"]["skipped"]:
        parts.append(f"{report.format_count(skipped, 'record')} that cannot be run")
    return ", ".join(parts) or "the workload has no tasks"


def _describe_boots(trace: Any) -> str:
    """Describe why no instance booted; empty if one did, or none was requested."""
    instances = trace.instances
    if not instances["requested"].count() or instances["ready"].count():
        return ""
    lost, refused = ((instances["reason"] == each).sum() for each in ("lost", "refused"))
    reasons = [report.format_count(lost, "boot") + " failed"] if lost else []
    if refused:
        reasons.append(report.format_count(refused, "request") + " refused")
    return f"; no instance booted: {', '.join(reasons) or 'no boot ended'}"


def _parse_window(usage: str | None) -> float | None:
    """Parse the window length of the usage table (s); infinity: no table, None: not given."""
    if usage == "none":
        return float("inf")
    return None if usage is None else parse_duration(usage, "--usage")


@contextmanager
def _show_progress() -> Iterator[Any]:
    """Show the progress in one line, on a terminal."""
    if not is_terminal():
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from twinloop.cli.console import err

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        line = bar.add_task("simulating", total=None)

        def update(events: int, now: float) -> None:
            text = f"simulating: {events:,} events, {report.format_duration(now)} simulated"
            bar.update(line, description=text)

        yield update
