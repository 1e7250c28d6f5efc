"""The tables of the instances that were rented in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop._core import ClusterRun
from twinloop.trace.tables import TARIFFS, conform_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.platform.clouds import Cloud, Image, InstanceType

#: In records, numbers of machines from this one on are numbers of rentals.
LABEL_BIT: Final = np.uint32(2**31)
#: The states of a rented instance, by native code.
STATES: Final = (
    "requested", "queued", "allocated", "initial-transfer", "startup", "running", "migrating",
    "stopped", "suspend-transfer", "suspended", "resume-transfer", "shutdown", "destroyed",
)  # fmt: skip
#: Why a period of a rental ended, by native code.
ENDS: Final = (
    None, "released", "refused", "lost", "expired", "interrupted", "moved", "suspended",
    "shut-down", "left", "resized",
)  # fmt: skip


def name_machines(machines: Sequence[str], labels: NDArray[np.uint32]) -> pl.Series:
    """Return the names of machines by their numbers in records; rented instances are numbered.

    >>> name_machines(["a", "b"], np.array([1, 2**31 + 4], dtype=np.uint32)).to_list()
    ['b', 'instance-5']
    """
    names = pl.Series([*machines, None], dtype=pl.String)
    rented = labels >= LABEL_BIT
    if not rented.any():
        return names.gather(labels.astype(np.int64))
    frame = pl.DataFrame(
        {
            "rented": rented,
            "machine": names.gather(np.where(rented, 0, labels).astype(np.int64)),
            "number": labels.astype(np.int64) - int(LABEL_BIT) + 1,
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
    # The periods of an instance follow each other in the log.
    order = np.argsort(log["rental"], kind="stable")
    log = {name: values[order] for name, values in log.items()}
    clouds = compiled.machines.platform.clouds
    hosts = pl.Series([*compiled.names.machines, None], dtype=pl.String)
    users = pl.Series([*compiled.names.users, None], dtype=pl.String)
    frame = pl.DataFrame(
        {
            "instance": name_machines((), log["rental"] + LABEL_BIT),
            "host": hosts.gather(np.minimum(log["host"], hosts.len() - 1).astype(np.int64)),
            "cores": log["cores"],
            "memory": pl.Series(log["memory"]).replace(0.0, None),
            "start": pl.Series(log["placed"]).fill_nan(None),
            "end": pl.Series(log["ended"]).fill_nan(None),
            "reason": pl.Series(ENDS, dtype=pl.String).gather(log["reason"].astype(np.int64)),
            "cloud": pl.Series([each.name for each in clouds]).gather(
                log["cloud"].astype(np.int64)
            ),
            "type": _name_choices([cloud.types for cloud in clouds], log["cloud"], log["type"]),
            "image": _name_choices([cloud.images for cloud in clouds], log["cloud"], log["image"]),
            "user": users.gather(
                np.where(log["user"] < 0, users.len() - 1, log["user"]).astype(np.int64)
            ),
            "requested": pl.Series(log["requested"]).fill_nan(None),
            "ready": pl.Series(log["ready"]).fill_nan(None),
            **_select_prices(clouds, log),
        }
    )
    return conform_table("instances", frame)


def _name_choices(
    choices: Sequence[Sequence[InstanceType | Image]],
    clouds: NDArray[Any],
    numbers: NDArray[Any],
) -> pl.Series:
    """Return the names of types or images, which are numbered by cloud."""
    names = pl.Series([each.name for own in choices for each in own], dtype=pl.String)
    first = np.cumsum([0, *map(len, choices)])[:-1]
    return names.gather(first[clouds.astype(np.int64)] + numbers.astype(np.int64))


def list_migrations(hosts: pl.Series, run: ClusterRun) -> pl.DataFrame:
    """List the migrations of a run: instance, hosts, times, bytes, whether it was completed."""
    log = run.migrations()
    return pl.DataFrame(
        {
            "instance": name_machines((), log["rental"] + LABEL_BIT),
            "from": hosts.gather(log["from"].astype(np.int64)),
            "to": hosts.gather(log["to"].astype(np.int64)),
            "start": log["start"],
            "end": log["end"],
            "bytes": log["bytes"],
            "downtime": log["downtime"],
            "completed": log["completed"] != 0,
        }
    )


def build_rental_transfers(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    """Build the rows of migrations and messages in the table of transfers; None without any."""
    parts = [
        part
        for part in (_build_migration_rows(compiled, run), _build_message_rows(compiled, run))
        if part is not None
    ]
    if len(parts) < 2:
        return parts[0] if parts else None
    return pl.concat(parts).sort("end", maintain_order=True)


def _build_message_rows(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    log = run.messages()
    if not len(log["rental"]):
        return None
    messages = [each.messages for each in compiled.machines.platform.clouds]
    clients = pl.Series([each and each.client for each in messages], dtype=pl.String)
    controllers = pl.Series([each and each.controller for each in messages], dtype=pl.String)
    clouds, answers = log["cloud"].astype(np.int64), pl.Series(log["answers"] != 0)
    client, controller = clients.gather(clouds), controllers.gather(clouds)
    rows = pl.DataFrame(
        {
            "subject": name_machines((), log["rental"] + LABEL_BIT),
            "from": controller.zip_with(answers, client),
            "to": client.zip_with(answers, controller),
            "bytes": log["bytes"],
            "start": log["start"],
            "end": log["end"],
        }
    )
    # A message that was sent arrives.
    rows = rows.with_columns(kind=pl.lit("message"), reason=pl.lit("completed"))
    return conform_table("transfers", rows)


def _build_migration_rows(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
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


def _select_prices(clouds: Sequence[Cloud], log: dict[str, NDArray[Any]]) -> dict[str, pl.Series]:
    """Return tariff, bid, and price in the last period; null where a cloud does not bill."""
    bills = np.array([each.billing is not None for each in clouds])[log["cloud"]]
    tariffs = np.where(np.isnan(log["bid"]), log["reserved"], TARIFFS.index("spot"))
    return {
        "price": pl.Series(np.where(bills, log["price"], np.nan)).fill_nan(None),
        "tariff": pl.Series([*TARIFFS, None], dtype=pl.String).gather(
            np.where(bills, tariffs, len(TARIFFS)).astype(np.int64)
        ),
        "bid": pl.Series(log["bid"]).fill_nan(None),
    }


def build_rental_states(run: ClusterRun) -> pl.DataFrame | None:
    """Build the table of the states of rented instances; None if there were none."""
    log = run.rental_states()
    if not len(log["rental"]):
        return None
    order = np.lexsort((log["start"], log["rental"]))
    frame = pl.DataFrame(
        {
            "instance": name_machines((), log["rental"][order] + LABEL_BIT),
            "start": log["start"][order],
            "end": pl.Series(log["end"][order]).fill_nan(None),
            "state": pl.Series(STATES, dtype=pl.String).gather(
                log["state"][order].astype(np.int64)
            ),
        }
    )
    return conform_table("instance_states", frame)
