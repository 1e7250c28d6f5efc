"""The tasks of a run: those of its workload, and those added during the run."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.trace.tables import COMMAND_COLUMNS, RESOURCES

#: The rows of a run without added tasks.
_NO_TASKS: Final = pl.DataFrame(schema={"id": pl.String})


class RunTasks(NamedTuple):
    """Columns of all tasks of a run, in the order of their native indices."""

    ids: pl.Series
    submit: NDArray[np.float64]
    cores: NDArray[np.float64]
    memory: NDArray[np.float64]
    requested_time: NDArray[np.float64]
    deadline: NDArray[np.float64]
    #: The rows of `tasks` of a trace for the added tasks: what they requested.
    added: pl.DataFrame

    @classmethod
    def from_run(cls, compiled: CompiledScenario, run: ClusterRun) -> RunTasks:
        """Read the tasks of a run."""
        arrays, requested = compiled.arrays, compiled.requested
        if run.added_count == 0:
            return cls(
                arrays.ids, arrays.submit, arrays.cores, arrays.memory, requested,
                arrays.deadline, _NO_TASKS,
            )  # fmt: skip
        given = run.added_tasks()
        added = _build_added(compiled, given)
        return cls(
            pl.concat([arrays.ids, added["id"]]),
            np.concatenate([arrays.submit, given["submit"]]),
            np.concatenate([arrays.cores, given["cores"]]),
            np.concatenate([arrays.memory, given["memory"]]),
            np.concatenate([requested, given["requested_time"]]),
            np.concatenate([arrays.deadline, given["deadline"]]),
            added,
        )


def read_command(text: str) -> dict[str, Any]:
    """Return the columns `command`, `environment` and `folder` of the command of an added task.

    >>> read_command('{"command": ["true"]}')
    {'command': ['true'], 'environment': None, 'folder': None}
    """
    given = json.loads(text) if text else {}
    return {name: given.get(name) for name in ("command", "environment", "folder")}


def _build_added(compiled: CompiledScenario, given: dict[str, Any]) -> pl.DataFrame:
    names = compiled.names
    amounts = given["amounts"].reshape(-1, max(1, len(names.resources)))
    resources = [
        [
            {"name": name, "amount": amount}
            for name, amount in zip(names.resources, row, strict=False)
            if amount
        ]
        or None
        for row in amounts.tolist()
    ]
    count = len(given["id"])
    ids = [*compiled.task_ids, *given["id"]] if any(given["parents"]) else []
    parents = [[ids[row] for row in rows] or None for rows in given["parents"]]
    commands = [read_command(text) for text in given["command"]]
    return pl.DataFrame(
        {
            "id": pl.Series(given["id"], dtype=pl.String),
            "user": _get_names(names.users, given["user"]),
            "group": _get_names(names.groups, given["group"]),
            "queue": _get_names(names.queues, given["queue"]),
            "kind": _get_names(names.kinds, given["kind"].astype(np.int64)),
            "requested_nodes": pl.Series(given["nodes"], dtype=pl.Int64).replace(0, None),
            "requested_memory": pl.Series(given["memory"]).replace(0.0, None),
            "resources": pl.Series(resources or [None] * count, dtype=RESOURCES),
            "parents": pl.Series(parents, dtype=pl.List(pl.String)),
            **{
                name: pl.Series([each[name] for each in commands], dtype=column.dtype)
                for name, column in COMMAND_COLUMNS.items()
            },
        }
    )


def _get_names(names: tuple[str, ...], codes: NDArray[Any]) -> pl.Series:
    """Return the names of codes; null for -1 and for an empty name."""
    known = pl.Series([*(name or None for name in names), None], dtype=pl.String)
    return known.gather(np.where(codes < 0, len(names), codes).astype(np.int64))
