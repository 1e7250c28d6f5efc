"""`twinloop execute`: run a scenario for real."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twinloop import report
from twinloop.cli.commands import INTERRUPTED
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
from twinloop.cli.recording_options import (
    DryRun,
    Interval,
    Power,
    PowerOption,
    duration,
    print_commands,
)
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

if TYPE_CHECKING:
    from twinloop.trace import Trace

#: What the command ends with if the run went on to its end, but not every task completed.
INCOMPLETE: Final = 1


def execute(
    scenario: ScenarioFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to keep the run, as a folder.")
    ] = None,
    workload: WorkloadOption = None,
    platform: PlatformOption = None,
    policy: PolicyOption = None,
    option: OptionOption = None,
    replay: ReplayOption = None,
    time_scale: TimeScaleOption = None,
    seed: SeedOption = None,
    set_: SetOption = None,
    interval: Interval = "1s",
    isolation: Annotated[
        str,
        typer.Option(
            help="What keeps tasks to their nodes: auto, cgroup2, cgroup1, affinity, none."
        ),
    ] = "auto",
    task_limit: Annotated[
        str | None, typer.Option(help="The most that any task may take; it is ended then: 10min.")
    ] = None,
    grace: Annotated[
        str, typer.Option(help="Time from the request to end until a task is killed.")
    ] = "2s",
    power: PowerOption = Power.auto,
    picture: Annotated[
        Path | None, typer.Option(help="Write the run as a page to look at: run.html.")
    ] = None,
    allow_code: AllowCode = False,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Run a scenario for real, on nodes laid onto this machine, and record it.

    It says first what it will run: the programs and how many tasks run each; `commands.txt` in the
    folder has every distinct command, and --dry-run prints them and runs nothing. The commands of
    the tasks run as you, without a shell. The run is kept in the folder as a trace, beside what
    each task printed; Ctrl-C ends it and keeps what was recorded. A run that was killed is kept as
    far as it got: `twinloop inspect` reads it.

    Keys of --json: those of `twinloop simulate`, with `wall_s` the length of the run; beside these
    `isolation` (what kept tasks to their nodes), `warnings` (what was weaker than asked for),
    `dispatch_latency_s` and `release_latency_s` (medians), `recording_share` (of one core),
    `interrupted`. With --dry-run: `commands` (`of`, `command`, `folder`, `program`, `tasks`),
    `prepare`, `programs` (tasks by program), `missing`.

    Ends with 0 if every task completed, with 1 if one did not, with 130 if you interrupted it.

    Examples: `twinloop execute scenario.yaml -o runs/first`, then `twinloop check runs/first` and
    `twinloop simulate runs/first`, which replays it.
    """
    # They take a moment to load, for which nobody waits who asks for help.
    from twinloop.cli.run_display import watching
    from twinloop.cli.run_summary import document, figures_of, show
    from twinloop.execution import Interrupted
    from twinloop.execution import execute as run_scenario
    from twinloop.execution.announcement import survey_scenario

    with speaking(json):
        made = scenario_of(
            scenario,
            {
                "workload": workload,
                "platform": platform,
                "policy": policy,
                "source": replay,
                "time_scale": time_scale,
                "seed": seed,
            },
            pairs(option, "--option"),
            pairs(set_, "--set"),
        )
        find_code(allow_code)
        if dry_run:
            print_commands({"": survey_scenario(made, allow_code=allow_code)}, json)
            return
        if output is None:
            raise InputError("there is no folder to keep the run in", remedy="-o runs/first")
        inputs = [scenario, *made._files()]
        if picture is not None:
            refuse_page(picture, overwrite, *inputs)
            refuse_inside(picture, output)
        if overwrite:
            refuse_existing(output, overwrite, *inputs)
        interrupted = False
        try:
            with watching() as watcher:
                trace = run_scenario(
                    made,
                    output,
                    period=duration(interval, "--interval"),
                    isolation=isolation,
                    task_limit=None if task_limit is None else duration(task_limit, "--task-limit"),
                    grace=duration(grace, "--grace"),
                    power=() if power is Power.none else None,
                    overwrite=overwrite,
                    allow_code=allow_code,
                    announce=lambda text: err.print(text, markup=False, soft_wrap=True),
                    watcher=watcher,
                )
        except Interrupted as ended:
            trace, interrupted = ended.trace, True
        err.print(escape(f"wrote {output}"), soft_wrap=True)
        with working("counting"):
            found, trace = figures_of(made, trace, 0.0)
        if picture is not None:
            report.write_run_page(trace, picture)
            err.print(escape(f"wrote {picture}"), soft_wrap=True)
        if json:
            wall = trace.manifest.facts["run"]["wall_s"]
            print_json(document(trace, found, output, wall) | _measured(trace))
        else:
            show(trace, found)
            _show_measured(trace)
    if interrupted:
        err.print("interrupted: what ran until then is kept")
        raise typer.Exit(INTERRUPTED)
    if (trace.tasks["status"] != "completed").any():
        raise typer.Exit(INCOMPLETE)


def _measured(trace: Trace) -> dict[str, object]:
    facts = trace.manifest.facts
    return {
        "isolation": facts["nodes"]["isolation"],
        "warnings": facts["nodes"]["warnings"],
        "dispatch_latency_s": facts["latency"]["dispatch"]["p50_s"],
        "release_latency_s": facts["latency"]["release"]["p50_s"],
        "recording_share": facts["recording"]["share_of_core"],
        "interrupted": facts["run"]["interrupted"],
    }


def _show_measured(trace: Trace) -> None:
    facts = _measured(trace)
    out.print(f"\nkept apart by {facts['isolation']}", highlight=False)
    for name in ("dispatch", "release"):
        known = trace.manifest.facts["latency"][name]
        if known["count"]:
            out.print(
                f"{name} latency {1e3 * known['p50_s']:.1f} ms (median), "
                f"{1e3 * known['p95_s']:.1f} ms (95 %)",
                highlight=False,
            )
    share = facts["recording_share"]
    if isinstance(share, float):
        out.print(f"recording took {100 * share:.2f} % of one core", highlight=False)
    counted = report.format_count(trace.usage.height, "sample")
    out.print(f"{counted}; power: {_power(trace)}", highlight=False)


def _power(trace: Trace) -> str:
    said = trace.manifest.facts["power"]["said"]
    return "; ".join(said) if said else "measured"
