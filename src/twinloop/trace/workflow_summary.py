"""Summary of a workflow: its graph, its files, and facts that a simulation of it needs."""

from __future__ import annotations

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from twinloop.trace.dependency_graph import compute_levels, list_dependencies
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace

#: Formats of logs of workflows, in which missing dependencies and files are worth a note.
_WORKFLOW_FORMATS = ("wfcommons", "flowbench", "nextflow")


class GraphSummary(BaseModel):
    """The graph of the dependencies between the tasks of a workflow.

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a", "b", "c"], "parents": [[], ["a"], ["a"]]}))
    >>> graph = GraphSummary.from_trace(trace)
    >>> graph.levels, graph.width, graph.dependencies, graph.sources, graph.sinks
    (2, 2, 2, 1, 2)
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    #: Depth: number of tasks on the longest path; a task that waits for a cycle is on no level.
    levels: int
    #: Tasks of the largest level.
    width: int
    #: Number of edges, without those from parents that are not tasks of the trace.
    dependencies: int
    #: Tasks without parents, and tasks without children.
    sources: int
    sinks: int
    #: Tasks that wait for each other, or for such tasks.
    blocked: int

    @classmethod
    def from_trace(cls, trace: Trace) -> GraphSummary:
        """Compute the summary of the dependencies of a trace."""
        tasks = trace.tasks.unique("id", keep="first", maintain_order=True)
        graph = list_dependencies(tasks)
        levels = compute_levels(graph.parents, graph.children, tasks.height)
        sizes = np.bincount(levels[levels >= 0])
        return cls(
            levels=sizes.size,
            width=int(sizes.max(initial=0)),
            dependencies=graph.parents.size,
            sources=tasks.height - int(np.unique(graph.children).size),
            sinks=tasks.height - int(np.unique(graph.parents).size),
            blocked=int((levels < 0).sum()),
        )


class FileSummary(BaseModel):
    """The files of a workflow and their sizes in bytes; unknown sizes count as 0.

    >>> trace = Trace(files=pl.DataFrame({"file": ["i", "m", "o"], "size": [5.0, 7.0, None]}),
    ...     task_files=pl.DataFrame({"task": ["a", "a", "b", "b"], "file": ["i", "m", "m", "o"],
    ...         "access": ["read", "write", "read", "write"]}))
    >>> files = FileSummary.from_trace(trace)
    >>> files.bytes, files.input_bytes, files.intermediate_bytes, files.output_bytes
    (12.0, 5.0, 7.0, 0.0)
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    files: int
    #: Sum of the sizes: the footprint.
    bytes: float
    #: Files that are read and not written by any task, written and read, written and not read.
    input_files: int
    input_bytes: float
    intermediate_files: int
    intermediate_bytes: float
    output_files: int
    output_bytes: float
    #: Files that no task reads or writes.
    unused_files: int
    unused_bytes: float
    #: Sums over all tasks: a file that two tasks read counts twice.
    read_bytes: float
    written_bytes: float
    #: Files of unknown size, and of size 0.
    unknown_sizes: int
    empty_files: int

    @classmethod
    def from_trace(cls, trace: Trace) -> FileSummary:
        """Compute the summary of the files of a trace."""
        uses = trace.task_files.select("task", "file", "access").unique()
        used = uses.select("file").unique()
        listed = trace.files.select("file", "size").unique("file", keep="first")
        files = pl.concat([listed, used.join(listed, on="file", how="anti")], how="diagonal")
        size = pl.col("size").fill_null(0.0)
        for access in ("read", "write"):
            names = uses.filter(pl.col("access") == access)["file"].unique()
            files = files.with_columns(pl.col("file").is_in(names.implode()).alias(access))
        figures: dict[str, float] = {}
        for role, condition in (
            ("input", pl.col("read") & ~pl.col("write")),
            ("intermediate", pl.col("read") & pl.col("write")),
            ("output", ~pl.col("read") & pl.col("write")),
            ("unused", ~pl.col("read") & ~pl.col("write")),
        ):
            chosen = files.filter(condition)
            figures[f"{role}_files"] = chosen.height
            figures[f"{role}_bytes"] = chosen.select(size.sum()).item()
        moved = uses.join(files.select("file", "size"), on="file", how="left")
        total = {
            access: moved.filter(pl.col("access") == access).select(size.sum()).item()
            for access in ("read", "write")
        }
        return cls.model_validate(
            {
                "files": files.height,
                "bytes": files.select(size.sum()).item(),
                **figures,
                "read_bytes": total["read"],
                "written_bytes": total["write"],
                "unknown_sizes": files["size"].null_count(),
                "empty_files": int((files["size"] == 0.0).sum()),
            }
        )


def list_missing_facts(trace: Trace) -> dict[str, int]:
    """List facts that a simulation of a workflow needs and its log lacks, with their numbers.

    Empty for a trace that is no workflow: without dependencies, without files, and not in a format
    of workflows.

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "run_time": [2.5, None],
    ...     "parents": [[], ["a"]]}))
    >>> list_missing_facts(trace)  # doctest: +NORMALIZE_WHITESPACE
    {'tasks without run time': 1, 'tasks without start time': 2, 'tasks without machine': 2,
     'tasks without files': 2}
    """
    tasks = trace.tasks
    has_edges = bool(tasks["parents"].list.len().fill_null(0).sum())
    source = trace.manifest.source
    is_workflow_log = source is not None and source.format in _WORKFLOW_FORMATS
    if not tasks.height or not (has_edges or trace.task_files.height or is_workflow_log):
        return {}
    runs = collect_runs(trace)
    placed = trace.placements.drop_nulls("machine")["task"].unique()
    with_files = trace.task_files["task"].unique()
    files = FileSummary.from_trace(trace)
    has_run = trace.manifest.kind != "generated"
    found = {
        "tasks without dependencies": 0 if has_edges else tasks.height,
        "tasks without run time": runs["run_time"].null_count(),
        "tasks with a run time of 0 s": int((runs["run_time"] == 0.0).sum()),
        "tasks without start time": runs["start"].null_count() * has_run,
        "tasks without machine": int((~tasks["id"].is_in(placed.implode())).sum()) * has_run,
        "tasks without files": int((~tasks["id"].is_in(with_files.implode())).sum()),
        "files of unknown size": files.unknown_sizes,
        "files of size 0": files.empty_files,
        "tasks with times in whole seconds": _count_whole_seconds(trace),
    }
    return {what: number for what, number in found.items() if number}


def _count_whole_seconds(trace: Trace) -> int:
    """Count the tasks with known times if all times of the log are whole seconds; else 0."""
    epoch = trace.manifest.epoch_ms or 0
    columns = [
        trace.tasks["run_time"],
        trace.placements["start"] + epoch % 1000 / 1000,
        trace.placements["end"] + epoch % 1000 / 1000,
    ]
    times = pl.concat([column.drop_nulls().rename("time") for column in columns])
    if not times.len() or not bool(((times - times.round()).abs() < 1e-6).all()):
        return 0
    timed = trace.placements.drop_nulls("start")["task"]
    known = trace.tasks["run_time"].is_not_null() | trace.tasks["id"].is_in(timed.implode())
    return int(known.sum())
