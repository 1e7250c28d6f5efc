"""Checks before writing: columns that a format does not support, and unique task ids."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.quality.source_positions import locate_row
from twinloop.trace.trace import Trace


def note_unsupported_columns(trace: Trace, tally: Tally, **supported: Collection[str]) -> None:
    """Count the known values in all columns that a format does not support, table by table.

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "user": ["ann"], "queue": ["q"]}))
    >>> tally = Tally()
    >>> note_unsupported_columns(trace, tally, tasks=["id", "user"])
    >>> print(*tally.cleanings())
    ignored 1: tasks: queue
    """
    for table, frame in trace.tables.items():
        if table not in supported:
            tally.note("ignored", f"table {table}", count=frame.height)
            continue
        for name, dtype in frame.schema.items():
            if name in supported[table]:
                continue
            known = frame[name].is_not_null()
            if isinstance(dtype, pl.List):
                known &= frame[name].list.len() > 0
            tally.note("ignored", f"{table}: {name}", count=int(known.sum()))


def number_tasks(trace: Trace) -> pl.DataFrame:
    """Return the tasks with their row number `order`; a missing or repeated id is an error.

    >>> number_tasks(Trace(tasks=pl.DataFrame({"id": ["a", "a"]})))
    Traceback (most recent call last):
    twinloop.InputError: tasks.id: 'a' occurs more than once (...) [TL0211]
    """
    tasks = trace.tasks.with_row_index("order")
    ids = tasks["id"]
    if ids.null_count() or ids.n_unique() < ids.len():
        row = int((ids.is_null() | ~ids.is_first_distinct()).arg_true()[0])
        name, place = ids[row], locate_row(trace, "tasks", row)
        raise InputError(
            "is missing for a task" if name is None else f"'{name}' occurs more than once",
            kind="missing-field" if name is None else "duplicate-name",
            file=place.file,
            line=place.line,
            field="tasks.id",
            remedy="check the trace, and repair or remove such tasks",
        )
    return tasks
