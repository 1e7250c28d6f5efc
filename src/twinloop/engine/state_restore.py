"""Restoring a state into a run, which then goes on from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES
from twinloop.engine.network_columns import list_files, list_stores
from twinloop.engine.new_rows import NewRow
from twinloop.engine.simulation_state import SimulationState, join_ids
from twinloop.engine.state_check import check_state


def restore_state(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState
) -> CompiledScenario:
    """Restore a state into a run that has not started.

    Return the compiled scenario with the machines that were added.
    """
    if not isinstance(state, SimulationState):
        raise InputError(
            f"must be a SimulationState, not {type(state).__name__}",
            kind="wrong-type",
            field="state",
            remedy="SimulationState.load(path) reads a file",
        )
    try:
        return _restore_parts(compiled, run, state.normalize())
    except InputError as error:
        raise error.at(file=state.file) from None


def _restore_parts(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState
) -> CompiledScenario:
    ids = join_ids(compiled, state.added)
    rows = check_state(compiled, state, ids)
    compiled = _restore_machines(compiled, run, state)
    row_of = dict(zip(ids.to_list(), range(len(ids)), strict=True))
    _restore_added_tasks(run, state, row_of)
    _restore_tasks(compiled, run, state, rows)
    _restore_stores(compiled, run, state)
    _restore_source(run, state, row_of)
    _restore_decisions(compiled, run, state, row_of)
    return compiled


@contextmanager
def _restoring(field: str) -> Iterator[None]:
    """Name the field of a value that the native run refuses."""
    try:
        yield
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"{error} is missing", kind="invalid-state", field=field) from None
    except (ValueError, IndexError) as error:
        raise InputError(str(error), kind="invalid-state", field=field) from None
    except (TypeError, AttributeError, RuntimeError, OverflowError) as error:
        why = f"cannot be restored: {error}"
        raise InputError(why, kind="invalid-state", field=field) from None


# --- machines -------------------------------------------------------------------------------------


def _restore_machines(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState
) -> CompiledScenario:
    index = {name: m for m, name in enumerate(compiled.names.machines)}
    for each in state.machines:
        # Before the outages that have begun are begun again.
        if each["machine"] in index:
            with _restoring(_machine_field(each)):
                run.set_restored_at(index[each["machine"]], each.get("restored_at", -np.inf))
    if state.time >= compiled.horizon:
        compiled.extend_failures(state.time)
        run.extend_failures(compiled.native_scenario)
    run.set_start_time(state.time)
    if state.shared:
        run.share_machines()
    for each in state.machines:
        if each["machine"] not in index:
            with _restoring(f"{_machine_field(each)}: added"):
                add = _add_instance if "host" in each["added"] else _add_machine
                compiled = add(compiled, run, each)
            index[each["machine"]] = len(index)
    run.set_names(compiled.names)
    for each in state.machines:
        host = (each.get("added") or {}).get("host")
        if host is not None:
            with _restoring(f"{_machine_field(each)}: added"):
                run.restore_host(index[each["machine"]], index[host])
    cores = compiled.machines.nodes["cores"].to_list()
    for each in state.machines:
        number = index[each["machine"]]
        known = {"state": "running", "begun": state.time, "removed": False, **each}
        with _restoring(_machine_field(each)):
            if abs(each["cores"] - cores[number]) > 1e-9 * (1 + cores[number]):
                run.set_cores(number, each["cores"])
            run.restore_machine(number, known)
    return compiled


def _add_instance(
    compiled: CompiledScenario, run: ClusterRun, row: dict[str, Any]
) -> CompiledScenario:
    """Add an instance; its host may be a machine that comes later."""
    names = compiled.names.machines
    host = names.index(row["added"]["host"]) if row["added"]["host"] in names else None
    name, cores, memory = row["machine"], float(row["cores"]), float(row["memory"])
    run.restore_instance(host, cores, memory)
    machines = compiled.machines.with_instance(name, cores, memory, host or 0)
    return compiled.with_machines(machines, name)


def _add_machine(
    compiled: CompiledScenario, run: ClusterRun, row: dict[str, Any]
) -> CompiledScenario:
    name, given = row["machine"], row["added"]
    like = None if given["like"] is None else compiled.names.machines.index(given["like"])
    cores, memory, speed = (float(given[name]) for name in ("cores", "memory", "speed"))
    amounts = [float(each) for each in given["amounts"]]
    run.add_machine(cores=cores, memory=memory, speed=speed, amounts=amounts, like=like)
    machines = compiled.machines.with_machine(name, cores, memory, like, speed)
    return compiled.with_machines(machines, name, given)


def _machine_field(row: dict[str, Any]) -> str:
    return f"state.machines: {row['machine']!r}"


def _restore_stores(compiled: CompiledScenario, run: ClusterRun, state: SimulationState) -> None:
    if not state.stores:
        return
    numbers = {name: file for file, name in enumerate(list_files(compiled.workload))}
    stores = {name: store for store, name in enumerate(list_stores(compiled))}
    with _restoring("state.stores"):
        run.restore_stores(
            [(stores[n], [numbers[file] for file in held]) for n, held in state.stores.items()]
        )


# --- tasks ----------------------------------------------------------------------------------------


def _restore_added_tasks(run: ClusterRun, state: SimulationState, row_of: dict[str, int]) -> None:
    submitted = set(state.tasks["id"])
    for each in state.added:
        with _restoring(f"state.added: {each['id']!r}"):
            run.restore_added(
                _make_row(each, row_of), each.get("rejected", False), each["id"] not in submitted
            )


def _make_row(values: dict[str, Any], row_of: dict[str, int]) -> NewRow:
    given = {name: value for name, value in values.items() if name != "rejected"}
    parents = tuple(row_of.get(name, name) for name in given.get("parents", ()))
    return NewRow(**{**given, "amounts": tuple(given["amounts"]), "parents": parents})


def _restore_tasks(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState, rows: NDArray[np.int64]
) -> None:
    tasks, stores = state.tasks, list_stores(compiled) if state.stores else []
    machine_index = {name: m for m, name in enumerate(compiled.names.machines)}
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
            for name, cores in zip(task["machines"], task["cores"], strict=True)
        ]
        for task in tasks.iter_rows(named=True)
        if task["phase"] == "running" or task["id"] in described
    }
    in_order = list(zip(rows[order].tolist(), tasks[order].iter_rows(named=True), strict=True))
    with _restoring("state.tasks"):
        for row, task in in_order:
            seen = task["id"] not in releasing
            run.restore_task(row, _describe_task(task, state.time, seen=seen))
    # Running tasks before waiting ones: they count in the limits of their queues.
    for each in state.executions:
        with _restoring(f"state.executions: {each['task']!r}"):
            if each["draws"] and not run.shared:
                raise ValueError("`draws` is true, and machines are not shared")
            if each.get("transfer") is not None:
                moving = {**each["transfer"], "store": stores.index(each["transfer"]["store"])}
                each = {**each, "transfer": moving}
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
    for name in state.down:
        if not run.is_down(machine_index[name]):
            run.fail(machine_index[name])


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
    names |= {name: name for name in ("energy", "spent", "saved", "planned", "failures", "arrival")}
    for name, native in names.items():
        if task.get(name) is not None:
            described[native] = task[name]
    return described


def _first_known(*values: float | None) -> float:
    """Return the first value that is not None, or NaN."""
    return next((float(value) for value in values if value is not None), float("nan"))


# --- source and policy ----------------------------------------------------------------------------


def _restore_source(run: ClusterRun, state: SimulationState, row_of: dict[str, int]) -> None:
    saved = state.source or {"added": 0, "memory": [], "python": None}
    with _restoring("state.source"):
        python = saved["python"]
        if python is not None:
            python = {
                **python,
                "ended": [
                    (row_of[task], end, STATUS_CODES[status])
                    for task, end, status in python["ended"]
                ],
                "tasks": [
                    row_of[each] if isinstance(each, str) else _make_row(each, row_of)
                    for each in python["tasks"]
                ],
            }
        run.restore_submissions(saved["added"], saved["memory"], python)


def _restore_decisions(
    compiled: CompiledScenario, run: ClusterRun, state: SimulationState, row_of: dict[str, int]
) -> None:
    if state.decisions is None:
        return
    with _restoring("state.decisions"):
        decisions = {**state.decisions, "running": [row_of[t] for t in state.decisions["running"]]}
        if decisions.pop("name", None) != compiled.policy.name:
            decisions |= {"memory": [], "policy": None, "call": True}
        run.restore_decisions(decisions)
