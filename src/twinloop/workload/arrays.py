"""Conversion of a Workload to plain arrays, the input of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.workload.fragments import Floats, Fragments, Rows, find_rows
from twinloop.workload.speedup_laws import SpeedupLaws, read_laws
from twinloop.workload.workload import Workload

Codes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CategoricalColumn:
    """A categorical column: `codes[i]` is an index of `names`, or -1 for null."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkloadArrays:
    """The columns of a workload for the engine, as arrays of float64 and integers.

    Row i of every array is task i. The fragments of task i are those from
    `fragment_offsets[i]` up to `fragment_offsets[i + 1]`; its parents are
    `parents[parent_offsets[i]:parent_offsets[i + 1]]`, as rows. A task without fragments does
    `work` on `limit` cores. Limits and rates are in reference cores on a host of the given `speed`;
    a faster host raises them in proportion. Defaults of unknown values: `memory` and `think_time`
    0, `nodes` 0 (any), `deadline` infinite, `speed` 1, `requested_time` the run time.

    >>> import polars as pl
    >>> arrays = Workload(tasks=pl.DataFrame({
    ...     "id": ["a", "b"], "submit": [0.0, 1.0], "cores": [1.0, 2.0], "work": [5.0, 6.0],
    ...     "limit": [1.0, 2.0], "user": ["ann", None], "parents": [None, ["a"]]})).to_arrays()
    >>> arrays.parent_offsets.tolist(), arrays.parents.tolist(), arrays.requested_time.tolist()
    ([0, 0, 1], [0], [5.0, 3.0])
    >>> arrays.user
    CategoricalColumn(codes=array([ 0, -1], dtype=int32), names=('ann',))
    """

    ids: pl.Series
    submit: Floats
    cores: Floats
    nodes: Rows
    memory: Floats
    requested_time: Floats
    work: Floats
    limit: Floats
    speed: Floats
    deadline: Floats
    think_time: Floats
    user: CategoricalColumn
    group: CategoricalColumn
    queue: CategoricalColumn
    partition: CategoricalColumn
    array: CategoricalColumn
    kind: CategoricalColumn
    #: Names of the other resources; `amounts` has a row per resource and a column per task.
    resources: tuple[str, ...]
    amounts: Floats
    parent_offsets: Rows
    parents: Rows
    #: The fragments, in the order of the workload.
    fragments: Fragments
    #: The speed-up laws; None if no task has one.
    laws: SpeedupLaws | None

    def __len__(self) -> int:
        return len(self.submit)

    @property
    def fragment_offsets(self) -> Rows:
        """The offset of the fragments of each task, and the end of the last ones."""
        return self.fragments.by_task(len(self))[0]

    @property
    def fragment_duration(self) -> Floats:
        """The duration of each fragment (s), sorted by task."""
        return self.fragments.by_task(len(self))[1]

    @property
    def fragment_rate(self) -> Floats:
        """The rate of each fragment (reference cores), sorted by task."""
        return self.fragments.by_task(len(self))[2]


def workload_to_arrays(workload: Workload) -> WorkloadArrays:
    """Convert a workload to arrays."""
    tasks = workload.tasks
    _check_demand(tasks)
    durations = workload.durations()
    requested = tasks["requested_time"].fill_null(np.nan).to_numpy()
    parent_offsets, parents = _resolve_parents(tasks)
    resources, amounts = _make_amounts(tasks)
    return WorkloadArrays(
        ids=tasks["id"],
        submit=tasks["submit"].to_numpy(),
        cores=tasks["cores"].to_numpy(),
        nodes=tasks["nodes"].fill_null(0).to_numpy(),
        memory=tasks["memory"].fill_null(0.0).to_numpy(),
        requested_time=np.where(np.isnan(requested), durations, requested),
        work=tasks["work"].to_numpy(),
        limit=tasks["limit"].to_numpy(),
        speed=tasks["speed"].fill_null(1.0).to_numpy(),
        deadline=tasks["deadline"].fill_null(np.inf).to_numpy(),
        think_time=tasks["think_time"].fill_null(0.0).to_numpy(),
        user=_to_categorical(tasks["user"]),
        group=_to_categorical(tasks["group"]),
        queue=_to_categorical(tasks["queue"]),
        partition=_to_categorical(tasks["partition"]),
        array=_to_categorical(tasks["array"]),
        kind=_to_categorical(tasks["kind"]),
        resources=resources,
        amounts=amounts,
        parent_offsets=parent_offsets,
        parents=parents,
        fragments=workload.fragment_arrays,
        laws=read_laws(tasks),
    )


def _check_demand(tasks: pl.DataFrame) -> None:
    for field in ("work", "limit", "cores"):
        unknown = tasks[field].is_null()
        if unknown.any():
            raise InputError(
                f"is unknown for {int(unknown.sum())} tasks, such as "
                f"{tasks['id'].filter(unknown)[0]!r}, so they cannot run",
                kind="not-runnable",
                field=field,
                remedy="give their run times (run_time), or create the workload with "
                "missing='synthetic' or missing='drop'"
                if field != "cores"
                else "give their numbers of cores",
            )
    stuck = (tasks["limit"] == 0) & (tasks["work"] > 0)
    if stuck.any():
        raise InputError(
            f"is 0 for task {tasks['id'].filter(stuck)[0]!r}, so it never ends",
            kind="not-runnable",
            field="limit",
        )


def _to_categorical(column: pl.Series) -> CategoricalColumn:
    if column.null_count() == column.len():
        return CategoricalColumn(np.full(column.len(), -1, dtype=np.int32), ())
    names = column.drop_nulls().unique(maintain_order=True)
    return CategoricalColumn(find_rows(names, column).astype(np.int32), tuple(names))


def _make_amounts(tasks: pl.DataFrame) -> tuple[tuple[str, ...], Floats]:
    column = tasks["resources"]
    if column.null_count() == column.len():
        return (), np.zeros((0, tasks.height))
    table = (
        pl.DataFrame({"row": np.arange(tasks.height), "resource": column})
        .explode("resource")
        .unnest("resource")
        .drop_nulls("name")
    )
    names = tuple(table["name"].unique(maintain_order=True))
    amounts = np.zeros((len(names), tasks.height))
    resource_rows = find_rows(pl.Series(names, dtype=pl.String), table["name"])
    np.add.at(
        amounts, (resource_rows, table["row"].to_numpy()), table["amount"].fill_null(0).to_numpy()
    )
    return names, amounts


def _resolve_parents(tasks: pl.DataFrame) -> tuple[Rows, Rows]:
    column, count = tasks["parents"], tasks.height
    offsets = np.zeros(count + 1, dtype=np.int64)
    if column.null_count() == count:
        return offsets, np.zeros(0, dtype=np.int64)
    table = pl.DataFrame({"row": np.arange(count), "parent": column}).explode("parent")
    table = table.drop_nulls("parent")
    child = table["row"].to_numpy()
    parents = find_rows(tasks["id"], table["parent"])
    if (parents < 0).any():
        row = int(np.argmax(parents < 0))
        raise InputError(
            f"{table['parent'][row]!r} is not a task",
            kind="unknown-reference",
            field=f"task {tasks['id'][int(child[row])]!r}: parents",
        )
    np.cumsum(np.bincount(child, minlength=count), out=offsets[1:])
    _check_acyclic(tasks["id"], parents, child)
    return offsets, parents


def _check_acyclic(ids: pl.Series, parents: Rows, children: Rows) -> None:
    """Raise an error that names the tasks of a dependency cycle, if there is one."""
    _, cycle = find_blocked_tasks(parents, children, ids.len())
    if not cycle:
        return
    names = [ids[row] for row in reversed(cycle[:-1])]
    shown = " -> ".join(map(repr, [*names[:5], *(["..."] if len(names) > 5 else []), names[0]]))
    raise InputError(
        f"contains a dependency cycle: {shown}", kind="dependency-cycle", field="parents"
    )
