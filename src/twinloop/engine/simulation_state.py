"""State of a run, from which another run of the same scenario goes on; its file in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop._core import ClusterRun
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.saved_json import StoredJson, read_stored_json
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES, STATUSES
from twinloop.engine.new_rows import NewRow
from twinloop.engine.state_check import check_state

#: The version of the file of a state.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SimulationState:
    """The state of a simulated or real run at one time.

    A state of a simulation is complete. One that is written by hand, or derived from a real
    cluster, needs only `time` and the first columns of `tasks`.

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
    #: for running tasks. Optional: ready, first_start, attempts and the columns of a complete
    #: state. The rows of waiting tasks are in the order of the queue. Tasks without a row are
    #: submitted later, or now if their submission time has passed.
    tasks: pl.DataFrame
    #: The names of the machines that are down.
    down: tuple[str, ...] = ()
    #: The progress of the tasks that have machines, in the order of their timers. A running task
    #: without a row computes, from its share done on.
    executions: tuple[dict[str, Any], ...] = ()
    #: A row per machine: cores, current outages, the time at which it was restored by hand,
    #: energy so far (J).
    machines: tuple[dict[str, Any], ...] = ()
    #: The tasks that `Simulation.submit` added: id and columns.
    added: tuple[dict[str, Any], ...] = ()
    #: When the policy is called next, and what it remembers; None: now, and nothing.
    decisions: dict[str, Any] | None = None
    #: The hash of the scenario; empty: any.
    scenario: str = field(default="")

    @classmethod
    def from_run(
        cls, compiled: CompiledScenario, run: ClusterRun, added: Sequence[NewRow] = ()
    ) -> SimulationState:
        """Read the state of a native run."""
        _refuse_missing_parts(compiled, run)
        names = compiled.names.machines
        try:
            saved = run.saved_state()
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                str(error), kind="invalid-operation", remedy="copy the simulation instead"
            ) from None
        ids = pl.concat(
            [compiled.arrays.ids, pl.Series([each.id for each in added], dtype=pl.String)]
        )
        tasks = _build_tasks(run, ids, names, saved["tasks"])
        executions = tuple({**row, "task": ids[row["task"]]} for row in saved["executions"])
        machines = tuple(
            {"machine": name, **row} for name, row in zip(names, saved["machines"], strict=True)
        )
        decisions = saved["decisions"]
        decisions["running"] = [ids[row] for row in decisions["running"]]
        decisions["name"] = compiled.policy.name
        return cls(
            time=run.now,
            tasks=tasks,
            down=tuple(name for m, name in enumerate(names) if run.is_down(m)),
            executions=executions,
            machines=machines,
            added=tuple({**asdict(row), "amounts": list(row.amounts)} for row in added),
            decisions=decisions,
            scenario=compiled.scenario_hash(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a JSON file; an existing file is replaced at once.

        >>> import tempfile
        >>> import polars as pl
        >>> from twinloop.engine import SimulationState
        >>> state = SimulationState(time=0.1 + 0.2, tasks=pl.DataFrame({"id": ["a"]}))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     state.save(f"{folder}/state.json")
        ...     SimulationState.load(f"{folder}/state.json").time == state.time
        True
        """
        document = {
            "schema_version": SCHEMA_VERSION,
            "scenario": self.scenario,
            "time": self.time,
            "down": list(self.down),
            "tasks": self.tasks.to_dict(as_series=False),
            "executions": list(self.executions),
            "machines": list(self.machines),
            "added": list(self.added),
            "decisions": self.decisions,
        }
        with write_atomically(Path(fspath(path))) as file:
            file.write(json.dumps(document, indent=1, allow_nan=True).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> SimulationState:
        """Read a state that `save` has written."""
        file = Path(fspath(path))
        stored = read_stored_json(file, _StoredState, "write it again with SimulationState.save")
        if stored.schema_version != SCHEMA_VERSION:
            raise InputError(
                f"has version {stored.schema_version}; this is version {SCHEMA_VERSION}",
                kind="damaged-file",
                file=file,
                field="schema_version",
            )
        try:
            tasks = pl.DataFrame(
                stored.tasks,
                schema_overrides={
                    name: kind for name, kind in _TASK_TYPES.items() if name in stored.tasks
                },
            )
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise InputError(
                f"cannot be read: {error}", kind="damaged-file", file=file, field="tasks"
            ) from None
        return cls(
            time=stored.time,
            tasks=tasks,
            down=tuple(stored.down),
            executions=tuple(stored.executions),
            machines=tuple(stored.machines),
            added=tuple(stored.added),
            decisions=stored.decisions,
            scenario=stored.scenario,
        )


class _StoredState(StoredJson):
    schema_version: int
    scenario: str
    time: float
    down: list[str]
    tasks: dict[str, list[Any]]
    executions: list[dict[str, Any]]
    machines: list[dict[str, Any]]
    added: list[dict[str, Any]]
    decisions: dict[str, Any] | None


_TASK_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("id", "phase"), pl.String),
    **dict.fromkeys(("submit", "ready", "first_start", "start", "end", "done"), pl.Float64),
    **dict.fromkeys(("last_end", "work", "cpu_time", "energy", "saved", "spent"), pl.Float64),
    **dict.fromkeys(("attempts", "failures", "arrival"), pl.Int64),
    "machines": pl.List(pl.String),
    "cores": pl.List(pl.Float64),
}


def _refuse_missing_parts(compiled: CompiledScenario, run: ClusterRun) -> None:
    """Raise an error for sources and machines that a state cannot describe."""
    if compiled.python_source is not None:
        raise InputError(
            "a state does not contain the state of a source written in Python",
            kind="invalid-operation",
            remedy="use a built-in source, or copy the simulation",
        )
    if compiled.machines.instances:
        raise InputError(
            "a state does not contain instances",
            kind="invalid-operation",
            remedy="copy the simulation instead",
        )
    for machine, state in zip(compiled.names.machines, run.machine_states(), strict=False):
        if state not in ("running", "down"):
            raise InputError(
                f"is in the state {state!r}, which a saved state does not contain",
                kind="invalid-operation",
                field=f"machine {machine!r}",
                remedy="copy the simulation instead",
            )


def _build_tasks(
    run: ClusterRun, ids: pl.Series, names: tuple[str, ...], saved: dict[str, Any]
) -> pl.DataFrame:
    outcomes, view = run.outcomes(), run.view()
    status = outcomes["status"]
    ended = np.flatnonzero((status != 0) & (status != STATUS_CODES["rejected"]))
    ended_rows = ended[np.argsort(saved["ended_as"][ended])].tolist()
    waiting = view.waiting
    # Ended tasks may keep their machines until the scheduler is notified of their release.
    running = sorted(
        (task for task in view.running if not status[task]),
        key=lambda task: (view.started(task), task),
    )
    listed = {*ended_rows, *running, *waiting}
    held = [
        int(row)
        for row in np.flatnonzero(~np.isnan(outcomes["submit"]) & (status == 0))
        if int(row) not in listed
    ]
    # In the order in which they became ready, which is the order of their release.
    held.sort(key=lambda row: (np.nan_to_num(outcomes["ready"][row], nan=np.inf), row))
    rows = [*ended_rows, *running, *waiting, *held]
    phases = [STATUSES[status[row]] for row in ended_rows]
    phases += ["running"] * len(running) + ["waiting"] * len(waiting) + ["held"] * len(held)
    placements = {task: view.placement(task) for task in view.running}
    columns = {
        "id": ids.gather(rows),
        "phase": phases,
        "submit": outcomes["submit"][rows],
        "ready": outcomes["ready"][rows],
        "first_start": outcomes["start"][rows],
        "start": outcomes["last_start"][rows],
        "end": outcomes["end"][rows],
        "attempts": outcomes["attempts"][rows],
        "done": [run.progress(row) for row in rows],
        "machines": [[names[m] for m, _ in placements.get(row, [])] for row in rows],
        "cores": [[c for _, c in placements.get(row, [])] for row in rows],
        **{name: saved[name][rows] for name in _TASK_TYPES if name in saved},
    }
    return pl.DataFrame(
        {name: pl.Series(values, dtype=_TASK_TYPES[name]) for name, values in columns.items()}
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


# --- restoring ------------------------------------------------------------------------------------


def restore_state(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState
) -> list[NewRow]:
    """Restore a state into a run that has not started; return the tasks that were added."""
    tasks, names = state.tasks, compiled.names.machines
    ids = pl.concat(
        [compiled.arrays.ids, pl.Series([each["id"] for each in state.added], dtype=pl.String)]
    )
    rows = check_state(compiled, state, ids)
    machine_index = {name: m for m, name in enumerate(names)}
    for each in state.machines:
        # Before the outages that have begun are begun again.
        run.restore_machine(machine_index[each["machine"]], 0, each["restored_at"], each["energy"])
    run.set_start_time(state.time)
    added = [NewRow(**{**each, "amounts": tuple(each["amounts"])}) for each in state.added]
    for new in added:
        run.submit(new)
    _restore_cores(compiled, run, state, machine_index)
    row_of = dict(zip(tasks["id"].to_list(), rows.tolist(), strict=True))
    releasing = {each["task"] for each in state.executions if each["step"] == "release"}
    described = {each["task"] for each in state.executions}
    # Ended tasks first, since other tasks may depend on them, in the order of their ends: a user
    # returns after the last task of a session. The other tasks keep their order.
    has_ended = tasks["phase"].is_in(list(STATUS_CODES)).to_numpy()
    ends = tasks["end"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    order = np.lexsort((np.where(has_ended, ends, np.inf), ~has_ended))
    parts = {
        task["id"]: [
            (machine_index[name], cores)
            for name, cores in zip(task["machines"] or [], task["cores"] or [], strict=True)
        ]
        for task in tasks.iter_rows(named=True)
    }
    in_order = list(zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True))
    for row, task in in_order:
        run.restore_task(row, _describe_task(task, state.time, seen=task["id"] not in releasing))
    # Running tasks before waiting ones: they count in the limits of their queues.
    for each in state.executions:
        run.restore_execution(row_of[each["task"]], parts[each["task"]], each)
    for row, task in in_order:
        if task["phase"] == "running" and task["id"] not in described:
            run.restore_running_task(row, parts[task["id"]], task["done"])
    for row, task in in_order:
        if task["phase"] == "waiting":
            is_saved = task.get("saved") is not None
            run.restore_waiting_task(row, np.nan if is_saved else task["done"] or 0.0)
        elif task["phase"] == "held":
            run.restore_held_task(row)
    for each in state.machines:
        run.restore_machine(
            machine_index[each["machine"]], each["outages"], each["restored_at"], each["energy"]
        )
    for name in state.down:
        if not run.is_down(machine_index[name]):
            run.fail(machine_index[name])
    if state.decisions is not None:
        decisions = {**state.decisions, "running": [row_of[t] for t in state.decisions["running"]]}
        if decisions.pop("name", None) != compiled.policy.name:
            decisions |= {"memory": [], "policy": None, "call": True}
        run.restore_decisions(decisions)
    return added


def _restore_cores(
    compiled: CompiledScenario,
    run: ClusterRun,
    state: SimulationState,
    machine_index: dict[str, int],
) -> None:
    cores = compiled.machines.nodes["cores"].to_list()
    for each in state.machines:
        index = machine_index[each["machine"]]
        if abs(each["cores"] - cores[index]) > 1e-9 * (1 + cores[index]):
            run.set_cores(index, each["cores"])


def _describe_task(task: dict[str, Any], time: float, *, seen: bool) -> dict[str, Any]:
    """Return the native description of a task; columns that are missing are left out."""
    phase, start = task["phase"], task["start"]
    is_complete = task.get("arrival") is not None
    if phase == "running" and start is None and not is_complete:
        start = time
    guessed_ready = None if phase == "held" or is_complete else task["submit"]
    described: dict[str, Any] = {
        "status": STATUS_CODES.get(phase, 0),
        "submit": task["submit"],
        "ready": _first_known(task.get("ready"), guessed_ready),
        "start": _first_known(task.get("first_start"), start),
        "last_start": _first_known(start),
        "end": _first_known(task["end"]),
        "attempts": max(task.get("attempts") or 0, int(start is not None)),
        "seen": seen,
    }
    names = {"last_end": "last_end", "work": "done", "cpu_time": "used"}
    names |= {name: name for name in ("energy", "spent", "saved", "failures", "arrival")}
    for name, native in names.items():
        if task.get(name) is not None:
            described[native] = task[name]
    return described


def _first_known(*values: float | None) -> float:
    """Return the first value that is not None, or NaN."""
    return next((float(value) for value in values if value is not None), float("nan"))
