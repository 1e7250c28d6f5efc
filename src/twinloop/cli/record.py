"""`twinloop record`: record the resource usage of a command or of running processes."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twinloop import report
from twinloop.cli.commands import INTERRUPTED
from twinloop.cli.console import err, escape
from twinloop.cli.output import Json, Overwrite, print_json, report_errors
from twinloop.cli.recording_options import (
    DryRun,
    Interval,
    Power,
    PowerOption,
    parse_duration,
    print_commands,
)
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.scenario import Scenario
    from twinloop.trace import Trace

#: Options after the first word of CMD belong to CMD.
SETTINGS: Final = {"allow_interspersed_args": False}
#: Exit status of shells for a program that could not be started.
NOT_STARTED: Final = 127


def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- CMD...]", help="The command to run and record.", show_default=False
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the trace.")] = ...,  # type: ignore[assignment]
    pid: Annotated[
        list[int] | None,
        typer.Option(help="Record this process; repeatable."),
    ] = None,
    cgroup: Annotated[
        str | None,
        typer.Option(help="Record this control group."),
    ] = None,
    cores: Annotated[
        float | None,
        typer.Option(help="Requested cores; by default all."),
    ] = None,
    interval: Interval = "1s",
    for_: Annotated[
        str | None,
        typer.Option("--for", help="Stop after this time.", metavar="TIME"),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(help="none (process tree), or as in `twinloop execute`."),
    ] = "none",
    power: PowerOption = Power.auto,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Record what a command or a running process uses.

    The command runs as given, without a shell; with --json its output goes to stderr. A running
    process is recorded until it ends or until Ctrl-C; the recording is saved in both cases. Exit
    status: that of the command, 128 + signal if it was killed, 127 if it could not be started.

    - `twinloop record -o runs/make -- make -j4`
    - `twinloop record -o runs/service --pid 4711 --for 10min`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.execution import attach
    from twinloop.execution.announcement import survey_scenario

    with report_errors(json):
        period = parse_duration(interval, "--interval")
        if bool(command) + bool(pid) + (cgroup is not None) != 1:
            raise InputError(
                "exactly one of a command, --pid and --cgroup is needed",
                kind="missing-argument",
                remedy="twinloop record -o DIR -- CMD",
            )
        if dry_run:
            if not command:
                raise InputError(
                    "--dry-run applies to a command: --pid and --cgroup run nothing",
                    kind="inapplicable-option",
                )
            print_commands({"": survey_scenario(_make_scenario(command, cores))}, json)
            return
        if command:
            if for_ is not None:
                raise InputError(
                    "--for applies to --pid and --cgroup: a command ends by itself",
                    kind="inapplicable-option",
                )
            with _redirect_to_stderr(json):
                trace, status = _run(
                    command, output, period, isolation, power, cores=cores, overwrite=overwrite
                )
        else:
            what = (
                f"control group {cgroup}"
                if cgroup
                else f"{report.format_count(len(pid or ()), 'tree')} of processes"
            )
            err.print(escape(f"recording {what}; Ctrl-C ends the recording and saves it"))
            trace = attach(
                pid or (),
                cgroup=cgroup,
                folder=output,
                period=period,
                until=None if for_ is None else parse_duration(for_, "--for"),
                power=power.value,
                overwrite=overwrite,
            )
            status = 0
        _show(trace, output)
        if json:
            print_json(_make_document(trace, output))
    raise typer.Exit(status)


def _run(
    command: list[str],
    output: Path,
    period: float,
    isolation: str,
    power: Power,
    *,
    cores: float | None,
    overwrite: bool,
) -> tuple[Trace, int]:
    """Run a command alone on this machine; return its trace and the exit status."""
    from twinloop.execution import Interrupted, execute

    try:
        trace = execute(
            _make_scenario(command, cores),
            output,
            period=period,
            isolation=isolation,
            power=None if power is Power.auto else (),
            overwrite=overwrite,
            inherit_output=True,
            announce=lambda text: err.print(escape(text), soft_wrap=True),
        )
    except Interrupted as interrupted:
        return interrupted.trace, INTERRUPTED
    code = trace.tasks["exit_code"][0]
    if code is None:
        return trace, NOT_STARTED
    return trace, code if code >= 0 else 128 - code


def _make_scenario(command: list[str], cores: float | None) -> Scenario:
    """Make a scenario with the command as its only task, on this machine."""
    from twinloop.execution import LocalMachine
    from twinloop.scenario import Scenario

    if not all(_is_utf8(word) for word in command):
        raise InputError(
            "a word of the command is not UTF-8, so a trace cannot store it", kind="invalid-command"
        )
    machine_cores = LocalMachine.detect().cores
    if cores is not None and not 0 < cores <= machine_cores:
        raise InputError(
            f"must be positive and at most {machine_cores:g}", kind="out-of-range", field="--cores"
        )
    task = {
        "id": Path(command[0]).name or command[0],
        # Literal words: braces must not be read as templates.
        "command": [word.replace("{", "{{").replace("}", "}}") for word in command],
        "folder": str(Path.cwd()),
        "cores": machine_cores if cores is None else cores,
        "user": getpass.getuser(),
    }
    # The user's own PATH, without the programs of Twinloop. It is left out if it is not set (the
    # default is not UTF-8) or cannot be stored.
    if _is_utf8(os.environ.get("PATH", "\udcff")):
        task["environment"] = {"PATH": os.environ["PATH"].replace("{", "{{").replace("}", "}}")}
    return Scenario(platform=f"1x{machine_cores:g}", workload={"tasks": [task]}, policy="fcfs")


def _is_utf8(word: str) -> bool:
    """Whether a word of the command line is valid UTF-8."""
    return not any("\udc80" <= each <= "\udcff" for each in word)


@contextmanager
def _redirect_to_stderr(enabled: bool) -> Iterator[None]:
    """Redirect stdout of child processes to stderr."""
    if not enabled:
        yield
        return
    sys.stdout.flush()
    saved_stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)


def _show(trace: Trace, output: Path) -> None:
    for row in trace.tasks.iter_rows(named=True):
        run_time, cpu_time, memory = row["run_time"], row["cpu_time"], row["memory_used"]
        parts = [
            row["status"] or "recorded",
            "run time unknown" if run_time is None else f"{run_time:.3f} s",
            "CPU time unknown" if cpu_time is None else f"{cpu_time:.3f} CPU s",
            "memory unknown" if memory is None else f"at most {memory / 2**20:.1f} MiB",
        ]
        err.print(escape(f"{row['id']}: {', '.join(parts)}"), soft_wrap=True)
    cost = trace.manifest.facts["recording"]["share_of_core"]
    share = "" if cost is None else f"; recording took {cost:.2%} of a core"
    err.print(f"{report.format_count(trace.usage.height, 'sample')}{share}")
    for note in trace.manifest.cleaned:
        err.print(escape(f"  {note}"), soft_wrap=True)
    err.print(escape(f"wrote {output}"), soft_wrap=True)


def _make_document(trace: Trace, output: Path) -> dict[str, Any]:
    names = {"run_time": "run_time_s", "cpu_time": "cpu_s", "memory_used": "peak_bytes"}
    columns = ("id", "pid", "status", "exit_code", *names)
    return {
        "output": str(output),
        "tasks": trace.tasks.select(columns).rename(names).to_dicts(),
        "samples": trace.usage.height,
        "recording": trace.manifest.facts["recording"],
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
    }
