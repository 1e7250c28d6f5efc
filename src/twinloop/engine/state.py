"""The state of a run: who waits, who runs with how much done, which machines are there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from twinloop._core import ClusterRun
from twinloop.engine.compiled import Compiled
from twinloop.trace.errors import InputError
from twinloop.workload.fragments import rows_of

_OVER = {"completed": 1, "rejected": 2, "killed": 3, "failed": 4, "lost": 5}


@dataclass(frozen=True, slots=True)
class State:
    """Where a run stands, whether simulated or real.

    >>> import polars as pl
    >>> state = State(time=100.0, tasks=pl.DataFrame({
    ...     "id": ["a"], "phase": ["running"], "submit": [0.0], "start": [40.0], "end": [None],
    ...     "done": [0.25], "machines": [["C01-H01-001"]], "cores": [[2.0]]}))
    >>> state.tasks["phase"].to_list()
    ['running']
    """

    #: The time (s).
    time: float
    #: A row per task that has been submitted: id; phase (waiting, in the order of the rows; held
    #: by a parent or by the limits of its queue; running; or how it ended); submit, start and end
    #: (s); done, the share of its work; machines and cores on each, of those that run. A task that
    #: is not in it is submitted later, or, if that lies before the time, now. Latencies and
    #: overheads that have begun are not held: one that runs without a start starts at the time,
    #: one that starts up works from then on, and machines of those that ended are free.
    tasks: pl.DataFrame
    #: The machines that are down.
    down: tuple[str, ...] = ()

    @classmethod
    def of(cls, compiled: Compiled, run: ClusterRun) -> State:
        """Where a run of the core stands."""
        ended, view = run.outcomes(), run.view()
        ids, names = compiled.arrays.ids, compiled.names.machines
        if len(ended["submit"]) > ids.len():
            raise InputError("a state cannot hold tasks that were injected")
        statuses = {code: name for name, code in _OVER.items()}
        over = [int(row) for row in np.flatnonzero(ended["status"]) if ended["status"][row] != 2]
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
        rows = [*over, *running, *waiting, *held]
        phases = [statuses[int(ended["status"][row])] for row in over]
        phases += ["running"] * len(running) + ["waiting"] * len(waiting)
        phases += ["held"] * len(held)
        places = {task: view.placement(task) for task in running}
        tasks = pl.DataFrame(
            {
                "id": ids.gather(rows),
                "phase": pl.Series(phases, dtype=pl.String),
                "submit": ended["submit"][rows],
                "start": pl.Series(ended["last_start"][rows]).fill_nan(None),
                "end": pl.Series(ended["end"][rows]).fill_nan(None),
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


def adopt(compiled: Compiled, run: ClusterRun, state: State) -> None:
    """Put a run that has not begun into a state."""
    tasks, names = state.tasks, compiled.names.machines
    rows = rows_of(compiled.arrays.ids, tasks["id"])
    if (rows < 0).any():
        name = tasks["id"][int(np.argmax(rows < 0))]
        raise InputError(f"the workload has no task {name!r}", field="state.tasks")
    if tasks["id"].is_duplicated().any():
        raise InputError("a task stands there twice", field="state.tasks")
    place = {name: m for m, name in enumerate(names)}
    for name in state.down:
        if name not in place:
            raise InputError(f"no machine is called {name!r}", field="state.down")
    run.begin_at(state.time)
    # Those that are over come first: others may have waited for them.
    order = np.argsort(~tasks["phase"].is_in(list(_OVER)).to_numpy(), kind="stable")
    for row, task in zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True):
        if task["phase"] in _OVER:
            nan = float("nan")
            start = nan if task["start"] is None else task["start"]
            end = nan if task["end"] is None else task["end"]
            run.adopt_over(row, _OVER[task["phase"]], task["submit"], start, end)
        elif task["phase"] == "running":
            unknown = [name for name in task["machines"] if name not in place]
            if unknown or not task["machines"]:
                what = f"no machine is called {unknown[0]!r}" if unknown else "has no machine"
                raise InputError(what, field=f"state: task {task['id']!r}")
            machines = [place[name] for name in task["machines"]]
            parts = list(zip(machines, task["cores"], strict=True))
            start = state.time if task["start"] is None else task["start"]
            run.adopt_running(row, parts, task["submit"], start, task["done"])
        elif task["phase"] == "waiting":
            run.adopt_waiting(row, task["submit"], task["done"] or 0.0)
        elif task["phase"] == "held":
            run.adopt_submitted(row, task["submit"])
        else:
            raise InputError(
                f"{task['phase']!r} is no phase",
                field=f"state: task {task['id']!r}",
                remedy=f"waiting, held, running, {', '.join(_OVER)}",
            )
    for name in state.down:
        if not run.is_down(place[name]):
            run.fail(place[name])
