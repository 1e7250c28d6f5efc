"""Workflows of any size with the shape of a recorded one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import BeforeValidator, PlainSerializer

from twinloop.description import Cleaning, InputError
from twinloop.trace import Trace, read
from twinloop.trace.formats.format_limits import number_tasks
from twinloop.trace.recorded_runs import collect_runs
from twinloop.workload.generators.description import GeneratedTables, parameter
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.workflow import WorkflowGenerator, make_file_tables
from twinloop.workload.generators.workflow_scaling import (
    ScaledWorkflow,
    count_copies,
    scale_workflow,
)
from twinloop.workload.generators.workflow_shape import Shape

_MAX_TASKS: Final = 1_000_000
#: The columns of a task that are drawn together from one task of the instance.
_DRAWN: Final = (
    *("requested_cores", "requested_nodes", "requested_memory", "requested_time"),
    *("run_time", "cpu_time", "memory_used", "kind"),
)
_DIGITS: Final = re.compile(r"[0-9]+")
#: How a Trace in memory is written to the manifest: with the hash of its content.
_IN_MEMORY: Final = "trace:"


def _parse_instance(value: Any) -> Any:
    if value is None or isinstance(value, Trace):
        return value
    if not isinstance(value, str | Path):
        raise ValueError("must be a path, or a Trace")
    if str(value).startswith(_IN_MEMORY):
        raise ValueError("was a Trace in memory; give a path, or this Trace, again")
    return str(value)


def _write_instance(value: Any) -> str | None:
    return _IN_MEMORY + value.content_hash() if isinstance(value, Trace) else value


class Recipe(WorkflowGenerator):
    """A workflow with the shape of a recorded one, and more or fewer tasks.

    Groups of equivalent tasks are repeated or left out in proportion, after the idea of the
    generator of WfCommons (T. Coleman et al., FGCS 128, 2022); run times and sizes of files are
    drawn from those of the instance.

    >>> from twinloop.workload.generators import ForkJoin
    >>> made = Recipe(instance=ForkJoin(tasks=5).generate(1), tasks=8).generate(seed=1)
    >>> made.tasks["name"].to_list()
    ['fork', 'work', 'work', 'work', 'work', 'work', 'work', 'join']
    """

    name: ClassVar[str] = "recipe"
    title: ClassVar[str] = "workflow with the shape of a recorded one, of another size"
    path_parameters: ClassVar[tuple[str, ...]] = ("instance",)

    instance: Annotated[Any, BeforeValidator(_parse_instance), PlainSerializer(_write_instance)] = (
        parameter(None, "recorded workflow: a path in any format with dependencies, or a Trace")
    )
    tasks: int | None = parameter(
        None, "number of tasks; none: as many as in the instance", ge=1, le=_MAX_TASKS
    )
    values: Literal["drawn", "copied"] = parameter(
        "drawn",
        "run times and sizes of files: drawn from those of the same type in the instance, or "
        "copied from the task that is repeated",
    )
    resolution: Literal["s", "ms", "exact"] = parameter(
        "exact",
        "resolution of times: whole seconds (s), whole milliseconds (ms) or not rounded (exact)",
    )

    def load_instance(self) -> Trace:
        """Read the recorded workflow."""
        if self.instance is None:
            raise InputError(
                "is missing: the recorded workflow whose shape is used",
                kind="missing-field",
                field=f"{self.name}.instance",
                remedy="--instance FILE, or instance= in Python",
            )
        return self.instance if isinstance(self.instance, Trace) else read(self.instance)

    def _content(self, seed: int) -> GeneratedTables:
        instance = self.load_instance()
        tasks = number_tasks(instance)
        if not tasks["parents"].list.len().sum():
            raise InputError(
                "has no dependencies between tasks, so it is not a workflow",
                kind="missing-data",
                field=f"{self.name}.instance",
            )
        tasks = tasks.with_columns(run_time=collect_runs(instance)["run_time"])
        shape = Shape.of(tasks)
        count = tasks.height if self.tasks is None else self.tasks
        smallest = len(shape.members)
        if count < smallest:
            raise InputError(
                f"{count}: the smallest workflow of this shape has {smallest} tasks, one of each "
                "class of equivalent tasks",
                kind="out-of-range",
                field=f"{self.name}.tasks",
            )
        scaled = scale_workflow(shape, count_copies(shape, count))
        files = _NewFiles(instance, tasks["id"].to_list(), shape, scaled)
        ids = _number_by_type([shape.types[row] for row in scaled.originals])
        notes = list(files.notes)
        if len(ids) != count:
            what = f"tasks of the workflow, the nearest to {count:,} that its shape allows"
            notes.append(Cleaning(kind="assumed", what=what, count=len(ids)))
        return GeneratedTables(
            {
                "id": ids,
                "name": [shape.types[row] for row in scaled.originals],
                "submit": np.zeros(len(ids)),
                **self._draw_tasks(seed, tasks, shape, scaled),
                "parents": pl.Series(
                    [[ids[link.parent] for link in links] for links in scaled.links],
                    dtype=pl.List(pl.String),
                ),
            },
            *make_file_tables(
                self._draw_sizes(seed, files),
                ((ids[task], file, access) for task, file, access in files.uses),
            ),
            cleaned=tuple(notes),
            facts={"instance": _describe_instance(instance)},
        )

    def _draw_tasks(
        self, seed: int, tasks: pl.DataFrame, shape: Shape, scaled: ScaledWorkflow
    ) -> dict[str, pl.Series]:
        """Draw the values of each new task from those of one task of its type."""
        rows = np.array(scaled.originals, dtype=np.int64)
        if self.values == "drawn":
            types = [shape.types[row] for row in scaled.originals]
            drawn = self._stream(seed, "tasks").uniform(len(types))
            rows = _draw_equals(shape.types, types, drawn)
        columns = tasks.select(_DRAWN)[rows]
        known = columns["run_time"].is_not_null()
        lengths = self._round_lengths(columns["run_time"].fill_null(0.0).to_numpy())
        run_time = pl.Series("run_time", lengths).set(~known, None)
        return {**columns.to_dict(), "run_time": run_time}

    def _draw_sizes(self, seed: int, files: _NewFiles) -> dict[str, float | None]:
        """Draw the size of each new file from those of the files of its role."""
        names = list(files.originals)
        known = list(files.sizes)
        rows = [files.rows[files.originals[name]] for name in names]
        if self.values == "drawn":
            roles = [files.roles[known[row]] for row in range(len(known))]
            drawn = self._stream(seed, "files").uniform(len(names))
            chosen = _draw_equals(roles, [roles[row] for row in rows], drawn).tolist()
            # A file that several tasks read is the same file, whatever the number of tasks.
            rows = [
                row if name in files.shared else other
                for name, row, other in zip(names, rows, chosen, strict=True)
            ]
        return {name: files.sizes[known[row]] for name, row in zip(names, rows, strict=True)}


class _NewFiles:
    """The files of a scaled workflow: which file of the instance each is a copy of, and its uses.

    A copy of a task reads what its parents have written for it. A file of the instance with one
    reader becomes one file for each copy of the reader and each copy of the writer before it; a
    file with several readers becomes one file for each copy of its writer; so with inputs, which
    have no writer. Files that no task of the instance reads are written by each copy of the writer.
    """

    def __init__(
        self, instance: Trace, ids: list[str], shape: Shape, scaled: ScaledWorkflow
    ) -> None:
        self.sizes: dict[str, float | None] = dict(instance.files.select("file", "size").rows())
        row_of = {name: row for row, name in enumerate(ids)}
        self.shape, self.scaled = shape, scaled
        self.reads: list[list[str]] = [[] for _ in ids]
        self.writes: list[list[str]] = [[] for _ in ids]
        self.writer: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        again, strangers = [], []
        for task, file, access in instance.task_files.rows():
            self.sizes.setdefault(file, None)
            if task not in row_of:
                strangers.append(file)
            elif access == "read":
                self.reads[row_of[task]].append(file)
                self.readers.setdefault(file, []).append(row_of[task])
            elif file in self.writer:
                again.append(file)
            else:
                self.writer[file] = row_of[task]
                self.writes[row_of[task]].append(file)
        self.rows = {file: row for row, file in enumerate(self.sizes)}
        self.roles = {file: self._describe_role(file) for file in self.sizes}
        #: The file of the instance that each new file is a copy of.
        self.originals: dict[str, str] = {}
        self.shared: set[str] = set()
        self.uses: dict[tuple[int, str, str], None] = {}
        self._names: dict[tuple[str, Any], str] = {}
        self._copies: dict[str, int] = {}
        self._foreign: list[str] = []
        for task in range(len(scaled.originals)):
            self._add_writes(task)
        for task in range(len(scaled.originals)):
            self._add_reads(task)
        used = self.writer.keys() | self.readers.keys()
        unused = [file for file in self.sizes if file not in used]
        self.notes = tuple(
            Cleaning(kind="ignored", what=what, count=len(files), examples=tuple(files[:3]))
            for what, files in (
                ("further tasks of the instance that write a file", again),
                ("uses of files by tasks that the instance does not have", strangers),
                ("files of the instance that no task uses", unused),
                ("writers of files that do not precede a reader: inputs", self._foreign),
            )
            if files
        )

    def _describe_role(self, file: str) -> tuple[str, ...]:
        """Describe what a file is for: the types of its writer and readers, and its suffix."""
        writer = self.writer.get(file)
        readers = sorted({self.shape.types[row] for row in self.readers.get(file, ())})
        suffix = _DIGITS.sub("", PurePosixPath(file).suffix)
        return (suffix, "" if writer is None else self.shape.types[writer], *readers)

    def _add_writes(self, task: int) -> None:
        """Add the files that no task of the instance reads: the outputs of the workflow."""
        for file in self.writes[self.scaled.originals[task]]:
            if file not in self.readers:
                self.uses[task, self._name(file, task), "write"] = None

    def _name(self, file: str, key: Any) -> str:
        """Name the copy of a file with this key; the first has the name of the original."""
        name = self._names.get((file, key))
        if name is None:
            copy = self._copies.get(file, 0)
            name = f"{file}.{copy}" if copy else file
            while name in self.originals or (copy and name in self.sizes):
                name += "_"
            self._names[file, key] = name
            self._copies[file] = copy + 1
            self.originals[name] = file
        return name

    def _add_reads(self, task: int) -> None:
        providers: dict[int, list[int]] = {}
        for link in self.scaled.links[task]:
            providers.setdefault(link.stands_for, []).append(link.parent)
        for file in self.reads[self.scaled.originals[task]]:
            if file not in self.writer:
                self._add_input(task, file)
            elif not self._add_intermediate(task, file, providers.get(self.writer[file], [])):
                self._foreign.append(file)
                self._add_input(task, file)
        # A parent beyond those of the original: what a child of its class reads from it.
        for link in self.scaled.links[task]:
            original = self.scaled.originals[link.parent]
            if link.stands_for in self.shape.parents[self.scaled.originals[task]]:
                continue
            for file in self.writes[original]:
                if any(self._is_equal(row, task) for row in self.readers.get(file, ())):
                    self._read(task, file, link.parent)

    def _is_equal(self, row: int, task: int) -> bool:
        """Whether a task of the instance is in the class of a new task."""
        return self.shape.classes[row] == self.shape.classes[self.scaled.originals[task]]

    def _add_input(self, task: int, file: str) -> None:
        is_shared = len(self.readers[file]) > 1
        name = self._name(file, None if is_shared else ("input", task))
        if is_shared:
            self.shared.add(name)
        self.uses[task, name, "read"] = None

    def _add_intermediate(self, task: int, file: str, direct: list[int]) -> bool:
        """Add the reading of a file from the tasks that stand for its writer; whether any does."""
        providers = direct or self._find_above(task, self.writer[file])
        for provider in providers:
            self._read(task, file, provider)
        return bool(providers)

    def _read(self, task: int, file: str, provider: int) -> None:
        """Add the reading of a file, or of that at its position if the provider writes others."""
        written = self.writes[self.scaled.originals[provider]]
        if not written:
            return
        if file not in written:  # the provider is a neighbour of the writer
            position = self.writes[self.writer[file]].index(file)
            file = written[position % len(written)]
        is_shared = len(self.readers.get(file, ())) > 1
        name = self._name(file, provider if is_shared else (provider, task))
        self.uses[provider, name, "write"] = None
        self.uses[task, name, "read"] = None

    def _find_above(self, task: int, writer: int) -> list[int]:
        """Find the nearest new task above a task that stands for a writer which is no parent."""
        pending, seen = [task], {task}
        for each in pending:  # grows in the loop
            for link in self.scaled.links[each]:
                if self._is_equal(writer, link.parent):
                    return [link.parent]
                if link.parent not in seen:
                    seen.add(link.parent)
                    pending.append(link.parent)
        return []


def _draw_equals(labels: list[Any], wanted: Iterable[Any], drawn: Floats) -> np.ndarray:
    """Draw for each wanted label a row with this label, by a uniform number each."""
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    found = (rows[label] for label in wanted)
    chosen = [each[int(u * len(each))] for each, u in zip(found, drawn.tolist(), strict=True)]
    return np.array(chosen, dtype=np.int64)


def _number_by_type(types: list[str]) -> list[str]:
    """Name the tasks by their types, with numbers."""
    width = len(str(len(types)))
    counts: dict[str, int] = {}
    ids = []
    for kind in types:
        counts[kind] = counts.get(kind, 0) + 1
        ids.append(f"{kind}_{counts[kind]:0{width}}")
    return ids


def _describe_instance(instance: Trace) -> Mapping[str, Any]:
    source = instance.manifest.source
    return {
        "tasks": instance.tasks.height,
        "content": instance.content_hash(),
        "files": [file.model_dump(mode="json") for file in source.files] if source else [],
    }
