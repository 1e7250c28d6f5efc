"""Reader of WfCommons workflow instances, in all versions of the JSON format (1.0 to 1.6).

From 1.5 on, `workflow.specification` describes tasks and files and `workflow.execution` their
execution; before, `workflow.tasks` (at first `workflow.jobs`) has both. All tasks are submitted at
t = 0; the dependencies determine their order.
Source: the documentation of the format and its migration tool (github.com/wfcommons/WfFormat),
where the kilobytes of versions before 1.4 are 1000 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from twinloop.trace.trace import MAKESPAN, Trace

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
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     file = Path(temporary, "two.json")
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
        facts={} if workflow.makespan is None else {MAKESPAN: workflow.makespan},
    )
    return Trace(manifest=manifest, **workflow.make_tables())


class _TaskRun(NamedTuple):
    """The execution of a task in a document."""

    task: str
    machines: list[str | None]
    cores: float | None
    run_time: float | None
    date: str | None
    date_path: str


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
        top = fields.read_object(document, "the document")
        flow = fields.read_object(top.get("workflow"), "workflow")
        version = top.get("schemaVersion")
        self.header = tuple(
            f"{key}: {top[key]}"
            for key in ("name", "description", "createdAt", "schemaVersion")
            if isinstance(top.get(key), str) and top[key].isprintable()
        )
        #: Whether memory is in kilobytes, as before 1.4.
        self.old_memory = version in ("1.0", "1.1", "1.2", "1.3")
        if "specification" in flow:
            execution = fields.read_object(flow.get("execution") or {}, "workflow.execution")
            self._read_execution(execution)
            self._read_split(
                fields.read_object(flow["specification"], "workflow.specification"), execution
            )
        else:
            self._read_execution(flow)
            self._read_joint(flow)
        if not self.tasks:
            raise fields.make_error("has no task", "workflow")
        self.placements = self._make_placements()
        self._merge_children()

    def _read_execution(self, execution: dict[str, Any]) -> None:
        makespan = execution.get("makespanInSeconds", execution.get("makespan"))
        self.makespan = self.fields.read_number(makespan, "workflow.makespan")
        date_path = "workflow.executedAt"
        date = self.fields.read_optional_name(execution.get("executedAt"), date_path)
        (start_us,) = self._parse_dates([date], [date_path])
        self.epoch_ms = None if start_us is None else start_us // 1000
        self.nodes = [
            self._read_node(machine, path)
            for path, machine in self.fields.read_objects(
                execution.get("machines"), "workflow.machines"
            )
        ]
        self._check_unique([(node["node"], "workflow.machines") for node in self.nodes], "machines")

    def _read_split(self, specification: dict[str, Any], execution: dict[str, Any]) -> None:
        """Read version 1.5 and later."""
        fields = self.fields
        files_path = "workflow.specification.files"
        for path, file in fields.read_objects(specification.get("files"), files_path):
            name = fields.read_name(file.get("id"), f"{path}.id")
            size = fields.read_number(file.get("sizeInBytes"), f"{path}.sizeInBytes")
            if name in self.sizes:
                raise fields.make_error(f"the file '{name}' is listed twice", f"{path}.id")
            self.sizes[name] = size
        executed: dict[str, tuple[str, dict[str, Any]]] = {}
        for path, task in fields.read_objects(execution.get("tasks"), "workflow.execution.tasks"):
            name = fields.read_name(task.get("id"), f"{path}.id")
            if name in executed:
                raise fields.make_error(f"the task '{name}' is listed twice", f"{path}.id")
            executed[name] = (path, task)
        rows = fields.read_objects(specification.get("tasks"), "workflow.specification.tasks")
        ids = [fields.read_name(task.get("id"), f"{path}.id") for path, task in rows]
        self._check_unique(
            [(name, path) for name, (path, _) in zip(ids, rows, strict=True)], "tasks"
        )
        for name, (path, task) in zip(ids, rows, strict=True):
            self._add_task(name, task, path, *executed.pop(name, (path, {})))
            for key, access in (("inputFiles", "read"), ("outputFiles", "write")):
                for used in fields.read_names(task.get(key), f"{path}.{key}"):
                    self.sizes.setdefault(used, None)
                    self.task_files[name, used, access] = None
        what = "tasks that were executed, but are not specified"
        fields.tally.note("ignored", what, count=len(executed), examples=executed)

    def _read_joint(self, flow: dict[str, Any]) -> None:
        """Read version 1.4 and before: `name` identifies tasks, which contain their files."""
        fields = self.fields
        key = "tasks" if "tasks" in flow else "jobs"
        rows = fields.read_objects(flow.get(key), f"workflow.{key}")
        names = [fields.read_name(task.get("name"), f"{path}.name") for path, task in rows]
        by_id = len(set(names)) < len(names)
        ids = [
            fields.read_name(task.get("id"), f"{path}.id") if by_id else name
            for name, (path, task) in zip(names, rows, strict=True)
        ]
        self._check_unique(
            [(name, path) for name, (path, _) in zip(ids, rows, strict=True)], "tasks"
        )
        self.aliases = {
            task["id"]: name
            for name, (_, task) in zip(ids, rows, strict=True)
            if isinstance(task.get("id"), str)
        }
        for name, (path, task) in zip(ids, rows, strict=True):
            self._add_task(name, task, path, path, task)
            for file_path, file in fields.read_objects(task.get("files"), f"{path}.files"):
                self._add_file(name, file, file_path)

    def _add_file(self, task: str, file: dict[str, Any], path: str) -> None:
        name = self.fields.read_name(file.get("name"), f"{path}.name")
        name = (self.fields.read_optional_name(file.get("path"), f"{path}.path") or "") + name
        size = self.fields.read_number(file.get("sizeInBytes", file.get("size")), f"{path}.size")
        known = self.sizes.get(name)
        if known is None:
            self.sizes[name] = size
        elif size is not None and size != known:
            what = "sizes of a file that differ from the first one, which is kept"
            self.fields.tally.note("repaired", what, examples=[path])
        link = file.get("link")
        if link not in ("input", "output"):
            raise self.fields.make_error("is neither 'input' nor 'output'", f"{path}.link")
        self.task_files[task, name, "read" if link == "input" else "write"] = None

    def _add_task(
        self, task: str, spec: dict[str, Any], path: str, run_path: str, run: dict[str, Any]
    ) -> None:
        fields = self.fields
        runtime = run.get("runtimeInSeconds", run.get("runtime"))
        run_time = fields.read_number(runtime, f"{run_path}.runtimeInSeconds")
        cores = fields.read_number(run.get("coreCount", run.get("cores")), f"{run_path}.coreCount")
        percent = fields.read_number(run.get("avgCPU"), f"{run_path}.avgCPU")
        command = run.get("command")
        program = command.get("program") if isinstance(command, dict) else None
        program = program or spec.get("category") or spec.get("name")
        children = spec.get("children")
        self.tasks.append(
            {
                "id": task,
                "name": fields.read_optional_name(program, f"{run_path}.command.program"),
                "submit": 0.0,
                "requested_cores": cores,
                "run_time": run_time,
                "cpu_time": None
                if percent is None or run_time is None
                else percent / 100 * run_time,
                "memory_used": self._read_memory(run, run_path),
                "parents": fields.read_names(spec.get("parents"), f"{path}.parents"),
                "children": None
                if children is None
                else fields.read_names(children, f"{path}.children"),
            }
        )
        for key in {**spec, **run}:
            if key not in _READ_FROM_TASK:
                fields.tally.note("ignored", f"values of {ascii(key)[1:-1][:80]} of a task")
        single = fields.read_optional_name(run.get("machine"), f"{run_path}.machine")
        several = fields.read_names(run.get("machines"), f"{run_path}.machines")
        machines: list[str | None] = [*several] or [single]
        date_path = f"{run_path}.executedAt"
        date = fields.read_optional_name(run.get("executedAt"), date_path)
        self.executions.append(_TaskRun(task, machines, cores, run_time, date, date_path))

    def _make_placements(self) -> list[dict[str, Any]]:
        """Make the placements of the tasks whose machine or start is known."""
        starts_us = self._parse_dates(
            [run.date for run in self.executions], [run.date_path for run in self.executions]
        )
        placements: list[dict[str, Any]] = []
        for run, date in zip(self.executions, starts_us, strict=True):
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

    def _read_node(self, machine: dict[str, Any], path: str) -> dict[str, Any]:
        cpu = self.fields.read_object(machine.get("cpu") or {}, f"{path}.cpu")
        return {
            "node": self.fields.read_name(machine.get("nodeName"), f"{path}.nodeName"),
            "cores": self.fields.read_number(
                cpu.get("coreCount", cpu.get("count")), f"{path}.coreCount"
            ),
            "mhz": self.fields.read_number(
                cpu.get("speedInMHz", cpu.get("speed")), f"{path}.speedInMHz"
            ),
            "memory": self._read_memory(machine, path),
        }

    def _read_memory(self, row: dict[str, Any], path: str) -> float | None:
        if "memory" in row and self.old_memory:
            kilobytes = self.fields.read_number(row["memory"], f"{path}.memory")
            return None if kilobytes is None else kilobytes * _KB
        return self.fields.read_number(row.get("memoryInBytes"), f"{path}.memoryInBytes")

    def _parse_dates(self, dates: list[str | None], paths: list[str]) -> list[int | None]:
        text = pl.Series(dates, dtype=pl.String)
        long = text.str.strip_chars().str.replace(_BASIC_TIME, "$1-$2-${3}T$4:$5:$6$7")
        times = parse_unix_us(long)
        unread = [paths[row] for row in (times.is_null() & text.is_not_null()).arg_true()]
        if unread and self.fields.strict:
            first = dates[paths.index(unread[0])]
            raise self.fields.make_error(f"{ascii(first)[:80]} is not a date and time", unread[0])
        what = "dates that cannot be read, treated as unknown"
        self.fields.tally.note("ignored", what, count=len(unread), examples=unread)
        return times.to_list()

    def _check_unique(self, names: Iterable[tuple[str, str]], kind: str) -> None:
        seen: set[str] = set()
        for name, path in names:
            if name in seen:
                raise self.fields.make_error(f"two {kind} are called '{name}'", path)
            seen.add(name)

    def _merge_children(self) -> None:
        """Merge the dependencies given as parents and as children."""
        task_ids = {task["id"] for task in self.tasks}

        def resolve(name: str) -> str:
            return name if name in task_ids else self.aliases.get(name, name)

        parents = {task["id"]: [resolve(name) for name in task["parents"]] for task in self.tasks}
        repeated = sum(len(names) - len(set(names)) for names in parents.values())
        self.fields.tally.note(
            "repaired", "parents that a task lists more than once", count=repeated
        )
        parents = {task: list(dict.fromkeys(names)) for task, names in parents.items()}
        children = {
            task["id"]: {resolve(name) for name in task["children"]}
            for task in self.tasks
            if task["children"] is not None
        }
        given_parents = {task: set(names) for task, names in parents.items()}
        one_sided = [
            f"{parent} -> {task}"
            for task, names in parents.items()
            for parent in names
            if parent in children and task not in children[parent]
        ]
        for parent, names in children.items():
            for child in sorted(names):
                if child in parents and parent not in given_parents[child]:
                    parents[child].append(parent)
                    one_sided.append(f"{parent} -> {child}")
                elif child not in parents:
                    what = "children that are not tasks of the workflow"
                    self.fields.tally.note("ignored", what, examples=[f"{parent} -> {child}"])
        what = "dependencies that only one of the two tasks lists, kept"
        self.fields.tally.note("repaired", what, count=len(one_sided), examples=one_sided)
        for task in self.tasks:
            task["parents"] = parents[task["id"]]
            del task["children"]

    def find_cycle(self) -> list[str]:
        """Find a cycle of dependencies, with its first task repeated at the end; empty if none."""
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
        task_ids = {task["id"] for task in self.tasks}
        unknown_parents = [
            f"{parent} -> {task['id']}"
            for task in self.tasks
            for parent in task["parents"]
            if parent not in task_ids
        ]
        what = "parents that are not tasks of the workflow, kept unchanged"
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

    def make_tables(self) -> dict[str, pl.DataFrame]:
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
