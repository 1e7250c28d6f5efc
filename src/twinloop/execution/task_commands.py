"""Commands of tasks, with the values of their columns."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import polars as pl

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.engine.new_rows import NewRow

_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_]+)\}|[{}]")

#: Columns of a task that its command can use.
TASK_VARIABLES: Final = (
    *("id", "name", "user", "group", "queue", "kind", "cores", "nodes", "memory", "work"),
    *("run_time", "requested_time"),
)
#: Other variables that a command can use, with values for one node of the task.
NODE_VARIABLES: Final = ("part_cores", "rank", "ranks", "node", "output")
#: The folder of the task, for programs and scripts beside the scenario.
_FOLDER: Final = "folder"
#: Arguments that are replaced by one argument for each file that the task reads, or writes.
FILE_ARGUMENTS: Final = {"{reads}": "read", "{writes}": "write"}
#: Variables of the node have no value before the start, and stay in braces.
_PLACEHOLDERS: Final = {name: f"{{{name}}}" for name in NODE_VARIABLES}

_MAX_NAME_LENGTH: Final = 100

#: A distinct command: its text with the variables that are set for it, its folder, its program.
_CommandKey = tuple[str, str, str]


class Launch(NamedTuple):
    """Arguments, environment and folder of a task on one node."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    #: Its folder, to which the path of its program is relative.
    folder: Path
    #: The folder it runs in, if it is another one.
    work: Path | None = None

    @property
    def program(self) -> str | None:
        """Path of the program; None if its name has no slash and is not on the PATH.

        A path with a slash may not exist.
        """
        name = self.argv[0]
        if "/" in name:
            return str(self.folder / name)
        # Relative entries are relative to the folder of the task, not to that of this process.
        entries = self.environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(str(self.folder / entry) for entry in entries)
        return shutil.which(name, path=path)


class DistinctCommand(NamedTuple):
    """A distinct command of tasks, with the environment variables that are set for it.

    >>> DistinctCommand("env MODE=fast sim 1", "/home/me", "sim", 3).tasks
    3
    """

    command: str
    folder: str
    program: str
    #: Number of tasks that run it.
    tasks: int


class CommandSurvey(NamedTuple):
    """The commands that a run will execute.

    >>> CommandSurvey([DistinctCommand("echo 1", "/", "echo", 3),
    ...                DistinctCommand("echo 2", "/", "echo", 1)]).programs
    [('echo', 4)]
    """

    #: Every distinct command, the most frequent first.
    commands: list[DistinctCommand]
    #: Programs that do not exist now; a task may still create them.
    missing: Sequence[str] = ()
    #: Commands that run once, before all tasks.
    prepare: Sequence[str] = ()
    #: Sources in Python, which may add tasks with other commands during the run.
    sources: Sequence[str] = ()
    #: Lines about the files that are made before all tasks.
    files: Sequence[str] = ()

    @property
    def programs(self) -> list[tuple[str, int]]:
        """Programs with their numbers of tasks, the most frequent first."""
        programs: Counter[str] = Counter()
        for command in self.commands:
            programs[command.program] += command.tasks
        return programs.most_common()


class TaskCommands:
    """The commands of all tasks of a scenario.

    >>> from twinloop.scenario import Scenario
    >>> ready = CompiledScenario(Scenario(platform="1x2", policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "command": ["sleep", "{run_time}"], "run_time": 1.5}]}))
    >>> commands = TaskCommands(ready, Path("out"), run="r")
    >>> commands.launch(0, rank=0, ranks=1, node="n1", cores=1).argv
    ('sleep', '1.5')
    """

    def __init__(self, compiled: CompiledScenario, output: Path, *, run: str) -> None:
        self._tasks = compiled.workload.tasks.select(
            *TASK_VARIABLES, "command", "environment", "folder"
        )
        self._tasks = self._tasks.with_columns(
            pl.coalesce("run_time", pl.Series(compiled.workload.durations()).fill_nan(None)),
            pl.Series("requested_time", compiled.requested).fill_nan(None),
        )
        self._rows = self._tasks.to_dicts()
        #: Names of the files of tasks, by ID and access.
        self._files: dict[tuple[str, str], list[str]] = defaultdict(list)
        for task, file, access in compiled.workload.task_files.iter_rows():
            self._files[task, access].append(file)
        is_native = compiled.python_source is None
        self._sources = () if is_native else (compiled.scenario.source.title,)
        #: Commands that are listed already; empty if the source can add no task.
        self._listed: set[_CommandKey] = set()
        #: The commands of added tasks, in the order of the tasks, and the numbers of their tasks.
        self._added: list[_CommandKey] = []
        self._added_counts: Counter[_CommandKey] = Counter()
        #: Folder of the output folders of tasks.
        self.outputs = output
        #: Environment variables of every task.
        self.common = {**os.environ, "PATH": _build_path_variable(), "TWINLOOP_RUN": run}

    def survey(self) -> CommandSurvey:
        """List the commands of all tasks; an InputError if a task has none, or an invalid one."""
        empty = self._tasks["id"].filter(self._tasks["command"].list.len().fill_null(0) == 0)
        if empty.len():
            raise InputError(
                f"{empty.len()} of {self._tasks.height} tasks have no command, such as "
                f"{empty[0]!r}: there is nothing to run for them",
                kind="missing-command",
                field="workload.command",
                remedy='give one, such as [twinloop-burn, cpu, --seconds, "{run_time}"]',
            )
        commands: Counter[_CommandKey] = Counter()
        programs: dict[tuple[str, Path, str | None], Launch] = {}
        for task in range(self._tasks.height):
            launch = self._build_launch(task, _PLACEHOLDERS)
            commands[self._make_key(task, launch)] += 1
            key = (launch.argv[0], launch.folder, launch.environment.get("PATH"))
            programs.setdefault(key, launch)
        missing = {
            name
            for (name, _, _), launch in programs.items()
            if launch.program is None or not os.access(launch.program, os.X_OK)
        }
        distinct = [DistinctCommand(*command, tasks) for command, tasks in commands.most_common()]
        if self._sources:
            self._listed |= commands.keys()
        return CommandSurvey(distinct, sorted(missing), sources=self._sources)

    def _make_key(self, task: int, launch: Launch) -> _CommandKey:
        shown = shlex.join([*self._list_changed_variables(task, launch), *launch.argv])
        return shown, str(launch.folder), launch.argv[0]

    def _list_changed_variables(self, task: int, launch: Launch) -> list[str]:
        """Return arguments of `env` for the variables of a task that differ from inherited ones."""
        names = [variable["name"] for variable in self._rows[task]["environment"] or ()]
        variables = {
            name: launch.environment[name] for name in names if not name.startswith("TWINLOOP_")
        }
        changed = [
            f"{name}={text}" for name, text in variables.items() if os.environ.get(name) != text
        ]
        return ["env", *changed] if changed else []

    def add(self, row: NewRow, columns: Mapping[str, Any]) -> None:
        """Add the command of a task that is not in the workload; an InputError if it is invalid.

        Args:
            row: The row of the task.
            columns: Its columns in the table of tasks.
        """
        values = {name: columns.get(name) for name in TASK_VARIABLES} | {
            "cores": row.cores,
            "nodes": row.nodes,
            "memory": row.memory,
            "work": row.work,
            "run_time": row.work / row.limit,
        }
        command = {name: columns[name] for name in ("command", "environment", "folder")}
        self._rows.append(values | command)
        task = len(self._rows) - 1
        key = self._make_key(task, self._build_launch(task, _PLACEHOLDERS))
        self._added.append(key)
        self._added_counts[key] += 1

    def pop_unlisted(self, task: int) -> DistinctCommand | None:
        """Return the command of a task that no list has yet; None if it is listed or was returned.

        Its number of tasks counts those that have been added so far.
        """
        if task < self._tasks.height:
            return None
        key = self._added[task - self._tasks.height]
        if key in self._listed:
            return None
        self._listed.add(key)
        return DistinctCommand(*key, self._added_counts[key])

    def templates(self) -> list[list[str]]:
        """Return the commands of all tasks, with their variables in braces."""
        return [command for command in self._tasks["command"].to_list() if command]

    def output(self, task: int) -> Path:
        """Return the folder of the output of a task and of files that it may write."""
        return self.outputs / file_name_from_id(self._rows[task]["id"])

    def launch(
        self,
        task: int,
        *,
        rank: int,
        ranks: int,
        node: str,
        cores: float,
        work: Path | None = None,
    ) -> Launch:
        """Make the command of a task on one node; `work` is its working folder, if it has one."""
        output = self.output(task)
        node_values = {
            "part_cores": cores,
            "rank": rank,
            "ranks": ranks,
            "node": node,
            "output": output,
        }
        return self._build_launch(task, node_values)._replace(work=work)

    def _build_launch(self, task: int, node_values: Mapping[str, Any]) -> Launch:
        row = self._rows[task]
        where = f"task {row['id']!r}: command"
        folder = Path(_refuse_zero_byte(row["folder"] or "", f"task {row['id']!r}: folder"))
        values = {name: row[name] for name in TASK_VARIABLES} | dict(node_values)
        values[_FOLDER] = folder.absolute()
        argv: list[str] = []
        for argument in row["command"]:
            if argument in FILE_ARGUMENTS:
                argv += self._files.get((row["id"], FILE_ARGUMENTS[argument]), ())
            else:
                argv.append(fill_command(argument, values, where))
        environment = dict(self.common)
        for variable in row["environment"] or ():
            field = f"task {row['id']!r}: environment.{variable['name']}"
            if not variable["name"] or set(variable["name"]) & {"=", "\0"}:
                raise InputError(
                    "is not a valid name of an environment variable",
                    kind="invalid-command",
                    field=field,
                )
            environment[variable["name"]] = fill_command(variable["value"], values, field)
        environment |= {
            "TWINLOOP_RUN": self.common["TWINLOOP_RUN"],
            "TWINLOOP_TASK": str(task),
            "TWINLOOP_ID": str(row["id"]),
            "TWINLOOP_RANK": str(node_values["rank"]),
            "TWINLOOP_RANKS": str(node_values["ranks"]),
            "TWINLOOP_NODE": str(node_values["node"]),
            "TWINLOOP_CORES": _format_value(node_values["part_cores"]),
            "TWINLOOP_OUTPUT": str(node_values["output"]),
        }
        return Launch(tuple(argv), environment, folder.absolute())


def fill_command(template: str, values: Mapping[str, Any], where: str) -> str:
    """Replace the names in braces by their values; a doubled brace is a literal brace.

    >>> fill_command("-n {cores} {{}}", {"cores": 2.0}, "command")
    '-n 2 {}'
    >>> fill_command("{core}", {"cores": 2.0}, "command")
    Traceback (most recent call last):
    twinloop.InputError: command: there is no variable 'core' (did you mean 'cores'?) [TL0222]
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        name = match[1]
        if name is None:
            raise InputError(
                f"{template!r} has a brace that encloses no name",
                kind="invalid-template",
                field=where,
                remedy=f"write {match[0] * 2} for a brace",
            )
        if match[0] in FILE_ARGUMENTS:
            raise InputError(
                f"{match[0]} is a part of {template!r}",
                kind="invalid-template",
                field=where,
                remedy="make it an argument of its own: it becomes one argument for each file",
            )
        if name not in values:
            names = [*TASK_VARIABLES, _FOLDER, *NODE_VARIABLES]
            raise InputError(
                f"there is no variable {name!r}",
                kind="invalid-template",
                field=where,
                remedy=suggest_name(name, names),
            )
        if values[name] is None:
            raise InputError(
                f"uses {name!r}, which has no value", kind="invalid-template", field=where
            )
        return _format_value(values[name])

    return _refuse_zero_byte(_BRACES.sub(replace, template), where)


def _refuse_zero_byte(text: str, where: str) -> str:
    if "\0" in text:
        problem = f"{text!r} has a zero byte, which the operating system does not allow"
        raise InputError(problem, kind="invalid-template", field=where)
    return text


def _format_value(value: Any) -> str:
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)


def file_name_from_id(task: str) -> str:
    """Make a file name from the ID of a task, without separators or relative parts.

    >>> file_name_from_id("job 7"), file_name_from_id("../../etc/passwd"), file_name_from_id("..")
    ('job%207', '..%2F..%2Fetc%2Fpasswd', '%2E%2E')
    """
    name = quote(task, safe="")
    if name.startswith(".") and not name.strip("."):
        name = name.replace(".", "%2E")
    if len(name) > _MAX_NAME_LENGTH:
        name = f"{name[:_MAX_NAME_LENGTH]}~{hashlib.sha256(task.encode()).hexdigest()[:16]}"
    return name or "%"


def _build_path_variable() -> str:
    """Return the PATH of tasks: the programs of Twinloop first."""
    scripts = sysconfig.get_path("scripts")
    return os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])
