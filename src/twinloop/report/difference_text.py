"""Description of the difference between two runs, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinloop.description.safe_text import join_lines
from twinloop.metrics import Difference
from twinloop.metrics.run_difference import FieldChange
from twinloop.report.kpi_text import MONEY
from twinloop.report.quantity_text import (
    format_count,
    format_duration,
    format_number,
    format_price,
)

#: The figures that are described: name, adjective for less, adjective for more.
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
    "bill": ("bill", "lower", "higher"),
    "lateness_mean_s": ("mean lateness of submissions", "lower", "higher"),
}
#: Ratio from which a factor is printed instead of a percentage.
_MIN_FACTOR = 10
#: Energy (J) from which energies are printed in kWh.
_MIN_KWH_JOULES = 3.6e5
#: Fields that map file names to hashes, and the noun for such a file.
_FILE_FIELDS = {"source": "source", "inputs": "input"}
#: Maximum number of fields of a scenario that are listed, and of characters of a value.
_MAX_FIELDS = 20
_MAX_LENGTH = 60


def describe_difference(difference: Difference) -> str:
    """Describe the difference between run A and run B, a line per finding.

    >>> import polars as pl
    >>> from twinloop.metrics import difference
    >>> from twinloop.trace import Trace
    >>> tasks = pl.DataFrame({"id": ["x", "y"], "user": ["u", "v"], "submit": [0.0, 0.0]})
    >>> def run(*starts):
    ...     placed = pl.DataFrame({"task": ["x", "y"], "cores": [1.0, 1.0], "start": starts})
    ...     return Trace(tasks=tasks, placements=placed.with_columns(end=pl.col("start") + 60))
    >>> print(describe_difference(difference(run(0.0, 60.0), run(0.0, 15.0))))
    neither run has a scenario
    the makespan is shorter in B: 2 min in A, 75 s in B (-37.5 %)
    the mean wait is shorter in B: 30 s in A, 7.5 s in B (-75 %)
    the 95th percentile of the waits is shorter in B: 57 s in A, 14.2 s in B (-75 %)
    the longest wait is shorter in B: 60 s in A, 15 s in B (-75 %)
    the mean bounded slowdown is lower in B: 1.5 in A, 1.12 in B (-25 %)
    2 tasks are in both; first starts in B: 1 earlier, 0 later, 1 at the same time
      task y of user v: 45 s earlier, at 60 s in A and at 15 s in B
    user v waits less in B: 45 s in all over 1 task, on average 60 s in A and 15 s in B
    """
    parts = (
        _describe_scenarios,
        _describe_headlines,
        _describe_tasks,
        _describe_users,
        _describe_notes,
    )
    return join_lines(line for part in parts for line in part(difference))


def format_amounts(values: Sequence[float | None], unit: str, figure: str = "") -> list[str]:
    """Format figures that are shown side by side, with one unit for all energies.

    >>> format_amounts([5400.0, 90.0], "s"), format_amounts([0.701], "")
    (['1.5 h', '90 s'], ['0.701'])
    >>> format_amounts([7.2e6, 3.6e4, None], "J")
    ['2 kWh', '0.01 kWh', '-']
    >>> format_amounts([21.75, 20.0], "", "bill")
    ['21.75', '20']
    """
    if figure in MONEY:
        return ["-" if value is None else format_price(value) for value in values]
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit == "J" and largest >= _MIN_KWH_JOULES:
        return [_format_amount(None if value is None else value / 3.6e6, "kWh") for value in values]
    return [_format_amount(value, unit) for value in values]


def _format_amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s":
        return format_duration(value)
    if unit == "1/s":
        return f"{format_number(value * 86400)} a day"
    return f"{format_number(value)} {unit}".rstrip()


def format_relative_change(a: float | None, b: float | None) -> str:
    """Format the change from a to b as a percentage, or as a factor where it is large.

    >>> [format_relative_change(a, b) for a, b in ((4.0, 3.0), (2.0, 2.0), (3.0, 82.2), (0.0, 1.0))]
    ['-25 %', '0 %', '27.4 times', '-']
    """
    if a is None or b is None or a == 0:
        return "-"
    if a > 0 and b >= _MIN_FACTOR * a:
        return f"{format_number(b / a)} times"
    share = 100 * (b - a) / abs(a)
    return f"{'+' if share > 0 else ''}{format_number(share)} %"


def find_differing_figures(difference: Difference) -> Iterator[dict[str, Any]]:
    """Find the rows of `Difference.figures` where A and B differ by more than rounding.

    >>> from twinloop.metrics import difference
    >>> from twinloop.trace import Trace
    >>> list(find_differing_figures(difference(Trace(), Trace())))
    []
    """
    for row in difference.figures.iter_rows(named=True):
        a, b = row["a"], row["b"]
        same = a is b if a is None or b is None else abs(a - b) <= 1e-12 * max(abs(a), abs(b))
        if not same:
            yield row


def _describe_scenarios(difference: Difference) -> Iterator[str]:
    changed = difference.scenario
    for change in changed[:_MAX_FIELDS]:
        section, _, file = change.field.partition(".")
        if section in _FILE_FIELDS and file:
            yield f"{_FILE_FIELDS[section]} {file}: {_describe_file_change(change)}"
        elif section in _FILE_FIELDS:
            files_a, files_b = _format_files(change.a), _format_files(change.b)
            yield f"{_FILE_FIELDS[section]}: {files_a} in A, {files_b} in B"
        elif change.field != "scenario":
            yield f"{change.field}: {_format_value(change.a)} in A, {_format_value(change.b)} in B"
        elif change.a is None or change.b is None:
            yield f"run {'A' if change.a is None else 'B'} has no scenario"
    if len(changed) > _MAX_FIELDS:
        yield f"and {format_count(len(changed) - _MAX_FIELDS, 'other field')} of the scenarios"
    if difference.without_scenario:
        yield "neither run has a scenario"
    elif not changed:
        yield "both runs come from the same scenario"


def _format_value(value: Any) -> str:
    return _shorten("nothing" if value is None else _value_to_text(value))


def _value_to_text(value: Any) -> str:
    """Format a value of a scenario in the style of a YAML file."""
    if isinstance(value, Mapping):
        parts = (
            f"{name}: {_value_to_text(item)}" for name, item in value.items() if item is not None
        )
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value_to_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_files(hashes: Mapping[str, str] | None) -> str:
    return _shorten(", ".join(hashes)) if hashes else "no file"


def _describe_file_change(change: FieldChange) -> str:
    if change.a is not None and change.b is not None:
        return "other content in B"
    return "only in A" if change.b is None else "only in B"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def _describe_headlines(difference: Difference) -> Iterator[str]:
    rows = list(find_differing_figures(difference))
    if not rows:
        yield "all figures are the same"
    for row in rows:
        if row["figure"] not in _HEADLINES or row["change"] is None:
            continue
        name, less, more = _HEADLINES[row["figure"]]
        a, b = format_amounts([row["a"], row["b"]], row["unit"], row["figure"])
        share = f" ({format_relative_change(row['a'], row['b'])})" if row["a"] else ""
        adjective = less if row["change"] < 0 else more
        yield f"the {name} is {adjective} in B: {a} in A, {b} in B{share}"


def _describe_tasks(difference: Difference) -> Iterator[str]:
    for only, own, other in ((difference.only_a, "A", "B"), (difference.only_b, "B", "A")):
        if only.count:
            examples = ", ".join(only.examples) + (
                ", ..." if only.count > len(only.examples) else ""
            )
            yield f"{format_count(only.count, 'task')} of {own} not in {other}: {examples}"
    if not difference.matched:
        yield "no task is in both: they are matched by their ids"
        return
    verb = "is" if difference.matched == 1 else "are"
    text = (
        f"{format_count(difference.matched, 'task')} {verb} in both; {_describe_starts(difference)}"
    )
    if difference.elsewhere:
        text += f"; {difference.elsewhere:,} on other machines"
    yield text
    for row in difference.statuses.iter_rows(named=True):
        before, after = row["a"] or "of unknown status", row["b"] or "of unknown status"
        yield f"  {format_count(row['tasks'], 'task')} {before} in A and {after} in B"
    for row in difference.starts.iter_rows(named=True):
        user = "" if row["user"] is None else f" of user {row['user']}"
        how = "earlier" if row["change"] < 0 else "later"
        yield (
            f"  task {row['id']}{user}: {format_duration(abs(row['change']))} {how}, "
            f"at {format_duration(row['start_a'])} in A and "
            f"at {format_duration(row['start_b'])} in B"
        )


def _describe_starts(difference: Difference) -> str:
    started = difference.earlier + difference.later + difference.same
    if not started:
        reasons = [
            f"no task of {letter} has a start"
            for letter, figures in (("A", difference.a), ("B", difference.b))
            if not figures.ran
        ]
        return " and ".join(reasons) or "none of them has a start in both"
    text = (
        f"first starts in B: {difference.earlier:,} earlier, {difference.later:,} later, "
        f"{difference.same:,} at the same time"
    )
    if missing := difference.matched - started:
        text += f", {missing:,} without a start in A or in B"
    return text


def _describe_users(difference: Difference) -> Iterator[str]:
    for frame, how in ((difference.gains, "less"), (difference.losses, "more")):
        for row in frame.iter_rows(named=True):
            if row["user"] is None:
                continue
            yield (
                f"user {row['user']} waits {how} in B: {format_duration(abs(row['total']))} in all "
                f"over {format_count(row['tasks'], 'task')}, on average "
                f"{format_duration(row['wait_mean_a'])} in A and "
                f"{format_duration(row['wait_mean_b'])} in B"
            )


def _describe_notes(difference: Difference) -> Iterator[str]:
    for letter, figures in (("A", difference.a), ("B", difference.b)):
        for note in figures.notes:
            yield f"note on {letter}: {note}"
