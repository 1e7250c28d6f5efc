"""Subsets of a log: a time window, selected tasks, warm-up and cool-down removed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal

import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.edit.selection import Interval, keep_tasks
from twinloop.trace.edit.time_shift import shift_times
from twinloop.trace.manifest import Edit
from twinloop.trace.trace import Trace

Moment = Literal["submit", "start", "end"]
_MOMENTS: Final = ("submit", "start", "end")


def window(
    trace: Trace,
    start: float | None = None,
    end: float | None = None,
    *,
    by: Moment = "submit",
    rebase: bool = True,
) -> Trace:
    """Select the tasks in the half-open interval from `start` to `end`, in seconds since t = 0.

    Consecutive windows partition a log: every task is in exactly one. A task is kept complete,
    also if it runs beyond the window.

    Args:
        trace: The log.
        start: Begin of the window, inclusive; None: begin of the log.
        end: End of the window, exclusive; None: end of the log.
        by: The time of a task that must be in the window: its submission, its first start or its
            last end. A task for which it is unknown is removed, and counted.
        rebase: Whether `start` becomes t = 0 (in whole milliseconds, the resolution of the epoch).

    >>> tasks = pl.DataFrame({"id": ["a", "b", "c"], "submit": [0.0, 10.0, 20.0]})
    >>> window(Trace(tasks=tasks), 10, 20).tasks.select("id", "submit").rows()
    [('b', 0.0)]
    """
    within = Interval(_check_time(start, "start"), _check_time(end, "end"))
    if within.start is not None and within.end is not None and within.end < within.start:
        raise InputError(f"{end} s is before the start, {start} s", kind="wrong-order", field="end")
    if by not in _MOMENTS:
        raise InputError(
            f"'{by}' is not a moment of a task",
            kind="not-a-choice",
            field="by",
            remedy=f"one of {', '.join(_MOMENTS)}",
        )
    inside = within.contains(_get_moments(trace, by))
    kept = keep_tasks(trace, inside, "not in the window", within)
    parameters = {"start": within.start, "end": within.end, "by": by, "rebase": rebase}
    edit = Edit(operation="window", parameters=parameters)
    return _rebase(kept, within.start if rebase else None).with_manifest(edit=edit)


def trim(
    trace: Trace,
    *,
    warm_up: float | str = 0.0,
    cool_down: float | str = 0.0,
    rebase: bool = True,
) -> Trace:
    """Remove the warm-up and the cool-down of a log.

    Args:
        trace: The log.
        warm_up: Length to remove after the first submission: seconds, or a share of the time from
            the first to the last submission, such as "5%".
        cool_down: Length to remove before the last submission, likewise.
        rebase: Whether the new begin becomes t = 0.

    >>> tasks = pl.DataFrame({"id": list("abcde"), "submit": [0.0, 10.0, 20.0, 30.0, 40.0]})
    >>> trim(Trace(tasks=tasks), warm_up=10, cool_down="25%").tasks["id"].to_list()
    ['b', 'c']
    """
    submit = pl.col("submit")
    first, last = trace.tasks.select(first=submit.min(), last=submit.max()).row(0)
    if first is None:
        raise InputError(
            "no task of the trace has a submission time", kind="nothing-selected", field="submit"
        )
    head = _parse_length(warm_up, last - first, "warm_up")
    tail = _parse_length(cool_down, last - first, "cool_down")
    within = Interval(first + head if head else None, last - tail if tail else None)
    inside = within.contains(trace.tasks["submit"])
    if not inside.any():
        raise InputError(
            f"no task is left of the {last - first:g} s of submissions",
            kind="nothing-selected",
            field="warm_up and cool_down",
            remedy="give shorter ones",
        )
    kept = keep_tasks(trace, inside, "in warm-up or cool-down", within)
    parameters = {"warm_up": warm_up, "cool_down": cool_down, "rebase": rebase}
    edit = Edit(operation="trim", parameters=parameters)
    return _rebase(kept, within.start if rebase else None).with_manifest(edit=edit)


def select(
    trace: Trace,
    *,
    users: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    where: pl.Expr | None = None,
    invert: bool = False,
) -> Trace:
    """Select the tasks of these users, in these queues, for which an expression on `tasks` is true.

    A task for which the condition is unknown is not selected; `invert` returns all other tasks, so
    that the two results partition the log. Rows that belong to no task, such as power, are kept.

    >>> log = Trace(tasks=pl.DataFrame({"id": ["a", "b", "c"], "user": ["u", "v", None]}))
    >>> select(log, users=["u"]).tasks["id"].to_list()
    ['a']
    >>> select(log, users=["u"], invert=True).tasks["id"].to_list()
    ['b', 'c']
    >>> select(log, where=pl.col("id") > "a").tasks["id"].to_list()
    ['b', 'c']
    """
    parameters: dict[str, object] = {}
    chosen = pl.Series([True]).new_from_index(0, trace.tasks.height)
    for name, column, values in (("users", "user", users), ("queues", "queue", queues)):
        if values is not None:
            names = [values] if isinstance(values, str) else [str(value) for value in values]
            parameters[name] = names
            chosen &= trace.tasks[column].is_in(names).fill_null(False)
    if where is not None:
        parameters["where"] = str(where)
        chosen &= _evaluate(trace.tasks, where)
    if not parameters:
        raise InputError(
            "no condition is given", kind="nothing-selected", remedy="give users, queues or where"
        )
    kept = keep_tasks(trace, chosen != invert, "not selected", None)
    return kept.with_manifest(
        edit=Edit(operation="select", parameters=parameters | {"invert": invert})
    )


def _evaluate(tasks: pl.DataFrame, where: pl.Expr) -> pl.Series:
    remedy = "give an expression on the columns of tasks, true or false for each task"
    try:
        mask = tasks.select(where.alias("mask"))["mask"]
    except pl.exceptions.PolarsError as error:
        raise InputError(
            str(error).partition("\n")[0], kind="wrong-argument", field="where", remedy=remedy
        ) from None
    if mask.dtype != pl.Boolean or mask.len() != tasks.height:
        raise InputError(
            f"has {mask.len():,} values of type {mask.dtype}, not one Boolean for each task",
            kind="wrong-argument",
            field="where",
            remedy=remedy,
        )
    return mask.fill_null(False)


def _get_moments(trace: Trace, by: Moment) -> pl.Series:
    if by == "submit":
        return trace.tasks["submit"]
    of_task = pl.col("start").min() if by == "start" else pl.col("end").max()
    moments = trace.placements.group_by("task").agg(moment=of_task)
    tasks = trace.tasks.select(task="id")
    return tasks.join(moments, on="task", how="left", maintain_order="left")["moment"]


def _rebase(trace: Trace, start: float | None) -> Trace:
    if start is None:
        return trace
    # Whole milliseconds, rounded down: the epoch stays exact and no time becomes negative.
    offset_ms = math.floor(start * 1000)
    epoch = trace.manifest.epoch_ms
    return shift_times(trace, -offset_ms / 1000).with_manifest(
        epoch_ms=None if epoch is None else epoch + offset_ms
    )


def _check_time(value: float | None, field: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise InputError(
            f"{value} is not a time",
            kind="invalid-quantity",
            field=field,
            remedy="seconds, or None",
        )
    return value


def _parse_length(value: float | str, whole: float, field: str) -> float:
    remedy = "seconds, or a share such as '5%'"
    try:
        if isinstance(value, str):
            share = value.strip()
            length = float(share.removesuffix("%")) * (whole / 100 if share.endswith("%") else 1)
        else:
            length = float(value)
    except ValueError:
        raise InputError(
            f"'{value}' is not a length of time",
            kind="invalid-quantity",
            field=field,
            remedy=remedy,
        ) from None
    if not (math.isfinite(length) and length >= 0):
        raise InputError(
            f"{value} is not a length of time", kind="invalid-quantity", field=field, remedy=remedy
        )
    return length
