"""Selection of tasks of a Trace with the rows that belong to them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.trace.quality.source_positions import note_rows
from twinloop.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open interval from `start` to `end`; None: unbounded.

    >>> Interval(1.0, 3.0).contains(pl.Series([0.0, 1.0, 3.0, None])).to_list()
    [False, True, False, False]
    """

    start: float | None
    end: float | None

    def contains(self, times: pl.Series) -> pl.Series:
        """Return for each time whether it is in the interval."""
        inside = times.is_not_null()
        if self.start is not None:
            inside &= times >= self.start
        if self.end is not None:
            inside &= times < self.end
        return inside.fill_null(False)

    def contains_end(self, times: pl.Series) -> pl.Series:
        """Return for each end of a window whether it is in the interval (start excluded)."""
        inside = times.is_not_null()
        if self.start is not None:
            inside &= times > self.start
        if self.end is not None:
            inside &= times <= self.end
        return inside.fill_null(False)


def keep_tasks(trace: Trace, inside: pl.Series, why: str, within: Interval | None) -> Trace:
    """Keep only the tasks `inside`, and the rows that belong to them.

    Rows that belong to no task (power, decisions on machines, samples of unknown processes) are
    kept if they are `within` an interval, or always if it is None. Nodes and node states stay.
    """
    tasks = trace.tasks.with_row_index("row")
    stay = tasks.filter(inside)["id"].drop_nulls()
    gone = tasks.filter(~inside)["id"].drop_nulls()
    gone = gone.filter(~gone.is_in(stay.implode()))
    known = trace.tasks["id"].drop_nulls()

    uses = _is_in(trace.task_files["task"], gone)
    files = trace.files["file"]
    used_before = _is_in(files, trace.task_files["file"])
    used_still = _is_in(files, trace.task_files.filter(~uses)["file"])
    out = {
        "tasks": ~inside,
        "placements": _is_in(trace.placements["task"], gone),
        "usage": _is_in(trace.usage["task"], gone),
        "decisions": _is_in(trace.decisions["subject"], gone),
        "task_files": uses,
        "files": used_before & ~used_still,
    }
    if within is not None:
        usage, decisions = trace.usage, trace.decisions
        out["usage"] |= ~_is_in(usage["task"], known) & ~within.contains_end(usage["t"])
        out["decisions"] |= ~_is_in(decisions["subject"], known) & ~within.contains(decisions["t"])
        out["power"] = ~within.contains_end(trace.power["t"])

    tables = trace.tables
    notes: list[Cleaning] = []
    for table, mask in out.items():
        rows = tables[table].with_row_index("row").filter(mask)["row"]
        of = "tasks" if table == "tasks" else f"rows of {table} of tasks"
        notes.append(note_rows(trace, "removed", f"{of} {why}", table, rows))
        tables = {**tables, table: tables[table].filter(~mask)}
    orphaned, lost = _remove_parents(tables["tasks"], gone)
    notes.append(Cleaning(kind="removed", what=f"parents {why}", count=lost))
    kept = trace.replace(manifest=trace.manifest, **{**tables, "tasks": orphaned})
    return kept.with_manifest(cleaned=notes)


def _is_in(values: pl.Series, names: pl.Series) -> pl.Series:
    return values.is_in(names.implode()).fill_null(False)


def _remove_parents(tasks: pl.DataFrame, gone: pl.Series) -> tuple[pl.DataFrame, int]:
    """Remove parents that are gone; return the tasks and the number of removed parents."""
    if not gone.len() or tasks["parents"].null_count() == tasks.height:
        return tasks, 0
    left = pl.col("parents").list.filter(~pl.element().is_in(gone.implode()))
    lost = pl.col("parents").list.len() - left.list.len()
    count = int(tasks.select(lost.sum()).item() or 0)
    # The think time counts from the end of the parents, so it goes with the last of them.
    last = (lost > 0) & (left.list.len() == 0)
    think_time = pl.when(last.fill_null(False)).then(None).otherwise("think_time")
    return tasks.with_columns(parents=left, think_time=think_time), count
