"""Offsets of the clocks of hosts, from the order of what happens on them and elsewhere."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.trace.formats.cleaning_counts import Tally

#: Times by the clocks of the hosts.
HOST_TIMES: Final = ("stage_in_start", "stage_in_end", "stage_out_start", "stage_out_end")


def align_clocks(jobs: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, dict[str, float]]:
    """Shift the times of staging to the clock of the manager, by one offset per site.

    A stage-in begins after the start of its job, and a stage-out ends before its end. So an offset
    is between the largest difference of the latter two and the smallest of the former two. It is 0
    if that is possible; otherwise it is the lower bound, because of many jobs there is one whose
    end is seen as soon as its stage-out is done.

    >>> jobs = pl.DataFrame({"site": ["pool", "pool"], "execute_start": [10.0, 20.0],
    ...     "stage_in_start": [113.0, 125.0], "stage_in_end": [115.0, 127.0],
    ...     "stage_out_start": [150.0, 160.0], "stage_out_end": [151.0, 162.0],
    ...     "execute_end": [51.0, 65.0]})
    >>> aligned, offsets = align_clocks(jobs, Tally())
    >>> offsets, aligned["stage_in_start"].to_list()
    ({'pool': 100.0}, [13.0, 25.0])
    """
    bounds = jobs.group_by("site", maintain_order=True).agg(
        low=(pl.col("stage_out_end") - pl.col("execute_end")).max(),
        high=(pl.col("stage_in_start") - pl.col("execute_start")).min(),
        staged=pl.any_horizontal(pl.col(HOST_TIMES).is_not_null()).sum(),
    )
    low, high = pl.col("low").fill_null(float("-inf")), pl.col("high").fill_null(float("inf"))
    is_off = ((low > 0) | (high < 0)) & (low <= high)
    bounds = bounds.with_columns(
        offset=pl.when(is_off).then(pl.coalesce("low", "high")),
        contradictory=low > high,
    )
    offsets = {}
    for row in bounds.iter_rows(named=True):
        site = row["site"] or "of no name"
        if row["contradictory"]:
            what = (
                f"jobs of the site {site}: its clock has no offset that fits all times of staging"
            )
            tally.note("noticed", what, count=row["staged"])
        elif row["offset"]:
            offsets[site] = row["offset"]
            what = (
                f"the clock of the site {site} is {row['offset']:+,.6g} s off that of the "
                f"manager: times of staging are corrected by it"
            )
            tally.note("assumed", what, count=row["staged"])
    shift = bounds.select("site", pl.col("offset").fill_null(0.0))
    shifted = jobs.join(shift, on="site", how="left", maintain_order="left", nulls_equal=True)
    times = [pl.col(name) - pl.col("offset") for name in HOST_TIMES]
    return shifted.with_columns(times).drop("offset"), offsets
