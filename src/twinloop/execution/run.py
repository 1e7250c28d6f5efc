"""Real execution of a scenario on this machine."""

from __future__ import annotations

import os
import platform as system
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.safe_text import escape_controls
from twinloop.engine import CompiledScenario
from twinloop.execution import burn_program
from twinloop.execution.announcement import CommandFile, list_commands, summarise, survey_tasks
from twinloop.execution.clock import RunClock
from twinloop.execution.dispatch_loop import DispatchLoop, TaskLimits
from twinloop.execution.expected_run_times import fill_expected_run_times
from twinloop.execution.interrupts import Interrupts
from twinloop.execution.leftovers import find_run_processes, kill_processes
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes import Guard, LocalNodes, NodeSpec, make_run_name, remove_stale_groups
from twinloop.execution.orphans import adopt_orphans
from twinloop.execution.power import Meter, PowerRecorder, find_meters
from twinloop.execution.process_trees import ProcessTrees
from twinloop.execution.run_folder import (
    JOURNAL,
    OUTPUT,
    PARTIAL,
    STORES,
    WORK,
    RunFolder,
    check_run_folder,
    make_run_write_error,
)
from twinloop.execution.run_journal import JournalError, read_entries
from twinloop.execution.run_progress import ProgressCallback
from twinloop.execution.run_trace import trace_from_journal
from twinloop.execution.staging import CopyRoutes, DataStores, FilePlan, Stager, plan_files
from twinloop.execution.task_commands import TaskCommands
from twinloop.execution.task_starter import DISK_ERRORS, TaskStarter
from twinloop.execution.usage_recorder import UsageRecorder, check_period
from twinloop.scenario import Scenario
from twinloop.trace import Manifest, Trace

#: Timeout of waits that should be endless (s). The signal handler of Polars restarts system calls,
#: so that Ctrl-C would not interrupt a wait without a timeout; a wait with one polls.
_FOREVER: Final = 1e9


class Interrupted(KeyboardInterrupt):
    """The user ended a run; `trace` is the run until then.

    >>> Interrupted(Trace()).trace
    <Trace of 0 tasks>
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        #: The run until the interruption.
        self.trace = trace


def execute(
    scenario: Scenario,
    folder: str | Path | None = None,
    *,
    period: float = 1.0,
    isolation: str = "auto",
    task_limit: float | None = None,
    grace: float = 2.0,
    power: Iterable[Meter] | None = None,
    overwrite: bool = False,
    allow_code: bool = False,
    inherit_output: bool = False,
    announced: bool = False,
    announce: Callable[[str], None] | None = None,
    on_progress: ProgressCallback | None = None,
) -> Trace:
    """Run a scenario as real processes, on nodes that share this machine; returns its Trace.

    The commands of the tasks are run as this user, without a shell. The policy and the source of
    submissions are those of the simulator. Where the platform has stores, the files of tasks are
    copied between the stores, folders of the run, and a working folder of each execution.

    Args:
        scenario: The scenario.
        folder: Folder of the run: the trace, and the output of tasks. By default the trace is only
            returned, and nothing is kept on disk.
        period: Time between two samples of the usage of tasks (s).
        isolation: Mechanism that limits tasks to their nodes: `auto` (the strongest that this
            machine allows), `cgroup2`, `cgroup1`, `affinity` or `none`.
        task_limit: Maximum run time of any task (s); a task is then ended with its descendants.
        grace: Time from SIGTERM to SIGKILL (s).
        power: Energy meters to read; by default those of this machine.
        overwrite: Whether to replace a run in the folder. A folder with other files, with a run
            that is still executed, or with an input of this run is never replaced.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        inherit_output: Whether tasks have the stdout and stderr of this process; their output is
            then not kept.
        announced: Whether the commands have been announced already; by default they are announced,
            and every command is written to `commands.txt` in the folder. The commands of tasks that
            the source adds are appended there in both cases, each before its first start.
        announce: Called with each line for the user, the commands first; by default the lines go
            to stderr.
        on_progress: Called regularly with the progress of the run.

    Raises:
        Interrupted: The user ended the run; it is kept until then.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "hello", "command": ["true"], "run_time": 0.01}]})
    >>> trace = execute(scenario)
    >>> trace.tasks["status"].to_list(), trace.manifest.kind
    (['completed'], 'recorded')
    """
    if not isinstance(scenario, Scenario):
        kind = type(scenario).__name__
        raise InputError(
            f"execute takes a Scenario, not a {kind}",
            kind="wrong-argument",
            remedy="load one with twinloop.load(...)",
        )
    notify = announce or _print_to_stderr
    limits = _make_limits(task_limit, grace)
    check_period(period)
    inputs = [Path(file) for file in scenario._files()]
    inputs += [Path(file.path) for file in scenario.workload.files if file.path is not None]
    if folder is not None:
        check_run_folder(Path(folder), overwrite=overwrite, inputs=inputs)
    if scenario.controllers:
        raise InputError(
            "a real execution follows the policy alone: it cannot switch or suspend machines as "
            f"'{scenario.controllers[0].name}' would order",
            kind="invalid-operation",
            field="controllers",
            remedy="remove the controllers, or simulate the scenario",
        )
    if scenario.platform.clouds:
        raise InputError(
            "a real execution starts processes on this machine: it cannot rent instances of cloud "
            f"'{scenario.platform.clouds[0].name}'",
            kind="invalid-operation",
            field="platform.clouds",
            remedy="remove the clouds and choose another policy, or simulate the scenario",
        )
    machine = LocalMachine.detect()
    workload, assumption = fill_expected_run_times(scenario.workload.resolve(scenario.seed))
    compiled = CompiledScenario(scenario, allow_code=allow_code, workload=workload)
    with ExitStack() as stack:
        path = Path(folder or stack.enter_context(tempfile.TemporaryDirectory())).absolute()
        path = path if folder is not None else path / "run"
        run = make_run_name()
        commands = TaskCommands(compiled, path / OUTPUT, run=run)
        file_plan = plan_files(compiled)
        survey = survey_tasks(scenario, commands, file_plan)
        command_file = CommandFile(path, None if announced else list_commands({"": survey}))
        stack.callback(command_file.withdraw)
        if not announced:
            for line in summarise(survey, command_file.path):
                notify(line)
        for line in remove_stale_groups():
            notify(f"remains of a killed run: {line}")
        # Interrupts wait until the guard has all groups: a group that is made before that would
        # not be removed.
        with Interrupts() as interrupts:
            specs = _make_specs(compiled)
            nodes = stack.enter_context(
                LocalNodes.create(specs, run=run, isolation=isolation, machine=machine)
            )
            guard = Guard.start(run, nodes.groups)
            stack.callback(guard.dismiss)
            stack.callback(
                kill_processes, lambda: find_run_processes(run)
            )  # processes outside of the groups
            stack.callback(nodes.close)
        if interrupts.count:
            raise KeyboardInterrupt
        for text in nodes.warnings:
            notify(f"less isolation than requested: {text}")
        _run_preparation(scenario, commands, notify)
        if file_plan is not None:
            file_plan = file_plan.with_paths_checked(path)
        rates = burn_program.make_rate_environment(commands.templates(), notify)
        commands.common |= rates
        if nodes.isolation in ("affinity", "none"):
            stack.enter_context(adopt_orphans())
        facts = {
            "mode": "real",
            "time_scale": scenario.time_scale,
            "machine": _describe_machine(machine),
            "nodes": nodes.facts(),
            "burn": rates or None,
            **({} if file_plan is None else {"files": file_plan.facts()}),
            "run": {
                "policy": compiled.policy.name,
                "cores": compiled.machines.platform.total_cores,
                "machines": compiled.machines.nodes.height,
                "skipped": compiled.workload.skipped,
            },
        }
        plan = _make_plan(compiled, machine, facts, period).with_manifest(cleaned=[assumption])
        if file_plan is not None:
            ignored = CopyRoutes.note_ignored(compiled.machines.platform)
            plan = file_plan.add_sizes(plan).with_manifest(cleaned=[ignored])
        run_folder = RunFolder.create(path, plan, overwrite=overwrite, inputs=inputs)
        command_file.keep()
        stack.callback(run_folder.close)
        meters = PowerRecorder(find_meters() if power is None else list(power), period=period)
        try:
            stores = _make_stores(file_plan, compiled, path)
            loop, run_facts = _run(
                compiled, run_folder, nodes, commands, command_file, meters, stores,
                period=period, limits=limits,
                inherit_output=inherit_output, on_progress=on_progress,
            )  # fmt: skip
            run_facts["run"] = facts["run"] | run_facts["run"]
            run_folder.journal.write(e="finish", t=run_facts["run"]["wall_s"], facts=run_facts)
            trace = trace_from_journal(plan, read_entries(path / JOURNAL))
            run_folder.finish(trace)
        except OSError as error:
            if isinstance(error, JournalError) or error.errno in DISK_ERRORS:
                raise make_run_write_error(path, error) from error
            raise TwinloopError(f"the run was aborted: {error}") from error
    if loop.interrupted:
        raise Interrupted(trace)
    return trace


def _run(
    compiled: CompiledScenario,
    run_folder: RunFolder,
    nodes: LocalNodes,
    commands: TaskCommands,
    command_file: CommandFile,
    meters: PowerRecorder,
    stores: DataStores | None,
    *,
    period: float,
    limits: TaskLimits,
    inherit_output: bool,
    on_progress: ProgressCallback | None,
) -> tuple[DispatchLoop, dict[str, Any]]:
    """Run all tasks; returns the loop and the facts of the run."""
    clock = RunClock()
    run_folder.journal.write(e="begin", t=0.0, epoch_ms=clock.epoch_ms)
    trees: ProcessTrees[tuple[int, int, int]] = ProcessTrees(nodes.run)
    recorder = UsageRecorder(clock, run_folder.journal, period=period, trees=trees)
    starter = TaskStarter(
        clock, nodes, commands, command_file, recorder, trees, inherit_output=inherit_output
    )
    stager = None
    if stores is not None:
        routes = CopyRoutes(compiled.machines.platform)
        ids = compiled.arrays.ids.to_list()
        stager = Stager(stores, routes, clock, ids, run_folder.path / WORK)
    loop = DispatchLoop(
        compiled,
        clock,
        run_folder.journal,
        starter,
        recorder,
        meters,
        stager=stager,
        limits=limits,
        on_progress=on_progress,
    )
    cpu_before = time.process_time()
    try:
        loop.run()
    finally:
        starter.close()
        if stager is not None:
            stager.close()
    wall = clock.now()
    cpu_seconds = time.process_time() - cpu_before
    return loop, {
        "latency": {
            "dispatch": loop.dispatch.facts(),
            "start": loop.start.facts(),
            "release": loop.release.facts(),
        },
        "recording": {
            **recorder.facts(),
            "clamped_starts": starter.clamped,
            "executor_cpu_s": cpu_seconds,
            "executor_share_of_core": cpu_seconds / wall if wall > 0 else None,
        },
        "power": meters.facts(),
        **({} if stager is None else {"staging": stager.facts()}),
        "run": {
            "wall_s": wall,
            "interrupted": loop.interrupted,
            **({"added": {compiled.scenario.source.title: loop.added}} if loop.added else {}),
        },
    }


def _make_stores(
    file_plan: FilePlan | None, compiled: CompiledScenario, path: Path
) -> DataStores | None:
    """Make the data stores of a run with the files that exist at the start."""
    if file_plan is None:
        return None
    platform = compiled.machines.platform
    stores = DataStores(file_plan, platform, path / STORES, path / PARTIAL)
    stores.create_initial_files()
    return stores


def _make_limits(task_limit: float | None, grace: float) -> TaskLimits:
    for field, value in (("task_limit", task_limit), ("grace", grace)):
        if value is not None and not 0 <= value < float("inf"):
            raise InputError(
                f"must be a finite time of 0 s or more, not {value}",
                kind="out-of-range",
                field=field,
            )
    return TaskLimits(grace=grace) if task_limit is None else TaskLimits(task_limit, grace)


def _make_specs(compiled: CompiledScenario) -> list[NodeSpec]:
    nodes = compiled.machines.nodes
    return [NodeSpec(*row) for row in nodes.select("node", "cores", "memory").iter_rows()]


def _print_to_stderr(text: str) -> None:
    print(escape_controls(text), file=sys.stderr)


def _run_preparation(
    scenario: Scenario, commands: TaskCommands, notify: Callable[[str], None]
) -> None:
    """Run the commands that prepare the files of the tasks."""
    folder = scenario.workload.folder or "."
    for index, step in enumerate(scenario.workload.prepare):
        if step.creates is not None and Path(step.creates).exists():
            notify(f"exists already: {step.creates}")
            continue
        field = f"workload.prepare[{index}]"
        try:
            result = subprocess.run(
                step.command,
                cwd=folder,
                env=commands.common,
                stdin=subprocess.DEVNULL,
                stdout=2,  # stdout is for results
                timeout=_FOREVER,
                check=False,
            )
        except OSError as error:
            raise InputError(
                f"cannot be run: {error}", kind="command-failed", field=field
            ) from None
        if result.returncode:
            command = shlex.join(step.command)
            raise InputError(
                f"ended with status {result.returncode}: {command}",
                kind="command-failed",
                field=field,
            )
        if step.creates is not None and not Path(step.creates).exists():
            raise InputError(
                f"did not create {step.creates}", kind="command-failed", field=f"{field}.creates"
            )


def _describe_machine(machine: LocalMachine) -> dict[str, Any]:
    return {
        "cpus": list(machine.cpus),
        "model": machine.model,
        "mhz": machine.mhz,
        "memory": machine.memory,
        "kernel": system.release(),
        "user": os.getuid(),
    }


def _make_plan(
    compiled: CompiledScenario, machine: LocalMachine, facts: dict[str, Any], period: float
) -> Trace:
    """Make the plan of a run: its Trace before any event."""
    declared = compiled.workload.to_trace()
    original = declared if compiled.trace is None else compiled.trace
    arrays = compiled.arrays
    rejected = np.array(compiled.rejected, dtype=bool)
    tasks = declared.tasks.with_columns(
        pl.Series("submit_recorded", arrays.submit),
        pl.lit(None, dtype=pl.Float64).alias("submit"),
        pl.Series("requested_cores", arrays.cores),
        pl.Series("requested_time", compiled.requested).fill_nan(None),
        # Without a requested time, the policy plans with the declared run time.
        pl.when(pl.Series(np.isnan(compiled.requested)))
        .then(pl.Series(compiled.workload.durations()).fill_nan(None))
        .alias("planned_time"),
        pl.when(pl.Series(rejected)).then(pl.lit("rejected")).alias("status"),
        pl.Series("deadline", arrays.deadline).replace(np.inf, None),
    )
    return Trace(
        manifest=Manifest(
            kind="recorded",
            scenario=compiled.scenario.to_manifest(),
            seed=compiled.scenario.seed,
            sampling_period=period,
            cleaned=(*original.manifest.cleaned, *compiled.cleaned),
            facts=facts,
        ),
        tasks=tasks,
        # By default a node has the clock rate and the memory of the machine.
        nodes=compiled.machines.nodes.with_columns(
            pl.col("mhz").fill_null(machine.mhz), pl.col("memory").fill_null(float(machine.memory))
        ),
        files=original.files,
        task_files=original.task_files,
    ).with_workload(compiled.scenario.workload.object)
