"""Commands of tasks, and tasks and files that are listed in a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import polars as pl
from pydantic import BeforeValidator, Field, model_validator

from twinloop.description import Description, FilePath
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Bytes, Name, Positive, Seconds, Whole, quote_value
from twinloop.scenario.speedup import Speedup
from twinloop.trace import Trace
from twinloop.trace.tables import COMMAND_COLUMNS
from twinloop.workload import Workload
from twinloop.workload.speedup_laws import POINTS


def _parse_command(value: Any) -> Any:
    if isinstance(value, str):
        raise InputError(
            "must be a list of a program and its arguments, not a text: it is not run by a shell",
            kind="invalid-command",
            remedy=f"[{', '.join(value.split()) or 'program, argument'}]",
        )
    if isinstance(value, Sequence):
        if not value or not value[0]:
            raise InputError("has no program", kind="invalid-command")
        # YAML reads some arguments as numbers.
        return tuple(_parse_argument(each) for each in value)
    return value


def _parse_argument(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(
            f"an argument must be a text or a number, not {quote_value(value)}",
            kind="invalid-command",
        )
    if "\0" in str(value):
        raise InputError("an argument cannot contain a zero byte", kind="invalid-command")
    return str(value)


def _parse_variables(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    for name in value:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InputError(
                f"{quote_value(name)} is not a name of an environment variable",
                kind="invalid-command",
            )
    return {name: _parse_argument(text) for name, text in value.items()}


Command = Annotated[tuple[str, ...], BeforeValidator(_parse_command)]
Environment = Annotated[dict[str, str], BeforeValidator(_parse_variables)]


class Preparation(Description):
    """A command that prepares files for the tasks; it runs once, before the first task.

    >>> Preparation(command=["tar", "xf", "input.tar"], creates="input").command
    ('tar', 'xf', 'input.tar')
    """

    command: Command = Field(description="program and arguments; not run by a shell")
    creates: FilePath | None = Field(
        None,
        description="file or folder that the command creates, relative to the scenario file; if it "
        "exists, the command does not run",
    )


class TaskDescription(Description):
    """One task, listed in a scenario.

    >>> TaskDescription(id="a", command=["sleep", 1], run_time="1s").command
    ('sleep', '1')
    """

    id: Name = Field(description="id of the task, unique in the workload")
    command: Command | None = Field(None, description="program and arguments")
    environment: Environment = Field({}, description="environment variables")
    folder: FilePath | None = Field(None, description="working folder")
    submit: Seconds = Field(0.0, description="submission time (s)")
    cores: Positive = Field(1.0, description="cores, over all nodes")
    nodes: Whole | None = Field(None, description="requested nodes; by default any")
    memory: Bytes | None = Field(None, description="memory, over all nodes")
    run_time: Seconds | None = Field(
        None, description="expected run time without other tasks on its cores (s)"
    )
    requested_time: Seconds | None = Field(
        None, description="requested run time: an upper bound, visible to the scheduler (s)"
    )
    name: Name | None = Field(None, description="name of the program or application, for reports")
    user: Name | None = Field(None, description="user who submits it")
    group: Name | None = Field(None, description="group of the user")
    queue: Name | None = Field(None, description="queue")
    kind: Name | None = Field(None, description="contention kind")
    parents: tuple[Name, ...] = Field((), description="tasks that must end before it can start")
    reads: tuple[Name, ...] = Field((), description="files that it reads before its work")
    writes: tuple[Name, ...] = Field((), description="files that it writes after its work")
    speedup: Speedup | None = Field(
        None,
        description="how its run time depends on the number of its cores on one machine: linear, "
        "{amdahl: share} or {table: [[cores, speed-up], ...]}; by default it runs on `cores` only",
    )
    min_cores: Positive | None = Field(
        None, description="fewest cores with a speed-up law; by default 1, or `cores` if fewer"
    )
    max_cores: Positive | None = Field(
        None, description="most cores with a speed-up law; by default `cores`"
    )

    @model_validator(mode="after")
    def _check_speedup(self) -> TaskDescription:
        findings = ProblemCollector()
        given = [name for name in ("min_cores", "max_cores") if getattr(self, name) is not None]
        if self.speedup is None:
            for name in given:
                findings.add((name,), "has no effect without `speedup`", kind="no-effect")
        else:
            if (self.nodes or 0) > 1:
                problem = "must be 1 or missing: a speed-up law is that on one machine"
                findings.add(("nodes",), problem, kind="inconsistent-values")
            if self.min_cores is not None and self.min_cores > self.cores:
                problem = f"must not be more than the {self.cores:g} `cores`"
                findings.add(("min_cores",), problem, kind="inconsistent-values")
            if self.max_cores is not None and self.max_cores < self.cores:
                problem = f"must not be less than the {self.cores:g} `cores`"
                findings.add(("max_cores",), problem, kind="inconsistent-values")
        findings.check()
        return self


class FileDescription(Description):
    """One file, listed in a scenario.

    >>> FileDescription(name="mesh", size="2 GB", store="local").size
    2000000000.0
    """

    name: Name = Field(description="name of the file, unique in the workload")
    size: Bytes = Field(description="its size (bytes)")
    store: Name | None = Field(
        None,
        description="store it is in and is written to: a store of the platform; a node, for the "
        "store of its host; local: the store of the host of the task that writes it. By default "
        "the first store of the platform",
    )
    path: FilePath | None = Field(
        None,
        description="a file that exists at the start: `execute` copies it from this path. By "
        "default, `execute` creates it with pseudo-random bytes",
    )


#: Of a task that runs on its requested cores only.
_NO_LAW: Final = Speedup.model_construct()


def workload_from_tasks(
    tasks: Sequence[TaskDescription], files: Sequence[FileDescription] = ()
) -> Workload:
    """Create the workload of a list of tasks and their files.

    >>> workload_from_tasks([TaskDescription(id="a", cores=2, run_time=3)]).tasks["work"].to_list()
    [6.0]
    """
    names = (
        *("id", "name", "user", "group", "queue", "kind"),
        *("submit", "cores", "nodes", "memory", "requested_time", "min_cores", "max_cores"),
    )
    columns: dict[str, list[Any]] = {
        name: [getattr(task, name) for task in tasks] for name in names
    }
    times = [task.run_time for task in tasks]
    work = [None if task.run_time is None else task.run_time * task.cores for task in tasks]
    frame = pl.DataFrame(
        columns | {"run_time": times, "work": work, "limit": [task.cores for task in tasks]},
        schema_overrides={"run_time": pl.Float64, "work": pl.Float64},
    ).with_columns(_build_law_columns(tasks))
    parents = pl.Series("parents", [task.parents for task in tasks], dtype=pl.List(pl.String))
    rows = [_build_command_columns(task.command, task.environment, task.folder) for task in tasks]
    commands = pl.DataFrame(
        rows, schema={name: column.dtype for name, column in COMMAND_COLUMNS.items()}, orient="row"
    )
    uses = [
        (task.id, file, access)
        for task in tasks
        for access, names in (("read", task.reads), ("write", task.writes))
        for file in names
    ]
    return Workload(
        tasks=frame.with_columns(parents, *commands.get_columns()),
        files=pl.DataFrame(
            [(each.name, each.size, each.store) for each in files],
            schema={"file": pl.String, "size": pl.Float64, "store": pl.String},
            orient="row",
        ),
        task_files=pl.DataFrame(
            uses, schema=dict.fromkeys(("task", "file", "access"), pl.String), orient="row"
        ),
    )


def _build_law_columns(tasks: Sequence[TaskDescription]) -> list[pl.Series]:
    laws = [task.speedup or _NO_LAW for task in tasks]
    points = [
        [{"cores": cores, "speedup": speedup} for cores, speedup in each.table] or None
        for each in laws
    ]
    return [
        pl.Series("parallel_fraction", [each.amdahl for each in laws], dtype=pl.Float64),
        pl.Series("speedup_points", points, dtype=POINTS),
    ]


def apply_commands(
    workload: Trace | Workload,
    command: tuple[str, ...] | None,
    environment: dict[str, str],
    folder: str | None,
) -> Trace | Workload:
    """Return the workload with a default command, environment and folder for its tasks.

    >>> tasks = [TaskDescription(id="a"), TaskDescription(id="b", command=["true"])]
    >>> given = workload_from_tasks(tasks)
    >>> apply_commands(given, ("sleep", "{run_time}"), {}, None).tasks["command"].to_list()
    [['sleep', '{run_time}'], ['true']]
    """
    defaults = _build_command_columns(command, environment, folder)
    expressions = [
        pl.coalesce(
            name, pl.lit(pl.Series([value], dtype=COMMAND_COLUMNS[name].dtype)).first()
        ).alias(name)
        for name, value in defaults.items()
        if value is not None
    ]
    if not expressions:
        return workload
    return workload.replace(tasks=workload.tasks.with_columns(expressions))


def _build_command_columns(
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
