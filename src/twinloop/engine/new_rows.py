"""Rows of tasks that are added during a run, checked against its scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinloop.description.errors import InputError
from twinloop.engine.arguments import require_name, require_number
from twinloop.engine.workload_columns import find_exceeded_limit
from twinloop.workload import NewTask

if TYPE_CHECKING:
    from twinloop.engine.compiled_scenario import CompiledScenario


@dataclass(frozen=True, slots=True)
class NewRow:
    """The values of a new task for the native run; names are indices, -1 for none."""

    id: str
    submit: float
    cores: float
    memory: float
    requested_time: float
    work: float
    limit: float
    nodes: int
    user: int
    group: int
    queue: int
    priority: float
    kind: int
    deadline: float
    amounts: tuple[float, ...]
    #: Tasks that it depends on: rows of the run, or IDs of tasks that were added.
    parents: tuple[int | str, ...] = ()
    #: Columns of its command as JSON; empty: none.
    command: str = ""


def make_row(compiled: CompiledScenario, task: NewTask, submit: float) -> NewRow:
    """Check a new task and return its row.

    >>> from twinloop.engine import CompiledScenario
    >>> from twinloop.scenario import Scenario
    >>> compiled = CompiledScenario(Scenario(platform="1x4", policy="fcfs", workload={
    ...     "tasks": [{"id": "a", "run_time": 5}]}))
    >>> make_row(compiled, NewTask(id="b", cores=2, run_time=60), 0.0).work
    120.0
    >>> make_row(compiled, NewTask(id="b", cores=0, run_time=60), 0.0)
    Traceback (most recent call last):
    twinloop.InputError: task 'b': cores: must be positive [TL0206]
    """
    field = f"task {task.id!r}"
    _check_amounts(task, submit, field)
    names, queues = compiled.names, compiled.machines.platform.queues
    unknown = [name for name in task.resources if name not in names.resources]
    if unknown:
        raise InputError(
            f"no task of the workload uses the resource {unknown[0]!r}",
            kind="unknown-reference",
            field=field,
        )
    for rule in (each for each in queues if each.name == task.queue):
        limit = find_exceeded_limit(rule, task.cores, task.nodes, task.memory, task.requested_time)
        if limit is not None:
            raise InputError(
                f"exceeds the limit of its queue: {limit} is {getattr(rule, limit):g}",
                kind="out-of-range",
                field=field,
            )
    cores = float(task.cores)
    return NewRow(
        id=task.id,
        submit=submit,
        cores=cores,
        memory=float(task.memory),
        requested_time=math.nan if task.requested_time is None else float(task.requested_time),
        work=cores * float(task.run_time),
        limit=cores,
        nodes=int(task.nodes),
        user=_find_index(names.users, task.user, f"{field}: user"),
        group=_find_index(names.groups, task.group, f"{field}: group"),
        queue=_find_index(names.queues, task.queue, f"{field}: queue"),
        priority=sum(each.priority for each in queues if each.name == task.queue),
        kind=max(0, _find_index(names.kinds, task.kind, f"{field}: kind")),
        deadline=min(
            compiled.latest_end, math.inf if task.deadline is None else float(task.deadline)
        ),
        amounts=tuple(float(task.resources.get(name, 0.0)) for name in names.resources),
        parents=_find_parents(compiled, task, field),
        command=_format_command(task, field),
    )


def _find_parents(compiled: CompiledScenario, task: NewTask, field: str) -> tuple[int | str, ...]:
    """Return the parents of a task, those of the workload by row, each once."""
    if isinstance(task.parents, str) or not all(isinstance(each, str) for each in task.parents):
        raise InputError(
            f"must be a list of IDs, not {task.parents!r}",
            kind="wrong-type",
            field=f"{field}: parents",
        )
    if task.id in task.parents:
        raise InputError("depends on itself", kind="invalid-operation", field=field)
    rows = compiled.task_rows if task.parents else {}
    return tuple(rows.get(name, name) for name in dict.fromkeys(task.parents))


def _format_command(task: NewTask, field: str) -> str:
    arguments = task.command
    if isinstance(arguments, str) or not all(isinstance(each, str) for each in arguments):
        raise InputError(
            f"must be a list of texts, not {arguments!r}",
            kind="invalid-command",
            field=f"{field}: command",
        )
    for each in task.environment.items():
        if not all(isinstance(text, str) for text in each):
            raise InputError(
                f"names and values must be texts, not {each!r}",
                kind="invalid-command",
                field=f"{field}: environment",
            )
    if not (arguments or task.environment or task.folder):
        return ""
    variables = [{"name": name, "value": value} for name, value in task.environment.items()]
    columns = {
        "command": list(arguments) or None,
        "environment": variables or None,
        "folder": None if task.folder is None else str(task.folder),
    }
    return json.dumps({name: value for name, value in columns.items() if value is not None})


def _check_amounts(task: NewTask, submit: float, field: str) -> None:
    require_name(task.id, "id")
    amounts = {
        "cores": task.cores,
        "run_time": task.run_time,
        "memory": task.memory,
        "nodes": task.nodes,
        "requested_time": task.requested_time,
        "at": submit,
        **task.resources,
    }
    for name, value in amounts.items():
        lowest = -math.inf if name == "at" else 0.0
        if value is not None and not (
            lowest <= require_number(value, f"{field}: {name}") < math.inf
        ):
            raise InputError(
                f"must be finite and not negative, not {value}",
                kind="out-of-range",
                field=f"{field}: {name}",
            )
    if not task.cores > 0:
        raise InputError("must be positive", kind="out-of-range", field=f"{field}: cores")


def _find_index(names: Sequence[str], name: str | None, field: str) -> int:
    if name is None:
        return -1
    if name not in names:
        raise InputError(
            f"{name!r} is not in the scenario",
            kind="unknown-reference",
            field=field,
            remedy=f"one of: {', '.join(each for each in names if each)}",
        )
    return tuple(names).index(name)
