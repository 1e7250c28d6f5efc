"""Conversion of a native run to a Trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.description import Cleaning
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.instance_table import build_instance_table
from twinloop.engine.native_codes import REASONS, STATUSES
from twinloop.engine.network_columns import build_transfer_table
from twinloop.engine.node_changes import NodeChange, build_node_periods
from twinloop.engine.rental_tables import LABEL_BIT, build_rental_states, name_machines
from twinloop.engine.run_tasks import RunTasks
from twinloop.engine.running_executions import add_running_use, list_running
from twinloop.engine.table_size import MAX_ROWS, check_rows
from twinloop.engine.usage_table import build_usage_table
from twinloop.trace import Manifest, Trace
from twinloop.trace.tables import COUNTER_COLUMNS, TABLES, make_empty_table
from twinloop.trace.trace import MachineRows
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

#: Kinds of orders, by native code.
ORDERS: Final = (
    "place",
    "preempt",
    "kill",
    "set-state",
    "reserve",
    "wake",
    "rent",
    "release",
    "migrate",
    "resize",
)

#: Default number of power windows of a trace.
DEFAULT_WINDOWS: Final = 1000


def trace_from_run(
    compiled: CompiledScenario,
    run: ClusterRun,
    *,
    wall: float | None = None,
    step: float | None = None,
    per_node: bool = False,
    most_rows: float = MAX_ROWS,
    changes: Iterable[NodeChange] = (),
) -> Trace:
    """Build the trace of a run that recorded its placements.

    `wall` is the wall time of the run (s); `step` is the length of the windows of power (s);
    `changes` are those of its nodes.
    """
    outcomes, run_tasks = run.outcomes(), RunTasks.from_run(compiled, run)
    placements, machine_rows = _build_placement_table(compiled, run, run_tasks)
    tables = {
        "tasks": remove_forgotten(
            _build_task_table(
                compiled,
                {**outcomes, "used": add_running_use(compiled, run, outcomes)},
                run_tasks,
                has_power=compiled.machines.has_power_models,
            ),
            run,
        ),
        "placements": placements,
        "nodes": compiled.machines.host_nodes,
        **_build_state_tables(compiled, run),
        "node_periods": build_node_periods(compiled, run, changes),
        "instances": build_instance_table(compiled, run),
        "decisions": _build_decision_table(compiled, run, run_tasks),
        "usage": build_usage_table(compiled, run, run_tasks),
        "transfers": build_transfer_table(compiled, run),
    }
    facts = _collect_facts(compiled, run, run_tasks)
    tables |= _build_power_tables(compiled, run, step, per_node=per_node, most_rows=most_rows)
    source = compiled.trace.manifest if compiled.trace is not None else Manifest()
    injected = list(compiled.injected)
    mode = "replay" if injected else "predict"
    manifest = Manifest(
        kind="simulated",
        scenario=compiled.scenario.to_manifest(),
        epoch_ms=compiled.epoch_ms,
        seed=compiled.scenario.seed,
        reference_mhz=compiled.workload.reference_mhz,
        cleaned=(*source.cleaned, *compiled.cleaned, *_note_outcomes(run_tasks, outcomes)),
        facts={
            "run": facts,
            "mode": mode,
            "injected": injected,
            "fitted_on": list(compiled.scenario.model.fitted_on),
        },
    )
    trace = Trace(manifest=manifest, **tables)
    if not compiled.machines.instances and not compiled.machines.platform.clouds:
        trace = trace.with_machine_rows(machine_rows)
    trace = trace.with_workload(compiled.scenario.workload.object)
    return trace if wall is None else trace.with_timings({"wall_s": wall})


def remove_forgotten(tasks: pl.DataFrame, run: ClusterRun) -> pl.DataFrame:
    """Remove the tasks that had ended when the run was copied without its history."""
    if run.has_history:
        return tasks
    return tasks.filter(pl.Series(run.forgotten()[: tasks.height] == 0))


def status_names(codes: Any) -> pl.Series:
    """Return the statuses of native codes; null for tasks that have not ended.

    >>> status_names(np.array([0, 1], dtype=np.uint8)).to_list()
    [None, 'completed']
    """
    return pl.Series("status", STATUSES, dtype=pl.String).gather(np.asarray(codes, dtype=np.int64))


def cost_trace_from_run(compiled: CompiledScenario, run: ClusterRun, *, per_node: bool) -> Trace:
    """Build the part of the trace that energy, carbon and cost are computed from."""
    manifest = Manifest(
        kind="simulated",
        scenario=compiled.scenario.to_dict(complete=True),
        epoch_ms=compiled.epoch_ms,
    )
    return Trace(
        manifest=manifest,
        placements=_build_placement_table(compiled, run, RunTasks.from_run(compiled, run))[0],
        nodes=compiled.machines.host_nodes,
        **_build_power_tables(compiled, run, None, per_node=per_node),
    )


def _note_outcomes(tasks: RunTasks, outcomes: dict[str, Any]) -> tuple[Cleaning, ...]:
    """Return notes on tasks that never started, if there are any."""
    waited = ~np.isnan(outcomes["ready"]) & (outcomes["attempts"] == 0)
    is_added = np.arange(tasks.ids.len()) >= tasks.ids.len() - tasks.added.height
    has_status = {
        name: outcomes["status"] == STATUSES.index(name)
        for name in ("failed", "cancelled", "rejected")
    }
    notes = (
        note("noticed", what, tasks.ids.filter(pl.Series(mask)))
        for what, mask in (
            (
                "tasks that were still waiting when no event was left: they failed",
                waited & has_status["failed"],
            ),
            (
                "tasks that the source did not submit: they are cancelled",
                has_status["cancelled"],
            ),
            (
                "tasks added during the run and rejected: they, or a task that they depend on, fit "
                "on no machine that they may use",
                is_added & has_status["rejected"],
            ),
        )
    )
    return tuple(each for each in notes if each.count)


def _build_state_tables(compiled: CompiledScenario, run: ClusterRun) -> dict[str, pl.DataFrame]:
    """Build the tables of the periods in which nodes and instances were down or off."""
    log = run.states()
    rented = build_rental_states(run)
    if not len(log["machine"]):
        return {} if rented is None else {"instance_states": rented}
    is_node = compiled.machines.hosts[log["machine"]]
    tables = {}
    for table, mask in (("node_states", is_node), ("instance_states", ~is_node)):
        rows = {name: column[mask] for name, column in log.items()}
        tables[table] = _build_state_table(compiled, run, rows)
    tables["instance_states"] = tables["instance_states"].rename({"node": "instance"})
    if rented is not None:
        tables["instance_states"] = pl.concat([tables["instance_states"], rented])
    return tables


def _build_state_table(
    compiled: CompiledScenario, run: ClusterRun, log: dict[str, NDArray[Any]]
) -> pl.DataFrame:
    names = pl.Series(compiled.names.machines, dtype=pl.String)
    states = pl.DataFrame(
        {
            "node": names.gather(log["machine"].astype(np.int64)),
            "start": log["start"],
            "end": pl.Series(log["end"]).fill_nan(None),
            "kind": pl.Series(["down", *run.state_names[1:]]).gather(log["kind"].astype(np.int64)),
        }
    )
    planned = compiled.outages.select("node", "start", "state").unique(["node", "start"])
    return states.join(planned, on=["node", "start"], how="left", maintain_order="left").select(
        "node", "start", "end", state=pl.coalesce("state", "kind")
    )


def _build_task_table(
    compiled: CompiledScenario, outcomes: dict[str, Any], tasks: RunTasks, *, has_power: bool
) -> pl.DataFrame:
    original = compiled.trace if compiled.trace is not None else compiled.workload.to_trace()
    frame = original.tasks
    rows = find_rows(frame["id"], compiled.arrays.ids, unique=True)
    if len(rows) != frame.height or (rows != np.arange(len(rows))).any():
        frame = frame[rows]
    if tasks.added.height:
        frame = pl.concat([frame, tasks.added], how="diagonal")
    ran = pl.Series(outcomes["attempts"]) > 0
    return frame.with_columns(
        pl.Series("submit_recorded", tasks.submit),
        pl.Series("submit", outcomes["submit"]).fill_nan(None),
        pl.Series("ready", outcomes["ready"]).fill_nan(None),
        pl.Series("deadline", tasks.deadline).replace(np.inf, None),
        pl.Series("requested_cores", tasks.cores),
        pl.Series("requested_time", tasks.requested_time).fill_nan(None),
        _find_run_times(outcomes),
        status_names(outcomes["status"]),
        pl.Series("energy", outcomes["energy"])
        if has_power
        else pl.lit(None, dtype=pl.Float64).alias("energy"),
        pl.when(ran).then(pl.Series("used", outcomes["used"]).fill_nan(None)).alias("cpu_time"),
        *(
            pl.lit(None, dtype=pl.Int64).alias(name)
            for name in ("exit_code", "pid", *COUNTER_COLUMNS)
        ),
        pl.lit(None, dtype=pl.Float64).alias("memory_used"),
    )


def _find_run_times(outcomes: dict[str, Any]) -> pl.Series:
    """Return the durations of the last executions of the tasks that have ended.

    A task may end later than its last execution: it was interrupted, and then killed as it waited.
    """
    run_times = outcomes["last_end"] - outcomes["last_start"]
    return pl.Series("run_time", np.where(np.isnan(outcomes["end"]), np.nan, run_times)).fill_nan(
        None
    )


def _build_placement_table(
    compiled: CompiledScenario, run: ClusterRun, tasks: RunTasks
) -> tuple[pl.DataFrame, MachineRows]:
    """Build the table of executions, and return the row in `nodes` of the machine of each one."""
    log = run.placements()
    running = list_running(compiled, run, LABEL_BIT)
    if running:
        log = {name: np.concatenate([values, running[name]]) for name, values in log.items()}
    order = sort_records(log["task"], log["attempt"], log["machine"])
    log = {name: values[order] for name, values in log.items()}
    # A record is an execution on `count` consecutive machines, which are a row each. All values are
    # computed per record, and the indices have the type that Polars uses (machines are counted
    # modulo 2**32 on the way).
    counts, task, cores = log["count"], log["task"], log["cores"]
    first = np.cumsum(counts, dtype=np.int64) - counts
    machine = np.repeat((log["machine"] - first).astype(np.uint32), counts)
    machine += np.arange(len(machine), dtype=np.uint32)
    requested = tasks.cores[task]
    share = np.divide(cores, requested, out=np.ones_like(cores), where=requested > 0)
    names = pl.Series(compiled.names.machines, dtype=pl.String)
    reasons = pl.Series([*REASONS, None], dtype=pl.String)
    numbers = {
        "attempt": log["attempt"].astype(np.int64),
        "cores": cores,
        "memory": tasks.memory[task] * share,
        "start": log["start"],
        "end": log["end"],
    }
    table = pl.DataFrame(
        {
            "task": tasks.ids.gather(pl.Series(np.repeat(task, counts))),
            "machine": name_machines(compiled.names.machines, machine),
        }
    ).with_columns(
        *(repeat_records(values, counts).alias(name) for name, values in numbers.items()),
        reason=repeat_records(reasons.gather(log["reason"].astype(np.int64)), counts),
    )
    if running:
        table = table.with_columns(pl.col("end").fill_nan(None))
    rows = machine.astype(np.uint16) if names.len() <= 2**16 else machine
    return table.select(*TABLES["placements"]), rows


def sort_records(
    task: NDArray[np.uint32], attempt: NDArray[np.uint32], machine: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Return the order of the records by task, attempt and first machine.

    Mostly one number can stand for all three, and the records are nearly sorted.

    >>> task, attempt, machine = np.array([[1, 0, 1, 1], [0, 0, 1, 0], [7, 5, 3, 2]], np.uint32)
    >>> sort_records(task, attempt, machine).tolist()
    [1, 3, 0, 2]
    """
    attempts = 1 + int(attempt.max(initial=0))
    if (1 + int(task.max(initial=0))) * attempts > 2**32:
        return np.lexsort((machine, attempt, task))
    execution = task.astype(np.uint64) * np.uint64(attempts) + attempt
    return np.argsort((execution << np.uint64(32)) + machine, kind="stable")


def repeat_records(values: Any, counts: NDArray[np.uint32]) -> pl.Expr:
    """Return a column with the value of each record in its rows.

    A column with one value, such as the first attempt of all tasks, is stored as this value.
    """
    is_series = isinstance(values, pl.Series)
    is_first = values.eq_missing(values[:1]) if is_series else values == values[:1]
    if len(values) and is_first.all():
        return pl.lit(pl.Series(values)[:1]).first()
    if is_series:
        records = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        return pl.lit(values.gather(pl.Series(records)))
    return pl.lit(pl.Series(np.repeat(values, counts)))


#: The number of the machine in a record of an order that concerns none.
_NO_MACHINE: Final = np.uint32(2**32 - 1)


def _build_decision_table(
    compiled: CompiledScenario, run: ClusterRun, run_tasks: RunTasks
) -> pl.DataFrame:
    log = run.decisions()
    if not len(log["t"]):
        return make_empty_table("decisions")
    # An instance that has ended before the order has no number.
    height = compiled.machines.nodes.height
    machine = np.where(log["machine"] == _NO_MACHINE, height, log["machine"])
    machine = np.where(machine < LABEL_BIT, np.minimum(machine, height), machine).astype(np.uint32)
    tasks = run_tasks.ids.clone().append(pl.Series([None], dtype=pl.String))
    task = np.minimum(log["task"], run_tasks.ids.len()).astype(np.int64)
    return pl.DataFrame(
        {
            "t": log["t"],
            "policy": pl.Series(
                [each.name for each in (compiled.policy, *compiled.controllers)], dtype=pl.String
            ).gather(log["controller"].astype(np.int64)),
            "kind": _name_orders(run, log),
            "subject": tasks.gather(task),
            "target": name_machines(compiled.names.machines, machine),
        }
    )


def _name_orders(run: ClusterRun, log: dict[str, NDArray[Any]]) -> pl.Series:
    """Return the kinds of the orders; that of a state is with its name, `on` for running."""
    states = [f"set-state {name}" for name in ("on", *run.state_names[1:])]
    set_state = ORDERS.index("set-state")
    kinds = np.where(
        log["kind"] == set_state, len(ORDERS) + log["state"].astype(np.int64), log["kind"]
    )
    return pl.Series("kind", [*ORDERS, *states], dtype=pl.String).gather(kinds)


def _build_power_tables(
    compiled: CompiledScenario,
    run: ClusterRun,
    step: float | None,
    *,
    per_node: bool,
    most_rows: float = MAX_ROWS,
) -> dict[str, pl.DataFrame]:
    """Build the power table, if any host has a power model."""
    if not compiled.machines.has_power_models or run.now <= run.start_time:
        return {}
    step = step or max((run.now - run.start_time) / DEFAULT_WINDOWS, 1e-9)
    series = 1 + per_node * compiled.machines.host_nodes.height
    check_rows("power", (run.now - run.start_time) / step * series, most_rows)
    return {"power": _build_power_table(compiled, run, step, per_node=per_node)}


def _build_power_table(
    compiled: CompiledScenario, run: ClusterRun, step: float, *, per_node: bool
) -> pl.DataFrame:
    count = run.windows(step)
    edges = np.minimum(run.start_time + step * np.arange(1, count + 1), run.now)
    edges[-1] = run.now
    lengths = np.diff(edges, prepend=run.start_time)
    total = pl.DataFrame({"t": edges, "dt": lengths, "watts": run.power(step, False)})
    parts = [total.select(pl.lit(None, dtype=pl.String).alias("node"), "t", "dt", "watts")]
    if per_node:
        watts = run.power(step, True)
        names = compiled.machines.host_nodes["node"]
        node_index = np.repeat(np.arange(len(names)), count)
        parts.append(
            pl.DataFrame(
                {
                    "node": names.gather(node_index),
                    "t": np.tile(edges, len(names)),
                    "dt": np.tile(lengths, len(names)),
                    "watts": watts[np.repeat(compiled.machines.hosts, count)],
                }
            )
        )
    return pl.concat(parts)


def _collect_facts(compiled: CompiledScenario, run: ClusterRun, tasks: RunTasks) -> dict[str, Any]:
    figures = run.kpis()
    added = {
        compiled.scenario.source.title: run.added_by_source,
        "Simulation.submit": tasks.added.height - run.added_by_source,
    }
    return {
        **({"added": {by: n for by, n in added.items() if n}} if tasks.added.height else {}),
        "policy": compiled.policy.name,
        **(
            {"earlier_policies": list(compiled.earlier_policies)}
            if compiled.earlier_policies
            else {}
        ),
        "cores": compiled.machines.platform.total_cores,
        "machines": compiled.machines.host_nodes.height,
        "events": run.events,
        "skipped": compiled.workload.skipped,
        "end_s": run.now,
        "makespan_s": figures["makespan_s"],
        "energy_j": float(run.energy()[compiled.machines.hosts].sum())
        if compiled.machines.has_power_models
        else None,
        "shared": run.shared,
    }
