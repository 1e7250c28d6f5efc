"""The states of the instances and tasks of a client, as the broker Schlouder has them.

They are those of Figures 6 and 7 of the article about SCHIaaS ("Cloud simulation", 2019). The
tables of a run have the states of the provider; these follow from them and the times of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from twinloop.trace.tables import TASK_READS, TASK_WRITES
from twinloop.trace.trace import Trace

#: The states of an instance, and those that can follow each. A boot may fail, an instance may be
#: lost, and it may be given back in every state.
NODE_STATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "FUTURE": ("PENDING",),
        "PENDING": ("BOOTING", "SHUTTINGDOWN", "TERMINATED"),
        "BOOTING": ("IDLE", "SHUTTINGDOWN", "TERMINATED"),
        "IDLE": ("BUSY", "SHUTTINGDOWN", "TERMINATED"),
        "BUSY": ("IDLE", "TERMINATED"),
        "SHUTTINGDOWN": ("TERMINATED",),
        "TERMINATED": (),
    }
)
#: The states of a task, and those that can follow each. After an interruption it is pending again.
TASK_STATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "PENDING": ("SCHEDULED",),
        "SCHEDULED": ("SUBMITTED",),
        "SUBMITTED": ("INPUTTING", "PENDING"),
        "INPUTTING": ("RUNNING", "PENDING"),
        "RUNNING": ("OUTPUTTING", "PENDING"),
        "OUTPUTTING": ("FINISHED", "PENDING"),
        "FINISHED": ("COMPLETE",),
        "COMPLETE": (),
    }
)
_NONE: Final = pl.lit(None, dtype=pl.Float64)


def task_states_of_client(trace: Trace) -> pl.DataFrame:
    """Compute the states of the tasks: `task`, `attempt`, `state`, `start`, `end`.

    A task is PENDING from its submission, also while its parents run; SCHEDULED from its assignment
    to an instance, which is known if the decisions were recorded; SUBMITTED from its start there;
    then INPUTTING, RUNNING and OUTPUTTING; FINISHED after its last output, and COMPLETE from its
    end on. States without duration have rows as well. The end of the last state is null.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "attempt": [0], "machine": ["instance-1"],
    ...                              "start": [30.0], "end": [50.0], "reason": ["completed"]}),
    ...     decisions=pl.DataFrame({"t": [5.0], "kind": ["reserve"], "subject": ["a"]}),
    ...     transfers=pl.DataFrame({"kind": ["read"], "subject": ["a"], "start": [30.0],
    ...                             "end": [33.0]}))
    >>> task_states_of_client(trace).select("state", "start", "end").rows()
    [('PENDING', 0.0, 5.0), ('SCHEDULED', 5.0, 30.0), ('SUBMITTED', 30.0, 30.0),
     ('INPUTTING', 30.0, 33.0), ('RUNNING', 33.0, 50.0), ('OUTPUTTING', 50.0, 50.0),
     ('FINISHED', 50.0, 50.0), ('COMPLETE', 50.0, None)]
    """
    attempts = _list_attempts(trace)
    for kinds, name in ((TASK_READS, "input"), (TASK_WRITES, "output")):
        moved = trace.transfers.filter(pl.col("kind").is_in(kinds)).select(
            "start", "end", task="subject"
        )
        moved = _sort(moved).join_asof(
            attempts.select("task", "attempt", start="start").drop_nulls("start"),
            on="start",
            by="task",
            check_sortedness=False,
        )
        times = moved.group_by("task", "attempt").agg(
            pl.col("start").min().alias(f"{name}_begin"),
            pl.when(pl.col("end").is_not_null().all())
            .then(pl.col("end").max())
            .alias(f"{name}_end"),
        )
        attempts = attempts.join(times, on=["task", "attempt"], how="left")
    is_complete = pl.col("reason") == "completed"
    read = pl.coalesce("input_begin", "start")
    computed = pl.coalesce("input_end", read)
    written = pl.coalesce("output_begin", "end")
    begins = {
        "PENDING": pl.col("begin"),
        "SCHEDULED": pl.coalesce("assigned", "start"),
        "SUBMITTED": pl.col("start"),
        "INPUTTING": read,
        "RUNNING": computed,
        "OUTPUTTING": written,
        "FINISHED": pl.when(is_complete).then(pl.coalesce("output_end", "end")),
        "COMPLETE": pl.when(is_complete).then("end"),
    }
    rows = attempts.with_columns(**begins)
    # An interruption ends the attempt in the state that has begun before.
    later = [name for name in begins if name not in ("PENDING", "SCHEDULED", "SUBMITTED")]
    reached = is_complete.fill_null(value=False) | (pl.col("end").is_null())
    rows = rows.with_columns(
        pl.when(reached | (pl.col(name) < pl.col("end"))).then(name).alias(name) for name in later
    )
    last = pl.when(~is_complete.fill_null(value=False)).then("end").alias("last")
    return _list_states(rows.with_columns(last), ["task", "attempt"], list(begins), pl.col("last"))


def _list_attempts(trace: Trace) -> pl.DataFrame:
    """List the executions of the tasks, and their waits for one: their first assignment."""
    placed = trace.placements.group_by("task", "attempt").agg(
        pl.col("start").min(), pl.col("end").max(), pl.col("reason").first()
    )
    last = placed.group_by("task").agg(pl.col("attempt").max())
    tasks = trace.tasks.filter(pl.col("submit").is_not_null())
    # A task that waits at the end of the run.
    waiting = (
        tasks.filter(pl.col("status").is_null() | ~pl.col("id").is_in(last["task"].implode()))
        .select(task="id")
        .join(last, on="task", how="left")
        .select("task", pl.col("attempt").fill_null(-1) + 1)
    )
    open_ = placed.filter(pl.col("end").is_null())["task"].implode()
    waiting = waiting.filter(~pl.col("task").is_in(open_))
    attempts = pl.concat([placed, waiting], how="diagonal").sort("task", "attempt")
    submit = tasks.select("submit", task="id")
    attempts = attempts.join(submit, on="task", maintain_order="left").with_columns(
        begin=pl.coalesce(pl.col("end").shift().over("task"), "submit")
    )
    assigned = trace.decisions.filter(kind="reserve").select(task="subject", assigned="t")
    return (
        _sort(attempts, "begin")
        .join_asof(
            _sort(assigned, "assigned"),
            left_on="begin",
            right_on="assigned",
            by="task",
            strategy="forward",
            check_sortedness=False,
        )
        .with_columns(
            assigned=pl.when(
                pl.col("start").is_null() | (pl.col("assigned") <= pl.col("start"))
            ).then("assigned")
        )
    )


def node_states_of_client(trace: Trace) -> pl.DataFrame:
    """Compute the states of the rented instances: `instance`, `state`, `start`, `end`.

    An instance is FUTURE from the decision to rent it, PENDING from its request, BOOTING from the
    begin of its boot, IDLE and BUSY without and with tasks, SHUTTINGDOWN when it is given back, and
    TERMINATED from its end on. The decision is the first assignment of the tasks that ran on it, if
    the decisions were recorded, and for an instance that replaces one that has not booted, not
    before the end of that. States without duration have rows as well, but tasks that follow each
    other at once are one state. The end of the last state is null.

    >>> trace = Trace(
    ...     instances=pl.DataFrame({"instance": ["instance-1"], "cloud": ["east"], "start": [2.0],
    ...         "requested": [2.0], "ready": [30.0], "end": [100.0], "reason": ["released"]}),
    ...     instance_states=pl.DataFrame({"instance": ["instance-1"], "start": [3.0], "end": [30.0],
    ...         "state": ["startup"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "attempt": [0], "machine": ["instance-1"],
    ...         "start": [30.0], "end": [50.0], "reason": ["completed"]}))
    >>> node_states_of_client(trace).select("state", "start", "end").rows()
    [('FUTURE', 2.0, 2.0), ('PENDING', 2.0, 3.0), ('BOOTING', 3.0, 30.0), ('IDLE', 30.0, 30.0),
     ('BUSY', 30.0, 50.0), ('IDLE', 50.0, 100.0), ('SHUTTINGDOWN', 100.0, 100.0),
     ('TERMINATED', 100.0, None)]
    """
    nodes = _list_nodes(trace)
    given_back = pl.when(pl.col("reason") == "released").then("end")
    booting = pl.coalesce("boot_begin", "ready")
    begins = {
        "FUTURE": pl.min_horizontal("decided", "requested"),
        "PENDING": pl.col("requested"),
        "BOOTING": booting,
        "SHUTTINGDOWN": given_back,
        "TERMINATED": pl.col("end"),
    }
    working = _list_working(trace, nodes)
    rows = [
        nodes.select("instance", start=begin, state=pl.lit(state), order=pl.lit(order))
        for order, (state, begin) in enumerate(begins.items())
    ]
    table = pl.concat([*rows, working], how="diagonal").drop_nulls("start")
    # IDLE and BUSY come after BOOTING at the same time, and before SHUTTINGDOWN.
    return (
        table.sort(
            pl.col("instance").str.len_chars(), "instance", "start", "order", maintain_order=True
        )
        .with_columns(end=pl.col("start").shift(-1).over("instance"))
        .select("instance", "state", "start", "end")
    )


def _list_nodes(trace: Trace) -> pl.DataFrame:
    """List the rented instances: decision, request, begin and end of the boot, end."""
    boots = trace.instance_states.filter(state="startup")
    boots = boots.group_by("instance").agg(boot_begin=pl.col("start").min())
    assigned = trace.decisions.filter(kind="reserve").select("t", task="subject")
    starts = _sort(trace.placements.select("task", "machine", "start").drop_nulls(), "start")
    decided = (
        starts.join_asof(
            _sort(assigned, "t"), left_on="start", right_on="t", by="task", check_sortedness=False
        )
        .group_by(instance="machine")
        .agg(decided=pl.col("t").min())
    )
    nodes = (
        trace.instances.drop_nulls(["instance", "cloud"])
        .group_by("instance")
        .agg(
            pl.col("requested").first(),
            pl.col("ready").max(),
            pl.when(pl.col("end").is_not_null().all()).then(pl.col("end").max()),
            pl.col("reason").last(),
        )
        .join(boots, on="instance", how="left")
        .join(decided, on="instance", how="left")
        .with_columns(pl.coalesce("decided", "requested"))
    )
    failures = nodes.filter(pl.col("ready").is_null() & pl.col("end").is_not_null())
    failed = _sort(failures.select(failed="end"), "failed")
    replaced = nodes.sort("requested").join_asof(failed, left_on="requested", right_on="failed")
    return replaced.with_columns(decided=pl.max_horizontal("decided", "failed"))


def _list_working(trace: Trace, nodes: pl.DataFrame) -> pl.DataFrame:
    """List the begins of the states IDLE and BUSY of each instance that has booted."""
    placed = trace.placements.select("start", "end", instance="machine").drop_nulls("start")
    busy = (
        placed.join(nodes.select("instance"), on="instance", how="semi")
        .with_columns(pl.col("end").fill_null(float("inf")))
        .sort("instance", "start", "end")
        .with_columns(before=pl.col("end").cum_max().shift().over("instance"))
        .with_columns(
            period=(pl.col("before").is_null() | (pl.col("start") > pl.col("before")))
            .cum_sum()
            .over("instance")
        )
        .group_by("instance", "period")
        .agg(pl.col("start").min(), pl.col("end").max())
        .join(nodes.select("instance", "reason", stop="end"), on="instance")
    )
    # An instance that is lost has no idle time after its tasks.
    is_idle = pl.col("end").is_finite() & (
        (pl.col("reason") == "released").fill_null(value=True) | (pl.col("end") < pl.col("stop"))
    )
    return pl.concat(
        [
            nodes.drop_nulls("ready").select("instance", start="ready", state=pl.lit("IDLE")),
            busy.select("instance", "start", state=pl.lit("BUSY")),
            busy.filter(is_idle).select("instance", start="end", state=pl.lit("IDLE")),
        ]
    ).with_columns(order=pl.lit(2))


def _list_states(
    rows: pl.DataFrame, keys: list[str], states: list[str], last: pl.Expr
) -> pl.DataFrame:
    """List the states of rows with a column of the begin of each; a state ends with the next."""
    table = rows.select(*keys, last.alias("last"), *(pl.col(each) for each in states)).unpivot(
        states, index=[*keys, "last"], variable_name="state", value_name="start"
    )
    order = pl.col("state").replace_strict({name: at for at, name in enumerate(states)})
    return (
        table.drop_nulls("start")
        .sort(*keys, order)
        .with_columns(end=pl.coalesce(pl.col("start").shift(-1).over(keys), "last"))
        .select(*keys, "state", "start", "end")
    )


def _sort(table: pl.DataFrame, by: str = "start") -> pl.DataFrame:
    return table.drop_nulls(by).sort(by, maintain_order=True)
