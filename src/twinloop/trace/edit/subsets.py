"""Part of a log: a window of time, some users, without its begin and end."""

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
    """The tasks from `start` on and before `end`, in seconds since t = 0.

    Windows that follow each other divide a log: no task is in two of them, or in none. A task is
    kept whole, also where it runs beyond the window.

    Args:
        trace: The log.
        start: First moment of the window; None: from the begin of the log.
        end: First moment after the window; None: to the end of the log.
        by: The moment of a task that must lie in the window: its submission, its first start or
            its last end. A task of which it is not known is left out, and counted.
        rebase: Whether `start` becomes t = 0 (in whole milliseconds, as the epoch has them).

    >>> tasks = pl.DataFrame({"id": ["a", "b", "c"], "submit": [0.0, 10.0, 20.0]})
    >>> window(Trace(tasks=tasks), 10, 20).tasks.select("id", "submit").rows()
    [('b', 0.0)]
    """
    within = Interval(_time(start, "start"), _time(end, "end"))
    if within.start is not None and within.end is not None and within.end < within.start:
        raise InputError(f"{end} s lies before the start, {start} s", field="end")
    if by not in _MOMENTS:
        raise InputError(f"'{by}' is no moment", field="by", remedy=f"one of {', '.join(_MOMENTS)}")
    inside = within.holds(_moments(trace, by))
    kept = keep_tasks(trace, inside, "not in the window", within)
    parameters = {"start": within.start, "end": within.end, "by": by, "rebase": rebase}
    edit = Edit(operation="window", parameters=parameters)
    return _rebased(kept, within.start if rebase else None).with_manifest(edit=edit)


def trim(
    trace: Trace,
    *,
    warm_up: float | str = 0.0,
    cool_down: float | str = 0.0,
    rebase: bool = True,
) -> Trace:
    """The log without its begin and its end, while a system fills up and runs empty.

    Args:
        trace: The log.
        warm_up: What is cut off after the first submission: seconds, or a share of the time from
            the first to the last submission, such as "5%".
        cool_down: What is cut off before the last submission, likewise.
        rebase: Whether the new begin becomes t = 0.

    >>> tasks = pl.DataFrame({"id": list("abcde"), "submit": [0.0, 10.0, 20.0, 30.0, 40.0]})
    >>> trim(Trace(tasks=tasks), warm_up=10, cool_down="25%").tasks["id"].to_list()
    ['b', 'c']
    """
    submit = pl.col("submit")
    first, last = trace.tasks.select(first=submit.min(), last=submit.max()).row(0)
    if first is None:
        raise InputError("no task of the trace has a submission time", field="submit")
    head = _length(warm_up, last - first, "warm_up")
    tail = _length(cool_down, last - first, "cool_down")
    within = Interval(first + head if head else None, last - tail if tail else None)
    inside = within.holds(trace.tasks["submit"])
    if not inside.any():
        raise InputError(
            f"this leaves nothing of the {last - first:g} s of submissions",
            field="warm_up and cool_down",
        )
    kept = keep_tasks(trace, inside, "in warm-up or cool-down", within)
    parameters = {"warm_up": warm_up, "cool_down": cool_down, "rebase": rebase}
    edit = Edit(operation="trim", parameters=parameters)
    return _rebased(kept, within.start if rebase else None).with_manifest(edit=edit)


def select(
    trace: Trace,
    *,
    users: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    where: pl.Expr | None = None,
    invert: bool = False,
) -> Trace:
    """The tasks of these users, in these queues, for which an expression on `tasks` holds.

    A task of which that is not known is not selected; `invert` gives all the tasks that are not
    selected, so that the two divide the log. What belongs to no task, such as power, stays.

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
        chosen &= _where(trace.tasks, where)
    if not parameters:
        raise InputError("nothing says which tasks", remedy="give users, queues or where")
    kept = keep_tasks(trace, chosen != invert, "not selected", None)
    return kept.with_manifest(
        edit=Edit(operation="select", parameters=parameters | {"invert": invert})
    )


def _where(tasks: pl.DataFrame, where: pl.Expr) -> pl.Series:
    remedy = "an expression on columns of tasks, true or false for each"
    try:
        holds = tasks.select(where.alias("holds"))["holds"]
    except pl.exceptions.PolarsError as error:
        raise InputError(str(error).partition("\n")[0], field="where", remedy=remedy) from None
    if holds.dtype != pl.Boolean or holds.len() != tasks.height:
        raise InputError(f"gives {holds.dtype}, {holds.len()} rows", field="where", remedy=remedy)
    return holds.fill_null(False)


def _moments(trace: Trace, by: Moment) -> pl.Series:
    if by == "submit":
        return trace.tasks["submit"]
    of_task = pl.col("start").min() if by == "start" else pl.col("end").max()
    moments = trace.placements.group_by("task").agg(moment=of_task)
    tasks = trace.tasks.select(task="id")
    return tasks.join(moments, on="task", how="left", maintain_order="left")["moment"]


def _rebased(trace: Trace, start: float | None) -> Trace:
    if start is None:
        return trace
    # Whole milliseconds, rounded down: the epoch stays exact and no time becomes negative.
    moved = math.floor(start * 1000)
    epoch = trace.manifest.epoch_ms
    return shift_times(trace, -moved / 1000).with_manifest(
        epoch_ms=None if epoch is None else epoch + moved
    )


def _time(value: float | None, field: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise InputError(f"{value} is no time", field=field, remedy="seconds, or None")
    return value


def _length(value: float | str, whole: float, field: str) -> float:
    remedy = "seconds, or a share such as '5%'"
    try:
        if isinstance(value, str):
            share = value.strip()
            length = float(share.removesuffix("%")) * (whole / 100 if share.endswith("%") else 1)
        else:
            length = float(value)
    except ValueError:
        raise InputError(f"'{value}' is no length of time", field=field, remedy=remedy) from None
    if not (math.isfinite(length) and length >= 0):
        raise InputError(f"{value} is no length of time", field=field, remedy=remedy)
    return length
