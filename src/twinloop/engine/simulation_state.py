"""State of a run: waiting tasks, running tasks with their progress, machines that are down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES, STATUSES
from twinloop.policy import BuiltInPolicy
from twinloop.workload.fragments import find_rows


@dataclass(frozen=True, slots=True)
class SimulationState:
    """The state of a simulated or real run at one time.

    >>> import polars as pl
    >>> from twinloop.engine import SimulationState
    >>> state = SimulationState(time=100.0, tasks=pl.DataFrame({
    ...     "id": ["a"], "phase": ["running"], "submit": [0.0], "start": [40.0], "end": [None],
    ...     "done": [0.25], "machines": [["C01-H01-001"]], "cores": [[2.0]]}))
    >>> state.tasks["phase"].to_list()
    ['running']
    """

    #: The current time (s).
    time: float
    #: A row per submitted task, except rejected tasks: id; phase (waiting; held by a parent or by
    #: the limits of its queue; running; or the status at its end); submit, start (of the last
    #: execution) and end (s); done, the completed share of its work; machines and cores on each,
    #: for running tasks. Optional: ready, first_start and attempts. The rows of waiting tasks are
    #: in the order of the queue. Tasks without a row are submitted later, or now if their
    #: submission time has passed. Latencies and overheads in progress are not stored. After a
    #: restore, a running task without a start starts at `time`, a task in its start-up works from
    #: then on, and the machines of ended tasks are free.
    tasks: pl.DataFrame
    #: The names of the machines that are down.
    down: tuple[str, ...] = ()

    @classmethod
    def from_run(cls, compiled: CompiledScenario, run: ClusterRun) -> SimulationState:
        """Read the state of a native run."""
        outcomes, view = run.outcomes(), run.view()
        ids, names = compiled.arrays.ids, compiled.names.machines
        if len(outcomes["submit"]) > ids.len():
            raise InputError(
                "a state cannot contain tasks added by `Simulation.submit`",
                kind="invalid-operation",
                remedy="put the tasks into the workload",
            )
        rejected = STATUS_CODES["rejected"]
        ended_rows = [
            int(r) for r in np.flatnonzero(outcomes["status"]) if outcomes["status"][r] != rejected
        ]
        waiting = view.waiting
        # Ended tasks may keep their machines until the scheduler is notified of their release.
        running = sorted(
            (task for task in view.running if not outcomes["status"][task]),
            key=lambda task: (view.started(task), task),
        )
        listed = {*ended_rows, *running, *waiting}
        held = [
            int(row)
            for row in np.flatnonzero(~np.isnan(outcomes["submit"]) & (outcomes["status"] == 0))
            if int(row) not in listed
        ]
        # In the order in which they became ready, which is the order of their release.
        held.sort(key=lambda row: (np.nan_to_num(outcomes["ready"][row], nan=np.inf), row))
        rows = [*ended_rows, *running, *waiting, *held]
        phases = [STATUSES[outcomes["status"][row]] for row in ended_rows]
        phases += ["running"] * len(running) + ["waiting"] * len(waiting)
        phases += ["held"] * len(held)
        placements = {task: view.placement(task) for task in running}
        tasks = pl.DataFrame(
            {
                "id": ids.gather(rows),
                "phase": pl.Series(phases, dtype=pl.String),
                "submit": outcomes["submit"][rows],
                "ready": pl.Series(outcomes["ready"][rows]).fill_nan(None),
                "first_start": pl.Series(outcomes["start"][rows]).fill_nan(None),
                "start": pl.Series(outcomes["last_start"][rows]).fill_nan(None),
                "end": pl.Series(outcomes["end"][rows]).fill_nan(None),
                "attempts": outcomes["attempts"][rows],
                "done": pl.Series([run.progress(row) for row in rows], dtype=pl.Float64),
                "machines": pl.Series(
                    [[names[m] for m, _ in placements.get(row, [])] for row in rows],
                    dtype=pl.List(pl.String),
                ),
                "cores": pl.Series(
                    [[c for _, c in placements.get(row, [])] for row in rows],
                    dtype=pl.List(pl.Float64),
                ),
            }
        )
        down = tuple(name for m, name in enumerate(names) if run.is_down(m))
        return cls(time=run.now, tasks=tasks, down=down)


def restore_state(compiled: CompiledScenario, run: ClusterRun, state: SimulationState) -> None:
    """Restore a state into a run that has not started."""
    tasks, names = state.tasks, compiled.names.machines
    rows = find_rows(compiled.arrays.ids, tasks["id"])
    if (rows < 0).any():
        name = tasks["id"][int(np.argmax(rows < 0))]
        raise InputError(
            f"the workload has no task {name!r}", kind="unknown-reference", field="state.tasks"
        )
    if tasks["id"].is_duplicated().any():
        raise InputError("a task has more than one row", kind="invalid-state", field="state.tasks")
    machine_index = {name: m for m, name in enumerate(names)}
    for name in state.down:
        if name not in machine_index:
            raise InputError(
                f"there is no machine {name!r}", kind="unknown-reference", field="state.down"
            )
    if compiled.python_source is not None:
        raise InputError(
            "does not contain the state of a source written in Python",
            kind="invalid-operation",
            field="state",
            remedy="use a built-in source, or copy a simulation",
        )
    if not np.isfinite(state.time):
        raise InputError(
            f"must be a finite time, not {state.time}", kind="invalid-state", field="state.time"
        )
    _check_tasks(compiled, tasks, rows, machine_index)
    run.set_start_time(state.time)
    # Ended tasks first, since other tasks may depend on them, in the order of their ends: a user
    # returns after the last task of a session. The other tasks keep their order.
    has_ended = tasks["phase"].is_in(list(STATUS_CODES)).to_numpy()
    ends = tasks["end"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    order = np.lexsort((np.where(has_ended, ends, np.inf), ~has_ended))
    for row, task in zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True):
        phase, start = task["phase"], task["start"]
        if phase == "running" and start is None:
            start = state.time
        attempts = task.get("attempts")
        run.restore_task(
            row,
            STATUS_CODES.get(phase, 0),
            submit=task["submit"],
            ready=_first_known(task.get("ready"), task["submit"] if phase != "held" else None),
            start=_first_known(task.get("first_start"), start),
            last_start=_first_known(start),
            end=_first_known(task["end"]),
            attempts=max(attempts or 0, int(start is not None)),
        )
        if phase == "running":
            machines = [machine_index[name] for name in task["machines"]]
            run.restore_running_task(
                row, list(zip(machines, task["cores"], strict=True)), task["done"]
            )
        elif phase == "waiting":
            run.restore_waiting_task(row, task["done"] or 0.0)
        elif phase == "held":
            run.restore_held_task(row)
    for name in state.down:
        if not run.is_down(machine_index[name]):
            run.fail(machine_index[name])


def _first_known(*values: float | None) -> float:
    """Return the first value that is not None, or NaN."""
    return next((float(value) for value in values if value is not None), float("nan"))


def _check_tasks(
    compiled: CompiledScenario,
    tasks: pl.DataFrame,
    rows: NDArray[np.int64],
    machine_index: dict[str, int],
) -> None:
    """Raise an error for a state that no run can have."""
    total_cores = dict(zip(machine_index, compiled.machines.nodes["cores"].to_list(), strict=True))
    capacity = compiled.scenario.model.effective_capacity
    ratio = _get_overcommit_ratio(compiled)
    allocated = dict.fromkeys(machine_index, 0.0)
    for row, task in zip(rows.tolist(), tasks.iter_rows(named=True), strict=True):
        field = f"state: task {task['id']!r}"
        if task["phase"] not in (*STATUS_CODES, "waiting", "held", "running"):
            raise InputError(
                f"{task['phase']!r} is not a phase",
                kind="invalid-state",
                field=field,
                remedy=f"one of: waiting, held, running, {', '.join(STATUS_CODES)}",
            )
        if task["submit"] is None or not np.isfinite(task["submit"]):
            raise InputError("has no finite submission time", kind="invalid-state", field=field)
        if task["phase"] in ("waiting", "held", "running") and compiled.rejected[row]:
            raise InputError("can never run on this platform", kind="invalid-state", field=field)
        if task["phase"] != "running":
            continue
        names, cores = task["machines"] or [], task["cores"] or []
        unknown = [name for name in names if name not in machine_index]
        if unknown or not names:
            what = f"there is no machine {unknown[0]!r}" if unknown else "has no machine"
            raise InputError(what, kind="invalid-state", field=field)
        if len(names) != len(cores) or len(set(names)) < len(names):
            raise InputError(
                "must list each of its machines once, with a number of cores",
                kind="invalid-state",
                field=field,
            )
        if task["done"] is None or not 0 <= task["done"] <= 1:
            raise InputError(
                f"must be a share of its work from 0 to 1, not {task['done']}",
                kind="invalid-state",
                field=f"{field}: done",
            )
        for name, number in zip(names, cores, strict=True):
            if number is None or not 0 <= number < np.inf:
                raise InputError(
                    f"must be a number of cores, not {number}",
                    kind="invalid-state",
                    field=f"{field}: cores",
                )
            allocated[name] += number
            if allocated[name] > total_cores[name] * capacity * ratio * (1 + 1e-9):
                raise InputError(
                    f"uses more cores of {name!r} than are available",
                    kind="invalid-state",
                    field=field,
                )


def _get_overcommit_ratio(compiled: CompiledScenario) -> float:
    """Return the overcommitment ratio of the policy: allocated cores over cores."""
    if not isinstance(compiled.policy, BuiltInPolicy):
        return compiled.policy.overcommit
    settings = compiled.policy.native_settings()
    if settings["kind"] == "batch":
        return 1.0
    ratios = [value for name, value in settings["filters"] if name == "vcpu"]  # type: ignore[attr-defined]
    return ratios[0] if ratios else np.inf
