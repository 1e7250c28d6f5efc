"""The scenario that replays a run: as it was, but with what was measured for what was said."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from twinloop.scenario.model import Model
from twinloop.scenario.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.trace import required
from twinloop.workload import Workload


def replaying(trace: Trace, *, path: str | None = None) -> Scenario:
    """The scenario to simulate in order to replay a run.

    Platform, policy and seed are those of the run. The tasks are submitted when they were, and
    take what they took; the latencies of the model are those that were measured. With users who
    wait, the submissions follow from theirs again, so the workload must still be where it was.

    Args:
        trace: The run, with the scenario in its manifest.
        path: Where the trace is, to be named in the scenario in place of the object itself.

    >>> from twinloop.engine import simulate
    >>> run = simulate(Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 20, "machine": 16}}}))
    >>> again = simulate(replaying(run))
    >>> again.placements.equals(run.placements)
    True
    """
    kept = Scenario.from_manifest(_held_apart(required(trace)))
    model = measured(trace, kept.model)
    changes: dict[str, Any] = {"model": model, "time_scale": 1.0}
    if kept.source.sessions is None:
        changes["workload"] = trace if path is None else path
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
    changes["workload"] = with_service_of(workload, trace)
    return kept.replace(**changes)


def measured(trace: Trace, model: Model | None = None) -> Model:
    """The model with the latencies that a run measured, the mean of each: so the sums are right.

    >>> measured(Trace()).dispatch_latency
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


def with_service_of(workload: Workload, trace: Trace) -> Workload:
    """The same tasks, users and pauses; each task takes what it took in that run.

    A task that did not complete there is left as it is, also where its demand varies.

    >>> log = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [1.0],
    ...                                    "work": [5.0], "limit": [1.0]}))
    >>> run = Trace(tasks=pl.DataFrame({"id": ["a"], "status": ["completed"], "run_time": [7.0]}))
    >>> with_service_of(log, run).tasks.select("work", "run_time").row(0)
    (7.0, 5.0)
    """
    took = trace.tasks.filter(pl.col("status") == "completed").select("id", took="run_time")
    lengths = pl.Series(workload.durations()).fill_nan(None)
    tasks = workload.tasks.with_columns(pl.coalesce("run_time", lengths).alias("run_time"))
    tasks = tasks.join(took, on="id", how="left", maintain_order="left").with_columns(
        pl.coalesce(pl.col("took") * pl.col("cores"), "work").alias("work"),
        pl.when(pl.col("took").is_not_null()).then("cores").otherwise("limit").alias("limit"),
    )
    known = tasks["took"].is_not_null().to_numpy()
    return Workload(
        tasks=tasks.drop("took"),
        fragments=workload.varying.move(np.where(known, -1, np.arange(len(known)))),
        files=workload.files,
        task_files=workload.task_files,
        reference_mhz=workload.reference_mhz,
        epoch_ms=workload.epoch_ms,
        cleaned=workload.cleaned,
        injected=("run times",),
    )


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
