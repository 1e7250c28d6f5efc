"""State of a run, from which another run of the same scenario goes on; its file in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pydantic

from twinloop._core import ClusterRun
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.saved_json import read_stored_json
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES, STATUSES
from twinloop.engine.network_columns import list_files, list_run_stores
from twinloop.engine.state_schema import (
    TASK_TYPES,
    StateSchema,
    StoredState,
    cast_tasks,
    describe_problem,
)

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

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    #: The current time (s).
    time: float
    #: A row per submitted task, except rejected tasks: id; phase (waiting; held by a parent or by
    #: the limits of its queue; running; or the status at its end); submit, start (of the last
    #: execution) and end (s); done, the completed share of its work; machines and cores on each,
    #: for running tasks. Optional: ready, first_start, attempts and the columns of a complete
    #: state. The rows of waiting tasks are in the order of the queue. Tasks without a row are
    #: submitted later, or now if their submission time has passed.
    tasks: pl.DataFrame
    #: The names of the machines that are down, or were removed while they were down.
    down: tuple[str, ...] = ()
    #: The progress of the tasks that have machines: step, times, transfer, remaining work. A task
    #: that runs and has no row computes, from its share done on.
    executions: tuple[dict[str, Any], ...] = ()
    #: A row per machine: cores, state and when that began, current outages, the time at which it
    #: was restored by hand, energy so far (J), whether it was removed, and `added`, the description
    #: of a machine that was added in the run; of an instance its host, None if it was removed.
    machines: tuple[dict[str, Any], ...] = ()
    #: Whether tasks share machines, as a scenario or a task that was added needs it.
    shared: bool = False
    #: The files in each data store, by its name; a store that is not listed has its files of the
    #: start of the run.
    stores: dict[str, list[str]] = field(default_factory=dict)
    #: The tasks that were added in the run, by `Simulation.submit` or the source: id and columns.
    added: tuple[dict[str, Any], ...] = ()
    #: What the source of submissions remembers; None: what follows from the ended tasks.
    source: dict[str, Any] | None = None
    #: When the policy is called next, and what it remembers; None: now, and nothing.
    decisions: dict[str, Any] | None = None
    #: The hash of the scenario; empty: any.
    scenario: str = field(default="")
    #: The file from which the state was loaded, for errors; `dataclasses.replace` drops it.
    file: Path | None = field(default=None, init=False, compare=False, repr=False)

    @classmethod
    def from_run(cls, compiled: CompiledScenario, run: ClusterRun) -> SimulationState:
        """Read the state of a native run."""
        if compiled.machines.platform.clouds:
            raise InputError(
                "the state of a scenario with clouds cannot be saved: use copy(), which continues "
                "a simulation with its instances",
                kind="invalid-operation",
            )
        model = compiled.scenario.model
        if model.detail.is_managed(model.submission) or model.detail.moves_otherwise:
            raise InputError(
                "the state of a scenario with submission overheads, or with files that pass "
                "through stores of hosts or whole buffers, cannot be saved: use copy(), which "
                "continues a simulation with them",
                kind="invalid-operation",
            )
        if run.has_store_changes:
            raise InputError(
                "the state of a simulation whose stores were changed from outside cannot be saved: "
                "use copy(), which continues a simulation with its files and transfers",
                kind="invalid-operation",
            )
        names, saved = compiled.names.machines, run.saved_state()
        ids = join_ids(compiled, saved["added"])
        tasks = _build_tasks(run, ids, names, saved["tasks"])
        executions = tuple({**row, "task": ids[row["task"]]} for row in saved["executions"])
        described = dict(compiled.added_machines)
        machines = tuple(
            {"machine": name, **row, **({"added": described[name]} if name in described else {})}
            for name, row in zip(names, saved["machines"], strict=True)
        )
        for number in compiled.machines.instances:
            host = int(run.hosts()[number])
            machines[number]["added"] = {"host": names[host] if host >= 0 else None}
        files = list_files(compiled.workload) if saved["stores"] else []
        stores = list_run_stores(compiled, run) if saved["stores"] else []
        # Stores that were opened for requests alone have no files.
        opened = {number for number, _ in run.named_stores()}
        for row in executions:
            if "transfer" in row:
                row["transfer"]["store"] = stores[row["transfer"]["store"]]
        decisions = saved["decisions"]
        decisions["running"] = [ids[row] for row in decisions["running"]]
        decisions["name"] = compiled.policy.name
        return cls(
            time=run.now,
            tasks=tasks,
            down=tuple(name for m, name in enumerate(names) if run.is_down(m)),
            executions=executions,
            machines=machines,
            shared=run.shared,
            stores={
                name: [files[file] for file in held]
                for number, (name, held) in enumerate(zip(stores, saved["stores"], strict=True))
                if number not in opened
            },
            added=tuple(_name_parents(row, ids) for row in saved["added"]),
            source=_name_tasks(saved["submissions"], ids),
            decisions=decisions,
            scenario=compiled.scenario_hash(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a JSON file; an existing file is replaced at once.

        >>> import tempfile
        >>> import polars as pl
        >>> from twinloop.engine import SimulationState
        >>> state = SimulationState(time=0.1 + 0.2, tasks=pl.DataFrame({
        ...     "id": ["a"], "phase": ["waiting"], "submit": [0.0], "start": [None], "end": [None],
        ...     "done": [0.0], "machines": [[]], "cores": [[]]}))
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
            "shared": self.shared,
            "stores": self.stores,
            "added": list(self.added),
            "source": self.source,
            "decisions": self.decisions,
        }
        with write_atomically(Path(fspath(path))) as file:
            file.write(json.dumps(document, indent=1, allow_nan=True).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> SimulationState:
        """Read a state that `save` has written."""
        file = Path(fspath(path))
        stored = read_stored_json(file, StoredState, "write it again with SimulationState.save")
        if stored.schema_version != SCHEMA_VERSION:
            raise InputError(
                f"has version {stored.schema_version}; this is version {SCHEMA_VERSION}",
                kind="damaged-file",
                file=file,
                field="schema_version",
            )
        try:
            tasks = cast_tasks(stored.tasks)
        except InputError as error:
            raise error.at(file=file, field=f"tasks.{error.field}") from None
        state = cls(tasks=tasks, **stored.get_parts())
        object.__setattr__(state, "file", file)
        return state

    def normalize(self) -> SimulationState:
        """Return the state with values of the types of the schema; raise an error for others."""
        given = {name: getattr(self, name) for name in StateSchema.model_fields if name != "tasks"}
        try:
            schema = StateSchema.model_validate({**given, "tasks": {}}, strict=False)
        except (pydantic.ValidationError, OverflowError) as error:
            raise describe_problem(error, given) from None
        if not isinstance(self.tasks, pl.DataFrame):
            raise InputError(
                f"must be a polars.DataFrame, not {type(self.tasks).__name__}",
                kind="wrong-type",
                field="state.tasks",
            )
        try:
            tasks = cast_tasks(self.tasks.to_dict())
        except InputError as error:
            raise error.at(field=f"state.tasks: {error.field}") from None
        return SimulationState(tasks=tasks, **schema.get_parts())


def join_ids(compiled: CompiledScenario, added: Iterable[Mapping[str, Any]]) -> pl.Series:
    """Return the IDs of the tasks by row: those of the workload, then the added ones."""
    return pl.concat(
        [compiled.arrays.ids, pl.Series([each["id"] for each in added], dtype=pl.String)]
    )


def _name_tasks(submissions: dict[str, Any], ids: pl.Series) -> dict[str, Any]:
    """Return what the source remembers with IDs in place of rows."""
    python = submissions["python"]
    if python is not None:
        python["ended"] = [(ids[row], end, STATUSES[code]) for row, end, code in python["ended"]]
        python["tasks"] = [
            ids[each] if isinstance(each, int) else _name_parents(each, ids)
            for each in python["tasks"]
        ]
    return submissions


def _name_parents(row: dict[str, Any], ids: pl.Series) -> dict[str, Any]:
    """Return the values of a new task with the IDs of its parents in place of rows."""
    if "parents" not in row:
        return row
    names = [ids[each] if isinstance(each, int) else each for each in row["parents"]]
    return {**row, "parents": names}


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
    # Queues release tasks in the order in which they held them: an interrupted task comes last.
    held.sort(key=lambda row: (saved["held"][row], row))
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
        **{name: saved[name][rows] for name in TASK_TYPES if name in saved},
    }
    return pl.DataFrame(
        {name: pl.Series(values, dtype=TASK_TYPES[name]) for name, values in columns.items()}
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
