"""The scenario that replays a run: as it was, but with what was measured for what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.scenario.model import Contention, Model
from twinloop.scenario.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.trace import NODE_SPEEDS, require_trace
from twinloop.workload import Workload
from twinloop.workload.clocks import Clocks
from twinloop.workload.fragments import Fragments
from twinloop.workload.oversubscription import find_oversubscribed_nodes


def replay_scenario(trace: Trace, *, path: str | None = None) -> Scenario:
    """The scenario to simulate in order to replay a run.

    Platform, policy and seed are those of the run. The tasks are submitted when they were, and
    take what they took. With users who wait, the submissions follow from theirs again, so the
    workload must still be where it was.

    What was measured holds all that makes a task longer or shorter. So the parts of the model that
    would do that a second time are neutral in the replay: `speed_factor`, `service_factor`,
    `service_factors`, `startup_overhead` and `contention`. The work of a task is what it took,
    times the speed of the slowest host that it ran on: there it takes the same again. Where cores
    were given away twice and no CPU use was sampled, `sharing` is `no-delay`: the run times say
    already what sharing cost. With samples, how tasks share is worked out again.

    All else stays, because no run time has it in it: the latencies (those that were measured, where
    they were), `decision_interval`, `effective_capacity`, `overrides`, `demand` and
    `kill_at_requested_time`.

    Args:
        trace: The run, with the scenario in its manifest.
        path: Where the trace is, to be named in the scenario in place of the object itself.

    >>> from twinloop.engine import simulate
    >>> run = simulate(Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 20, "machine": 16}}}))
    >>> again = simulate(replay_scenario(run))
    >>> again.placements.equals(run.placements)
    True
    """
    kept = Scenario.from_manifest(_held_apart(require_trace(trace)))
    sessions = kept.source.sessions is not None
    sampled = not sessions and not trace.usage.is_empty()
    model = _without_service(with_measured_latencies(trace, kept.model))
    if not sampled and _gave_cores_twice(trace, kept):
        model = model.replace(sharing="no-delay")
    changes: dict[str, Any] = {"model": model, "time_scale": 1.0}
    if not sessions:
        ran = _with_speeds(trace, kept)
        changes["workload"] = ran if path is None or ran is not trace else path
        return kept.replace(**changes)
    if (
        trace.manifest.scenario is not None
        and "object" in trace.manifest.scenario["workload"]
        and trace.workload is None
    ):
        raise InputError(
            "the workload of this run was an object in memory, and is not kept with its trace: "
            "its users cannot be replayed",
            field="workload",
            remedy="write it with twinloop.write first, and name its path in the scenario",
        )
    original = Scenario.from_trace(trace)
    given = original.workload.resolve(original.seed)
    workload = given if isinstance(given, Workload) else Workload.from_trace(given)
    changes["time_scale"] = original.time_scale
    changes["workload"] = with_measured_run_times(
        workload, trace, speeds=_speeds(kept, workload.reference_mhz), model=kept.model
    )
    return kept.replace(**changes)


def with_measured_latencies(trace: Trace, model: Model | None = None) -> Model:
    """The model with the latencies that a run measured, the mean of each: so the sums are right.

    >>> with_measured_latencies(Trace()).dispatch_latency
    0.0
    """
    model = Model() if model is None else model
    said = trace.manifest.facts.get("latency", {})
    # Of the time from a decision to a start, what is due to the other starts of the same decision
    # is left out: it comes with large decisions, not with every task.
    means = {"dispatch_latency": "start", "release_latency": "release"}
    found = {name: said.get(of, {}).get("mean_s") for name, of in means.items()}
    found = {name: seconds for name, seconds in found.items() if seconds is not None}
    return model.replace(**found) if found else model


def with_measured_run_times(
    workload: Workload,
    trace: Trace,
    *,
    speeds: Mapping[str, float] | None = None,
    model: Model | None = None,
) -> Workload:
    """The same tasks, users and pauses; each task takes what it took in that run.

    A task that did not complete there keeps the demand that it has, also where that varies.

    Args:
        workload: What was run.
        trace: The run.
        speeds: The speed of a core of each host of the run; by default 1.
        model: The model of the run, whose factors the work of a task that did not complete is
            multiplied by; by default they are 1.

    >>> log = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [1.0],
    ...                                    "work": [5.0], "limit": [1.0]}))
    >>> run = Trace(tasks=pl.DataFrame({"id": ["a"], "status": ["completed"], "run_time": [7.0]}))
    >>> with_measured_run_times(log, run).tasks.select("work", "run_time").row(0)
    (7.0, 5.0)
    """
    took = trace.tasks.filter(pl.col("status") == "completed").select("id", took="run_time")
    took = took.drop_nulls()
    ran_at, _ = Clocks(trace.with_manifest(facts={NODE_SPEEDS: speeds or {}}), None).speeds(
        took["id"]
    )
    took = took.with_columns(ran_at.fill_null(1.0).alias("ran_at"))
    lengths = pl.Series(workload.durations()).fill_nan(None)
    tasks = workload.tasks.with_columns(pl.coalesce("run_time", lengths).alias("run_time"))
    longer = _service(tasks["kind"], Model() if model is None else model)
    tasks = tasks.join(took, on="id", how="left", maintain_order="left")
    cores = pl.col("cores") * pl.col("ran_at")
    known = tasks["took"].is_not_null().to_numpy()
    tasks = tasks.with_columns(
        pl.coalesce(pl.col("took") * cores, pl.col("work") * longer).alias("work"),
        pl.coalesce(cores, "limit").alias("limit"),
        pl.coalesce("ran_at", "speed").alias("speed"),
    )
    left = workload.fragment_arrays
    each = np.repeat(left.tasks, np.diff(left.offsets))
    left = Fragments(left.tasks, left.offsets, left.durations * longer.to_numpy()[each], left.rates)
    return Workload(
        tasks=tasks.drop("took", "ran_at"),
        fragments=left.move(np.where(known, -1, np.arange(len(known)))),
        files=workload.files,
        task_files=workload.task_files,
        reference_mhz=workload.reference_mhz,
        epoch_ms=workload.epoch_ms,
        cleaned=workload.cleaned,
        injected=("run times",),
    )


def _without_service(model: Model) -> Model:
    """The model without what makes tasks longer or shorter: what was measured has that in it."""
    return model.replace(
        speed_factor=1.0,
        service_factor=1.0,
        service_factors={},
        startup_overhead=0.0,
        contention=Contention(),
    )


def _service(kinds: pl.Series, model: Model) -> pl.Series:
    """How many times as long each task takes by the factors of a model, by its kind."""
    faster = 1.0 if model.demand == "fixed" else model.speed_factor
    of_kind = kinds.replace_strict(
        list(model.service_factors), list(model.service_factors.values()),
        default=1.0, return_dtype=pl.Float64,
    )  # fmt: skip
    return of_kind * (model.service_factor / faster)


def _speeds(scenario: Scenario, reference_mhz: float | None) -> dict[str, float]:
    """The speed of a core of each host, without the factor of the model."""
    hosts = scenario.effective_platform().hosts()
    return {
        name: speed
        for (cluster, host), speed in zip(hosts, scenario.host_speeds(reference_mhz), strict=True)
        for name in host.node_names(cluster.name)
    }


def _with_speeds(trace: Trace, scenario: Scenario) -> Trace:
    """The trace, noted with the speeds of its hosts where its clocks say others, or nothing."""
    clocks = Clocks(trace, trace.manifest.reference_mhz or scenario.platform.clock)
    speeds = _speeds(scenario, clocks.reference)
    if clocks.of_nodes(speeds) == speeds:
        return trace
    return trace.with_manifest(facts={**trace.manifest.facts, NODE_SPEEDS: speeds})


def _gave_cores_twice(trace: Trace, scenario: Scenario) -> bool:
    """Whether a host of the run ever had more cores in use than it has."""
    placed = trace.placements.drop_nulls(["machine", "cores", "start", "end"])
    return bool(find_oversubscribed_nodes(scenario.effective_platform().nodes(), placed))


def _held_apart(trace: Trace) -> dict[str, Any]:
    """The scenario in a manifest, with the trace itself where an object cannot be kept."""
    kept = trace.manifest.scenario
    if kept is None:
        raise InputError(
            "keeps no scenario in its manifest, so the platform to replay it on is not known",
            field="scenario",
            remedy="give platform and policy yourself, as --platform and --policy",
        )
    return {**kept, "workload": trace}
