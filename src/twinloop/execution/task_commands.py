"""What is run for each task: its command with the values of its columns."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sysconfig
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import polars as pl

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario

_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_]+)\}|[{}]")

#: The columns of a task that its command may name.
TASK_VARIABLES: Final = (
    *("id", "name", "user", "group", "queue", "kind", "cores", "nodes", "memory", "work"),
    *("run_time", "requested_time"),
)
#: What it may name beside: of the part of the task that runs on one node.
NODE_VARIABLES: Final = ("part_cores", "rank", "ranks", "node", "output")

_LONGEST_NAME: Final = 100


class Launch(NamedTuple):
    """All that is needed to start the part of a task on one node."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path

    @property
    def program(self) -> str | None:
        """The file to execute; None: a name alone, and nothing of that name on the PATH."""
        name = self.argv[0]
        if "/" in name:
            return str(self.folder / name)
        # An entry that is relative means the folder of the task, not that of this process.
        entries = self.environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(str(self.folder / entry) for entry in entries)
        return shutil.which(name, path=path)


class DistinctCommand(NamedTuple):
    """A command that tasks run, with the variables that are set for them.

    >>> DistinctCommand("env MODE=fast sim 1", "/home/me", "sim", 3).tasks
    3
    """

    command: str
    folder: str
    program: str
    #: How many tasks run it.
    tasks: int


class CommandSurvey(NamedTuple):
    """What will be run, before anything is.

    >>> CommandSurvey([DistinctCommand("echo 1", "/", "echo", 3),
    ...                DistinctCommand("echo 2", "/", "echo", 1)]).programs
    [('echo', 4)]
    """

    #: Every distinct command, the most frequent first.
    commands: list[DistinctCommand]
    #: Programs that are not there now; a task may still make them.
    missing: Sequence[str] = ()
    #: Commands that are run once, before all tasks.
    prepare: Sequence[str] = ()

    @property
    def programs(self) -> list[tuple[str, int]]:
        """Programs and how many tasks run each, the most frequent first."""
        found: Counter[str] = Counter()
        for each in self.commands:
            found[each.program] += each.tasks
        return found.most_common()


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
        #: Where the folders of tasks are.
        self.outputs = output
        #: Variables that every task sees.
        self.common = {**os.environ, "PATH": _path(), "TWINLOOP_RUN": run}

    def survey(self) -> CommandSurvey:
        """What will be run; an error if a task has no command, or one that cannot be."""
        silent = self._tasks["id"].filter(self._tasks["command"].list.len().fill_null(0) == 0)
        if silent.len():
            raise InputError(
                f"{silent.len()} of {self._tasks.height} tasks have no command, such as "
                f"{silent[0]!r}: there is nothing to run for them",
                field="workload.command",
                remedy='say what to run, such as [twinloop-burn, cpu, --seconds, "{run_time}"]',
            )
        commands: Counter[tuple[str, str, str]] = Counter()
        places: dict[tuple[str, Path, str | None], Launch] = {}
        # What a task knows when it starts stands for itself.
        later = {name: f"{{{name}}}" for name in NODE_VARIABLES}
        for task in range(self._tasks.height):
            launch = self._launch(task, later)
            shown = shlex.join([*self._variables(task, launch), *launch.argv])
            commands[(shown, str(launch.folder), launch.argv[0])] += 1
            place = (launch.argv[0], launch.folder, launch.environment.get("PATH"))
            places.setdefault(place, launch)
        missing = {
            name
            for (name, _, _), launch in places.items()
            if launch.program is None or not os.access(launch.program, os.X_OK)
        }
        found = [DistinctCommand(*command, tasks) for command, tasks in commands.most_common()]
        return CommandSurvey(found, sorted(missing))

    def _variables(self, task: int, launch: Launch) -> list[str]:
        """Variables that are set for a task, as `env` takes them; those that are so anyway not."""
        names = [variable["name"] for variable in self._rows[task]["environment"] or ()]
        own = {name: launch.environment[name] for name in names if not name.startswith("TWINLOOP_")}
        said = [f"{name}={text}" for name, text in own.items() if os.environ.get(name) != text]
        return ["env", *said] if said else []

    def templates(self) -> list[list[str]]:
        """The commands of all tasks, before values are put in."""
        return [command for command in self._tasks["command"].to_list() if command]

    def output(self, task: int) -> Path:
        """The folder of what a task prints, and of what it may leave."""
        return self.outputs / file_name_from_id(self._rows[task]["id"])

    def launch(self, task: int, *, rank: int, ranks: int, node: str, cores: float) -> Launch:
        """What is run for the part of a task on one node."""
        output = self.output(task)
        places = {"part_cores": cores, "rank": rank, "ranks": ranks, "node": node, "output": output}
        return self._launch(task, places)

    def _launch(self, task: int, places: Mapping[str, Any]) -> Launch:
        row = self._rows[task]
        values = {name: row[name] for name in TASK_VARIABLES} | dict(places)
        where = f"task {row['id']!r}: command"
        argv = tuple(fill_command(argument, values, where) for argument in row["command"])
        environment = dict(self.common)
        for variable in row["environment"] or ():
            place = f"task {row['id']!r}: environment.{variable['name']}"
            if not variable["name"] or set(variable["name"]) & {"=", "\0"}:
                raise InputError("is no name of a variable", field=place)
            environment[variable["name"]] = fill_command(variable["value"], values, place)
        environment |= {
            "TWINLOOP_RUN": self.common["TWINLOOP_RUN"],
            "TWINLOOP_TASK": str(task),
            "TWINLOOP_ID": str(row["id"]),
            "TWINLOOP_RANK": str(places["rank"]),
            "TWINLOOP_RANKS": str(places["ranks"]),
            "TWINLOOP_NODE": str(places["node"]),
            "TWINLOOP_CORES": _text(places["part_cores"]),
            "TWINLOOP_OUTPUT": str(places["output"]),
        }
        folder = _whole(row["folder"] or "", f"task {row['id']!r}: folder")
        return Launch(argv, environment, Path(folder).absolute())


def fill_command(template: str, values: Mapping[str, Any], where: str) -> str:
    """A text with values in place of the names in braces; two braces stand for one.

    >>> fill_command("-n {cores} {{}}", {"cores": 2.0}, "command")
    '-n 2 {}'
    >>> fill_command("{core}", {"cores": 2.0}, "command")
    Traceback (most recent call last):
    twinloop.InputError: command: 'core' is nothing that a command can name
    (did you mean 'cores'?)
    """

    def value(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        name = match[1]
        if name is None:
            raise InputError(
                f"{template!r} has a brace that stands alone",
                field=where,
                remedy=f"write {match[0] * 2} for a brace",
            )
        if name not in values:
            known = [*TASK_VARIABLES, *NODE_VARIABLES]
            raise InputError(
                f"{name!r} is nothing that a command can name",
                field=where,
                remedy=suggest_name(name, known),
            )
        if values[name] is None:
            raise InputError(f"names {name!r}, which nobody said", field=where)
        found = values[name]
        return (
            np.format_float_positional(found, trim="-") if isinstance(found, float) else str(found)
        )

    return _whole(_BRACES.sub(value, template), where)


def _whole(text: str, where: str) -> str:
    if "\0" in text:
        problem = f"{text!r} has a zero byte, where the system would end it"
        raise InputError(problem, field=where)
    return text


def _text(value: Any) -> str:
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)


def file_name_from_id(task: str) -> str:
    """A name for the files of a task: one that cannot lead out of its folder.

    >>> file_name_from_id("job 7"), file_name_from_id("../../etc/passwd"), file_name_from_id("..")
    ('job%207', '..%2F..%2Fetc%2Fpasswd', '%2E%2E')
    """
    name = quote(task, safe="")
    if name.startswith(".") and not name.strip("."):
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{hashlib.sha256(task.encode()).hexdigest()[:16]}"
    return name or "%"


def _path() -> str:
    """Where programs are looked for: Twinloop's own first."""
    own = sysconfig.get_path("scripts")
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
