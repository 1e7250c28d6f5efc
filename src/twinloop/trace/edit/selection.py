"""Some tasks of a Trace, and what belongs to them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.trace.quality.source_positions import note_rows
from twinloop.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start` on and before `end`; None: without a bound there.

    >>> Interval(1.0, 3.0).holds(pl.Series([0.0, 1.0, 3.0, None])).to_list()
    [False, True, False, False]
    """

    start: float | None
    end: float | None

    def holds(self, times: pl.Series) -> pl.Series:
        """Which of the times lie in it."""
        inside = times.is_not_null()
        if self.start is not None:
            inside &= times >= self.start
        if self.end is not None:
            inside &= times < self.end
        return inside.fill_null(False)

    def holds_end(self, times: pl.Series) -> pl.Series:
        """Which of the windows that end at these times end in it: its end counts, its start not."""
        inside = times.is_not_null()
        if self.start is not None:
            inside &= times > self.start
        if self.end is not None:
            inside &= times <= self.end
        return inside.fill_null(False)


def keep_tasks(trace: Trace, inside: pl.Series, why: str, within: Interval | None) -> Trace:
    """The trace with only the tasks `inside`, and with what belongs to them.

    What belongs to no task (power, decisions on machines, samples of unknown processes) is kept
    if it lies `within` an interval, or always. The nodes and their states stay.
    """
    tasks = trace.tasks.with_row_index("row")
    stay = tasks.filter(inside)["id"].drop_nulls()
    gone = tasks.filter(~inside)["id"].drop_nulls()
    gone = gone.filter(~gone.is_in(stay.implode()))
    known = trace.tasks["id"].drop_nulls()

    uses = _among(trace.task_files["task"], gone)
    files = trace.files["file"]
    used_before = _among(files, trace.task_files["file"])
    used_still = _among(files, trace.task_files.filter(~uses)["file"])
    out = {
        "tasks": ~inside,
        "placements": _among(trace.placements["task"], gone),
        "usage": _among(trace.usage["task"], gone),
        "decisions": _among(trace.decisions["subject"], gone),
        "task_files": uses,
        "files": used_before & ~used_still,
    }
    if within is not None:
        usage, decisions = trace.usage, trace.decisions
        out["usage"] |= ~_among(usage["task"], known) & ~within.holds_end(usage["t"])
        out["decisions"] |= ~_among(decisions["subject"], known) & ~within.holds(decisions["t"])
        out["power"] = ~within.holds_end(trace.power["t"])

    tables = trace.tables
    notes: list[Cleaning] = []
    for table, mask in out.items():
        rows = tables[table].with_row_index("row").filter(mask)["row"]
        of = "tasks" if table == "tasks" else f"rows of {table} of tasks"
        notes.append(note_rows(trace, "removed", f"{of} {why}", table, rows))
        tables = {**tables, table: tables[table].filter(~mask)}
    orphaned, lost = _without_parents(tables["tasks"], gone)
    notes.append(Cleaning(kind="removed", what=f"parents {why}", count=lost))
    kept = trace.replace(manifest=trace.manifest, **{**tables, "tasks": orphaned})
    return kept.with_manifest(cleaned=notes)


def _among(values: pl.Series, names: pl.Series) -> pl.Series:
    return values.is_in(names.implode()).fill_null(False)


def _without_parents(tasks: pl.DataFrame, gone: pl.Series) -> tuple[pl.DataFrame, int]:
    """The tasks without the parents that are gone, and how many these were."""
    if not gone.len() or tasks["parents"].null_count() == tasks.height:
        return tasks, 0
    left = pl.col("parents").list.filter(~pl.element().is_in(gone.implode()))
    lost = pl.col("parents").list.len() - left.list.len()
    count = int(tasks.select(lost.sum()).item() or 0)
    # With its last parent goes the pause that was counted from its end.
    last = (lost > 0) & (left.list.len() == 0)
    think_time = pl.when(last.fill_null(False)).then(None).otherwise("think_time")
    return tasks.with_columns(parents=left, think_time=think_time), count
