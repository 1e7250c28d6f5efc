"""The scenario that simulates a recorded run of a workflow again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.scenario.model import Model
from twinloop.scenario.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import require_trace
from twinloop.workload import Workload
from twinloop.workload.cleaning_notes import note

#: The clusters of the scenario and their queues.
_WORKERS: Final = "workers"
_SUBMIT: Final = "submit"
#: A job of the submit host must not wait behind one that waits for a core of a worker.
_POLICY: Final = {"name": "first-fit", "options": {"queue": "skip"}}
#: What a scenario takes from its run: lengths of tasks, delays of each, and of all in common.
_RUN_TIMES: Final = "run times"
_START_DELAYS: Final = "start delays"
_SUBMISSION_DELAYS: Final = "submission delays"


def workflow_scenario_of_run(
    run: Trace,
    *,
    times: Trace | Sequence[Trace] | None = None,
    model: Model | Mapping[str, Any] | None = None,
    cores: float | None = None,
    submit_host: Collection[str] = ("local",),
    max_start_delay: float = 30.0,
) -> Scenario:
    """Create the scenario that simulates a recorded run of a workflow.

    The tasks have its dependencies, and get cores in the order of their submission, then of its
    rows; a task that does not fit is passed by others, as by HTCondor. Jobs of the submit host run
    there and never wait; all others run on the hosts that the run used. Run times contain the
    staging of files, so no file is moved.

    The overheads are those of the run: the medians of its delays from ready to submission and from
    the end to the children, and the delay of each task from its submission to its start, which
    holds a core. A task that started more than `max_start_delay` after its submission waited for a
    core: it starts as soon as it gets one. What a run does not record is 0.

    Args:
        run: The run, with the dependencies of its tasks and their machines.
        times: The run whose times and overheads are taken; of several runs, the mean of each task.
            By default those of the run itself, which is a replay. With other runs nothing is taken
            from the run but its dependencies and its platform: a prediction.
        model: The model, in place of the recorded overheads.
        cores: The cores of a host that the run does not describe.
        submit_host: Partitions and machines of the jobs that run on the submit host; jobs without
            both do, too.
        max_start_delay: The longest delay (s) of a task that did not wait for a core.

    >>> run = Trace(
    ...     tasks=pl.DataFrame({
    ...         "id": ["a", "b"], "partition": ["pool", "local"], "submit": [0.0, 0.0],
    ...         "ready": [0.0, 79.0], "run_time": [60.0, 9.0], "parents": [[], ["a"]]}),
    ...     placements=pl.DataFrame({
    ...         "task": ["a", "b"], "machine": ["n1", "s"], "start": [12.0, 85.0],
    ...         "end": [72.0, 94.0]}),
    ...     task_times=pl.DataFrame({
    ...         "task": ["a", "b"], "before": [5.0, 5.0], "after": [7.0, 7.0]}))
    >>> from twinloop.engine import simulate
    >>> scenario = workflow_scenario_of_run(run, cores=4)
    >>> simulate(scenario).placements.select("task", "machine", "start", "end").rows()
    [('a', 'n1', 5.0, 72.0), ('b', 's', 84.0, 94.0)]
    >>> scenario.workload.object.injected
    ('run times', 'start delays', 'submission delays')
    >>> scenario.model.submission.before, scenario.model.submission.after
    (5.0, 7.0)
    """
    jobs = _collect_jobs(require_trace(run), submit_host, max_start_delay)
    if times is None:
        given, recorded = [run], [jobs]
    else:
        given = [times] if isinstance(times, Trace) else [require_trace(each) for each in times]
        recorded = [_collect_jobs(each, submit_host, max_start_delay) for each in given]
    has_delays = model is None
    is_replay = any(each is run or each == run for each in given)
    waited = pl.concat(each["id"].filter(each["waited"]) for each in recorded)
    workload = _make_workload(
        run,
        jobs,
        _average_lengths(jobs, recorded, has_delays=has_delays),
        waited=waited if has_delays else waited.head(0),
        injected=_list_taken(recorded, has_delays=has_delays) if is_replay else (),
    )
    return Scenario(
        platform=_describe_platform(run, jobs, cores),
        workload=workload,
        policy=_POLICY,
        model={"submission": _average_delays(recorded)} if model is None else model,
    )


def _collect_jobs(run: Trace, submit_host: Collection[str], max_start_delay: float) -> pl.DataFrame:
    """Collect the jobs of a run: their length, their delays, and where they run.

    `submitted` says whether a job runs on the submit host; `is_assumed`, whether nothing in the
    run says where it runs; `waited`, whether it waited for a core.
    """
    if run.tasks["parents"].null_count() == run.tasks.height:
        raise InputError(
            "the dependencies of its tasks are not known",
            kind="missing-field",
            field="parents",
            remedy="read the run with its dependencies, such as tl.read(file, dag=...)",
        )
    recorded = collect_runs(run).select("start", "run_time", cores="processors")
    machines = run.placements.group_by("task").agg(pl.col("machine").drop_nulls().first())
    times = run.task_times.select("task", "before", "after")
    delay = pl.col("start") - pl.col("ready") - pl.col("before").fill_null(0.0)
    jobs = run.tasks.drop("run_time").hstack(recorded)
    for table in (machines, times):
        jobs = jobs.join(table, left_on="id", right_on="task", how="left", maintain_order="left")
    names = list(submit_host)
    on_submit_host = pl.col("partition").is_in(names) | pl.col("machine").is_in(names)
    is_assumed = pl.col("partition").is_null() & pl.col("machine").is_null()
    return jobs.with_columns(
        submitted=on_submit_host.fill_null(value=False) | is_assumed,
        is_assumed=is_assumed,
        delay=pl.when(delay.is_between(0, max_start_delay)).then(delay),
        waited=(delay > max_start_delay).fill_null(value=False),
    )


def _list_taken(recorded: Sequence[pl.DataFrame], *, has_delays: bool) -> tuple[str, ...]:
    """List what is taken from runs."""
    columns = {_START_DELAYS: ("delay",), _SUBMISSION_DELAYS: ("before", "after")}
    known = [
        name
        for name, parts in columns.items()
        if any(each[part].count() for each in recorded for part in parts)
    ]
    return (_RUN_TIMES, *known) if has_delays else (_RUN_TIMES,)


def _average_lengths(
    jobs: pl.DataFrame, recorded: Sequence[pl.DataFrame], *, has_delays: bool
) -> pl.Series:
    """Return the mean time that each job holds its cores (s), over the runs that recorded it."""
    delay = pl.col("delay").fill_null(0.0) if has_delays else 0.0
    lengths = pl.concat(each.select("id", length=pl.col("run_time") + delay) for each in recorded)
    means = lengths.group_by("id").agg(pl.col("length").mean())
    found = jobs.select("id").join(means, on="id", how="left", maintain_order="left")
    unknown = found["id"].filter(found["length"].is_null())
    if unknown.len():
        raise InputError(
            f"no run time of task '{unknown[0]}' is recorded",
            kind="missing-data",
            field="times",
            remedy="give runs of the same workflow, in which tasks have the same ids",
        )
    return found["length"]


def _average_delays(recorded: Sequence[pl.DataFrame]) -> dict[str, float]:
    """Return the medians of the delays before and after jobs (s), without unknown ones."""
    medians = {
        name: pl.concat(each[name] for each in recorded).median() for name in ("before", "after")
    }
    return {name: max(0.0, float(s)) for name, s in medians.items() if isinstance(s, float)}


def _describe_platform(run: Trace, jobs: pl.DataFrame, cores: float | None) -> dict[str, Any]:
    """Describe the hosts of the jobs, and the submit host, on which no job waits."""
    used = jobs.filter(~pl.col("submitted"))["machine"].drop_nulls().unique().sort()
    if not used.len():
        raise InputError(
            "no machine of its tasks is recorded",
            kind="missing-field",
            field="placements",
            remedy="give a run with the machines of its tasks",
        )
    described = dict(run.nodes.select("node", "cores").drop_nulls().iter_rows())
    groups: dict[float, list[str]] = {}
    for name in used:
        size = described.get(name, cores)
        if size is None:
            raise InputError(
                f"the number of cores of machine '{name}' is not recorded",
                kind="missing-argument",
                field="cores",
                remedy="give `cores`, the cores of each host",
            )
        groups.setdefault(float(size), []).append(name)
    clusters = [
        {"name": _WORKERS, "hosts": [{"names": each, "cores": n} for n, each in groups.items()]}
    ]
    if jobs["submitted"].any():
        own = jobs.filter("submitted")["machine"].drop_nulls().unique()
        submit = own[0] if own.len() == 1 and own[0] not in set(used) else "submit-host"
        needed = jobs.filter("submitted")["cores"].fill_null(1.0).sum()
        clusters.append({"name": _SUBMIT, "hosts": [{"names": [submit], "cores": needed}]})
    queues = [{"name": each["name"], "hosts": [each["name"]]} for each in clusters]
    return {"clusters": clusters, "queues": queues}


def _make_workload(
    run: Trace,
    jobs: pl.DataFrame,
    lengths: pl.Series,
    *,
    waited: pl.Series,
    injected: tuple[str, ...],
) -> Workload:
    """Make the workload of jobs with these lengths (s); `waited` is for its notes."""
    queue = pl.when("submitted").then(pl.lit(_SUBMIT)).otherwise(pl.lit(_WORKERS))
    tasks = jobs.select(
        *("id", "name", "user", "kind", "parents"),
        submit=pl.col("submit").fill_null(0.0),
        queue=queue,
        requested_cores=pl.col("cores").fill_null(1.0),
        requested_time=lengths,
        run_time=lengths,
    )
    workload = Workload.from_trace(Trace(tasks=tasks))
    moved = "files that tasks read and write: their transfers are part of the run times"
    notes = (
        *workload.cleaned,
        note(
            "assumed",
            "tasks without a number of cores: one core each",
            jobs["id"].filter(jobs["cores"].is_null()),
        ),
        note(
            "assumed",
            "tasks without a machine and a partition: they run on the submit host",
            jobs["id"].filter(jobs["is_assumed"]),
        ),
        note("assumed", "tasks that waited for a core: they start when they get one", waited),
        note("ignored", moved, count=run.task_files.height),
    )
    return Workload(
        tasks=workload.tasks,
        cleaned=tuple(each for each in notes if each.count),
        injected=injected,
    )
