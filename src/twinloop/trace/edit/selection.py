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
        """Return for each end of a window whether it is in the interval, end included."""
        inside = times.is_not_null()
        if self.start is not None:
            inside &= times > self.start
        if self.end is not None:
            inside &= times <= self.end
        return inside.fill_null(False)


def keep_tasks(trace: Trace, inside: pl.Series, why: str, within: Interval | None) -> Trace:
    """Keep only the tasks `inside`, and the rows that belong to them.

    Rows that belong to no task (power, decisions on machines, samples of unknown processes) are
    kept if they are `within` an interval, or always if it is None. Nodes and node states are kept;
    files and rented instances are removed if only removed tasks use them. `why` completes the
    notes: "tasks ...".
    """
    tasks = trace.tasks.with_row_index("row")
    kept_ids = tasks.filter(inside)["id"].drop_nulls()
    removed_ids = tasks.filter(~inside)["id"].drop_nulls()
    removed_ids = removed_ids.filter(~removed_ids.is_in(kept_ids.implode()))
    ids = trace.tasks["id"].drop_nulls()

    removed_uses = _is_in(trace.task_files["task"], removed_ids)
    files = trace.files["file"]
    used_before = _is_in(files, trace.task_files["file"])
    used_still = _is_in(files, trace.task_files.filter(~removed_uses)["file"])
    instances = _find_removed_instances(trace, removed_ids, within)
    removed = {
        "tasks": ~inside,
        "placements": _is_in(trace.placements["task"], removed_ids),
        "usage": _is_in(trace.usage["task"], removed_ids),
        "decisions": _is_in(trace.decisions["subject"], removed_ids),
        "task_files": removed_uses,
        "task_times": _is_in(trace.task_times["task"], removed_ids),
        "files": used_before & ~used_still,
        "instances": _is_in(trace.instances["instance"], instances),
        "instance_states": _is_in(trace.instance_states["instance"], instances),
        "transfers": _is_in(trace.transfers["subject"], pl.concat([removed_ids, instances])),
        "boots": _is_in(trace.boots["instance"], instances),
    }
    if within is not None:
        usage, decisions = trace.usage, trace.decisions
        removed["usage"] |= ~_is_in(usage["task"], ids) & ~within.contains_end(usage["t"])
        removed["decisions"] |= ~_is_in(decisions["subject"], ids) & ~within.contains(
            decisions["t"]
        )
        # The tasks of an instance without a name are unknown, so only its request counts.
        unnamed = trace.boots["instance"].is_null()
        removed["boots"] |= unnamed & ~within.contains(trace.boots["provisioned"])
        removed["power"] = ~within.contains_end(trace.power["t"])

    tables = trace.tables
    notes: list[Cleaning] = []
    for table, mask in removed.items():
        rows = tables[table].with_row_index("row").filter(mask)["row"]
        what = {"tasks": "tasks", "power": "rows of power"}.get(table, f"rows of {table} of tasks")
        notes.append(note_rows(trace, "removed", f"{what} {why}", table, rows))
        tables = {**tables, table: tables[table].filter(~mask)}
    tasks, removed_parents = _remove_parents(tables["tasks"], removed_ids)
    notes.append(Cleaning(kind="removed", what=f"parents {why}", count=removed_parents))
    kept = trace.replace(manifest=trace.manifest, **{**tables, "tasks": tasks})
    return kept.with_manifest(cleaned=notes)


def _find_removed_instances(
    trace: Trace, removed_ids: pl.Series, within: Interval | None
) -> pl.Series:
    """Return the names of rented instances of removed tasks, or of no task and not `within`."""
    rented = trace.instances.drop_nulls("requested")
    names = rented["instance"]
    if not names.len():
        return names
    is_removed = _is_in(trace.placements["task"], removed_ids)
    machines = trace.placements["machine"]
    kept, gone = machines.filter(~is_removed), machines.filter(is_removed)
    removed = _is_in(names, gone) & ~_is_in(names, kept)
    if within is not None:
        removed |= ~_is_in(names, machines) & ~within.contains(rented["requested"])
    return names.filter(removed)


def _is_in(values: pl.Series, names: pl.Series) -> pl.Series:
    return values.is_in(names.implode()).fill_null(False)


def _remove_parents(tasks: pl.DataFrame, removed_ids: pl.Series) -> tuple[pl.DataFrame, int]:
    """Remove the parents with these ids; return the tasks and the number of removed parents."""
    if not removed_ids.len() or tasks["parents"].null_count() == tasks.height:
        return tasks, 0
    remaining = pl.col("parents").list.filter(~pl.element().is_in(removed_ids.implode()))
    removed = pl.col("parents").list.len() - remaining.list.len()
    count = int(tasks.select(removed.sum()).item() or 0)
    # The think time counts from the end of the parents, so it is removed with the last parent.
    all_removed = (removed > 0) & (remaining.list.len() == 0)
    think_time = pl.when(all_removed.fill_null(False)).then(None).otherwise("think_time")
    return tasks.with_columns(parents=remaining, think_time=think_time), count
