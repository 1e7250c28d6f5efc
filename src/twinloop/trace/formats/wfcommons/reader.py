"""Reader of WfCommons workflow instances, in all versions of the JSON format (1.0 to 1.6).

From 1.5 on, `workflow.specification` describes tasks and files and `workflow.execution` their
execution; before, `workflow.tasks` (at first `workflow.jobs`) has both. All tasks are submitted at
t = 0; the dependencies determine their order.
Source: the documentation of the format and its migration tool (github.com/wfcommons/WfFormat),
where the kilobytes of versions before 1.4 are 1000 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.wfcommons.document import FieldReader, parse_json_file
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.tables import TABLES
from twinloop.trace.trace import Trace

_KB: Final = 1000.0
_READ_FROM_TASK: Final = frozenset(
    ("name", "id", "parents", "children", "inputFiles", "outputFiles", "files", "category")
    + ("runtime", "runtimeInSeconds", "cores", "coreCount", "avgCPU", "memory", "memoryInBytes")
    + ("machine", "machines", "executedAt", "command")
)
_BASIC_TIME: Final = r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(.*)$"


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a workflow instance of WfCommons.

    Args:
        path: The JSON file, possibly compressed.
        strict: Raise at the first value that cannot be read, instead of treating it as unknown.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     file = Path(there, "two.json")
    ...     _ = file.write_text('''{"name": "two", "schemaVersion": "1.4", "workflow": {"tasks": [
    ...         {"name": "a", "runtimeInSeconds": 2.5, "parents": [], "files": [
    ...             {"link": "output", "name": "x", "sizeInBytes": 10}]},
    ...         {"name": "b", "runtimeInSeconds": 1, "parents": ["a"], "files": [
    ...             {"link": "input", "name": "x", "sizeInBytes": 10}]}]}}''')
    ...     trace = read(file)
    >>> trace.tasks.select("id", "run_time", "parents").rows()
    [('a', 2.5, []), ('b', 1.0, ['a'])]
    >>> trace.task_files.rows()
    [('a', 'x', 'write'), ('b', 'x', 'read')]
    """
    tally = Tally()
    workflow = _Workflow(FieldReader(path, tally, strict=strict), parse_json_file(path))
    cycle = workflow.find_cycle()
    if cycle:
        shown = cycle if len(cycle) <= 10 else [*cycle[:9], "...", cycle[-1]]
        raise InputError(
            f"the tasks wait for each other: {' -> '.join(shown)}",
            kind="dependency-cycle",
            file=path,
            field="parents",
        )
    workflow.note_missing()
    manifest = Manifest(
        source=TraceOrigin(
            format="wfcommons", files=(describe_source_file(path),), header=workflow.header
        ),
        epoch_ms=workflow.epoch_ms,
        cleaned=tally.cleanings(),
        facts={} if workflow.makespan is None else {"makespan": workflow.makespan},
    )
    return Trace(manifest=manifest, **workflow.tables())


@dataclass(frozen=True, slots=True)
class _TaskRun:
    """The execution of a task in a document."""

    task: str
    machines: list[str | None]
    cores: float | None
    run_time: float | None
    date: str | None
    at_date: str


class _Workflow:
    """The content of a document as rows of the tables of a Trace."""

    def __init__(self, fields: FieldReader, document: Any) -> None:
        self.fields = fields
        self.tasks: list[dict[str, Any]] = []
        self.executions: list[_TaskRun] = []
        self.sizes: dict[str, float | None] = {}
        self.task_files: dict[tuple[str, str, str], None] = {}
        #: Ids by which tasks refer to each other before 1.5, if different from their names.
        self.aliases: dict[str, str] = {}
        top = fields.table(document, "the document")
        flow = fields.table(top.get("workflow"), "workflow")
        version = top.get("schemaVersion")
        self.header = tuple(
            f"{key}: {top[key]}"
            for key in ("name", "description", "createdAt", "schemaVersion")
            if isinstance(top.get(key), str) and top[key].isprintable()
        )
        #: Whether memory is in kilobytes, as before 1.4.
        self.old_memory = version in ("1.0", "1.1", "1.2", "1.3")
        if "specification" in flow:
            ran = fields.table(flow.get("execution") or {}, "workflow.execution")
            self._start(ran)
            self._read_split(fields.table(flow["specification"], "workflow.specification"), ran)
        else:
            self._start(flow)
            self._read_joint(flow)
        if not self.tasks:
            raise fields.wrong("has no task", "workflow")
        self.placements = self._placements()
        self._merge_children()

    def _start(self, ran: dict[str, Any]) -> None:
        makespan = ran.get("makespanInSeconds", ran.get("makespan"))
        self.makespan = self.fields.number(makespan, "workflow.makespan")
        at_date = "workflow.executedAt"
        date = self.fields.name_or_none(ran.get("executedAt"), at_date)
        (started,) = self._unix_us([date], [at_date])
        self.epoch_ms = None if started is None else started // 1000
        self.nodes = [
            self._node(machine, at)
            for at, machine in self.fields.rows(ran.get("machines"), "workflow.machines")
        ]
        self._unique([(node["node"], "workflow.machines") for node in self.nodes], "machines")

    def _read_split(self, specification: dict[str, Any], ran: dict[str, Any]) -> None:
        """Read version 1.5 and later."""
        fields = self.fields
        at_files = "workflow.specification.files"
        for at, file in fields.rows(specification.get("files"), at_files):
            name = fields.name(file.get("id"), f"{at}.id")
            size = fields.number(file.get("sizeInBytes"), f"{at}.sizeInBytes")
            if name in self.sizes:
                raise fields.wrong(f"the file '{name}' is there twice", f"{at}.id")
            self.sizes[name] = size
        executed: dict[str, tuple[str, dict[str, Any]]] = {}
        for at, task in fields.rows(ran.get("tasks"), "workflow.execution.tasks"):
            name = fields.name(task.get("id"), f"{at}.id")
            if name in executed:
                raise fields.wrong(f"the task '{name}' is there twice", f"{at}.id")
            executed[name] = (at, task)
        rows = fields.rows(specification.get("tasks"), "workflow.specification.tasks")
        ids = [fields.name(task.get("id"), f"{at}.id") for at, task in rows]
        self._unique([(name, at) for name, (at, _) in zip(ids, rows, strict=True)], "tasks")
        for name, (at, task) in zip(ids, rows, strict=True):
            self._add(name, task, at, *executed.pop(name, (at, {})))
            for key, access in (("inputFiles", "read"), ("outputFiles", "write")):
                for used in fields.names(task.get(key), f"{at}.{key}"):
                    self.sizes.setdefault(used, None)
                    self.task_files[name, used, access] = None
        what = "tasks that were executed, but are not specified"
        fields.tally.note("ignored", what, count=len(executed), examples=executed)

    def _read_joint(self, flow: dict[str, Any]) -> None:
        """Read version 1.4 and before: `name` identifies tasks, which contain their files."""
        fields = self.fields
        key = "tasks" if "tasks" in flow else "jobs"
        rows = fields.rows(flow.get(key), f"workflow.{key}")
        names = [fields.name(task.get("name"), f"{at}.name") for at, task in rows]
        by_id = len(set(names)) < len(names)
        ids = [
            fields.name(task.get("id"), f"{at}.id") if by_id else name
            for name, (at, task) in zip(names, rows, strict=True)
        ]
        self._unique([(name, at) for name, (at, _) in zip(ids, rows, strict=True)], "tasks")
        self.aliases = {
            task["id"]: name
            for name, (_, task) in zip(ids, rows, strict=True)
            if isinstance(task.get("id"), str)
        }
        for name, (at, task) in zip(ids, rows, strict=True):
            self._add(name, task, at, at, task)
            for at_file, file in fields.rows(task.get("files"), f"{at}.files"):
                self._add_file(name, file, at_file)

    def _add_file(self, task: str, file: dict[str, Any], at: str) -> None:
        name = self.fields.name(file.get("name"), f"{at}.name")
        name = (self.fields.name_or_none(file.get("path"), f"{at}.path") or "") + name
        size = self.fields.number(file.get("sizeInBytes", file.get("size")), f"{at}.size")
        known = self.sizes.get(name)
        if known is None:
            self.sizes[name] = size
        elif size is not None and size != known:
            what = "sizes of a file that differ from the first one, which is kept"
            self.fields.tally.note("repaired", what, examples=[at])
        link = file.get("link")
        if link not in ("input", "output"):
            raise self.fields.wrong("is neither 'input' nor 'output'", f"{at}.link")
        self.task_files[task, name, "read" if link == "input" else "write"] = None

    def _add(
        self, task: str, spec: dict[str, Any], at: str, ran_at: str, ran: dict[str, Any]
    ) -> None:
        fields = self.fields
        runtime = ran.get("runtimeInSeconds", ran.get("runtime"))
        run_time = fields.number(runtime, f"{ran_at}.runtimeInSeconds")
        cores = fields.number(ran.get("coreCount", ran.get("cores")), f"{ran_at}.coreCount")
        percent = fields.number(ran.get("avgCPU"), f"{ran_at}.avgCPU")
        command = ran.get("command")
        program = command.get("program") if isinstance(command, dict) else None
        program = program or spec.get("category") or spec.get("name")
        children = spec.get("children")
        self.tasks.append(
            {
                "id": task,
                "name": fields.name_or_none(program, f"{ran_at}.command.program"),
                "submit": 0.0,
                "requested_cores": cores,
                "run_time": run_time,
                "cpu_time": None
                if percent is None or run_time is None
                else percent / 100 * run_time,
                "memory_used": self._memory(ran, ran_at),
                "parents": fields.names(spec.get("parents"), f"{at}.parents"),
                "children": None if children is None else fields.names(children, f"{at}.children"),
            }
        )
        for key in {*spec, *ran} - _READ_FROM_TASK:
            fields.tally.note("ignored", f"values of {ascii(key)[1:-1][:80]} of a task")
        single = fields.name_or_none(ran.get("machine"), f"{ran_at}.machine")
        several = fields.names(ran.get("machines"), f"{ran_at}.machines")
        machines: list[str | None] = [*several] or [single]
        at_date = f"{ran_at}.executedAt"
        date = fields.name_or_none(ran.get("executedAt"), at_date)
        self.executions.append(_TaskRun(task, machines, cores, run_time, date, at_date))

    def _placements(self) -> list[dict[str, Any]]:
        """Make the placements of the tasks whose machine or start is known."""
        began = self._unix_us(
            [run.date for run in self.executions], [run.at_date for run in self.executions]
        )
        placements: list[dict[str, Any]] = []
        for run, date in zip(self.executions, began, strict=True):
            start = None
            if date is not None and self.epoch_ms is not None:
                start = (date - self.epoch_ms * 1000) / 1e6
            if run.machines == [None] and start is None:
                continue
            placements += [
                {
                    "task": run.task,
                    "attempt": 0,
                    "machine": machine,
                    "cores": run.cores if len(run.machines) == 1 else None,
                    "start": start,
                    "end": None if start is None or run.run_time is None else start + run.run_time,
                }
                for machine in run.machines
            ]
        return placements

    def _node(self, machine: dict[str, Any], at: str) -> dict[str, Any]:
        cpu = self.fields.table(machine.get("cpu") or {}, f"{at}.cpu")
        return {
            "node": self.fields.name(machine.get("nodeName"), f"{at}.nodeName"),
            "cores": self.fields.number(cpu.get("coreCount", cpu.get("count")), f"{at}.coreCount"),
            "mhz": self.fields.number(cpu.get("speedInMHz", cpu.get("speed")), f"{at}.speedInMHz"),
            "memory": self._memory(machine, at),
        }

    def _memory(self, row: dict[str, Any], at: str) -> float | None:
        if "memory" in row and self.old_memory:
            kilobytes = self.fields.number(row["memory"], f"{at}.memory")
            return None if kilobytes is None else kilobytes * _KB
        return self.fields.number(row.get("memoryInBytes"), f"{at}.memoryInBytes")

    def _unix_us(self, dates: list[str | None], places: list[str]) -> list[int | None]:
        text = pl.Series(dates, dtype=pl.String)
        long = text.str.strip_chars().str.replace(_BASIC_TIME, "$1-$2-${3}T$4:$5:$6$7")
        found = parse_unix_us(long)
        unread = [places[at] for at in (found.is_null() & text.is_not_null()).arg_true()]
        if unread and self.fields.strict:
            first = dates[places.index(unread[0])]
            raise self.fields.wrong(f"{ascii(first)[:80]} is no date and time", unread[0])
        what = "dates that cannot be read, treated as unknown"
        self.fields.tally.note("ignored", what, count=len(unread), examples=unread)
        return found.to_list()

    def _unique(self, names: Iterable[tuple[str, str]], kind: str) -> None:
        seen: set[str] = set()
        for name, at in names:
            if name in seen:
                raise self.fields.wrong(f"two {kind} are called '{name}'", at)
            seen.add(name)

    def _merge_children(self) -> None:
        """Merge the dependencies given as parents and as children."""
        named = {task["id"] for task in self.tasks}

        def own(name: str) -> str:
            return name if name in named else self.aliases.get(name, name)

        parents = {task["id"]: [own(name) for name in task["parents"]] for task in self.tasks}
        repeated = sum(len(names) - len(set(names)) for names in parents.values())
        self.fields.tally.note("repaired", "parents named twice by a task", count=repeated)
        parents = {task: list(dict.fromkeys(names)) for task, names in parents.items()}
        children = {
            task["id"]: {own(name) for name in task["children"]}
            for task in self.tasks
            if task["children"] is not None
        }
        given = {task: set(names) for task, names in parents.items()}
        one_sided = [
            f"{parent} -> {task}"
            for task, names in parents.items()
            for parent in names
            if parent in children and task not in children[parent]
        ]
        for parent, names in children.items():
            for child in sorted(names):
                if child in parents and parent not in given[child]:
                    parents[child].append(parent)
                    one_sided.append(f"{parent} -> {child}")
                elif child not in parents:
                    what = "children that are no task of the workflow"
                    self.fields.tally.note("ignored", what, examples=[f"{parent} -> {child}"])
        what = "dependencies that only one of the two tasks names, kept"
        self.fields.tally.note("repaired", what, count=len(one_sided), examples=one_sided)
        for task in self.tasks:
            task["parents"] = parents[task["id"]]
            del task["children"]

    def find_cycle(self) -> list[str]:
        """Find a cycle of dependencies, with its first task repeated at the end, or nothing."""
        rows = {task["id"]: row for row, task in enumerate(self.tasks)}
        edges = [
            (rows[parent], row)
            for row, task in enumerate(self.tasks)
            for parent in task["parents"]
            if parent in rows
        ]
        parents, children = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        _, cycle = find_blocked_tasks(parents, children, len(self.tasks))
        return [self.tasks[row]["id"] for row in cycle]

    def note_missing(self) -> None:
        """Count references to missing objects, and missing values."""
        tally = self.fields.tally
        named = {task["id"] for task in self.tasks}
        unknown_parents = [
            f"{parent} -> {task['id']}"
            for task in self.tasks
            for parent in task["parents"]
            if parent not in named
        ]
        what = "parents that are no task of the workflow, kept unchanged"
        tally.note("noticed", what, count=len(unknown_parents), examples=unknown_parents)
        sizes = [name for name, size in self.sizes.items() if size is None]
        tally.note("noticed", "files of unknown size", count=len(sizes), examples=sizes)
        described = {node["node"] for node in self.nodes}
        machines = {row["machine"]: None for row in self.placements if row["machine"]}
        unknown = [name for name in machines if name not in described]
        what = "machines that tasks ran on, but that are not described"
        tally.note("noticed", what, count=len(unknown), examples=unknown)
        if self.old_memory:
            what = "memory is in KB of 1000 bytes, as in all versions before 1.4"
            tally.note("assumed", what, count=len(self.tasks))

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables of the Trace."""
        files = [{"file": name, "size": size} for name, size in self.sizes.items()]
        uses = [
            {"task": task, "file": file, "access": access} for task, file, access in self.task_files
        ]
        rows = {
            "tasks": self.tasks,
            "placements": self.placements,
            "nodes": self.nodes,
            "files": files,
            "task_files": uses,
        }
        return {
            table: pl.DataFrame(
                content,
                schema={
                    name: column.dtype
                    for name, column in TABLES[table].items()
                    if not content or name in content[0]
                },
            )
            for table, content in rows.items()
        }


def _recognises(path: Path, start: bytes) -> bool:
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("{"):
        return False
    return '"workflow"' in text or ('"schemaVersion"' in text and '"wms"' in text)


FORMAT: Format = Format(
    name="wfcommons",
    title="WfCommons workflow instance (JSON)",
    recognises=_recognises,
    read=read,
)
