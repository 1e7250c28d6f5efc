"""The tables of the instances that were rented in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.trace.tables import conform_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.platform.clouds import Cloud

#: In records, numbers of machines from this one on are numbers of rentals.
_LABEL_BIT: Final = np.uint32(2**31)
#: The states of a rented instance, by native code.
_STATES: Final = (
    "requested", "queued", "allocated", "initial-transfer", "startup", "running", "migrating",
    "stopped", "destroyed",
)  # fmt: skip
#: Why a rental ended, by native code.
_ENDS: Final = (None, "released", "refused", "lost")


def name_machines(machines: Sequence[str], labels: NDArray[np.uint32]) -> pl.Series:
    """Return the names of machines by their numbers in records; rented instances are numbered.

    >>> name_machines(["a", "b"], np.array([1, 2**31 + 4], dtype=np.uint32)).to_list()
    ['b', 'instance-5']
    """
    names = pl.Series([*machines, None], dtype=pl.String)
    rented = labels >= _LABEL_BIT
    if not rented.any():
        return names.gather(labels.astype(np.int64))
    frame = pl.DataFrame(
        {
            "rented": rented,
            "machine": names.gather(np.where(rented, 0, labels).astype(np.int64)),
            "number": labels.astype(np.int64) - int(_LABEL_BIT) + 1,
        }
    )
    return frame.select(
        pl.when("rented")
        .then(pl.format("instance-{}", "number"))
        .otherwise("machine")
        .alias("machine")
    )["machine"]


def build_rental_table(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    """Build the table of the instances that were rented; None if there were none."""
    log = run.rentals()
    if not len(log["rental"]):
        return None
    order = np.argsort(log["rental"])
    log = {name: values[order] for name, values in log.items()}
    clouds = compiled.machines.platform.clouds
    hosts = pl.Series([*compiled.names.machines, None], dtype=pl.String)
    kinds = {
        field: [
            getattr(clouds[c], field)[i].name for c, i in zip(log["cloud"], log[one], strict=True)
        ]
        for field, one in (("types", "type"), ("images", "image"))
    }
    users = pl.Series([*compiled.names.users, None], dtype=pl.String)
    frame = pl.DataFrame(
        {
            "instance": name_machines((), log["rental"] + _LABEL_BIT),
            "host": hosts.gather(np.minimum(log["host"], hosts.len() - 1).astype(np.int64)),
            "cores": log["cores"],
            "memory": pl.Series(log["memory"]).replace(0.0, None),
            "start": pl.Series(log["placed"]).fill_nan(None),
            "end": pl.Series(log["ended"]).fill_nan(None),
            "reason": pl.Series(_ENDS, dtype=pl.String).gather(log["reason"].astype(np.int64)),
            "cloud": pl.Series([each.name for each in clouds]).gather(
                log["cloud"].astype(np.int64)
            ),
            "type": kinds["types"],
            "image": kinds["images"],
            "user": users.gather(
                np.where(log["user"] < 0, users.len() - 1, log["user"]).astype(np.int64)
            ),
            "requested": log["requested"],
            "ready": pl.Series(log["ready"]).fill_nan(None),
            "price": _compute_prices(clouds, log, run.now),
        }
    )
    return _split_at_changes(conform_table("instances", frame), hosts, run)


def _split_at_changes(rented: pl.DataFrame, hosts: pl.Series, run: ClusterRun) -> pl.DataFrame:
    """Give an instance a row for each host and size; the last one has its end and price."""
    changes = _list_changes(hosts, run)
    if changes.is_empty():
        return rented
    last = changes.group_by("instance", maintain_order=True).last()
    changed = rented.join(last.select("instance", last_start="end"), on="instance", how="left")
    # All rows but the last: the first one has the times of the request and of the boot.
    begins = pl.col("end").shift(1).over("instance")
    # A migration does not tell the size: it is that before the next resize, or the last one.
    sizes = pl.col("size").backward_fill().over("instance")
    earlier = changes.with_columns(begins.alias("begin"), sizes.alias("size")).join(
        rented.drop("end", "reason", "price", "host"), on="instance", how="left"
    )
    is_first = pl.col("begin").is_null()
    rows = earlier.with_columns(
        pl.coalesce("begin", "start").alias("start"),
        pl.coalesce("size", "cores").alias("cores"),
        pl.when(is_first).then("requested").alias("requested"),
        pl.when(is_first).then("ready").alias("ready"),
    ).drop("begin", "size")
    was_changed = pl.col("last_start").is_not_null()
    rest = changed.with_columns(
        pl.coalesce("last_start", "start").alias("start"),
        pl.when(~was_changed).then("requested").alias("requested"),
        pl.when(~was_changed).then("ready").alias("ready"),
    ).drop("last_start")
    numbers = pl.col("instance").str.extract(r"(\d+)$").cast(pl.Int64)
    table = pl.concat([conform_table("instances", rows), conform_table("instances", rest)])
    return table.sort(numbers, "start", nulls_last=True, maintain_order=True)


def _list_changes(hosts: pl.Series, run: ClusterRun) -> pl.DataFrame:
    """List the changes of instances in order: host and size before, time, and its reason."""
    moves = list_migrations(hosts, run).filter("completed")
    log = run.resizes()
    resizes = pl.DataFrame(
        {
            "instance": name_machines((), log["rental"] + _LABEL_BIT),
            "host": hosts.gather(log["host"].astype(np.int64)),
            "size": log["cores"],
            "end": log["time"],
            "reason": pl.Series(["resized"] * len(log["time"]), dtype=pl.String),
        }
    )
    moved = moves.select(
        "instance",
        pl.col("from").alias("host"),
        pl.lit(None, dtype=pl.Float64).alias("size"),
        "end",
        pl.lit("moved").alias("reason"),
    )
    # In an instant, an instance arrives before its cloud can decide about it again.
    return pl.concat([moved, resizes]).sort("end", maintain_order=True)


def list_migrations(hosts: pl.Series, run: ClusterRun) -> pl.DataFrame:
    """List the migrations of a run: instance, hosts, times, bytes, whether it was completed."""
    log = run.migrations()
    return pl.DataFrame(
        {
            "instance": name_machines((), log["rental"] + _LABEL_BIT),
            "from": hosts.gather(log["from"].astype(np.int64)),
            "to": hosts.gather(log["to"].astype(np.int64)),
            "start": log["start"],
            "end": log["end"],
            "bytes": log["bytes"],
            "downtime": log["downtime"],
            "completed": log["completed"] != 0,
        }
    )


def build_migration_rows(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    """Build the rows of the migrations in the table of transfers; None if there were none."""
    moves = list_migrations(pl.Series(compiled.names.machines, dtype=pl.String), run)
    if moves.is_empty():
        return None
    done = pl.when("completed").then(pl.lit("completed")).otherwise(pl.lit("cancelled"))
    rows = moves.select(
        pl.col("instance").alias("subject"),
        "from",
        "to",
        "bytes",
        "start",
        "end",
        kind=pl.lit("migration"),
        reason=done,
    )
    return conform_table("transfers", rows)


def _compute_prices(clouds: Sequence[Cloud], log: dict[str, NDArray[Any]], now: float) -> pl.Series:
    """Compute the price of each instance: every begun unit of time is billed."""
    prices = np.full(len(log["rental"]), np.nan)
    ends = np.where(np.isnan(log["ended"]), now, log["ended"])
    for number, cloud in enumerate(clouds):
        billing = cloud.billing
        if billing is None:
            continue
        begin = log["requested" if billing.counted_from == "request" else "placed"]
        # Rounding of times must not begin another unit.
        units = np.maximum(1.0, np.ceil((ends - begin) / billing.unit - 1e-9))
        own = log["cloud"] == number
        prices[own] = np.where(np.isnan(log["placed"]), 0.0, units * billing.price)[own]
    return pl.Series(prices).fill_nan(None)


def build_rental_states(run: ClusterRun) -> pl.DataFrame | None:
    """Build the table of the states of rented instances; None if there were none."""
    log = run.rental_states()
    if not len(log["rental"]):
        return None
    order = np.lexsort((log["start"], log["rental"]))
    frame = pl.DataFrame(
        {
            "instance": name_machines((), log["rental"][order] + _LABEL_BIT),
            "start": log["start"][order],
            "end": pl.Series(log["end"][order]).fill_nan(None),
            "state": pl.Series(_STATES, dtype=pl.String).gather(
                log["state"][order].astype(np.int64)
            ),
        }
    )
    return conform_table("instance_states", frame)
