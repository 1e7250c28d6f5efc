"""Executions on the hosts of rented instances."""

from __future__ import annotations

import polars as pl

from twinloop.trace.trace import Trace


def place_on_hosts(trace: Trace) -> Trace:
    """Return the trace with the executions on rented instances as executions on their hosts.

    An execution on an instance that moved has a row for each of its hosts.

    >>> trace = Trace(
    ...     placements=pl.DataFrame({"task": ["a", "b"], "machine": ["instance-1", "n2"]}),
    ...     instances=pl.DataFrame({"instance": ["instance-1"], "host": "n1", "requested": 0.0}),
    ... )
    >>> place_on_hosts(trace).placements["machine"].to_list()
    ['n1', 'n2']
    """
    rented = trace.instances.drop_nulls(["requested", "host"])
    if rented.is_empty():
        return trace
    placements = trace.placements
    # Of an instance that moved, the first host.
    hosts = placements["machine"].replace(rented["instance"], rented["host"])
    placed = placements.with_columns(hosts)
    moved = trace.instances.filter(
        pl.col("instance").is_duplicated() & pl.col("host").is_not_null()
    )
    if not moved.is_empty():
        placed = _split_at_moves(placements, placed, moved)
    return trace.replace(placements=placed)


def _split_at_moves(
    placements: pl.DataFrame, placed: pl.DataFrame, moved: pl.DataFrame
) -> pl.DataFrame:
    """Replace the executions on instances that moved by their parts on each host."""
    is_moved = placements["machine"].is_in(moved["instance"].implode())
    periods = moved.select(machine="instance", host="host", begin="start", until="end")
    parts = (
        placements.with_row_index("row")
        .filter(is_moved)
        .join(periods, on="machine", maintain_order="left_right")
        .with_columns(
            machine="host",
            start=pl.max_horizontal("start", "begin"),
            # An end that is unknown remains unknown on the last host.
            end=pl.min_horizontal("end", "until"),
        )
        .filter(pl.col("end").is_null() | (pl.col("end") > pl.col("start")))
        .drop("host", "begin", "until")
    )
    others = placed.with_row_index("row").filter(~is_moved)
    return pl.concat([others, parts]).sort("row", maintain_order=True).drop("row")
