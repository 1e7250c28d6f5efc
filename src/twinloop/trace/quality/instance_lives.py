"""Rules on the lives of instances: their periods on hosts, their states, their size."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import TIME_TOLERANCE, Violations, select_rows
from twinloop.trace.tables import INSTANCE_ENDS

_FOREVER = float("inf")


def check_instance_periods(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `instance-periods`."""
    periods = prepared.table("instances").drop_nulls("instance")
    if not periods.height:
        return
    # Without a host there is no start: the instance ended, or it still waits.
    begin = pl.coalesce("start", "end", "requested").fill_null(_FOREVER)
    until = pl.col("end").fill_null(_FOREVER)
    timed = periods.with_columns(begin=begin, until=until).sort("instance", "begin", "until", "row")
    previous = pl.col("until").cum_max().shift(1).over("instance")
    # Instances that are not rented may be added again under the same name.
    last = pl.col("reason").is_in(INSTANCE_ENDS) & pl.col("cloud").is_not_null()
    ended = last.cum_sum().shift(1).over("instance")
    joined = timed.select("row", "begin", previous=previous, ended=ended)
    is_open = pl.col("previous") == _FOREVER
    overlaps = is_open | (pl.col("previous") - pl.col("begin") > TIME_TOLERANCE)
    message = (
        pl.when(is_open)
        .then(pl.lit("instance '{instance}' has an open row, and another one after it"))
        .when(overlaps)
        .then(
            pl.lit("instance '{instance}' has a period from {begin} s, within one to {previous} s")
        )
        .otherwise(pl.lit("instance '{instance}' has a row at {begin} s, after that of its end"))
    )
    wrong = overlaps.fill_null(False) | (pl.col("ended") > 0).fill_null(False)
    rows = select_rows(joined, wrong).with_columns(message=message)
    yield Violations("instances", periods.height, rows, "")


def check_instance_states_within(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `instance-states-within`."""
    states = prepared.table("instance_states").drop_nulls(["instance", "start"])
    if not states.height:
        return
    lives = (
        prepared.table("instances")
        .drop_nulls("instance")
        .group_by("instance")
        .agg(
            begin=pl.min_horizontal("requested", "start", "end").min(),
            final=pl.col("end").filter(pl.col("reason").is_in(INSTANCE_ENDS)).max(),
            is_open=pl.col("end").is_null().any(),
        )
    )
    begin, until = pl.col("start"), pl.col("end").fill_null(_FOREVER)
    joined = (
        states.select("row", "instance", begin_of_state=begin, until=until)
        .sort("instance", "begin_of_state", "until", "row")
        .with_columns(previous=pl.col("until").cum_max().shift(1).over("instance"))
        .join(lives, on="instance", how="left", maintain_order="left")
        # Without a row of its end, as of a suspended instance, the life is open.
        .with_columns(life_end=pl.when("is_open").then(None).otherwise("final").fill_null(_FOREVER))
    )
    overlaps = pl.col("previous") - pl.col("begin_of_state") > TIME_TOLERANCE
    before = pl.col("begin") - pl.col("begin_of_state") > TIME_TOLERANCE
    after = pl.col("until") - pl.col("life_end") > TIME_TOLERANCE
    what = "state '{state}' of instance '{instance}'"
    message = (
        pl.when(before)
        .then(pl.lit(f"{what} begins at {{start}} s, before the instance, at {{begin}} s"))
        .when(overlaps)
        .then(pl.lit(f"{what} begins at {{start}} s, during another one"))
        .otherwise(pl.lit(f"{what} ends after the instance, at {{life_end}} s"))
    )
    rows = select_rows(joined, before | overlaps | (after & pl.col("life_end").is_finite()))
    rows = rows.select("row", "begin", "life_end", message=message)
    yield Violations("instance_states", states.height, rows, "")


def check_instance_fits_host(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `instance-fits-host`."""
    nodes = prepared.table("nodes").select(host="node", all_cores="cores", all_memory="memory")
    placed = (
        prepared.table("instances")
        .drop_nulls("host")
        .join(nodes.drop_nulls("host").unique("host"), on="host")
    )
    if not placed.height:
        return
    cores = pl.col("cores") > pl.col("all_cores") * (1 + 1e-9)
    memory = pl.col("memory") > pl.col("all_memory") * (1 + 1e-9)
    message = (
        pl.when(cores)
        .then(pl.lit("instance '{instance}' has {cores} cores on '{host}', which has {all_cores}"))
        .otherwise(
            pl.lit(
                "instance '{instance}' has {memory} bytes of memory on '{host}', which has "
                "{all_memory}"
            )
        )
    )
    rows = select_rows(placed, cores.fill_null(False) | memory.fill_null(False))
    rows = rows.select("row", "all_cores", "all_memory", message=message)
    yield Violations("instances", placed.height, rows, "")
