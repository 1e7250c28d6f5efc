"""How two runs differ: figures, tasks, users, scenarios."""

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
from twinloop.trace.trace import Trace, require_trace

#: Two starts that are this close, in s, are the same.
START_TOLERANCE = 1e-6
#: How many tasks and users are named.
MAX_LISTED = 5
_NAMED_ONLY = 3


@dataclass(frozen=True, slots=True)
class UnmatchedTasks:
    """Tasks that one of two traces has and the other has not, and the first few by name.

    >>> UnmatchedTasks(count=1, examples=("job 7",)).count
    1
    """

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the scenario, or of the manifest, that two traces do not share; None: not there.

    >>> FieldChange("policy.name", "fcfs", "easy").field
    'policy.name'
    """

    field: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """How trace b differs from trace a.

    Tasks are matched by their ids. `earlier`, `later` and `same` count the tasks that ran in both,
    by their first start (the same: within a microsecond); `elsewhere` those of them that ran on
    other machines, None where executions do not say their machine. A change is b minus a.

    - `statuses`: a frame of `a`, `b`, `tasks`: the tasks that ended in another way.
    - `starts`: the tasks whose start changed most: `id`, `user`, `start_a`, `start_b`, `change`.
    - `users`: the waits of each user over the tasks that ran in both: `user`, `tasks`,
      `wait_mean_a`, `wait_mean_b`, `change` (of the mean) and `total` (of the sum), in s; who
      gains most comes first.
    """

    a: Figures
    b: Figures
    scenario: tuple[FieldChange, ...]
    #: Does neither manifest keep a scenario?
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
        """The figures side by side: `figure`, `unit`, `a`, `b`, `change`, `relative` (to a).

        Those that neither trace has are left out.
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
        """The users who wait less in b than in a; who gains most comes first."""
        return self.users.filter(pl.col("total") < -START_TOLERANCE).head(MAX_LISTED)

    @property
    def losses(self) -> pl.DataFrame:
        """The users who wait longer in b than in a; who loses most comes first."""
        worst = self.users.reverse().sort("total", descending=True, maintain_order=True)
        return worst.filter(pl.col("total") > START_TOLERANCE).head(MAX_LISTED)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
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
            f"<Difference over {self.matched:,} tasks in both: {self.earlier:,} start earlier, "
            f"{self.later:,} later, {self.same:,} at the same time>"
        )


def difference(a: Trace, b: Trace) -> Difference:
    """How trace b differs from trace a.

    >>> tasks = pl.DataFrame({"id": ["x", "y"], "submit": [0.0, 0.0]})
    >>> def run(*starts):
    ...     placed = pl.DataFrame({"task": ["x", "y"], "start": starts, "end": [30.0, 30.0]})
    ...     return Trace(tasks=tasks, placements=placed)
    >>> difference(run(0.0, 10.0), run(0.0, 4.0))
    <Difference over 2 tasks in both: 1 start earlier, 0 later, 1 at the same time>
    """
    one, other = _named(require_trace(a), "a"), _named(require_trace(b), "b")
    both = one.join(other, on="id", how="inner", suffix="_b", maintain_order="left")
    ran = both.drop_nulls(["start", "start_b"])
    moved = ran["start_b"] - ran["start"]
    unlike = both.filter(pl.col("status").ne_missing(pl.col("status_b")))
    return Difference(
        a=figures(a),
        b=figures(b),
        scenario=(
            *_changed(_facts(a), _facts(b)),
            *_changed(a.manifest.scenario, b.manifest.scenario),
        ),
        without_scenario=a.manifest.scenario is None and b.manifest.scenario is None,
        matched=both.height,
        only_a=_only(one, other),
        only_b=_only(other, one),
        earlier=int((moved < -START_TOLERANCE).sum()),
        later=int((moved > START_TOLERANCE).sum()),
        same=int((moved.abs() <= START_TOLERANCE).sum()),
        elsewhere=_elsewhere(a, b, ran["id"]),
        statuses=unlike.group_by(a="status", b="status_b")
        .agg(tasks=pl.len().cast(pl.Int64))
        .sort(["tasks", "a", "b"], descending=[True, False, False]),
        starts=ran.select("id", "user", start_a="start", start_b="start_b", change=moved)
        .filter(pl.col("change").abs() > START_TOLERANCE)
        .sort([pl.col("change").abs(), "id"], descending=[True, False])
        .head(MAX_LISTED),
        users=_users(ran),
    )


def _named(trace: Trace, called: str) -> pl.DataFrame:
    tasks = per_task(trace).select("id", "user", "status", "start", "wait").drop_nulls("id")
    twice = tasks.filter(pl.col("id").is_duplicated())["id"]
    if twice.len():
        raise InputError(
            f"two tasks of trace {called} are called '{twice[0]}', so that none can be matched",
            field="id",
            remedy="twinloop check names them",
        )
    return tasks


def _only(here: pl.DataFrame, there: pl.DataFrame) -> UnmatchedTasks:
    ids = here.join(there, on="id", how="anti", maintain_order="left")["id"]
    return UnmatchedTasks(ids.len(), tuple(ids.head(_NAMED_ONLY)))


def _elsewhere(a: Trace, b: Trace, ids: pl.Series) -> int | None:
    """How many of the tasks ran on another set of machines."""
    pairs = [trace.placements.select("task", "machine").unique() for trace in (a, b)]
    if any(pair["machine"].null_count() or not pair.height for pair in pairs):
        return None
    one, other = pairs
    moved = [
        here.join(there, on=["task", "machine"], how="anti")["task"]
        for here, there in ((one, other), (other, one))
    ]
    return int(ids.is_in(pl.concat(moved).unique().implode()).sum())


def _users(ran: pl.DataFrame) -> pl.DataFrame:
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


def _facts(trace: Trace) -> dict[str, Any]:
    """What a manifest says besides the scenario, as far as two may differ in it."""
    manifest = trace.manifest
    files = manifest.source.files if manifest.source else ()
    return {
        "kind": manifest.kind,
        "epoch_ms": manifest.epoch_ms,
        "source": {file.name: file.sha256 for file in files} or None,
    }


def _changed(a: Any, b: Any, field: str = "") -> Iterator[FieldChange]:
    """The fields in which two documents differ, the deepest that can be named."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _changed(a.get(key), b.get(key), f"{field}.{key}" if field else str(key))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for place, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _changed(one, other, f"{field}[{place}]")
    elif a != b:
        yield FieldChange(field or "scenario", a, b)
