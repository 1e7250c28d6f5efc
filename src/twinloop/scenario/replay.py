"""Scenarios that replay a recorded run with its measured run times and latencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.scenario.model import Contention, Model
from twinloop.scenario.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import NODE_SPEEDS, require_trace
from twinloop.workload import Workload
from twinloop.workload.clocks import Clocks
from twinloop.workload.fragments import Fragments
from twinloop.workload.oversubscription import find_oversubscribed_nodes
from twinloop.workload.transfer_times import leave_out_transfers


def replay_scenario(trace: Trace, *, path: str | None = None) -> Scenario:
    """Create the scenario that replays a recorded run.

    Platform, policy and seed are those of the run. Tasks are submitted at their recorded times and
    take their measured run times. If users wait for results (sessions), submissions follow from
    the session graphs again; this needs the original workload.

    A measured run time already contains every effect that lengthens or shortens a task. The model
    parameters with such effects are therefore neutral in the replay: `speed_factor`,
    `service_factor`, `service_factors`, `startup_overhead` and `contention`. The work of a task is
    its run time multiplied by the speed of its slowest host, so it takes the same time there. If
    hosts were oversubscribed and CPU usage was not sampled, `sharing` is `no-delay`, because the
    run times contain the cost of sharing. With samples, sharing is simulated.

    The other parameters are kept, because run times do not contain their effects: the latencies
    (measured values if available), `decision_interval`, `effective_capacity`, `overrides`,
    `demand` and `kill_at_requested_time`.

    Args:
        trace: The run, with the scenario in its manifest.
        path: Path of the trace, to be used in the scenario in place of the trace itself.

    >>> from twinloop.engine import simulate
    >>> run = simulate(Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 20, "machine": 16}}}))
    >>> again = simulate(replay_scenario(run))
    >>> again.placements.equals(run.placements)
    True
    """
    recorded = Scenario.from_manifest(_scenario_with_trace(require_trace(trace)))
    has_sessions = recorded.source.sessions is not None
    has_samples = not has_sessions and not trace.usage.is_empty()
    model = _without_service_effects(with_measured_latencies(trace, recorded.model))
    if not has_samples and _is_oversubscribed(trace, recorded):
        model = model.replace(sharing="no-delay")
    changes: dict[str, Any] = {"model": model, "time_scale": 1.0}
    if not has_sessions:
        workload_trace = _store_speeds(trace, recorded)
        changes["workload"] = (
            workload_trace if path is None or workload_trace is not trace else path
        )
        return recorded.replace(**changes)
    if (
        trace.manifest.scenario is not None
        and "object" in trace.manifest.scenario["workload"]
        and trace.workload is None
    ):
        raise InputError(
            "the workload of this run was an object in memory and is not stored with its trace: "
            "the sessions of its users cannot be replayed",
            kind="not-stored",
            field="workload",
            remedy="write the workload with twinloop.write and use its path in the scenario",
        )
    if trace.manifest.facts.get("run", {}).get("added"):
        raise InputError(
            "tasks were added to this run, which the sessions of its users do not contain",
            kind="not-applicable",
            field="source",
            remedy="replay its tasks at their times: use the trace as the workload of a scenario",
        )
    original = Scenario.from_trace(trace)
    source = original.workload.resolve(original.seed)
    workload = source if isinstance(source, Workload) else Workload.from_trace(source)
    changes["time_scale"] = original.time_scale
    changes["workload"] = with_measured_run_times(
        workload,
        trace,
        speeds=_compute_host_speeds(recorded, workload.reference_mhz),
        model=recorded.model,
    )
    return recorded.replace(**changes)


def with_measured_latencies(trace: Trace, model: Model | None = None) -> Model:
    """Return the model with the mean measured latencies of a run.

    Means, not medians, because a mean preserves the sum of the latencies.

    >>> with_measured_latencies(Trace()).dispatch_latency
    0.0
    """
    model = Model() if model is None else model
    measured = trace.manifest.facts.get("latency", {})
    # "start" excludes the delay by other starts of the same decision, because only decisions
    # that start many tasks have such a delay.
    measures = {"dispatch_latency": "start", "release_latency": "release"}
    latencies = {
        name: measured.get(measure, {}).get("mean_s") for name, measure in measures.items()
    }
    latencies = {name: seconds for name, seconds in latencies.items() if seconds is not None}
    return model.replace(**latencies) if latencies else model


def with_measured_run_times(
    workload: Workload,
    trace: Trace,
    *,
    speeds: Mapping[str, float] | None = None,
    model: Model | None = None,
) -> Workload:
    """Return the workload with the measured run times of a run as work of its tasks.

    A task that did not complete in the run keeps its demand, constant or varying.

    Args:
        workload: The workload of the run.
        trace: The run.
        speeds: The speed of a core of each host of the run; by default 1.
        model: The model of the run; its factors scale the work of tasks that did not complete. By
            default they are 1.

    >>> log = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [1.0],
    ...                                    "work": [5.0], "limit": [1.0]}))
    >>> run = Trace(tasks=pl.DataFrame({"id": ["a"], "status": ["completed"], "run_time": [7.0]}))
    >>> with_measured_run_times(log, run).tasks.select("work", "run_time").row(0)
    (7.0, 5.0)
    """
    runs = leave_out_transfers(trace, collect_runs(trace), workload.task_files)
    run_times = runs["run_time"]
    completed = trace.tasks.with_columns(run_times).filter(pl.col("status") == "completed")
    completed = completed.select("id", took="run_time").drop_nulls()
    ran_at, _ = Clocks(trace.with_manifest(facts={NODE_SPEEDS: speeds or {}}), None).task_speeds(
        completed["id"]
    )
    completed = completed.with_columns(ran_at.fill_null(1.0).alias("ran_at"))
    lengths = pl.Series(workload.durations()).fill_nan(None)
    tasks = workload.tasks.with_columns(pl.coalesce("run_time", lengths).alias("run_time"))
    factors = _compute_service_factors(tasks["kind"], Model() if model is None else model)
    tasks = tasks.join(completed, on="id", how="left", maintain_order="left")
    cores = pl.col("cores") * pl.col("ran_at")
    is_measured = tasks["took"].is_not_null().to_numpy()
    tasks = tasks.with_columns(
        pl.coalesce(pl.col("took") * cores, pl.col("work") * factors).alias("work"),
        pl.coalesce(cores, "limit").alias("limit"),
        pl.coalesce("ran_at", "speed").alias("speed"),
    )
    fragments = workload.fragment_arrays
    task_of_fragment = np.repeat(fragments.tasks, np.diff(fragments.offsets))
    fragments = Fragments(
        fragments.tasks,
        fragments.offsets,
        fragments.durations * factors.to_numpy()[task_of_fragment],
        fragments.rates,
    )
    return Workload(
        tasks=tasks.drop("took", "ran_at"),
        fragments=fragments.renumber(np.where(is_measured, -1, np.arange(len(is_measured)))),
        files=workload.files,
        task_files=workload.task_files,
        reference_mhz=workload.reference_mhz,
        epoch_ms=workload.epoch_ms,
        cleaned=workload.cleaned,
        injected=("run times",),
        skipped=workload.skipped,
    )


def _without_service_effects(model: Model) -> Model:
    """Return the model with neutral values of the parameters that change run times.

    Measured run times already contain their effects.
    """
    return model.replace(
        speed_factor=1.0,
        service_factor=1.0,
        service_factors={},
        startup_overhead=0.0,
        contention=Contention(),
    )


def _compute_service_factors(kinds: pl.Series, model: Model) -> pl.Series:
    """Return the factor on the run time of each task by the model and its kind."""
    speed_factor = 1.0 if model.demand == "fixed" else model.speed_factor
    of_kind = kinds.replace_strict(
        list(model.service_factors), list(model.service_factors.values()),
        default=1.0, return_dtype=pl.Float64,
    )  # fmt: skip
    return of_kind * (model.service_factor / speed_factor)


def _compute_host_speeds(scenario: Scenario, reference_mhz: float | None) -> dict[str, float]:
    """Return the speed of a core of each host, without the speed factor of the model."""
    hosts = scenario.effective_platform().hosts()
    return {
        name: speed
        for (cluster, host), speed in zip(hosts, scenario.host_speeds(reference_mhz), strict=True)
        for name in host.node_names(cluster.name)
    }


def _store_speeds(trace: Trace, scenario: Scenario) -> Trace:
    """Return the trace with the speeds of its hosts as facts.

    If they follow from the clocks in the trace, the trace itself is returned.
    """
    clocks = Clocks(trace, trace.manifest.reference_mhz or scenario.platform.clock)
    speeds = _compute_host_speeds(scenario, clocks.reference)
    if clocks.node_speeds(speeds) == speeds:
        return trace
    return trace.with_manifest(facts={**trace.manifest.facts, NODE_SPEEDS: speeds})


def _is_oversubscribed(trace: Trace, scenario: Scenario) -> bool:
    """Whether more cores of a host were allocated at any time of the run than it has."""
    placed = trace.placements.drop_nulls(["machine", "cores", "start", "end"])
    return bool(find_oversubscribed_nodes(scenario.effective_platform().nodes(), placed))


def _scenario_with_trace(trace: Trace) -> dict[str, Any]:
    """Return the scenario in the manifest of a trace, with the trace itself as workload."""
    stored = trace.manifest.scenario
    if stored is None:
        raise InputError(
            "has no scenario in its manifest: the platform of the replay is unknown",
            kind="missing-scenario",
            field="scenario",
            remedy="give the platform and the policy with --platform and --policy",
        )
    source = stored.get("source")
    if isinstance(source, Mapping) and source.get("name") is not None:
        # The submissions of a source in Python are in the trace, with the tasks that it added.
        source = "rigid"
    return {**stored, "source": source or "rigid", "workload": trace}
