"""What tasks used between two samples, out of what was read at each of them."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.description import Cleaning
from twinloop.execution.run_journal import EXECUTION_KEY
from twinloop.trace import Trace
from twinloop.workload.cleaning_notes import note

#: In which the kernel counts CPU time of processes (s).
TICK: Final = 0.01


def compute_usage(
    plan: Trace, samples: pl.DataFrame, parts: pl.DataFrame
) -> tuple[pl.DataFrame, Cleaning]:
    """What was used between two samples, the last one being of the end."""
    known = samples.join(
        parts.select(*EXECUTION_KEY, "start", "end", "cpu", "pid"), on=EXECUTION_KEY, suffix="_"
    )
    # One just after the start, or before the next one or the end, says nothing that the next does
    # not: what is read is cumulative. Where nobody saw the end, the last sample is the last that is
    # known.
    following = pl.col("t").shift(-1).over(EXECUTION_KEY, order_by="t")
    known = known.filter(
        (pl.col("t") > pl.col("start") + TICK)
        & ((pl.col("t") < pl.col("end") - TICK) | pl.col("cpu_").is_null())
        & ((pl.col("t") < following - TICK) | following.is_null())
    ).select(
        *EXECUTION_KEY, "t", pl.min_horizontal("cpu", "cpu_").alias("cpu"), "rss", "start", "pid"
    )
    # What a task held when it ended is not known: the sample before, or else the most it ever had.
    seen = known.select(EXECUTION_KEY).unique().with_columns(seen=pl.lit(value=True))
    closing = (
        parts.filter(pl.col("cpu").is_not_null())
        .join(seen, on=EXECUTION_KEY, how="left", maintain_order="left")
        .select(
            *EXECUTION_KEY,
            t="end",
            cpu="cpu",
            rss=pl.when(pl.col("seen").is_null()).then("peak"),
            start="start",
            pid="pid",
        )
    )
    both = pl.concat([known, closing]).sort(*EXECUTION_KEY, "t", maintain_order=True)
    both, repaired = _possible(plan, both)
    whose = pl.struct(EXECUTION_KEY)
    used = both.with_columns(
        dt=pl.col("t") - pl.col("t").shift(1).over(whose).fill_null(pl.col("start")),
        cpu=pl.col("cpu") - pl.col("cpu").shift(1).over(whose).fill_null(0.0),
        rss=pl.col("rss").forward_fill().over(whose),
    )
    frame = used.select(
        pl.Series("task", plan.tasks["id"].gather(used["task"])),
        pl.Series("machine", plan.nodes["node"].gather(used["machine"])),
        *("pid", "t", "dt", "cpu", "rss"),
    )
    return frame, repaired


def _possible(plan: Trace, samples: pl.DataFrame) -> tuple[pl.DataFrame, Cleaning]:
    """Cumulative CPU times that can be: between two samples there is no more than the CPUs give.

    A counter that is read late, or that counts in ticks and rounds down, says too much or too
    little of a moment. What cannot have been used before it was used after it, and the other way
    round. The last value of each is what it is, and so is the sum.
    """
    whose = pl.struct(EXECUTION_KEY)
    room = _cores(plan, samples).alias("room") * (samples["t"] - samples["start"])
    spare = pl.col("cpu") - pl.col("room")
    last = pl.col("t") == pl.col("t").max().over(whose)
    digits = pl.max_horizontal(1e-9, 1e-15 * pl.col("room"))
    found = (
        samples.with_columns(room, read=pl.col("cpu"))
        .with_columns(
            cpu=pl.when(last)
            .then("cpu")
            .otherwise(pl.min_horizontal(spare, 0.0).cum_min().over(whose) + pl.col("room"))
        )
        .with_columns(cpu=spare.cum_max(reverse=True).over(whose) + pl.col("room"))
        # What differs in the last digits only is what was read, and nothing is ever given back.
        .with_columns(moved=~last & ((pl.col("cpu") - pl.col("read")).abs() > digits))
        .with_columns(cpu=pl.when("moved").then("cpu").otherwise("read"))
        .with_columns(
            cpu=pl.min_horizontal(
                pl.col("cpu").cum_max().over(whose), pl.col("read").last().over(whose)
            )
        )
    )
    what = "samples read late or in ticks: CPU time that cannot have been, moved to the next window"
    count = int(found["moved"].sum())
    return found.drop("room", "read", "moved"), note("repaired", what, count=count)


def _cores(plan: Trace, samples: pl.DataFrame) -> pl.Series:
    """As many cores as each part can have used: those of its node, where it is held to them.

    Where it is not, those of the machine if it has clearly used more than its node has: by more
    than a counter lacks that rounds down the time in user mode and that in the kernel to ticks.
    """
    facts = plan.manifest.facts
    held = facts.get("nodes", {}).get("isolation") not in (None, "none", "affinity")
    cores = plan.nodes["cores"].gather(samples["machine"])
    if held:
        return cores
    whose = pl.struct(EXECUTION_KEY)
    cpu, t, start, own = pl.col("cpu"), pl.col("t"), pl.col("start"), pl.col("own")
    used = cpu - cpu.shift(1).over(whose).fill_null(0.0)
    length = t - t.shift(1).over(whose).fill_null(start)
    beyond = used > own * length + 2 * TICK
    too_much = cpu.last().over(whose) > own * (t.last().over(whose) - start)
    machine = max(1, len(facts.get("machine", {}).get("cpus", ())))
    found = samples.with_columns(own=cores.ceil()).select(
        cores=pl.when(beyond.any().over(whose) | too_much).then(own.clip(machine)).otherwise(own)
    )
    return found["cores"]
