"""The files that the tasks of a real execution read and write, before it begins."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.platform.network import LOCAL, list_local_stores
from twinloop.trace import Trace
from twinloop.trace.trace import format_count


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a task reads or writes."""

    name: str
    #: Its declared size (bytes).
    size: int
    #: The store it is in or is written to; `local`: that of the host of the task that writes it.
    store: str
    #: Whether it exists at the start.
    exists: bool
    #: The file that it is copied from at the start, if it is given.
    path: Path | None = None


@dataclass(frozen=True)
class FilePlan:
    """The files of a run, and which tasks read and write them."""

    files: Mapping[str, PlannedFile]
    #: The files that each task reads, and writes, by its number.
    reads: Mapping[int, Sequence[str]]
    writes: Mapping[int, Sequence[str]]
    #: Seed of the content of files that are created.
    seed: int
    #: The names of the stores that files may be in.
    stores: Sequence[str] = ()

    def has_files(self, task: int) -> bool:
        """Whether a task reads or writes files."""
        return task in self.reads or task in self.writes

    @property
    def initial(self) -> list[PlannedFile]:
        """The files that exist at the start."""
        return [file for file in self.files.values() if file.exists]

    def facts(self) -> dict[str, Any]:
        """Return the stores and the number and bytes of initial files, for the manifest."""
        made = {
            "created": [file.size for file in self.initial if file.path is None],
            "copied": [file.size for file in self.initial if file.path is not None],
        }
        return {
            "stores": self.stores,
            **{verb: {"files": len(sizes), "bytes": sum(sizes)} for verb, sizes in made.items()},
        }

    def add_sizes(self, trace: Trace) -> Trace:
        """Return a trace with the sizes of the files that exist at the start."""
        sizes = {file.name: float(file.size) for file in self.initial}
        return trace.replace(files=replace_sizes(trace.files, sizes))

    def describe(self) -> Iterator[str]:
        """Yield a line for each way in which files are made before the start."""
        for verb, files, manner in (
            ("create", [file for file in self.initial if file.path is None], "pseudo-random bytes"),
            ("copy", [file for file in self.initial if file.path is not None], "from their paths"),
        ):
            if files:
                size = sum(file.size for file in files)
                count = format_count(len(files), "file")
                yield f"first: {verb} {count}, {size:,} bytes, {manner}"

    def with_paths_checked(self, folder: Path) -> FilePlan:
        """Return the plan with the sizes of the files at the given paths.

        An InputError if one of them cannot be read, or the disk of `folder` has too little space
        for the initial files and the outputs.
        """
        files = dict(self.files)
        for file in self.initial:
            if file.path is not None:
                size = _measure_file(file.path)
                files[file.name] = PlannedFile(file.name, size, file.store, True, file.path)
        self._check_space(files, folder)
        return replace(self, files=files)

    def _check_space(self, files: Mapping[str, PlannedFile], folder: Path) -> None:
        needed = sum(file.size for file in files.values())
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise InputError(
                f"the files of the tasks need {needed:,} bytes, and {free:,} are free",
                kind="missing-resources",
                file=folder,
                field="workload.files",
                remedy="make them smaller, or use a folder on another disk",
            )


def plan_files(compiled: CompiledScenario) -> FilePlan | None:
    """Plan the files of the tasks; None if the platform has no store for any of them.

    As in the simulator, a file that no task writes, or only tasks that read it too, exists at the
    start. Files that no task uses are left out.

    >>> from twinloop.scenario import Scenario
    >>> plan = plan_files(CompiledScenario(Scenario.from_text('''
    ... platform: {clusters: [{hosts: [{cores: 1}]}], stores: [{name: disk}]}
    ... workload:
    ...   files: [{name: a, size: 3 MB}, {name: b, size: 1 MB}]
    ...   tasks: [{id: t, run_time: 1, reads: [a], writes: [b]}]
    ... policy: fcfs
    ... ''')))
    >>> list(plan.describe())
    ['first: create 1 file, 3,000,000 bytes, pseudo-random bytes']
    """
    shared = compiled.machines.platform.stores
    default = shared[0].name if shared else None
    table = compiled.workload.files.unique("file", keep="first", maintain_order=True)
    table = table.with_columns(pl.coalesce("store", pl.lit(default, pl.String)).alias("store"))
    table = table.drop_nulls("store")
    uses = compiled.workload.task_files.unique(maintain_order=True)
    uses = uses.join(table, on="file", how="semi", maintain_order="left")
    numbers = {name: number for number, name in enumerate(compiled.arrays.ids.to_list())}
    reads: dict[int, list[str]] = defaultdict(list)
    writes: dict[int, list[str]] = defaultdict(list)
    for task, file, access in uses.select("task", "file", "access").iter_rows():
        if task in numbers:
            (reads if access == "read" else writes)[numbers[task]].append(file)
    if not reads and not writes:
        return None
    created = {
        file for task, files in writes.items() for file in files if file not in reads.get(task, ())
    }
    used = {file for each in (reads, writes) for files in each.values() for file in files}
    paths = {
        file.name: Path(file.path)
        for file in compiled.scenario.workload.files
        if file.path is not None
    }
    files = {
        name: PlannedFile(
            name, round(size or 0.0), store, name not in created and store != LOCAL, paths.get(name)
        )
        for name, size, store in table.select("file", "size", "store").iter_rows()
        if name in used
    }
    for name in files:
        _check_name(name)
    for name in paths:
        if name in files and not files[name].exists:
            raise InputError(
                f"'{name}' has a path, and a task writes it: it does not exist at the start",
                kind="conflicting-fields",
                field="workload.files",
                remedy="remove its path",
            )
    names = {file.store for file in files.values()} - {LOCAL}
    if LOCAL in {file.store for file in files.values()}:
        names |= list_local_stores(compiled.machines.platform).keys()
    return FilePlan(files, dict(reads), dict(writes), compiled.scenario.seed, sorted(names))


def replace_sizes(files: pl.DataFrame, sizes: Mapping[str, float]) -> pl.DataFrame:
    """Return the table of files with new sizes (bytes) of the named files.

    >>> replace_sizes(pl.DataFrame({"file": ["a", "b"], "size": [1.0, 2.0]}), {"b": 3.0}).rows()
    [('a', 1.0), ('b', 3.0)]
    """
    known = pl.col("file").replace_strict(sizes, default=None, return_dtype=pl.Float64)
    return files.with_columns(pl.coalesce(known, "size").alias("size")) if sizes else files


def _check_name(name: str) -> None:
    """Refuse a name that is not the path of a file in a working folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or "\0" in name:
        raise InputError(
            f"'{name}' is not the name of a file in the working folder of a task",
            kind="unsafe-name",
            field="workload.files",
            remedy="use a relative path without `..`",
        )


def _measure_file(path: Path) -> int:
    try:
        with path.open("rb"):  # it can be read
            if path.is_file():
                return path.stat().st_size
        problem = "is not a file"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise InputError(problem, kind="cannot-read", file=path, field="workload.files")
