"""Checks of the records that models of clients are fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from twinloop.trace import Trace
from twinloop.workload.injection import check_numbers

#: Dates, which may be before t = 0.
_DATES: Final = ("provisioned", "requested")


def check_client_records(trace: Trace, file: str | Path | None = None) -> None:
    """Raise an error if a boot or a time of a task is negative or not finite.

    The quality gate rejects the same values. In a fit such a boot would be a fast one, and such a
    task would be missing without a word.

    Args:
        trace: A recorded execution.
        file: Its file or folder, for messages; by default the source that its manifest names.

    >>> check_client_records(Trace(boots=pl.DataFrame({"boot_time": [48.0, -5.0]})))
    Traceback (most recent call last):
    ...
    twinloop.InputError: boot 2 of 2: boot_time must be a finite number from 0 on, not -5 ...
    """
    command = "twinloop check" if file is None else f"twinloop check {file}"
    source = trace.manifest.source
    if file is None and source is not None and len(source.files) == 1:
        file = source.files[0].name
    for what, rows, columns in (
        ("boot", trace.boots, ("boot_time", "provisioned")),
        ("instance", _list_requests(trace), ("boot_time", "requested")),
        ("task", _list_task_times(trace), ("wall_time", "run_time")),
        ("task", trace.tasks.with_columns(name="id"), ("run_time", "requested_time")),
    ):
        for column in columns:
            check_numbers(
                rows,
                column,
                what=what,
                may_be_negative=column in _DATES,
                remedy=f"`{command}` lists all such values; correct it, or leave the execution out",
                file=None if file is None else str(file),
            )


def _list_requests(trace: Trace) -> pl.DataFrame:
    """List the instances that were requested, with the times until they were ready."""
    return trace.instances.filter(pl.col("requested").is_not_null()).select(
        "requested", name="instance", boot_time=pl.col("ready") - pl.col("requested")
    )


def _list_task_times(trace: Trace) -> pl.DataFrame:
    """List the measured times of tasks with the lines of these."""
    lines = trace.tasks.select("id", "line").unique("id")
    return trace.task_times.join(
        lines, left_on="task", right_on="id", how="left", maintain_order="left"
    ).with_columns(name="task")
