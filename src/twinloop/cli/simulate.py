"""`twinloop simulate`: what would happen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from twinloop import report
from twinloop.cli.output import (
    Json,
    Overwrite,
    err,
    escape,
    out,
    pairs,
    print_json,
    refuse_existing,
    refuse_inside,
    refuse_page,
    speaking,
    working,
)
from twinloop.cli.recording_options import duration
from twinloop.cli.scenario_options import (
    AllowCode,
    OptionOption,
    PlatformOption,
    PolicyOption,
    ReplayOption,
    ScenarioFile,
    SeedOption,
    SetOption,
    TimeScaleOption,
    WorkloadOption,
    find_code,
    scenario_of,
)
from twinloop.description.errors import InputError
from twinloop.description.replacement import check_replaceable

#: What it ends with when no task ran.
NOTHING_RAN = 1


def simulate(
    scenario: ScenarioFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the run as a trace folder.")
    ] = None,
    workload: WorkloadOption = None,
    platform: PlatformOption = None,
    policy: PolicyOption = None,
    option: OptionOption = None,
    replay: ReplayOption = None,
    time_scale: TimeScaleOption = None,
    speed: Annotated[
        float | None, typer.Option(help="Times the speed of every host; the work is kept.")
    ] = None,
    seed: SeedOption = None,
    set_: SetOption = None,
    warm_up: Annotated[
        float, typer.Option(help="Leave tasks submitted in the first so many seconds out.")
    ] = 0.0,
    power_step: Annotated[
        float | None, typer.Option(help="Length of the windows of the power table (s).")
    ] = None,
    power_per_node: Annotated[
        bool, typer.Option("--power-per-node", help="Power of every node, not only of all.")
    ] = False,
    usage: Annotated[
        str | None,
        typer.Option(
            help="Length of the windows of the usage table, such as 1s; none: no such table. By "
            "default as in the recording that is replayed.",
            metavar="TIME",
        ),
    ] = None,
    most_rows: Annotated[
        float | None,
        typer.Option(
            help="Most rows that the usage table and the power table may have each, by default "
            "10 million; a run that would need more is refused. inf: no bound.",
            metavar="ROWS",
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Write the run as a page to look at: run.html.")
    ] = None,
    allow_code: AllowCode = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Simulate a scenario, and say how it went.

    It ends with 1 if no task could run.

    Keys of --json: `tasks`, which is the sum of `completed`, `rejected`, `killed`, `failed` (the
    `lost` among them) and `skipped` (records that could not be run); `makespan_s`; `wait_mean_s`,
    `wait_p50_s`, `wait_p95_s`, `wait_p99_s`, `wait_max_s`, and so for `turnaround_..._s`,
    `slowdown_...` and `bounded_slowdown_...`; `utilisation`; `energy_j` and `carbon_g` (null
    without a power model or an intensity); `cost`; `lateness_mean_s`, `lateness_relative`,
    `lateness_additional_s`; the other figures of `twinloop.metrics`; `events`, `wall_s` (in the
    engine), `total_s` (all of it); `policy`; `output`; `notes` (what could not be counted, and
    why); `cleaned` (records that were repaired or left out).

    Examples: `twinloop simulate scenario.yaml -o runs/first`, `twinloop simulate --workload
    log.swf.gz --platform 100x1 --policy easy --replay sessions:3600`.
    """
    began = perf_counter()
    # They take a moment to load, which --help does not need.
    from twinloop.cli.run_summary import document, figures_of, show, wall_time
    from twinloop.engine import Compiled
    from twinloop.engine import simulate as run_scenario
    from twinloop.engine.table_size import MOST_ROWS
    from twinloop.scenario.carbon import check_carbon, has_series
    from twinloop.trace.folder import owner_of

    with speaking(json):
        made = scenario_of(
            scenario,
            {
                "workload": workload,
                "platform": platform,
                "policy": policy,
                "source": replay,
                "time_scale": time_scale,
                "model.speed_factor": speed,
                "seed": seed,
            },
            pairs(option, "--option"),
            pairs(set_, "--set"),
        )
        inputs = [scenario, *made._files()]
        if picture is not None and picture.suffix.lower() not in (".html", ".htm"):
            raise InputError("the page is HTML", file=picture, remedy="call it run.html")
        if output is not None:
            refuse_existing(output, overwrite, *inputs)
            # Before an hour of simulation, not after it.
            check_replaceable(output, owner_of("simulated"))
        if picture is not None:
            refuse_page(picture, overwrite, *inputs)
            refuse_inside(picture, output)
        find_code(allow_code)
        check_carbon(made)
        with working("reading"):
            ready = Compiled(made, allow_code=allow_code)
        if ready.epoch_ms is None and has_series(made):
            raise InputError(
                "changes over time, and the workload does not say when it began",
                field="platform.clusters[...].carbon",
                remedy="add the date to the scenario (start: 2024-07-01, or --set "
                "start=2024-07-01), or give a constant (carbon: 300 g/kWh)",
            )
        with _progress() as progress:
            trace = run_scenario(
                ready,
                power_step=power_step,
                power_per_node=power_per_node,
                usage_step=_every(usage),
                most_rows=MOST_ROWS if most_rows is None else most_rows,
                progress=progress,
            )
        if power_step is not None and not trace.power.height:
            err.print("no host has a power model: there is no power to say anything of")
        with working("counting"):
            found, trace = figures_of(made, trace, warm_up)
        if output is not None:
            trace.save(output, overwrite=overwrite)
            err.print(escape(f"wrote {output}"))
        if picture is not None:
            report.write_run_page(trace, picture)
            err.print(escape(f"wrote {picture}"))
        if json:
            print_json(document(trace, found, output, perf_counter() - began))
        else:
            show(trace, found)
            run = trace.manifest.facts["run"]
            wall = wall_time(trace)
            rate = run["events"] / wall if wall > 0 else 0.0
            out.print(
                f"\n{run['events']:,} events in {wall:.3f} s ({rate / 1e6:.2f} million a "
                f"second), {perf_counter() - began:.2f} s with reading and counting"
            )
    if not trace.placements.height:
        err.print(f"no task could run: {_fates(trace)}")
        raise typer.Exit(NOTHING_RAN)


def _fates(trace: Any) -> str:
    """What became of tasks of which none ran."""
    counts = trace.tasks["status"].value_counts(sort=True).rows()
    parts = [f"{count:,} {status or 'of unknown status'}" for status, count in counts]
    if skipped := trace.manifest.facts["run"]["skipped"]:
        parts.append(f"{report.format_count(skipped, 'record')} that cannot be run")
    return ", ".join(parts) or "there is none"


def _every(usage: str | None) -> float | None:
    """The length of windows of usage that the option says."""
    if usage == "none":
        return float("inf")
    return None if usage is None else duration(usage, "--usage")


@contextmanager
def _progress() -> Iterator[Any]:
    """A line that says how far it is, on a terminal."""
    if not err.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        line = bar.add_task("simulating", total=None)

        def told(events: int, now: float) -> None:
            said = f"simulating: {events:,} events, {report.format_duration(now)} of the run"
            bar.update(line, description=said)

        yield told
