"""Benchmark workflows with a given work and a given amount of data: chain and fork-join."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np
import polars as pl
from pydantic import BeforeValidator

from twinloop.description import InputError
from twinloop.description.quantities import MEMORY
from twinloop.workload.generators.description import GeneratedTables, parameter
from twinloop.workload.generators.workflow import WorkflowGenerator, make_file_tables

#: Limit of the number of tasks: tasks have lists of parents and of files.
_MAX_TASKS: Final = 1_000_000
#: Larger numbers of bytes are not exact as floating-point numbers.
_MAX_BYTES: Final = 2**53


def _parse_bytes(value: Any) -> int:
    try:
        amount = MEMORY.read(value)
    except InputError as error:
        raise ValueError(str(error)) from None
    if amount != int(amount):
        raise ValueError("must be a whole number of bytes")
    return int(amount)


class _Task(NamedTuple):
    """A task of a workflow: its kind, the rows of its parents, its files."""

    kind: str
    parents: range | tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class BenchmarkWorkflow(WorkflowGenerator):
    """Base class of benchmark workflows: equal tasks of one core, and files of equal sizes.

    >>> from twinloop.workload.generators import ForkJoin
    >>> ForkJoin(footprint="1 MB").generate(seed=1).files["size"].sum()
    1000000.0
    """

    tasks: int = parameter(10, "number of tasks", ge=1, le=_MAX_TASKS)
    work: float = parameter(1.0, "mean work of a task", unit="s of a core", gt=0.0, le=1e9)
    cv: float = parameter(
        0.0, "coefficient of variation of the work (lognormal; 0: all equal)", ge=0.0, le=100.0
    )
    footprint: Annotated[int, BeforeValidator(_parse_bytes)] = parameter(
        150_000_000,
        "sum of the sizes of all files, also intermediate ones; a number of bytes, or 150 MB",
        unit="bytes",
        ge=0,
        le=_MAX_BYTES,
    )

    @abstractmethod
    def _list_tasks(self) -> list[_Task]:
        """List the tasks in an order in which parents precede their children."""

    def _content(self, seed: int) -> GeneratedTables:
        tasks = self._list_tasks()
        work = np.full(len(tasks), self.work)
        if self.cv > 0.0:
            work = self._stream(seed, "work").lognormal(len(tasks), self.work, self.cv)
        uses = [
            (str(number), file, access)
            for number, task in enumerate(tasks, start=1)
            for access, files in (("read", task.reads), ("write", task.writes))
            for file in files
        ]
        files = list(dict.fromkeys(file for _, file, _ in uses))
        size, larger = divmod(self.footprint, len(files))
        sizes = {file: float(size + (row < larger)) for row, file in enumerate(files)}
        columns = {
            "name": pl.Series([task.kind for task in tasks], dtype=pl.String),
            "submit": np.zeros(len(tasks)),
            "requested_cores": np.ones(len(tasks)),
            "run_time": self._round_lengths(work),
            "parents": pl.Series(
                [[str(row + 1) for row in task.parents] for task in tasks],
                dtype=pl.List(pl.String),
            ),
        }
        return GeneratedTables(columns, *make_file_tables(sizes, uses))


class Chain(BenchmarkWorkflow):
    """A chain: each task reads the file that the task before has written, and writes one.

    The footprint is divided equally over the files: the input, those between two tasks, and the
    output. Of a footprint that is not a multiple of their number, the first files have one byte
    more.

    >>> trace = Chain(tasks=3, footprint=10).generate(seed=1)
    >>> trace.tasks["parents"].to_list(), trace.files["size"].to_list()
    ([[], ['1'], ['2']], [3.0, 3.0, 2.0, 2.0])
    """

    name: ClassVar[str] = "chain"
    title: ClassVar[str] = "benchmark workflow: tasks one after the other, with files"

    work: float = parameter(0.83, "mean work of a task", unit="s of a core", gt=0.0, le=1e9)

    def _list_tasks(self) -> list[_Task]:
        return [
            _Task("step", range(max(0, row - 1), row), (f"data_{row}",), (f"data_{row + 1}",))
            for row in range(self.tasks)
        ]


class ForkJoin(BenchmarkWorkflow):
    """A fork-join: a source, parallel tasks, and a sink that waits for all of them.

    The source reads the input and writes a file for each parallel task; each of these writes a
    file for the sink, which writes the output. The footprint is divided equally over these files,
    as in a chain.

    >>> trace = ForkJoin(tasks=4, footprint=60).generate(seed=1)
    >>> trace.tasks["parents"].to_list(), trace.files["size"].to_list()
    ([[], ['1'], ['1'], ['2', '3']], [10.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    """

    name: ClassVar[str] = "fork-join"
    title: ClassVar[str] = "benchmark workflow: parallel tasks between a source and a sink"

    tasks: int = parameter(10, "number of tasks: source, parallel tasks, sink", ge=3, le=_MAX_TASKS)
    work: float = parameter(0.84, "mean work of a task", unit="s of a core", gt=0.0, le=1e9)

    def _list_tasks(self) -> list[_Task]:
        last = self.tasks - 1
        parts = tuple(f"part_{row}" for row in range(1, last))
        results = tuple(f"result_{row}" for row in range(1, last))
        return [
            _Task("fork", (), ("input",), parts),
            *(
                _Task("work", (0,), (part,), (result,))
                for part, result in zip(parts, results, strict=True)
            ),
            _Task("join", range(1, last), results, ("output",)),
        ]
