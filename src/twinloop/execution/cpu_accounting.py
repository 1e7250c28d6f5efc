"""The usage table of a run, from samples of cumulative CPU times."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.description import Cleaning
from twinloop.execution.run_journal import EXECUTION_KEY
from twinloop.trace import Trace
from twinloop.workload.cleaning_notes import note

#: Unit in which the kernel counts the CPU time of processes (s).
TICK: Final = 0.01


def compute_usage(
    plan: Trace, samples: pl.DataFrame, parts: pl.DataFrame
) -> tuple[pl.DataFrame, Cleaning]:
    """Compute the usage between consecutive samples; returns a note on corrected samples, too.

    The last sample of an execution is the end of its processes. While its files are copied, before
    and after them, it uses no CPU time. `parts` are the executions.
    """
    copies = _list_copies(parts)
    parts = parts.with_columns(start="launched", end="exited")
    kept = samples.join(
        parts.select(*EXECUTION_KEY, "start", "end", "cpu", "pid"), on=EXECUTION_KEY, suffix="_"
    )
    # CPU times are cumulative, so a sample just after the start, or just before the next sample or
    # the end, is redundant. If the end was not recorded, the last sample is kept.
    following = pl.col("t").shift(-1).over(EXECUTION_KEY, order_by="t")
    kept = kept.filter(
        (pl.col("t") > pl.col("start") + TICK)
        & ((pl.col("t") < pl.col("end") - TICK) | pl.col("cpu_").is_null())
        & ((pl.col("t") < following - TICK) | following.is_null())
    ).select(
        *EXECUTION_KEY, "t", pl.min_horizontal("cpu", "cpu_").alias("cpu"), "rss", "start", "pid"
    )
    # The memory at the end is not known: take that of the sample before, or else the peak.
    with_samples = kept.select(EXECUTION_KEY).unique().with_columns(seen=pl.lit(value=True))
    last_samples = (
        parts.filter(pl.col("cpu").is_not_null())
        .join(with_samples, on=EXECUTION_KEY, how="left", maintain_order="left")
        .select(
            *EXECUTION_KEY,
            t="end",
            cpu="cpu",
            rss=pl.when(pl.col("seen").is_null()).then("peak"),
            start="start",
            pid="pid",
        )
    )
    all_samples = pl.concat([kept, last_samples]).sort(*EXECUTION_KEY, "t", maintain_order=True)
    all_samples, repaired = _limit_to_capacity(plan, all_samples)
    execution = pl.struct(EXECUTION_KEY)
    used = all_samples.with_columns(
        dt=pl.col("t") - pl.col("t").shift(1).over(execution).fill_null(pl.col("start")),
        cpu=pl.col("cpu") - pl.col("cpu").shift(1).over(execution).fill_null(0.0),
        rss=pl.col("rss").forward_fill().over(execution),
    )
    if copies.height:
        used = pl.concat([used, copies], how="diagonal").sort(*EXECUTION_KEY, "t")
    frame = used.select(
        pl.Series("task", plan.tasks["id"].gather(used["task"])),
        pl.Series("machine", plan.nodes["node"].gather(used["machine"])),
        *("pid", "t", "dt", "cpu", "rss"),
    )
    return frame, repaired


def _list_copies(parts: pl.DataFrame) -> pl.DataFrame:
    """List the periods before and after the processes of executions, in which files are copied."""
    periods = pl.concat(
        parts.select(*EXECUTION_KEY, "pid", t=end, dt=pl.col(end) - pl.col(start))
        for start, end in (("start", "launched"), ("exited", "end"))
    )
    return periods.filter(pl.col("dt") > 0).with_columns(cpu=pl.lit(0.0))


def _limit_to_capacity(plan: Trace, samples: pl.DataFrame) -> tuple[pl.DataFrame, Cleaning]:
    """Correct cumulative CPU times that exceed the capacity of the CPUs between two samples.

    A counter that is read late, or that rounds down to ticks, is too high or too low for its time.
    CPU time that exceeds the capacity of one window is moved to the next or to the one before. The
    last value of each execution, and so the sum, is not changed.
    """
    execution = pl.struct(EXECUTION_KEY)
    capacity = _find_usable_cores(plan, samples).alias("capacity") * (
        samples["t"] - samples["start"]
    )
    excess = pl.col("cpu") - pl.col("capacity")
    last = pl.col("t") == pl.col("t").max().over(execution)
    tolerance = pl.max_horizontal(1e-9, 1e-15 * pl.col("capacity"))
    limited = (
        samples.with_columns(capacity, read=pl.col("cpu"))
        .with_columns(
            cpu=pl.when(last)
            .then("cpu")
            .otherwise(
                pl.min_horizontal(excess, 0.0).cum_min().over(execution) + pl.col("capacity")
            )
        )
        .with_columns(cpu=excess.cum_max(reverse=True).over(execution) + pl.col("capacity"))
        # A difference in the last digits only is rounding: keep the value that was read.
        .with_columns(moved=~last & ((pl.col("cpu") - pl.col("read")).abs() > tolerance))
        .with_columns(cpu=pl.when("moved").then("cpu").otherwise("read"))
        .with_columns(
            cpu=pl.min_horizontal(
                pl.col("cpu").cum_max().over(execution), pl.col("read").last().over(execution)
            )
        )
    )
    what = (
        "samples read late or in ticks: CPU time beyond the capacity of a window, moved to the "
        "window before or after"
    )
    count = int(limited["moved"].sum())
    return limited.drop("capacity", "read", "moved"), note("repaired", what, count=count)


def _find_usable_cores(plan: Trace, samples: pl.DataFrame) -> pl.Series:
    """Return the number of cores that each execution can have used: those of its node.

    If the node does not enforce its cores, an execution that has clearly used more CPU time than
    its node has (beyond the rounding of user and system time to ticks) can have used all cores of
    the machine.
    """
    facts = plan.manifest.facts
    is_enforced = facts.get("nodes", {}).get("isolation") not in (None, "none", "affinity")
    cores = plan.nodes["cores"].gather(samples["machine"])
    if is_enforced:
        return cores
    execution = pl.struct(EXECUTION_KEY)
    cpu, t, start, own = pl.col("cpu"), pl.col("t"), pl.col("start"), pl.col("own")
    used = cpu - cpu.shift(1).over(execution).fill_null(0.0)
    length = t - t.shift(1).over(execution).fill_null(start)
    exceeds_window = used > own * length + 2 * TICK
    exceeds_total = cpu.last().over(execution) > own * (t.last().over(execution) - start)
    machine = max(1, len(facts.get("machine", {}).get("cpus", ())))
    selected = samples.with_columns(own=cores.ceil()).select(
        cores=pl.when(exceeds_window.any().over(execution) | exceeds_total)
        .then(own.clip(machine))
        .otherwise(own)
    )
    return selected["cores"]
