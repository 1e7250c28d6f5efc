"""`twinloop simulate`: what would happen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
import yaml
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from twinloop.cli.output import (
    Json,
    Overwrite,
    err,
    out,
    pairs,
    print_cleanings,
    print_json,
    refuse_existing,
    speaking,
    working,
)
from twinloop.engine import Compiled
from twinloop.engine import simulate as run_scenario
from twinloop.metrics import Figures, figures
from twinloop.report import run_chart, run_page, words
from twinloop.report.key_figures import key_figures
from twinloop.scenario import Scenario, load
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.formats.opendc import read_carbon


def simulate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="A scenario in YAML; or give its parts as options.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the run as a trace folder.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="A log, a trace, or a folder: what is to run.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(help="NODESxCORES such as 100x1 or 2x8@2400MHz/64GiB, or a platform file."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Who decides: fcfs, easy, first-fit...")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the policy: --option depth=100.", metavar="NAME=VALUE"),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(help="rigid: submit as recorded; sessions:SECONDS: users who wait."),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(help="Times the speed of every host; the work is kept.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Where all randomness starts.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other value of the scenario: --set model.kill_at_requested_time=true.",
            metavar="PATH=VALUE",
        ),
    ] = None,
    warm_up: Annotated[
        float, typer.Option(help="Leave tasks submitted in the first so many seconds out.")
    ] = 0.0,
    power_step: Annotated[
        float | None, typer.Option(help="Length of the windows of the power table (s).")
    ] = None,
    power_per_node: Annotated[
        bool, typer.Option("--power-per-node", help="Power of every node, not only of all.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Write the run as a page to look at: run.html.")
    ] = None,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Let a policy named module:Class be imported.")
    ] = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Simulate a scenario, and say how it went.

    Keys of --json: `tasks`, which is the sum of `completed`, `rejected`, `killed`, `failed` (the
    `lost` among them) and `skipped` (records that could not be run); `makespan_s`; `wait_mean_s`,
    `wait_p50_s`, `wait_p95_s`, `wait_p99_s`, `wait_max_s`, and so for `turnaround_..._s`,
    `slowdown_...` and `bounded_slowdown_...`; `utilisation`; `energy_j` and `carbon_g` (null
    without a power model or an intensity); `cost`; `lateness_mean_s`, `lateness_relative`,
    `lateness_additional_s`; the other figures of `twinloop.metrics`; `events`, `wall_s` (in the
    engine), `total_s` (all of it); `policy`; `output`; `cleaned` (what was not taken as it stood).

    Examples: `twinloop simulate scenario.yaml -o runs/first`, `twinloop simulate --workload
    log.swf.gz --platform 100x1 --policy easy --replay sessions:3600`.
    """
    began = perf_counter()
    with speaking(json):
        made = _scenario(
            scenario,
            {
                "workload": workload,
                "platform": platform,
                "policy": policy,
                "source": replay,
                "model.speed_factor": speed,
                "seed": seed,
            },
            pairs(option, "--option"),
            pairs(set_, "--set"),
        )
        inputs = [Path(path) for path in (scenario, made.workload.path) if path is not None]
        if picture is not None and picture.suffix.lower() not in (".html", ".htm"):
            raise InputError("the page is HTML", file=picture, remedy="call it run.html")
        for target in (output, picture):
            if target is not None:
                refuse_existing(target, overwrite, *inputs)
        if allow_code and "" not in sys.path:
            sys.path.insert(0, "")  # a policy in the folder that the user is in
        with working("reading"):
            ready = Compiled(made, allow_code=allow_code)
        with _progress() as progress:
            trace = run_scenario(
                ready,
                power_step=power_step,
                power_per_node=power_per_node,
                progress=progress,
            )
        if power_step is not None and not trace.power.height:
            err.print("no host has a power model: there is no power to say anything of")
        with working("counting"):
            found, trace = _figures(made, trace, warm_up)
        if output is not None:
            trace.save(output, overwrite=overwrite)
            err.print(escape(f"wrote {output}"))
        if picture is not None:
            run_page(trace, picture)
            err.print(escape(f"wrote {picture}"))
        if json:
            print_json(_document(trace, found, output, perf_counter() - began))
        else:
            _show(trace, found, perf_counter() - began)


def _scenario(
    path: Path | None,
    parts: dict[str, Any],
    options: dict[str, str],
    changes: dict[str, str],
) -> Scenario:
    given = {name: value for name, value in parts.items() if value is not None}
    if options:
        values = {name: yaml.safe_load(value) for name, value in options.items()}
        base = given.get("policy") or (load(path).policy.name if path is not None else None)
        given["policy"] = {"name": base, "options": values} if base else None
    more = {name: yaml.safe_load(value) for name, value in changes.items()}
    if path is not None:
        return load(path).replace(**given, **more)
    for name in ("workload", "platform", "policy"):
        if not given.get(name):
            raise InputError(f"a scenario file or --{name} is needed", remedy="see --help")
    speed = given.pop("model.speed_factor", None)
    made = Scenario.from_dict(given)
    if speed is not None:
        more = {"model.speed_factor": speed, **more}
    return made.replace(**more) if more else made


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
            said = f"simulating: {events:,} events, {words.duration(now)} of the run"
            bar.update(line, description=said)

        yield told


def _figures(scenario: Scenario, trace: Trace, warm_up: float) -> tuple[Figures, Trace]:
    files = {cluster.carbon for cluster in scenario.effective_platform().clusters}
    intensity = None
    if len(files) == 1 and trace.power.height and (file := files.pop()) is not None:
        intensity = read_carbon(file)
        if trace.manifest.epoch_ms is None:
            raise InputError(
                "the workload does not say when it began, so nobody knows its carbon intensity",
                field="platform.clusters[0].carbon",
                remedy="leave the carbon intensity out, or use a log with an epoch",
            )
    found = figures(trace, warm_up=warm_up, intensity=intensity, prices=scenario.prices)
    facts = dict(trace.manifest.facts)
    cost = found.cost.total if found.cost else None
    facts["run"] = {**facts["run"], "carbon_g": found.carbon, "cost": cost}
    return found, trace.noting(facts=facts)


def _document(trace: Trace, found: Figures, output: Path | None, total: float) -> dict[str, Any]:
    run = trace.manifest.facts["run"]
    values = found.to_dict()
    return {
        **values,
        "tasks": (values["tasks"] or 0) + run["skipped"],
        "skipped": run["skipped"],
        "policy": run["policy"],
        "events": run["events"],
        "wall_s": run["wall_s"],
        "total_s": total,
        "output": None if output is None else str(output),
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
    }


def _show(trace: Trace, found: Figures, total: float) -> None:
    run = trace.manifest.facts["run"]
    machines, cores = words.count(run["machines"], "machine"), words.number(run["cores"])
    out.print(f"[bold]{escape(run['policy'])}[/] on {machines} with {cores} cores")
    for name, said in key_figures(found):
        if name == "tasks" and run["skipped"]:
            said = f"{found.tasks + run['skipped']:,}, {run['skipped']:,} of which cannot be run"
        out.print(f"  {name:22} {said}", highlight=False)
    if found.left_out:
        out.print(f"  {'left out':22} {words.count(found.left_out, 'task')} of the warm-up")
    if trace.placements.height:
        out.print()
        out.print(run_chart(trace, width=min(100, out.width - 2)), markup=False)
    if trace.manifest.cleaned:
        out.print("\nwhat was not taken as it stood")
        print_cleanings(trace.manifest.cleaned)
    rate = run["events"] / run["wall_s"] if run["wall_s"] > 0 else 0.0
    out.print(
        f"\n{run['events']:,} events in {run['wall_s']:.3f} s ({rate / 1e6:.2f} million a second), "
        f"{total:.2f} s with reading and counting"
    )
