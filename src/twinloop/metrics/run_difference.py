"""Difference of two runs: figures, tasks, users, scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.catalogue import FIGURES
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.tasks import per_task
from twinloop.metrics.trace_figures import Figures, figures
from twinloop.trace.host_placements import place_on_hosts
from twinloop.trace.trace import Trace, require_trace

#: Starts and waits that differ by no more than this (s) are equal.
TIME_TOLERANCE = 1e-6
#: Maximum number of tasks and of users listed.
MAX_LISTED = 5
#: Maximum number of IDs of unmatched tasks listed.
_MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class UnmatchedTasks:
    """Tasks that are in only one of two traces: count and first IDs.

    >>> UnmatchedTasks(count=1, examples=("job 7",)).count
    1
    """

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the scenario or the manifest that differs between two traces; None if absent.

    >>> FieldChange("policy.name", "fcfs", "easy").field
    'policy.name'
    """

    field: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """Difference of trace b from trace a.

    Tasks are matched by ID. `earlier`, `later` and `same` count the tasks that ran in both, by
    their first start (same: within a microsecond); `elsewhere` counts tasks that ran on other
    machines, None if the machines are unknown. A change is b minus a.

    - `statuses`: a frame of `a`, `b`, `tasks`: the number of tasks per pair of different statuses.
    - `starts`: the at most five tasks with the largest change of start: `id`, `user`, `start_a`,
      `start_b`, `change` (s).
    - `users`: the waits of each user over the tasks that ran in both: `user`, `tasks`,
      `wait_mean_a`, `wait_mean_b`, `change` (of the mean) and `total` (of the sum), in s,
      sorted by `total`.
    """

    a: Figures
    b: Figures
    scenario: tuple[FieldChange, ...]
    #: Whether neither manifest has a scenario.
    without_scenario: bool
    matched: int
    only_a: UnmatchedTasks
    only_b: UnmatchedTasks
    earlier: int
    later: int
    same: int
    elsewhere: int | None
    statuses: pl.DataFrame
    starts: pl.DataFrame
    users: pl.DataFrame

    @property
    def figures(self) -> pl.DataFrame:
        """The figures of both traces: `figure`, `unit`, `a`, `b`, `change`, `relative` (to a).

        Figures that are unknown in both traces are left out.
        """
        before, after = self.a.to_dict(), self.b.to_dict()
        rows = [
            (name, FIGURES[name].unit, to_float(before[name]), to_float(after[name]))
            for name in FIGURES
            if before[name] is not None or after[name] is not None
        ]
        columns = {"figure": pl.String, "unit": pl.String, "a": pl.Float64, "b": pl.Float64}
        change = pl.col("b") - pl.col("a")
        return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
            change=change, relative=pl.when(pl.col("a") != 0).then(change / pl.col("a").abs())
        )

    @property
    def gains(self) -> pl.DataFrame:
        """The users who wait less in b than in a, the largest gain first."""
        return self.users.filter(pl.col("total") < -TIME_TOLERANCE).head(MAX_LISTED)

    @property
    def losses(self) -> pl.DataFrame:
        """The users who wait longer in b than in a, the largest loss first."""
        return self.users.reverse().filter(pl.col("total") > TIME_TOLERANCE).head(MAX_LISTED)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain data."""
        return {
            "figures": self.figures.to_dicts(),
            "without_scenario": self.without_scenario,
            "scenario": [{"field": c.field, "a": c.a, "b": c.b} for c in self.scenario],
            "tasks": {
                "matched": self.matched,
                "only_a": {"count": self.only_a.count, "examples": list(self.only_a.examples)},
                "only_b": {"count": self.only_b.count, "examples": list(self.only_b.examples)},
                "earlier": self.earlier,
                "later": self.later,
                "same": self.same,
                "elsewhere": self.elsewhere,
                "statuses": self.statuses.to_dicts(),
                "starts": self.starts.to_dicts(),
            },
            "users": {"gains": self.gains.to_dicts(), "losses": self.losses.to_dicts()},
            "notes": {"a": list(self.a.notes), "b": list(self.b.notes)},
        }

    def __repr__(self) -> str:
        return (
            f"<Difference over {self.matched:,} tasks in both traces: {self.earlier:,} start "
            f"earlier, {self.later:,} later, {self.same:,} at the same time>"
        )


def difference(a: Trace, b: Trace) -> Difference:
    """Compute the difference of trace b from trace a.

    >>> tasks = pl.DataFrame({"id": ["x", "y"], "submit": [0.0, 0.0]})
    >>> def run(*starts):
    ...     placed = pl.DataFrame({"task": ["x", "y"], "start": starts, "end": [30.0, 30.0]})
    ...     return Trace(tasks=tasks, placements=placed)
    >>> difference(run(0.0, 10.0), run(0.0, 4.0))
    <Difference over 2 tasks in both traces: 1 start earlier, 0 later, 1 at the same time>
    """
    tasks_a, tasks_b = _read_tasks(require_trace(a), "a"), _read_tasks(require_trace(b), "b")
    both = tasks_a.join(tasks_b, on="id", how="inner", suffix="_b", maintain_order="left")
    ran = both.drop_nulls(["start", "start_b"])
    shift = ran["start_b"] - ran["start"]
    status_changed = both.filter(pl.col("status").ne_missing(pl.col("status_b")))
    return Difference(
        a=figures(a),
        b=figures(b),
        scenario=(
            *_find_changes(_select_manifest_fields(a), _select_manifest_fields(b)),
            *_find_changes(a.manifest.scenario, b.manifest.scenario),
        ),
        without_scenario=a.manifest.scenario is None and b.manifest.scenario is None,
        matched=both.height,
        only_a=_find_unmatched(tasks_a, tasks_b),
        only_b=_find_unmatched(tasks_b, tasks_a),
        earlier=int((shift < -TIME_TOLERANCE).sum()),
        later=int((shift > TIME_TOLERANCE).sum()),
        same=int((shift.abs() <= TIME_TOLERANCE).sum()),
        elsewhere=_count_on_other_machines(a, b, ran["id"]),
        statuses=status_changed.group_by(a="status", b="status_b")
        .agg(tasks=pl.len().cast(pl.Int64))
        .sort(["tasks", "a", "b"], descending=[True, False, False]),
        starts=ran.select("id", "user", start_a="start", start_b="start_b", change=shift)
        .filter(pl.col("change").abs() > TIME_TOLERANCE)
        .sort([pl.col("change").abs(), "id"], descending=[True, False])
        .head(MAX_LISTED),
        users=_compare_users(ran),
    )


def _read_tasks(trace: Trace, label: str) -> pl.DataFrame:
    tasks = per_task(trace).select("id", "user", "status", "start", "wait").drop_nulls("id")
    duplicates = tasks.filter(pl.col("id").is_duplicated())["id"]
    if duplicates.len():
        raise InputError(
            f"two tasks of trace {label} have the ID '{duplicates[0]}'",
            kind="duplicate-name",
            field="id",
            remedy="twinloop check lists such tasks",
        )
    return tasks


def _find_unmatched(tasks: pl.DataFrame, other_tasks: pl.DataFrame) -> UnmatchedTasks:
    ids = tasks.join(other_tasks, on="id", how="anti", maintain_order="left")["id"]
    return UnmatchedTasks(ids.len(), tuple(ids.head(_MAX_EXAMPLES)))


def _count_on_other_machines(a: Trace, b: Trace, ids: pl.Series) -> int | None:
    """Count the tasks that ran on another set of machines; None if a machine is unknown."""
    # The names of instances are those of requests: their hosts are compared.
    pairs = [
        place_on_hosts(trace).placements.select("task", "machine").unique() for trace in (a, b)
    ]
    if any(pair["machine"].null_count() or not pair.height for pair in pairs):
        return None
    pairs_a, pairs_b = pairs
    moved_tasks = [
        pairs_here.join(pairs_there, on=["task", "machine"], how="anti")["task"]
        for pairs_here, pairs_there in ((pairs_a, pairs_b), (pairs_b, pairs_a))
    ]
    return int(ids.is_in(pl.concat(moved_tasks).unique().implode()).sum())


def _compare_users(ran: pl.DataFrame) -> pl.DataFrame:
    return (
        ran.drop_nulls(["wait", "wait_b"])
        .group_by("user")
        .agg(
            tasks=pl.len().cast(pl.Int64),
            wait_mean_a=pl.col("wait").mean(),
            wait_mean_b=pl.col("wait_b").mean(),
            change=(pl.col("wait_b") - pl.col("wait")).mean(),
            total=(pl.col("wait_b") - pl.col("wait")).sum(),
        )
        .sort("total", "user")
    )


def _select_manifest_fields(trace: Trace) -> dict[str, Any]:
    """Return the fields of a manifest, other than the scenario, that two runs may differ in."""
    manifest = trace.manifest
    files = manifest.source.files if manifest.source else ()
    return {
        "kind": manifest.kind,
        "epoch_ms": manifest.epoch_ms,
        "source": {file.name: file.sha256 for file in files} or None,
    }


def _find_changes(a: Any, b: Any, field: str = "") -> Iterator[FieldChange]:
    """Find the innermost fields in which two documents differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _find_changes(
                a.get(key), b.get(key), f"{field}.{key}" if field else str(key)
            )
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for index, (item_a, item_b) in enumerate(zip(a, b, strict=True)):
            yield from _find_changes(item_a, item_b, f"{field}[{index}]")
    elif a != b:
        yield FieldChange(field or "scenario", a, b)
