"""The base class of generators of workflows: tasks with dependencies and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import polars as pl

from twinloop.workload.generators.description import GeneratedTables, Generator, parameter


class WorkflowGenerator(Generator):
    """Base class of the generators of workflows. All tasks are submitted at t = 0.

    >>> from twinloop.workload.generators import Chain
    >>> Chain(tasks=2).generate(seed=1).task_files.rows()
    [('1', 'data_0', 'read'), ('1', 'data_1', 'write'), ('2', 'data_1', 'read'), \
('2', 'data_2', 'write')]
    """

    resolution: Literal["s", "ms", "exact"] = parameter(
        "ms",
        "resolution of times: whole seconds (s), whole milliseconds (ms) or not rounded (exact)",
    )

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        return self._content(seed).tasks

    @abstractmethod
    def _content(self, seed: int) -> GeneratedTables:
        """Draw the tasks and the files."""


def make_file_tables(
    sizes: Mapping[str, float | None], uses: Iterable[tuple[str, str, str]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables `files` and `task_files`; a use is a task, a file, and `read` or `write`.

    >>> files, task_files = make_file_tables({"data": 5.0}, [("1", "data", "read")])
    >>> files.rows()
    [('data', 5.0)]
    """
    files = pl.DataFrame(
        {"file": list(sizes), "size": list(sizes.values())},
        schema={"file": pl.String, "size": pl.Float64},
    )
    text = {"task": pl.String, "file": pl.String, "access": pl.String}
    return files, pl.DataFrame(list(uses), schema=text, orient="row")
