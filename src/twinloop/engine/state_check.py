"""Checks of a state before a run starts from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.description.quantities import MAX_TIME
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.native_codes import STATUS_CODES
from twinloop.engine.network_columns import list_store_names, list_stores
from twinloop.engine.simulation_state import SimulationState
from twinloop.engine.state_schema import MAX_AMOUNT, TASK_COLUMNS, TIME_COLUMNS
from twinloop.platform.network import LOCAL
from twinloop.policy import BuiltInPolicy
from twinloop.policy.batch import Conservative
from twinloop.workload.fragments import find_rows

Row = dict[str, Any]

_OPEN_PHASES: Final = ("waiting", "held", "running")
#: Columns of tasks that, if they are given, have a value in each row.
_FULL_COLUMNS: Final = (
    *("id", "phase", "attempts", "failures", "arrival"),
    *("saved", "spent", "work", "cpu_time", "energy"),
)
#: Times of a task of which the second is not before the first.
_ORDERED_TIMES: Final = (
    *(("submit", "ready"), ("submit", "start"), ("ready", "first_start")),
    *(("first_start", "start"), ("start", "end")),
)


def check_state(
    compiled: CompiledScenario, state: SimulationState, ids: pl.Series
) -> NDArray[np.int64]:
    """Raise an error for a state that no run of the scenario can have; return the rows of tasks.

    The values of the state have the types of its schema, by `SimulationState.normalize`.
    """
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
    _check_added_tasks(compiled, state)
    _check_machines(compiled, state)
    rows = find_rows(ids, state.tasks["id"])
    if (rows < 0).any():
        name = state.tasks["id"][int(np.argmax(rows < 0))]
        raise InputError(
            f"the workload has no task {name!r}", kind="unknown-reference", field="state.tasks"
        )
    if state.tasks["id"].is_duplicated().any():
        raise _refuse("state.tasks", "a task has more than one row")
    _check_columns(state, _compute_lengths(compiled, state)[rows])
    _check_tasks(compiled, state, rows)
    _check_stores(compiled, state)
    _check_executions(compiled, state, rows)
    _check_source(state)
    _check_decisions(compiled, state, rows)
    return rows


def _refuse(field: str, why: str) -> InputError:
    return InputError(why, kind="invalid-state", field=field)


def _describe_late(time: float, value: float) -> str:
    return f"must not be after {time} s, the time of the state, but is {value}"


def _check_repeated(names: Iterable[str], field: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _refuse(field, f"{name!r} has more than one row")
        seen.add(name)


# --- machines and stores --------------------------------------------------------------------------


def _check_machines(compiled: CompiledScenario, state: SimulationState) -> None:
    known = set(compiled.names.machines)
    for each in state.machines:
        if each.get("added") is not None:
            _check_added_machine(compiled, each, known)
            known.add(each["machine"])
    _check_repeated((each["machine"] for each in state.machines), "state.machines")
    named = [("state.down", name) for name in state.down]
    for each in state.machines:
        named.append(("state.machines", each["machine"]))
        host = (each.get("added") or {}).get("host")
        if host is not None:
            named.append((f"state.machines: {each['machine']!r}: added", host))
    for field, name in named:
        if name not in known:
            raise InputError(f"there is no machine {name!r}", kind="unknown-reference", field=field)
    for each in state.machines:
        if each["restored_at"] > state.time:
            raise _refuse(
                f"state.machines: {each['machine']!r}: restored_at",
                _describe_late(state.time, each["restored_at"]),
            )


def _check_added_machine(compiled: CompiledScenario, each: Row, known: set[str]) -> None:
    name, added = each["machine"], each["added"]
    used = "a machine" if name in known else compiled.machines.find_use_of_name(name)
    if used is not None:
        raise InputError(
            f"the machine {name!r} was added, and this is already the name of {used}",
            kind="duplicate-name",
            field="state.machines",
        )
    field = f"state.machines: {name!r}"
    if "host" in added and "memory" not in each:
        raise _refuse(field, "'memory' is missing")
    if "host" in added:
        return
    if added["speed"] <= 0:
        raise _refuse(f"{field}: added: speed", "must be positive")
    if added["like"] is not None and added["like"] not in known:
        raise _refuse(f"{field}: added: like", f"there is no machine {added['like']!r}")
    if len(added["amounts"]) != len(compiled.names.resources):
        count = len(compiled.names.resources)
        raise _refuse(
            f"{field}: added: amounts", f"must have a value for each of {count} resources"
        )


def _check_stores(compiled: CompiledScenario, state: SimulationState) -> None:
    if not state.stores:
        return
    stores, owners = _list_stores(compiled, state), list_store_names(compiled)
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
                raise _refuse(
                    field, f"the file {file!r} is listed more than once, and a file is in one store"
                )
            listed.add(file)
            if owners[file] != name and (owners[file] != LOCAL or name in shared):
                raise _refuse(
                    field, f"the file {file!r} cannot be there: its store is {owners[file]!r}"
                )


def _list_stores(compiled: CompiledScenario, state: SimulationState) -> list[str]:
    added = [(each["machine"], each["added"]) for each in state.machines if each.get("added")]
    return list_stores(compiled, added)


# --- tasks ----------------------------------------------------------------------------------------


def _check_added_tasks(compiled: CompiledScenario, state: SimulationState) -> None:
    python = (state.source or {}).get("python") or {"tasks": []}
    # Tasks of the last answer of the source, which are not yet submitted.
    answered = [each for each in python["tasks"] if isinstance(each, dict)]
    known = set(compiled.arrays.ids.to_list()) if state.added or answered else set()
    for number, each in enumerate((*state.added, *answered)):
        part = "added" if number < len(state.added) else "source: python: tasks"
        field = f"state.{part}: {each['id']!r}"
        if each["id"] in known:
            raise _refuse(field, "this is already the name of a task")
        unknown = [name for name in each.get("parents", ()) if name not in known]
        if unknown:
            raise _refuse(f"{field}: parents", f"there is no task {unknown[0]!r} before it")
        known.add(each["id"])
        _check_added_task(compiled, each, field)


def _check_added_task(compiled: CompiledScenario, each: Row, field: str) -> None:
    names = compiled.names
    columns = {"user": names.users, "group": names.groups, "queue": names.queues}
    for name, allowed in {**columns, "kind": names.kinds or ("",)}.items():
        if each[name] >= len(allowed):
            raise _refuse(f"{field}: {name}", f"must be less than {len(allowed)}")
    for name in ("cores", "limit"):
        if each[name] <= 0:
            raise _refuse(f"{field}: {name}", "must be positive")
    if each["requested_time"] < 0:
        raise _refuse(f"{field}: requested_time", "must not be negative")
    if len(each["amounts"]) != len(names.resources):
        count = len(names.resources)
        raise _refuse(f"{field}: amounts", f"must have a value for each of {count} resources")


def _compute_lengths(compiled: CompiledScenario, state: SimulationState) -> NDArray[np.float64]:
    """Return the recorded run time of each task (s), by row."""
    arrays, fragments = compiled.arrays, compiled.arrays.fragments
    work = np.array([*arrays.work, *(each["work"] for each in state.added)])
    limit = np.array([*arrays.limit, *(each["limit"] for each in state.added)])
    lengths: NDArray[np.float64] = np.zeros(len(work))
    np.divide(work, limit, out=lengths, where=limit > 0)
    lengths[fragments.tasks] = fragments.length()
    return lengths


def _count_fragments(compiled: CompiledScenario, rows: Iterable[int]) -> dict[int, int]:
    """Return the numbers of fragments of these tasks, except tasks without fragments.

    Adjacent fragments with the same rate are one.
    """
    fragments = compiled.arrays.fragments
    counts = {}
    for at in np.flatnonzero(np.isin(fragments.tasks, list(rows))):
        rates = fragments.rates[fragments.offsets[at] : fragments.offsets[at + 1]]
        counts[int(fragments.tasks[at])] = 1 + int(np.count_nonzero(np.diff(rates)))
    return counts


def _check_columns(state: SimulationState, lengths: NDArray[np.float64]) -> None:
    """Check the values in the columns of tasks one by one, and the order of times."""
    tasks = state.tasks
    if tasks["submit"].is_null().any():
        _refuse_task(tasks, tasks["submit"].is_null(), "submit", "has no finite submission time")
    for name in _FULL_COLUMNS:
        if name in tasks.columns and tasks[name].is_null().any():
            _refuse_task(tasks, tasks[name].is_null(), name, "has no value")
    late = f"must not be after {state.time} s, the time of the state, but is {{}}"
    amount, count = "must be finite and not negative, not {}", "must be a count, not {}"
    ranges: dict[str, tuple[float, Any, str]] = {
        **dict.fromkeys(TIME_COLUMNS, (-MAX_TIME, state.time, late)),
        **dict.fromkeys(("work", "cpu_time", "spent"), (0, MAX_AMOUNT, amount)),
        **dict.fromkeys(("attempts", "failures"), (0, 2**32 - 1, count)),
        "arrival": (0, 2**53, count),
        # The energy of an execution may be a difference, with a rounding error.
        "energy": (-0.01, MAX_AMOUNT, amount),
        "done": (0, 1, "must be a share of its work from 0 to 1, not {}"),
        "saved": (0, pl.Series(lengths * (1 + 1e-9)), "must be from 0 to its run time, not {}"),
        "planned": (0, np.inf, "must not be negative, and is {}"),
    }
    for name, (low, high, why) in ranges.items():
        if name in tasks.columns:
            wrong = ~tasks[name].is_between(low, high) & tasks[name].is_not_null()
            if name == "submit":
                # A task ends before it is submitted if its parent fails.
                is_open = tasks["phase"].is_in([*_OPEN_PHASES, "completed"])
                wrong &= is_open | ~tasks[name].is_finite()
            if wrong.any():
                _refuse_task(tasks, wrong, name, why)
    if "arrival" in tasks.columns:
        _check_complete_columns(tasks)
    for first, second in _ORDERED_TIMES:
        if {first, second} <= set(tasks.columns):
            wrong = tasks[first] > tasks[second]
            if wrong.any():
                _refuse_task(tasks, wrong, second, f"must not be before `{first}`, but is {{}}")


def _check_complete_columns(tasks: pl.DataFrame) -> None:
    """Check the columns of the state of a simulation; one by hand has no column `arrival`."""
    missing = [name for name in TASK_COLUMNS if name not in tasks.columns]
    if missing:
        raise _refuse(f"state.tasks: {missing[0]}", "the column is missing, but not `arrival`")
    has_started = tasks["start"].is_not_null()
    wrong = (tasks["attempts"] > 0) != has_started
    if wrong.any():
        _refuse_task(tasks, wrong, "attempts", "is {}, which does not fit `start`")
    for name in ("ready", "first_start"):
        wrong = has_started & tasks[name].is_null()
        if wrong.any():
            _refuse_task(tasks, wrong, name, "has no value, and the task has started")


def _refuse_task(tasks: pl.DataFrame, wrong: pl.Series, column: str, why: str) -> None:
    """Raise an error about the first task with a wrong value."""
    row = wrong.arg_true()[0]
    field = f"state.tasks: {tasks['id'][row]!r}: {column}"
    raise _refuse(field, why.format(tasks[column][row]))


def _check_tasks(
    compiled: CompiledScenario, state: SimulationState, rows: NDArray[np.int64]
) -> None:
    cores = dict(
        zip(compiled.names.machines, compiled.machines.nodes["cores"].to_list(), strict=True)
    )
    cores |= {each["machine"]: each["cores"] for each in state.machines}
    closed = {each["machine"]: _find_closure(each) for each in state.machines}
    capacity = compiled.scenario.model.effective_capacity * _get_overcommit_ratio(compiled)
    allocated = dict.fromkeys(cores, 0.0)
    requested = [*compiled.arrays.cores.tolist(), *(each["cores"] for each in state.added)]
    ranges = {} if compiled.arrays.laws is None else compiled.arrays.laws.list_ranges()
    ending = {each["task"] for each in state.executions}
    for row, task in zip(rows.tolist(), state.tasks.iter_rows(named=True), strict=True):
        field = f"state.tasks: {task['id']!r}"
        _check_phase(compiled, task, row, field)
        if task["phase"] != "running" and task["id"] not in ending:
            continue
        _check_placement(task, requested[row], cores, field, ranges.get(row))
        for name, number in zip(task["machines"], task["cores"], strict=True):
            if closed.get(name) is not None:
                raise _refuse(f"{field}: machines", f"{name!r} {closed[name]}")
            allocated[name] += number
            if allocated[name] > cores[name] * capacity * (1 + 1e-9):
                raise _refuse(field, f"uses more cores of {name!r} than are available")


def _find_closure(machine: Row) -> str | None:
    """Return why no task can be on a machine; None if tasks can."""
    if machine.get("removed"):
        return "was removed"
    if machine["outages"] > 0:
        return f"is down: its `outages` are {machine['outages']}"
    return "is off" if machine.get("state") == "off" else None


def _check_phase(compiled: CompiledScenario, task: Row, row: int, field: str) -> None:
    phase = task["phase"]
    if phase not in (*STATUS_CODES, *_OPEN_PHASES):
        raise InputError(
            f"{phase!r} is not a phase",
            kind="invalid-state",
            field=field,
            remedy=f"one of: {', '.join(_OPEN_PHASES)}, {', '.join(STATUS_CODES)}",
        )
    if phase == "completed" and task["end"] is None:
        raise _refuse(f"{field}: end", "has no value, and the task has completed")
    if phase in _OPEN_PHASES and task["end"] is not None:
        raise _refuse(f"{field}: end", f"has a value in the phase {phase!r}")
    is_known = row < len(compiled.rejected)
    if phase in _OPEN_PHASES and is_known and compiled.rejected[row]:
        raise _refuse(field, "can never run on this platform")


def _check_placement(
    task: Row,
    requested: float,
    known: dict[str, float],
    field: str,
    allowed: tuple[float, float] | None,
) -> None:
    """Check the machines and the cores of a task; `allowed`: the range of its speed-up law."""
    names, cores = task["machines"] or [], task["cores"] or []
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"there is no machine {unknown[0]!r}" if unknown else "has no machine"
        raise _refuse(field, what)
    if len(names) != len(cores) or len(set(names)) < len(names):
        raise _refuse(field, "must list each of its machines once, with a number of cores")
    if task["done"] is None:
        raise _refuse(f"{field}: done", "must be a share of its work from 0 to 1")
    for number in cores:
        if number is None or not 0 <= number < np.inf or (number == 0 and requested > 0):
            raise _refuse(f"{field}: cores", f"must be a positive number of cores, not {number}")
    if allowed is not None and len(cores) == 1:
        low, high = allowed
        if not low - 1e-6 <= cores[0] <= high + 1e-6:
            why = f"must be from {low:g} to {high:g}, by its speed-up law, not {cores[0]:g}"
            raise _refuse(f"{field}: cores", why)
    elif abs(sum(cores) - requested) > 1e-6 * (1 + requested):
        raise _refuse(
            f"{field}: cores",
            f"must add up to the {requested:g} cores that the task requests, not to {sum(cores):g}",
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


# --- executions -----------------------------------------------------------------------------------


def _check_executions(
    compiled: CompiledScenario, state: SimulationState, rows: NDArray[np.int64]
) -> None:
    _check_repeated((each["task"] for each in state.executions), "state.executions")
    row_of = dict(zip(state.tasks["id"].to_list(), range(len(rows)), strict=True))
    later = [row_of[each["task"]] for each in state.executions if each["task"] in row_of]
    fragments = _count_fragments(compiled, rows[later])
    stores = _list_stores(compiled, state) if state.stores else []
    sizes = compiled.workload.files["size"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    largest = float(np.max(sizes, initial=0.0))
    stopped = {each["machine"] for each in state.machines if each.get("state") != "running"}
    stopped |= {
        each["machine"]
        for each in state.machines
        if (each.get("added") or {}).get("host") in stopped
    }
    for each in state.executions:
        if each["task"] not in row_of:
            raise _refuse(
                "state.executions", f"the task {each['task']!r} has no row in state.tasks"
            )
        at = row_of[each["task"]]
        task = state.tasks.row(at, named=True)
        problem = (
            _find_problem(each, task, state.time)
            or _find_pause_problem(each, task, state.time, stopped)
            or _find_transfer_problem(each, state.time, stores, largest)
        )
        count = fragments.get(int(rows[at]), 1)
        if problem is None and each["fragment"] >= count:
            problem = "fragment", f"must be less than {count}, the number of fragments of the task"
        if problem is not None:
            name, why = problem
            raise _refuse(f"state.executions: {each['task']!r}: {name}", why)
    _check_streams(state)


def _find_problem(each: Row, task: Row, time: float) -> tuple[str, str] | None:
    """Return the field of an execution that does not fit the others, and why."""
    count = len(task["machines"] or [])
    is_over = each["step"] == "release"
    if count == 0 or (task["phase"] == "running") == is_over:
        return "step", f"a task in the phase {task['phase']!r} on {count} machines has no such step"
    for name in ("placed", "work_begun", "begun"):
        if each[name] > time:
            return name, _describe_late(time, each[name])
    for name in ("until", "stop"):
        # The last machines of a run are released after its last event.
        if each[name] < time and not is_over:
            return name, f"must not be before {time} s, the time of the state, but is {each[name]}"
    has_timer = each["step"] in ("dispatch", "startup", "release")
    is_paused = each["paused"] < np.inf
    ends = each["left"] if is_paused else each["until"]
    if (has_timer or (each["step"] == "compute" and not each["draws"])) and ends == np.inf:
        return ("left" if is_paused else "until"), "must be finite in this step"
    end = min(each["begun"] + each["length"], each["stop"])
    computes_alone = each["step"] == "compute" and not each["draws"] and not is_paused
    if computes_alone and abs(each["until"] - end) > 1e-9 * (1 + abs(end)):
        return "until", f"must be the end of its fragment or its kill, {end} s"
    if each["draws"] and len(each["remaining"]) != count:
        return "remaining", f"must have a value for each of its {count} machines"
    if any(value < 0 for value in each["remaining"]):
        return "remaining", "must not be negative"
    # NaN: no work on this machine; infinite: work without delay has no end.
    work, left = each["length"] * each["rate"], float(np.nansum(each["remaining"]))
    if abs(left + each["done"] - work) > 1e-6 * (1 + work) and left < np.inf and each["draws"]:
        return "remaining", f"must add up, with `done`, to the {work:g} of `length` and `rate`"
    return None


def _find_pause_problem(
    each: Row, task: Row, time: float, stopped: set[str]
) -> tuple[str, str] | None:
    is_paused = each["paused"] < np.inf
    # An instance and its host may both keep a task from running.
    if is_paused != (each["halted"] > 0) or each["halted"] > 2 * len(task["machines"]):
        return "halted", "must be the number of its machines for which it is paused"
    if is_paused and not -MAX_TIME <= each["paused"] <= time:
        return "paused", _describe_late(time, each["paused"])
    if is_paused and stopped.isdisjoint(task["machines"]):
        return "paused", "is paused, and all of its machines are running"
    return None


def _find_transfer_problem(
    each: Row, time: float, stores: list[str], largest: float
) -> tuple[str, str] | None:
    moving = each.get("transfer")
    if each["step"] not in ("read", "write"):
        return None
    if "files" not in each or "refused" not in each:
        return "files", "must have a value in this step, as `refused`"
    if moving is None:
        return None if each["refused"] else ("transfer", "is missing in this step")
    if moving["store"] not in stores:
        return "transfer: store", f"there is no data store {moving['store']!r}"
    if moving["left"] > largest * (1 + 1e-9):
        return "transfer: left", f"must be at most {largest:g} bytes, the size of the largest file"
    if moving["registered"] > time:
        return "transfer: registered", _describe_late(time, moving["registered"])
    # It is infinite while the transfer waits for a stream.
    if time + moving["latency"] < moving["start"] < np.inf:
        return "transfer: start", f"must not be after the latency from {time} s on"
    return None


def _check_streams(state: SimulationState) -> None:
    """Check that a transfer waits for a stream only while its store has a transfer in progress."""
    moving = [(each["task"], each["transfer"]) for each in state.executions if each.get("transfer")]
    busy = {transfer["store"] for _, transfer in moving if transfer["start"] < np.inf}
    for task, transfer in moving:
        if transfer["store"] not in busy:
            raise _refuse(
                f"state.executions: {task!r}: transfer: start",
                f"waits for a stream, and {transfer['store']!r} has no transfer in progress",
            )


# --- source and policy ----------------------------------------------------------------------------


def _check_source(state: SimulationState) -> None:
    """Check what users with sessions remember: a count, and four counts and a time per session."""
    memory = (state.source or {}).get("memory", [])
    counts = [value for at, value in enumerate(memory) if at == 0 or at % 5 != 0]
    if not all(_is_count(value) for value in counts):
        raise _refuse("state.source: memory", "the counts of sessions must be whole numbers")
    python = (state.source or {}).get("python") or {"ended": []}
    unknown = [status for _, _, status in python["ended"] if status not in STATUS_CODES]
    if unknown:
        raise _refuse("state.source: python: ended", f"{unknown[0]!r} is not a status")


def _is_count(value: float) -> bool:
    return 0 <= value < 2**32 and value == int(value)


def _check_decisions(
    compiled: CompiledScenario, state: SimulationState, rows: NDArray[np.int64]
) -> None:
    if state.decisions is None:
        return
    described = {each["task"] for each in state.executions}
    tasks = state.tasks.filter((pl.col("phase") == "running") | pl.col("id").is_in(described))
    if sorted(state.decisions["running"]) != sorted(tasks["id"]):
        raise _refuse(
            "state.decisions: running", "must list each task that has machines, and no other"
        )
    if not isinstance(compiled.policy, Conservative) or state.decisions.get("name") != (
        compiled.policy.name
    ):
        return
    memory = state.decisions["memory"]
    if compiled.controllers:
        # The memory of each controller follows its time and the number of its values.
        memory = memory[2 : 2 + int(memory[1])] if len(memory) > 1 and _is_count(memory[1]) else []
    waiting = set(rows[(state.tasks["phase"] == "waiting").to_numpy()].tolist())
    known = {*compiled.names.machines, *(each["machine"] for each in state.machines)}
    if not _has_reservations(memory, waiting, len(known)):
        raise _refuse("state.decisions: memory", "does not contain the reservations of the policy")


def _has_reservations(memory: list[float], waiting: set[int], machines: int) -> bool:
    """Return whether the memory of conservative backfilling can be read.

    It is the accounts of users, after their number, and the reservations: whether these are of a
    pool, whether a task has ended early, and for each its start, its task, the number of its parts,
    and for each part the first machine, the number of machines, and the cores.
    """
    if not memory:
        return True
    accounts, reserved = memory[0], memory[1:]
    if not (_is_count(accounts) and accounts % 4 == 0 and accounts <= len(reserved)):
        return False
    numbers, left = iter(reserved[int(accounts) + 2 :]), set(waiting)
    if len(reserved) - accounts == 1 or any(v not in (0, 1) for v in reserved[int(accounts) :][:2]):
        return False
    for _start, task, parts in zip(numbers, numbers, numbers, strict=False):
        if task not in left or not _is_count(parts):
            return False
        left.remove(int(task))
        for _ in range(int(min(parts, len(reserved)))):
            machine, count, cores = (next(numbers, -1.0) for _ in range(3))
            if not (_is_count(machine) and _is_count(count) and 0 <= cores < np.inf):
                return False
            if not (count > 0 and machine + count <= machines):
                return False
    return (len(reserved) - accounts - 2) % 3 == 0 or len(reserved) == accounts
