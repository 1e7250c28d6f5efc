"""State of a run: waiting tasks, running tasks with their progress, machines that are down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.run_trace import STATUSES
from twinloop.policy import BuiltInPolicy
from twinloop.workload.fragments import find_rows

_ENDED = {name: code for code, name in enumerate(STATUSES) if name is not None}


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
    #: A row per submitted task: id; phase (waiting, in the order of the rows; held by a parent or
    #: by the limits of its queue; running; or the status at its end); submit, start (of the last
    #: execution) and end (s); done, the completed share of its work; machines and cores on each,
    #: for running tasks. Optional: ready, first_start and attempts. Tasks without a row are
    #: submitted later, or now if their submission time has passed. Latencies and overheads in
    #: progress are not part of the state: a running task without a start starts at `time`, a task
    #: in its start-up works from then on, and machines of ended tasks are free.
    tasks: pl.DataFrame
    #: The names of the machines that are down.
    down: tuple[str, ...] = ()

    @classmethod
    def from_run(cls, compiled: CompiledScenario, run: ClusterRun) -> SimulationState:
        """Read the state of a native run."""
        ended, view = run.outcomes(), run.view()
        ids, names = compiled.arrays.ids, compiled.names.machines
        if len(ended["submit"]) > ids.len():
            raise InputError(
                "a state cannot contain tasks added by `Simulation.submit`",
                kind="invalid-operation",
                remedy="put the tasks into the workload",
            )
        rejected = _ENDED["rejected"]
        ended_rows = [
            int(r) for r in np.flatnonzero(ended["status"]) if ended["status"][r] != rejected
        ]
        waiting = view.waiting
        # An ended task may keep its machines until the scheduler sees their release.
        running = sorted(
            (task for task in view.running if not ended["status"][task]),
            key=lambda task: (view.started(task), task),
        )
        known = {*ended_rows, *running, *waiting}
        held = [
            int(row)
            for row in np.flatnonzero(~np.isnan(ended["submit"]) & (ended["status"] == 0))
            if int(row) not in known
        ]
        # In the order in which they became ready, which is the order of their release.
        held.sort(key=lambda row: (np.nan_to_num(ended["ready"][row], nan=np.inf), row))
        rows = [*ended_rows, *running, *waiting, *held]
        phases = [STATUSES[ended["status"][row]] for row in ended_rows]
        phases += ["running"] * len(running) + ["waiting"] * len(waiting)
        phases += ["held"] * len(held)
        places = {task: view.placement(task) for task in running}
        tasks = pl.DataFrame(
            {
                "id": ids.gather(rows),
                "phase": pl.Series(phases, dtype=pl.String),
                "submit": ended["submit"][rows],
                "ready": pl.Series(ended["ready"][rows]).fill_nan(None),
                "first_start": pl.Series(ended["start"][rows]).fill_nan(None),
                "start": pl.Series(ended["last_start"][rows]).fill_nan(None),
                "end": pl.Series(ended["end"][rows]).fill_nan(None),
                "attempts": ended["attempts"][rows],
                "done": pl.Series([run.progress(row) for row in rows], dtype=pl.Float64),
                "machines": pl.Series(
                    [[names[m] for m, _ in places.get(row, [])] for row in rows],
                    dtype=pl.List(pl.String),
                ),
                "cores": pl.Series(
                    [[c for _, c in places.get(row, [])] for row in rows],
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
    place = {name: m for m, name in enumerate(names)}
    for name in state.down:
        if name not in place:
            raise InputError(
                f"there is no machine {name!r}", kind="unknown-reference", field="state.down"
            )
    if not np.isfinite(state.time):
        raise InputError(
            f"must be a finite time, not {state.time}", kind="invalid-state", field="state.time"
        )
    _check(compiled, tasks, rows, place)
    run.set_start_time(state.time)
    # Ended tasks first, since other tasks may depend on them, in the order of their ends: a user
    # returns after the last task of a session. The other tasks keep their order.
    over = tasks["phase"].is_in(list(_ENDED)).to_numpy()
    ends = tasks["end"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    order = np.lexsort((np.where(over, ends, np.inf), ~over))
    for row, task in zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True):
        phase, start = task["phase"], task["start"]
        if phase == "running" and start is None:
            start = state.time
        attempts = task.get("attempts")
        run.restore_task(
            row,
            _ENDED.get(phase, 0),
            submit=task["submit"],
            ready=_first_known(task.get("ready"), task["submit"] if phase != "held" else None),
            start=_first_known(task.get("first_start"), start),
            last_start=_first_known(start),
            end=_first_known(task["end"]),
            attempts=max(attempts or 0, int(start is not None)),
        )
        if phase == "running":
            machines = [place[name] for name in task["machines"]]
            run.restore_running_task(
                row, list(zip(machines, task["cores"], strict=True)), task["done"]
            )
        elif phase == "waiting":
            run.restore_waiting_task(row, task["done"] or 0.0)
        elif phase == "held":
            run.restore_held_task(row)
    for name in state.down:
        if not run.is_down(place[name]):
            run.fail(place[name])


def _first_known(*values: float | None) -> float:
    """Return the first value that is not None, or NaN."""
    return next((float(value) for value in values if value is not None), float("nan"))


def _check(
    compiled: CompiledScenario, tasks: pl.DataFrame, rows: NDArray[np.int64], place: dict[str, int]
) -> None:
    """Raise an error for a state that no run can have."""
    free = dict(zip(place, compiled.machines.nodes["cores"].to_list(), strict=True))
    capacity = compiled.scenario.model.effective_capacity
    ratio = _overcommitment(compiled)
    taken = dict.fromkeys(place, 0.0)
    for row, task in zip(rows.tolist(), tasks.iter_rows(named=True), strict=True):
        field = f"state: task {task['id']!r}"
        if task["phase"] not in (*_ENDED, "waiting", "held", "running"):
            raise InputError(
                f"{task['phase']!r} is not a phase",
                kind="invalid-state",
                field=field,
                remedy=f"one of: waiting, held, running, {', '.join(_ENDED)}",
            )
        if task["submit"] is None or not np.isfinite(task["submit"]):
            raise InputError("has no submission time", kind="invalid-state", field=field)
        if task["phase"] in ("waiting", "held", "running") and compiled.rejected[row]:
            raise InputError("can never run on this platform", kind="invalid-state", field=field)
        if task["phase"] != "running":
            continue
        names, cores = task["machines"] or [], task["cores"] or []
        unknown = [name for name in names if name not in place]
        if unknown or not names:
            what = f"there is no machine {unknown[0]!r}" if unknown else "has no machine"
            raise InputError(what, kind="invalid-state", field=field)
        if len(names) != len(cores) or len(set(names)) < len(names):
            raise InputError(
                "must have one number of cores for each of its machines",
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
            taken[name] += number
            if taken[name] > free[name] * capacity * ratio * (1 + 1e-9):
                raise InputError(
                    f"uses more cores of {name!r} than are available",
                    kind="invalid-state",
                    field=field,
                )


def _overcommitment(compiled: CompiledScenario) -> float:
    """Return the overcommitment ratio of the policy: allocated cores over cores."""
    if not isinstance(compiled.policy, BuiltInPolicy):
        return compiled.policy.overcommit
    settings = compiled.policy.native_settings()
    if settings["kind"] == "batch":
        return 1.0
    ratios = [value for name, value in settings["filters"] if name == "vcpu"]  # type: ignore[attr-defined]
    return ratios[0] if ratios else np.inf
