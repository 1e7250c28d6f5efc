"""Repetitions of a workflow that record run times and makespans alone: predictions by losses.

Its functions are used by `workflow_accuracy.py`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from flowbench import Job, format_table, schedule

import twinloop as tl
from twinloop.calibration.losses import LOSSES
from twinloop.calibration.run_columns import RunBatch, RunColumns
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario, workflow_scenario_of_run

#: Range of an overhead (s), and a model in which all overheads are parameters.
RANGE = {"linear": [0, 60]}
NEUTRAL = {"detail": {"submission": "negotiator"}}
#: The overhead that is fitted to makespans, which determine one number: a core is held until the
#: start of a job.
SINGLE, SINGLE_BUDGET = "dispatch_latency", 60
#: What is fitted if files are moved: their bandwidths at the store of the submit host, too.
MOVED = {
    SINGLE: RANGE,
    "platform.stores[0].read": {"exponential": ["5 MB/s", "5 GB/s"]},
    "platform.stores[0].write": {"exponential": ["5 MB/s", "5 GB/s"]},
}
MOVED_BUDGET = 150
LOSS_NAMES = ("L1", "L2", "L3", "L4", "L5", "L6")
#: A date in the name of a job, which differs between repetitions.
DATE = r"\d{8}T\d{6}Z_"
#: A job that runs on the submit host, by which this is known.
TRANSFER = "stage_in"


def schedule_crudely(run: tl.Trace, others: Sequence[tl.Trace], cores: int) -> float:
    """Return the makespan of list scheduling by id with mean run times and no overheads.

    All jobs take a core. It is the baseline that a simulator has to beat.
    """
    means = average_run_times(others)
    ids = run.tasks["id"].to_list()
    rows = {name: row for row, name in enumerate(ids)}
    order = {name: place for place, name in enumerate(sorted(ids))}
    jobs = [
        Job(means[name], 0, 0, 0, True, tuple(rows[parent] for parent in parents or ()))
        for name, parents in run.tasks.select("id", "parents").iter_rows()
    ]
    return schedule(jobs, cores, first=[order[name] for name in ids])


def average_run_times(runs: Sequence[tl.Trace]) -> dict[str, float]:
    """Return the mean run time of each task (s)."""
    times = pl.concat(run.tasks.select("id", "run_time") for run in runs)
    return dict(times.group_by("id").agg(pl.col("run_time").mean()).iter_rows())


def declare(run: tl.Trace, scenario: Scenario) -> tl.Trace:
    """Return the run with the scenario that simulates it, as a calibration needs it."""
    return run.with_manifest(scenario=scenario.to_manifest()).with_workload(
        scenario.workload.object
    )


def count_cores(scenario: Scenario) -> int:
    """Count the cores of the workers."""
    return sum(host.count * int(host.cores) for host in scenario.platform.clusters[0].hosts)


class Repetitions(NamedTuple):
    """Repetitions of a workflow, of which only run times and makespans are recorded."""

    name: str
    runs: list[tl.Trace]
    submit_host: list[str]
    notes: list[str]


def read_repetitions(folder: Path) -> list[Repetitions]:
    """Read the runs NAME-NNN.json(.gz) in a folder, the repetitions of each name together.

    Most runs of a name have the same jobs; others are of another version, and are left out.
    """
    groups: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        found = re.fullmatch(r"(.+)-(\d+)\.json(\.gz)?", file.name)
        if found:
            groups.setdefault(found[1], []).append(file)
    return [make_repetitions(name, files) for name, files in groups.items()]


def make_repetitions(name: str, files: Sequence[Path]) -> Repetitions:
    """Read repetitions, with the same names of jobs in all of them."""
    runs = [remove_dates(tl.read(file)) for file in files]
    keys = [frozenset(run.tasks["id"]) for run in runs]
    usual = max(keys, key=keys.count)
    notes = [
        f"{file.name} is left out: another version of the workflow ({run.tasks.height} jobs, "
        f"{len(key - usual)} of them with other names, {run.manifest.facts['makespan']:.0f} s)"
        for file, run, key in zip(files, runs, keys, strict=True)
        if key != usual
    ]
    kept = [run for run, key in zip(runs, keys, strict=True) if key == usual]
    first = kept[0]
    transfers = first.tasks.filter(pl.col("id").str.starts_with(TRANSFER))["id"].to_list()
    hosts = first.placements.filter(pl.col("task").is_in(transfers))["machine"]
    unmeasured = (first.tasks["run_time"] == 0).sum()
    notes.append(f"{unmeasured} of {first.tasks.height} jobs have no run time (transfers: 0 s)")
    empty = (first.files["size"] == 0).sum()
    notes.append(f"{empty} of {first.files.height} files have the size 0")
    cpu, wall = (
        sum(run.tasks[column].sum() for run in kept) for column in ("cpu_time", "run_time")
    )
    notes.append(f"{cpu / wall:.0%} of the run times are CPU time")
    return Repetitions(name, kept, hosts.unique().to_list(), notes)


def remove_dates(run: tl.Trace) -> tl.Trace:
    """Remove dates from the names of jobs."""
    parents = pl.col("parents").list.eval(pl.element().str.replace(DATE, ""))
    return run.replace(
        tasks=run.tasks.with_columns(pl.col("id").str.replace(DATE, ""), parents),
        placements=run.placements.with_columns(pl.col("task").str.replace(DATE, "")),
        task_files=run.task_files.with_columns(pl.col("task").str.replace(DATE, "")),
    )


def forget_zero_times(run: tl.Trace) -> tl.Trace:
    """Return the run without the run times of 0 s: these jobs were not measured."""
    known = pl.when(pl.col("run_time") > 0).then(pl.col("run_time"))
    return run.replace(tasks=run.tasks.with_columns(run_time=known))


def fit_single(runs: Sequence[tl.Trace], submit_host: Sequence[str]) -> dict[str, float]:
    """Fit one overhead to the makespans of runs (L1), with their run times given."""
    declared = [
        declare(
            forget_zero_times(run),
            workflow_scenario_of_run(run, submit_host=submit_host, model=NEUTRAL),
        )
        for run in runs
    ]
    return tl.calibrate(
        declared, parameters={SINGLE: RANGE}, loss="L1", budget=SINGLE_BUDGET, analysis=0
    ).values


def fit_moved(runs: Sequence[tl.Trace], submit_host: Sequence[str]) -> dict[str, float]:
    """Fit the overhead and the bandwidths to run times, too (L3), with CPU times given."""
    declared = [
        declare(forget_zero_times(run), move_files(run, [run], submit_host)) for run in runs
    ]
    return tl.calibrate(
        declared, parameters=MOVED, loss="L3", budget=MOVED_BUDGET, analysis=0
    ).values


def move_files(run: tl.Trace, times: Sequence[tl.Trace], submit_host: Sequence[str]) -> Scenario:
    """Return the scenario in which jobs of the workers read and write their files.

    A recorded run time contains the time in which the job waits for its files, and its CPU time
    does not: the computation is the mean CPU time.
    """
    scenario = workflow_scenario_of_run(run, times=times, submit_host=submit_host, model=NEUTRAL)
    workload = scenario.workload.object
    cpu = pl.concat(each.tasks.select("id", "cpu_time") for each in times)
    means = cpu.group_by("id").agg(pl.col("cpu_time").mean())
    computes = pl.col("queue") == "workers"
    tasks = workload.tasks.join(means, on="id", how="left", maintain_order="left").with_columns(
        work=pl.when(computes).then(pl.min_horizontal("cpu_time", "work")).otherwise("work")
    )
    uses = run.task_files.join(tasks.filter(computes), left_on="task", right_on="id", how="semi")
    return scenario.replace(
        workload=tl.Workload(
            tasks=tasks.drop("cpu_time"),
            files=run.files.join(uses, on="file", how="semi"),
            task_files=uses,
            injected=workload.injected,
        ),
        platform={
            **scenario.platform.to_dict(),
            "stores": [{"name": "submit-store", "read": "100 MB/s", "write": "100 MB/s"}],
        },
    )


class LossResult(NamedTuple):
    """Losses by way to simulate and name of the loss, as shares, and the fitted values."""

    losses: dict[str, dict[str, float]]
    #: Values for each predicted run, fitted to the others: without and with moved files.
    fits: list[dict[str, float]]
    moved_fits: list[dict[str, float]]


def assess_repetitions(all_repetitions: Sequence[Repetitions]) -> dict[str, LossResult]:
    """Assess the losses L1 to L6 of each workflow, also with overheads fitted to the others."""
    alone = {each.name: fit_single(each.runs, each.submit_host) for each in all_repetitions}
    return {
        each.name: assess_losses(each, {k: v for k, v in alone.items() if k != each.name})
        for each in all_repetitions
    }


def assess_losses(
    repetitions: Repetitions, elsewhere: Mapping[str, dict[str, float]]
) -> LossResult:
    """Assess predictions of each repetition by the losses, with times of the other repetitions.

    `elsewhere` has overheads that are fitted to other workflows.
    """
    runs, submit_host = repetitions.runs, repetitions.submit_host
    single, moved, found = [], [], []
    for row, run in enumerate(runs):
        others = [*runs[:row], *runs[row + 1 :]]
        single.append(fit_single(others, submit_host))
        moved.append(fit_moved(others, submit_host))
        own = workflow_scenario_of_run(run, submit_host=submit_host, model=NEUTRAL)
        scenario = workflow_scenario_of_run(
            run, times=others, submit_host=submit_host, model=NEUTRAL
        )
        twin = simulate_twin(scenario, single[-1])
        real = RunColumns.of(forget_zero_times(run), tasks=twin.tasks, machines=twin.machines)
        makespan = float(np.mean([each.manifest.facts["makespan"] for each in runs]))
        crude = schedule_crudely(run, others, count_cores(scenario))
        twins = {
            "noise": make_twin(real, average_run_times(runs), makespan),
            "crude": make_twin(real, average_run_times(others), crude),
            "replay, fitted": simulate_twin(own, single[-1]),
            "predict, fitted": twin,
            "predict, files": simulate_twin(move_files(run, others, submit_host), moved[-1]),
        }
        for name, values in elsewhere.items():
            twins[f"predict, fitted to {name}"] = simulate_twin(scenario, values)
        found.append(
            {
                name: {loss: float(LOSSES[loss]([real], each)[0]) for loss in LOSS_NAMES}
                for name, each in twins.items()
            }
        )
    return LossResult(combine_losses(found), single, moved)


def combine_losses(
    found: Sequence[Mapping[str, Mapping[str, float]]],
) -> dict[str, dict[str, float]]:
    """Combine the losses of several runs, by the mean or the largest."""
    combine = {"avg": np.mean, "max": np.max}
    return {
        name: {
            loss: float(combine[LOSSES[loss].aggregation]([each[name][loss] for each in found]))
            for loss in LOSS_NAMES
        }
        for name in found[0]
    }


def simulate_twin(scenario: Scenario, values: Mapping[str, float]) -> RunBatch:
    """Simulate a run in the form that losses compare."""
    compiled = CompiledScenario(scenario)
    outputs = compiled.run_many([values], outputs=["makespan_s", "task_start", "task_end"])
    return RunBatch.of(outputs, tasks=compiled.names.tasks, machines=compiled.names.machines)


def make_twin(real: RunColumns, run_times: Mapping[str, float], makespan: float) -> RunBatch:
    """Make a run of given run times and makespan in the form that losses compare."""
    ends = [[run_times[name] for name in real.tasks]]
    outputs = {"makespan_s": [makespan], "task_start": np.zeros_like(ends), "task_end": ends}
    return RunBatch.of(outputs, tasks=real.tasks, machines=real.machines)


def describe_losses(result: LossResult) -> str:
    """Describe the losses (%): a row for each way to simulate."""
    modes = {"noise": "-", "replay, fitted": "replay"}
    rows = [("", "mode", *LOSS_NAMES)]
    for name, losses in result.losses.items():
        cells = (f"{100 * losses[each]:.2f}" for each in LOSS_NAMES)
        rows.append((name, modes.get(name, "predict"), *cells))
    return format_table(rows)


def describe_ranges(fits: Sequence[Mapping[str, float]]) -> str:
    """Describe the least and the greatest of fitted values.

    >>> describe_ranges([{"dispatch_latency": 20.0}, {"dispatch_latency": 21.5}])
    'dispatch_latency 20-21.5'
    """
    return ", ".join(
        f"{name} {min(each[name] for each in fits):.3g}-{max(each[name] for each in fits):.3g}"
        for name in fits[0]
    )
