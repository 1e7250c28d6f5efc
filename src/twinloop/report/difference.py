"""How two runs differ, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twinloop.metrics import Difference
from twinloop.report import words

#: What a reader wants to know first: what a figure is called, and being less and being more of it.
_HEADLINES = {
    "makespan_s": ("makespan", "shorter", "longer"),
    "wait_mean_s": ("mean wait", "shorter", "longer"),
    "wait_p95_s": ("95th percentile of the waits", "shorter", "longer"),
    "wait_max_s": ("longest wait", "shorter", "longer"),
    "bounded_slowdown_mean": ("mean bounded slowdown", "lower", "higher"),
    "utilisation": ("utilisation", "lower", "higher"),
    "energy_j": ("energy", "lower", "higher"),
    "energy_per_task_j": ("energy per completed task", "lower", "higher"),
    "carbon_g": ("carbon", "lower", "higher"),
    "cost": ("cost", "lower", "higher"),
    "lateness_mean_s": ("mean lateness of submissions", "lower", "higher"),
}
#: How many fields of a scenario are named, and how much of a value is shown.
_FIELDS = 20
_LONGEST = 60


def difference_words(difference: Difference) -> str:
    """What differs between run A and run B, a line each.

    >>> import polars as pl
    >>> from twinloop.metrics import difference
    >>> from twinloop.trace import Trace
    >>> tasks = pl.DataFrame({"id": ["x", "y"], "user": ["u", "v"], "submit": [0.0, 0.0]})
    >>> def run(*starts):
    ...     placed = pl.DataFrame({"task": ["x", "y"], "cores": [1.0, 1.0], "start": starts})
    ...     return Trace(tasks=tasks, placements=placed.with_columns(end=pl.col("start") + 60))
    >>> print(difference_words(difference(run(0.0, 60.0), run(0.0, 15.0))))
    neither run keeps a scenario
    the makespan is shorter in B: 2 min in A, 75 s in B (-37.5 %)
    the mean wait is shorter in B: 30 s in A, 7.5 s in B (-75 %)
    the 95th percentile of the waits is shorter in B: 57 s in A, 14.2 s in B (-75 %)
    the longest wait is shorter in B: 60 s in A, 15 s in B (-75 %)
    the mean bounded slowdown is lower in B: 1.5 in A, 1.12 in B (-25 %)
    2 tasks are in both; first starts in B: 1 earlier, 0 later, 1 at the same time
      task y of user v: 45 s earlier, at 60 s in A and at 15 s in B
    user v waits less in B: 45 s in all over 1 task, on average 60 s in A and 15 s in B
    """
    parts = (_scenarios, _headlines, _tasks, _users, _notes)
    return "\n".join(line for part in parts for line in part(difference))


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit, as people say it.

    >>> amount(5400.0, "s"), amount(7.2e6, "J"), amount(0.701, ""), amount(None, "s")
    ('1.5 h', '2 kWh', '0.701', '-')
    """
    if value is None:
        return "-"
    if unit == "s":
        return words.duration(value)
    if unit == "J" and abs(value) >= 3.6e5:
        return f"{words.number(value / 3.6e6)} kWh"
    if unit == "1/s":
        return f"{words.number(value * 86400)} a day"
    return f"{words.number(value)} {unit}".rstrip()


def percent(share: float | None) -> str:
    """A relative change.

    >>> percent(-0.25), percent(0.0), percent(None)
    ('-25 %', '0 %', '-')
    """
    return "-" if share is None else f"{share * 100:+.3g} %" if share else "0 %"


def _scenarios(difference: Difference) -> Iterator[str]:
    changed = difference.scenario
    for change in changed[:_FIELDS]:
        if change.field != "scenario":
            yield f"{change.field}: {_value(change.a)} in A, {_value(change.b)} in B"
        elif change.a is None or change.b is None:
            yield f"run {'A' if change.a is None else 'B'} keeps no scenario"
    if len(changed) > _FIELDS:
        yield f"and {words.count(len(changed) - _FIELDS, 'other field')} of the scenarios"
    if difference.without_scenario:
        yield "neither run keeps a scenario"
    elif not changed:
        yield "both runs come from the same scenario"


def _value(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _headlines(difference: Difference) -> Iterator[str]:
    frame = difference.figures
    if frame.height and frame["a"].eq_missing(frame["b"]).all():
        yield "all figures are the same"
        return
    for row in frame.iter_rows(named=True):
        if row["figure"] not in _HEADLINES or not row["change"]:
            continue
        called, less, more = _HEADLINES[row["figure"]]
        a, b = amount(row["a"], row["unit"]), amount(row["b"], row["unit"])
        share = "" if row["relative"] is None else f" ({percent(row['relative'])})"
        how = less if row["change"] < 0 else more
        yield f"the {called} is {how} in B: {a} in A, {b} in B{share}"


def _tasks(difference: Difference) -> Iterator[str]:
    for only, here, there in ((difference.only_a, "A", "B"), (difference.only_b, "B", "A")):
        if only.count:
            named = ", ".join(only.examples) + (", ..." if only.count > len(only.examples) else "")
            yield f"{words.count(only.count, 'task')} of {here} not in {there}: {named}"
    if not difference.matched:
        yield "no task is in both: they are matched by their ids"
        return
    are = "is" if difference.matched == 1 else "are"
    text = (
        f"{words.count(difference.matched, 'task')} {are} in both; first starts in B: "
        f"{difference.earlier:,} earlier, {difference.later:,} later, "
        f"{difference.same:,} at the same time"
    )
    if difference.elsewhere:
        text += f"; {difference.elsewhere:,} on other machines"
    yield text
    for row in difference.statuses.iter_rows(named=True):
        before, after = row["a"] or "of unknown status", row["b"] or "of unknown status"
        yield f"  {words.count(row['tasks'], 'task')} {before} in A and {after} in B"
    for row in difference.starts.iter_rows(named=True):
        user = "" if row["user"] is None else f" of user {row['user']}"
        how = "earlier" if row["change"] < 0 else "later"
        yield (
            f"  task {row['id']}{user}: {words.duration(abs(row['change']))} {how}, "
            f"at {words.duration(row['start_a'])} in A and at {words.duration(row['start_b'])} in B"
        )


def _users(difference: Difference) -> Iterator[str]:
    for frame, how in ((difference.gains, "less"), (difference.losses, "more")):
        for row in frame.iter_rows(named=True):
            if row["user"] is None:
                continue
            yield (
                f"user {row['user']} waits {how} in B: {words.duration(abs(row['total']))} in all "
                f"over {words.count(row['tasks'], 'task')}, on average "
                f"{words.duration(row['wait_mean_a'])} in A and "
                f"{words.duration(row['wait_mean_b'])} in B"
            )


def _notes(difference: Difference) -> Iterator[str]:
    for called, figures in (("A", difference.a), ("B", difference.b)):
        for note in figures.notes:
            yield f"note on {called}: {note}"
