"""`twinloop execute`: run a scenario for real."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twinloop import report
from twinloop.cli.commands import INTERRUPTED
from twinloop.cli.console import err, escape, out
from twinloop.cli.output import (
    Json,
    Overwrite,
    parse_pairs,
    print_json,
    refuse_existing,
    refuse_inside,
    refuse_page,
    report_errors,
    show_status,
)
from twinloop.cli.recording_options import (
    DryRun,
    Interval,
    Power,
    PowerOption,
    parse_duration,
    print_commands,
)
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

if TYPE_CHECKING:
    from twinloop.trace import Trace

#: Exit status if the run ended, but not every task completed.
INCOMPLETE: Final = 1


def execute(
    scenario: ScenarioFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the recorded run.")
    ] = None,
    workload: WorkloadOption = None,
    platform: PlatformOption = None,
    policy: PolicyOption = None,
    option: OptionOption = None,
    source: SourceOption = None,
    time_scale: TimeScaleOption = None,
    seed: SeedOption = None,
    set_: SetOption = None,
    interval: Interval = "1s",
    isolation: Annotated[
        str,
        typer.Option(help="auto, cgroup2, cgroup1, affinity, none."),
    ] = "auto",
    task_limit: Annotated[str | None, typer.Option(help="Time limit of every task: 10min.")] = None,
    grace: Annotated[str, typer.Option(help="Time between SIGTERM and SIGKILL.")] = "2s",
    power: PowerOption = Power.auto,
    picture: Annotated[Path | None, typer.Option(help="Write an HTML page of the run.")] = None,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Run a scenario with real processes and record it.

    The command first prints which programs it will run. Commands run as the current user, without
    a shell; `commands.txt` in the output folder lists them. The folder holds the trace and the
    output of every task. Ctrl-C ends the run and keeps the recording; a killed run can be read as
    far as it got. Exit status: 0 all tasks completed, 1 some did not, 130 interrupted.

    - `twinloop execute scenario.yaml -o runs/first`
    - `twinloop simulate runs/first` (replays it)
    """
    # Imported here, because --help should not wait for them.
    from twinloop.cli.run_display import display_run
    from twinloop.cli.run_summary import compute_figures, make_document, show
    from twinloop.execution import Interrupted
    from twinloop.execution import execute as run_scenario
    from twinloop.execution.announcement import survey_scenario

    with report_errors(json):
        resolved_scenario = make_scenario(
            scenario,
            {
                "workload": workload,
                "platform": platform,
                "policy": policy,
                "source": source,
                "time_scale": time_scale,
                "seed": seed,
            },
            parse_pairs(option, "--option"),
            parse_pairs(set_, "--set"),
        )
        add_import_path(allow_code)
        if dry_run:
            print_commands({"": survey_scenario(resolved_scenario, allow_code=allow_code)}, json)
            return
        if output is None:
            raise InputError(
                "an output folder is needed", kind="missing-argument", remedy="-o runs/first"
            )
        inputs = list_inputs(scenario, resolved_scenario)
        if picture is not None:
            refuse_page(picture, overwrite, *inputs)
            refuse_inside(picture, output)
        if overwrite:
            refuse_existing(output, overwrite, *inputs)
        interrupted = False
        try:
            with display_run() as on_progress:
                trace = run_scenario(
                    resolved_scenario,
                    output,
                    period=parse_duration(interval, "--interval"),
                    isolation=isolation,
                    task_limit=None
                    if task_limit is None
                    else parse_duration(task_limit, "--task-limit"),
                    grace=parse_duration(grace, "--grace"),
                    power=() if power is Power.none else None,
                    overwrite=overwrite,
                    allow_code=allow_code,
                    announce=lambda text: err.print(text, markup=False, soft_wrap=True),
                    on_progress=on_progress,
                )
        except Interrupted as ended:
            trace, interrupted = ended.trace, True
        err.print(escape(f"wrote {output}"), soft_wrap=True)
        with show_status("computing the figures"):
            run_figures, trace = compute_figures(resolved_scenario, trace, 0.0)
        if picture is not None:
            report.write_run_page(trace, picture)
            err.print(escape(f"wrote {picture}"), soft_wrap=True)
        if json:
            wall = trace.manifest.facts["run"]["wall_s"]
            print_json(make_document(trace, run_figures, output, wall) | _list_measurements(trace))
        else:
            show(trace, run_figures)
            _show_measurements(trace)
    if interrupted:
        err.print("interrupted: the recording so far is kept")
        raise typer.Exit(INTERRUPTED)
    if (trace.tasks["status"] != "completed").any():
        raise typer.Exit(INCOMPLETE)


def _list_measurements(trace: Trace) -> dict[str, object]:
    facts = trace.manifest.facts
    return {
        "isolation": facts["nodes"]["isolation"],
        "warnings": facts["nodes"]["warnings"],
        "dispatch_latency_s": facts["latency"]["dispatch"]["p50_s"],
        "release_latency_s": facts["latency"]["release"]["p50_s"],
        "recording_share": facts["recording"]["share_of_core"],
        "interrupted": facts["run"]["interrupted"],
    }


def _show_measurements(trace: Trace) -> None:
    measurements = _list_measurements(trace)
    out.print(f"\nisolation by {measurements['isolation']}", highlight=False)
    for name in ("dispatch", "release"):
        latency = trace.manifest.facts["latency"][name]
        if latency["count"]:
            out.print(
                f"{name} latency {1e3 * latency['p50_s']:.1f} ms (median), "
                f"{1e3 * latency['p95_s']:.1f} ms (95th percentile)",
                highlight=False,
            )
    share = measurements["recording_share"]
    if isinstance(share, float):
        out.print(f"recording took {100 * share:.2f} % of one core", highlight=False)
    if (staging := trace.manifest.facts.get("staging")) is not None:
        copies = report.format_count(staging["transfers"], "copy", "copies")
        out.print(
            f"{copies} of files with {staging['bytes']:,} bytes took {staging['cpu_s']:.2g} s of "
            "CPU time",
            highlight=False,
        )
    samples = report.format_count(trace.usage.height, "sample")
    out.print(f"{samples}; power: {_describe_power(trace)}", highlight=False)


def _describe_power(trace: Trace) -> str:
    problems = trace.manifest.facts["power"]["said"]
    return "; ".join(problems) if problems else "measured"
