"""What is started for the tasks of a workload, and tasks that a scenario itself writes down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import polars as pl
from pydantic import BeforeValidator, Field

from twinloop.description import Description, FilePath
from twinloop.description.errors import InputError
from twinloop.description.quantities import Bytes, Name, Positive, Seconds, Whole, quote_value
from twinloop.trace import Trace
from twinloop.trace.tables import COMMAND_COLUMNS
from twinloop.workload import Workload


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        raise InputError(
            "must be a list of a program and its arguments, not a text: no shell reads it",
            remedy=f"[{', '.join(value.split()) or 'program, argument'}]",
        )
    if isinstance(value, Sequence):
        if not value or not value[0]:
            raise InputError("names no program")
        # What YAML takes for numbers are arguments like any other.
        return tuple(_argument(each) for each in value)
    return value


def _argument(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"an argument must be a text or a number, not {quote_value(value)}")
    if "\0" in str(value):
        raise InputError("an argument cannot hold a zero byte")
    return str(value)


def _variables(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    for name in value:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InputError(f"{quote_value(name)} is no name of a variable")
    return {name: _argument(text) for name, text in value.items()}


Command = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Environment = Annotated[dict[str, str], BeforeValidator(_variables)]


class Preparation(Description):
    """A command that makes what tasks need, run once before they begin.

    >>> Preparation(command=["tar", "xf", "input.tar"], creates="input").command
    ('tar', 'xf', 'input.tar')
    """

    command: Command = Field(description="program and arguments; no shell reads them")
    creates: FilePath | None = Field(
        None,
        description="file or folder that it makes, relative to the file of the scenario: where "
        "that is there, it is not run",
    )


class TaskDescription(Description):
    """One task, written in the scenario.

    >>> TaskDescription(id="a", command=["sleep", 1], run_time="1s").command
    ('sleep', '1')
    """

    id: Name = Field(description="name of the task, unique in the workload")
    command: Command | None = Field(None, description="program and arguments to run for it")
    environment: Environment = Field({}, description="variables that are set for it")
    folder: FilePath | None = Field(None, description="folder that it runs in")
    submit: Seconds = Field(0.0, description="when it is submitted (s)")
    cores: Positive = Field(1.0, description="cores that it occupies, over all nodes")
    nodes: Whole | None = Field(None, description="nodes that it asks for; without, anywhere")
    memory: Bytes | None = Field(None, description="memory that it occupies, over all nodes")
    run_time: Seconds | None = Field(
        None, description="how long it is expected to take on its cores alone (s)"
    )
    requested_time: Seconds | None = Field(
        None, description="upper bound of the run time, as a scheduler is told (s)"
    )
    name: Name | None = Field(None, description="program or application it runs, for the reader")
    user: Name | None = Field(None, description="who submits it")
    group: Name | None = Field(None, description="the group of that user")
    queue: Name | None = Field(None, description="queue that it is submitted to")
    kind: Name | None = Field(None, description="contention kind")
    parents: tuple[Name, ...] = Field((), description="tasks that must end before it is ready")


def workload_from_tasks(tasks: Sequence[TaskDescription]) -> Workload:
    """The workload of these tasks.

    >>> workload_from_tasks([TaskDescription(id="a", cores=2, run_time=3)]).tasks["work"].to_list()
    [6.0]
    """
    names = (
        *("id", "name", "user", "group", "queue", "kind"),
        *("submit", "cores", "nodes", "memory", "requested_time"),
    )
    columns: dict[str, list[Any]] = {
        name: [getattr(task, name) for task in tasks] for name in names
    }
    times = [task.run_time for task in tasks]
    work = [None if task.run_time is None else task.run_time * task.cores for task in tasks]
    frame = pl.DataFrame(
        columns | {"run_time": times, "work": work, "limit": [task.cores for task in tasks]},
        schema_overrides={"run_time": pl.Float64, "work": pl.Float64},
    )
    parents = pl.Series("parents", [task.parents for task in tasks], dtype=pl.List(pl.String))
    started = [_started(task.command, task.environment, task.folder) for task in tasks]
    commands = pl.DataFrame(
        started,
        schema={name: column.dtype for name, column in COMMAND_COLUMNS.items()},
        orient="row",
    )
    return Workload(tasks=frame.with_columns(parents, *commands.get_columns()))


def apply_commands(
    given: Trace | Workload,
    command: tuple[str, ...] | None,
    environment: dict[str, str],
    folder: str | None,
) -> Trace | Workload:
    """The same workload; tasks that do not say how they are started are started like this.

    >>> tasks = [TaskDescription(id="a"), TaskDescription(id="b", command=["true"])]
    >>> given = workload_from_tasks(tasks)
    >>> apply_commands(given, ("sleep", "{run_time}"), {}, None).tasks["command"].to_list()
    [['sleep', '{run_time}'], ['true']]
    """
    wanted = _started(command, environment, folder)
    changed = [
        pl.coalesce(
            name, pl.lit(pl.Series([value], dtype=COMMAND_COLUMNS[name].dtype)).first()
        ).alias(name)
        for name, value in wanted.items()
        if value is not None
    ]
    if not changed:
        return given
    return given.replace(tasks=given.tasks.with_columns(changed))


def _started(
    command: tuple[str, ...] | None,
    environment: dict[str, str],
    folder: str | None,
) -> dict[str, Any]:
    variables = [{"name": name, "value": value} for name, value in environment.items()]
    return {
        "command": None if command is None else list(command),
        "environment": variables or None,
        "folder": folder,
    }
