"""The state of a run: who waits, who runs with how much done, which machines are there."""

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

_OVER = {name: code for code, name in enumerate(STATUSES) if name is not None}


@dataclass(frozen=True, slots=True)
class SimulationState:
    """Where a run stands, whether simulated or real.

    >>> import polars as pl
    >>> from twinloop.engine import SimulationState
    >>> state = SimulationState(time=100.0, tasks=pl.DataFrame({
    ...     "id": ["a"], "phase": ["running"], "submit": [0.0], "start": [40.0], "end": [None],
    ...     "done": [0.25], "machines": [["C01-H01-001"]], "cores": [[2.0]]}))
    >>> state.tasks["phase"].to_list()
    ['running']
    """

    #: The time (s).
    time: float
    #: A row per task that has been submitted: id; phase (waiting, in the order of the rows; held
    #: by a parent or by the limits of its queue; running; or how it ended); submit, start (of its
    #: last execution) and end (s); done, the share of its work; machines and cores on each, of
    #: those that run. Where it matters also ready, first_start and attempts. A task that is not in
    #: it is submitted later, or, if that lies before the time, now. Latencies and
    #: overheads that have begun are not held: one that runs without a start starts at the time,
    #: one that starts up works from then on, and machines of those that ended are free.
    tasks: pl.DataFrame
    #: The machines that are down.
    down: tuple[str, ...] = ()

    @classmethod
    def from_run(cls, compiled: CompiledScenario, run: ClusterRun) -> SimulationState:
        """Where a run of the core stands."""
        ended, view = run.outcomes(), run.view()
        ids, names = compiled.arrays.ids, compiled.names.machines
        if len(ended["submit"]) > ids.len():
            raise InputError("a state cannot hold tasks that were injected")
        rejected = _OVER["rejected"]
        over = [int(r) for r in np.flatnonzero(ended["status"]) if ended["status"][r] != rejected]
        waiting = view.waiting
        # One that is over may still have its machines, until these are seen as free.
        running = sorted(
            (task for task in view.running if not ended["status"][task]),
            key=lambda task: (view.started(task), task),
        )
        known = {*over, *running, *waiting}
        held = [
            int(row)
            for row in np.flatnonzero(~np.isnan(ended["submit"]) & (ended["status"] == 0))
            if int(row) not in known
        ]
        # In the order in which they became ready: so they are let go.
        held.sort(key=lambda row: (np.nan_to_num(ended["ready"][row], nan=np.inf), row))
        rows = [*over, *running, *waiting, *held]
        phases = [STATUSES[ended["status"][row]] for row in over]
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
    """Put a run that has not begun into a state."""
    tasks, names = state.tasks, compiled.names.machines
    rows = find_rows(compiled.arrays.ids, tasks["id"])
    if (rows < 0).any():
        name = tasks["id"][int(np.argmax(rows < 0))]
        raise InputError(f"the workload has no task {name!r}", field="state.tasks")
    if tasks["id"].is_duplicated().any():
        raise InputError("a task stands there twice", field="state.tasks")
    place = {name: m for m, name in enumerate(names)}
    for name in state.down:
        if name not in place:
            raise InputError(f"no machine is called {name!r}", field="state.down")
    if not np.isfinite(state.time):
        raise InputError(f"{state.time} is no time", field="state.time")
    _check(compiled, tasks, rows, place)
    run.set_start_time(state.time)
    # Tasks that are over come first, because others may have waited for them, and in the order of
    # their ends: a user returns after the last task of a session. The others keep their order.
    over = tasks["phase"].is_in(list(_OVER)).to_numpy()
    ends = tasks["end"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    order = np.lexsort((np.where(over, ends, np.inf), ~over))
    for row, task in zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True):
        phase, start = task["phase"], task["start"]
        if phase == "running" and start is None:
            start = state.time
        attempts = task.get("attempts")
        run.restore_task(
            row,
            _OVER.get(phase, 0),
            submit=task["submit"],
            ready=_or(task.get("ready"), task["submit"] if phase != "held" else None),
            start=_or(task.get("first_start"), start),
            last_start=_or(start),
            end=_or(task["end"]),
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


def _or(*values: float | None) -> float:
    """The first that is known, or NaN."""
    return next((float(value) for value in values if value is not None), float("nan"))


def _check(
    compiled: CompiledScenario, tasks: pl.DataFrame, rows: NDArray[np.int64], place: dict[str, int]
) -> None:
    """A state that no run could be in is an error."""
    free = dict(zip(place, compiled.machines.nodes["cores"].to_list(), strict=True))
    capacity = compiled.scenario.model.effective_capacity
    ratio = _overcommitment(compiled)
    taken = dict.fromkeys(place, 0.0)
    for row, task in zip(rows.tolist(), tasks.iter_rows(named=True), strict=True):
        field = f"state: task {task['id']!r}"
        if task["phase"] not in (*_OVER, "waiting", "held", "running"):
            raise InputError(
                f"{task['phase']!r} is no phase",
                field=field,
                remedy=f"waiting, held, running, {', '.join(_OVER)}",
            )
        if task["submit"] is None or not np.isfinite(task["submit"]):
            raise InputError("has no submission", field=field)
        if task["phase"] in ("waiting", "held", "running") and compiled.rejected[row]:
            raise InputError("can never run on this platform", field=field)
        if task["phase"] != "running":
            continue
        names, cores = task["machines"] or [], task["cores"] or []
        unknown = [name for name in names if name not in place]
        if unknown or not names:
            what = f"no machine is called {unknown[0]!r}" if unknown else "has no machine"
            raise InputError(what, field=field)
        if len(names) != len(cores) or len(set(names)) < len(names):
            raise InputError("must have one number of cores for each of its machines", field=field)
        if task["done"] is None or not 0 <= task["done"] <= 1:
            raise InputError(f"{task['done']} is no share of its work", field=f"{field}: done")
        for name, number in zip(names, cores, strict=True):
            if number is None or not 0 <= number < np.inf:
                raise InputError(f"{number} is no number of cores", field=f"{field}: cores")
            taken[name] += number
            if taken[name] > free[name] * capacity * ratio * (1 + 1e-9):
                raise InputError(f"more cores are taken on {name!r} than it has", field=field)


def _overcommitment(compiled: CompiledScenario) -> float:
    """How many times its cores the policy may give away of a machine."""
    if not isinstance(compiled.policy, BuiltInPolicy):
        return compiled.policy.overcommit
    settings = compiled.policy.native_settings()
    if settings["kind"] == "batch":
        return 1.0
    ratios = [value for name, value in settings["filters"] if name == "vcpu"]  # type: ignore[attr-defined]
    return ratios[0] if ratios else np.inf
