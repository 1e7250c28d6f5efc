"""Checks of a state before a run starts from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES
from twinloop.engine.network_columns import list_store_names, list_stores
from twinloop.platform.network import LOCAL
from twinloop.policy import BuiltInPolicy
from twinloop.workload.fragments import find_rows

if TYPE_CHECKING:
    from twinloop.engine.simulation_state import SimulationState


def check_state(
    compiled: CompiledScenario, state: SimulationState, ids: pl.Series
) -> NDArray[np.int64]:
    """Raise an error for a state that no run of the scenario can have; return the rows of tasks."""
    if state.scenario and state.scenario != compiled.scenario_hash():
        raise InputError(
            "belongs to another scenario",
            kind="invalid-state",
            field="state.scenario",
            remedy="start it with the scenario of the simulation that saved it, or remove the hash "
            "with dataclasses.replace(state, scenario='')",
        )
    if compiled.python_source is not None and not (state.source or {}).get("python"):
        raise InputError(
            "does not contain the state of the source, which is written in Python",
            kind="invalid-state",
            field="state.source",
            remedy="take the state from a simulation with this source",
        )
    tasks, machines = state.tasks, set(compiled.names.machines)
    for each in state.machines:
        if "added" not in each:
            continue
        name = each["machine"]
        used = "a machine" if name in machines else compiled.machines.find_use_of_name(name)
        if used is not None:
            raise InputError(
                f"the machine {name!r} was added, and this is already the name of {used}",
                kind="duplicate-name",
                field="state.machines",
            )
        machines.add(name)
    rows = find_rows(ids, tasks["id"])
    if (rows < 0).any():
        name = tasks["id"][int(np.argmax(rows < 0))]
        raise InputError(
            f"the workload has no task {name!r}", kind="unknown-reference", field="state.tasks"
        )
    if tasks["id"].is_duplicated().any():
        raise InputError("a task has more than one row", kind="invalid-state", field="state.tasks")
    named = {"down": state.down, "machines": [each["machine"] for each in state.machines]}
    for field, names in named.items():
        for name in names:
            if name not in machines:
                raise InputError(
                    f"there is no machine {name!r}",
                    kind="unknown-reference",
                    field=f"state.{field}",
                )
    if not np.isfinite(state.time):
        raise InputError(
            f"must be a finite time, not {state.time}", kind="invalid-state", field="state.time"
        )
    _check_tasks(compiled, state, rows)
    _check_executions(state)
    _check_stores(compiled, state)
    return rows


def _check_executions(state: SimulationState) -> None:
    tasks = {task["id"]: task for task in state.tasks.iter_rows(named=True)}
    for each in state.executions:
        if each["task"] not in tasks:
            raise InputError(
                f"the task {each['task']!r} has no row in state.tasks",
                kind="invalid-state",
                field="state.executions",
            )
        problem = _find_execution_problem(each, tasks[each["task"]], state.time)
        if problem is not None:
            name, why = problem
            raise InputError(
                why, kind="invalid-state", field=f"state.executions: {each['task']!r}: {name}"
            )


def _find_execution_problem(
    each: dict[str, Any], task: dict[str, Any], time: float
) -> tuple[str, str] | None:
    """Return the field of an execution that does not fit the others, and why."""
    count = len(task["machines"] or [])
    is_over = each["step"] == "release"
    if count == 0 or (task["phase"] == "running") == is_over:
        return "step", f"a task in the phase {task['phase']!r} on {count} machines has no such step"
    for name, value in each.items():
        if isinstance(value, float) and np.isnan(value):
            return name, "is not a number"
    is_paused = each["paused"] < np.inf
    ends = each["left"] if is_paused else each["until"]
    if each["step"] in ("dispatch", "startup", "release") and ends == np.inf:
        return ("left" if is_paused else "until"), "must be finite in this step"
    # An instance and its host may both keep a task from running.
    if is_paused != (each["halted"] > 0) or each["halted"] > 2 * count:
        return "halted", "must be the number of its machines for which it is paused"
    if is_paused and each["paused"] > time:
        return "paused", f"must not be after {time} s, the time of the state"
    if each["draws"] and len(each["remaining"]) != count:
        return "remaining", f"must have a value for each of its {count} machines"
    if any(value < 0 for value in each["remaining"]):
        return "remaining", "must not be negative"
    moving = each.get("transfer")
    if moving is not None and not moving["left"] >= 0:
        return "transfer", "`left` must not be negative"
    return None


def _check_stores(compiled: CompiledScenario, state: SimulationState) -> None:
    added = [(each["machine"], each["added"]) for each in state.machines if "added" in each]
    if not state.stores:
        return
    stores, owners = list_stores(compiled, added), list_store_names(compiled)
    shared = {store.name for store in compiled.machines.platform.stores}
    listed: set[str] = set()
    for name, held in state.stores.items():
        if name not in stores:
            raise InputError(
                f"there is no data store {name!r}", kind="unknown-reference", field="state.stores"
            )
        field = f"state.stores: {name!r}"
        for file in held:
            if file not in owners:
                raise InputError(
                    f"the workload has no file {file!r}", kind="unknown-reference", field=field
                )
            if file in listed:
                raise InputError(
                    f"the file {file!r} is listed more than once, and a file is in one store",
                    kind="invalid-state",
                    field=field,
                )
            listed.add(file)
            if owners[file] != name and (owners[file] != LOCAL or name in shared):
                raise InputError(
                    f"the file {file!r} cannot be there: its store is {owners[file]!r}",
                    kind="invalid-state",
                    field=field,
                )


def _check_tasks(
    compiled: CompiledScenario, state: SimulationState, rows: NDArray[np.int64]
) -> None:
    cores = dict(
        zip(compiled.names.machines, compiled.machines.nodes["cores"].to_list(), strict=True)
    )
    cores |= {each["machine"]: each["cores"] for each in state.machines}
    capacity = compiled.scenario.model.effective_capacity * _get_overcommit_ratio(compiled)
    allocated = dict.fromkeys(cores, 0.0)
    requested = [*compiled.arrays.cores.tolist(), *(each["cores"] for each in state.added)]
    for row, task in zip(rows.tolist(), state.tasks.iter_rows(named=True), strict=True):
        field = f"state: task {task['id']!r}"
        _check_phase(compiled, task, row, field)
        if task["phase"] != "running":
            continue
        _check_placement(task, requested[row], cores, field)
        for name, number in zip(task["machines"], task["cores"], strict=True):
            allocated[name] += number
            if allocated[name] > cores[name] * capacity * (1 + 1e-9):
                raise InputError(
                    f"uses more cores of {name!r} than are available",
                    kind="invalid-state",
                    field=field,
                )


def _check_phase(compiled: CompiledScenario, task: dict[str, Any], row: int, field: str) -> None:
    if task["phase"] not in (*STATUS_CODES, "waiting", "held", "running"):
        raise InputError(
            f"{task['phase']!r} is not a phase",
            kind="invalid-state",
            field=field,
            remedy=f"one of: waiting, held, running, {', '.join(STATUS_CODES)}",
        )
    if task["submit"] is None or not np.isfinite(task["submit"]):
        raise InputError("has no finite submission time", kind="invalid-state", field=field)
    is_open = task["phase"] in ("waiting", "held", "running")
    if is_open and row < len(compiled.rejected) and compiled.rejected[row]:
        raise InputError("can never run on this platform", kind="invalid-state", field=field)


def _check_placement(
    task: dict[str, Any], requested: float, known: dict[str, float], field: str
) -> None:
    names, cores = task["machines"] or [], task["cores"] or []
    unknown = [name for name in names if name not in known]
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
    for number in cores:
        if number is None or not 0 <= number < np.inf or (number == 0 and requested > 0):
            raise InputError(
                f"must be a positive number of cores, not {number}",
                kind="invalid-state",
                field=f"{field}: cores",
            )
    if abs(sum(cores) - requested) > 1e-6 * (1 + requested):
        raise InputError(
            f"must add up to the {requested:g} cores that the task requests, not to {sum(cores):g}",
            kind="invalid-state",
            field=f"{field}: cores",
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
