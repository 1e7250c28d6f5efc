"""From usage to demand: what samples of a running task say about what it asks for.

Every sample inside the execution of its task becomes a fragment with the rate it was measured
at; the time that no sample covers is filled, so that the fragments of a task last as long as the
task did:

- the *head*, from the start to the first sample, with the rate of the first sample;
- a *gap* between two samples, with the rate of the one after it;
- the *tail*, from the last sample to the end, with the rate of the last one.

All of it is counted. A sample that reaches over the start, the end or an earlier sample is cut
there and keeps its rate; one that lies outside altogether is left out. Where several processes
or machines of one task were sampled at the same time, their rates add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from twinloop.description.cleaning import Cleaning, CleaningKind
from twinloop.workload.fragments import Fragments

#: Seconds below which two times are the same.
TIME_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Demand:
    """Fragments out of samples, the peak of the memory meanwhile, and what had to be done."""

    fragments: Fragments
    #: Row of the task and its largest resident memory, where it was sampled.
    memory: pl.DataFrame
    cleaned: tuple[Cleaning, ...]


def demand_from_samples(samples: pl.DataFrame) -> Demand:
    """The demand of tasks whose begin and end are known.

    `samples` has the row of the task, the machine and process, the window of the sample (`begin`,
    `end`), the `rate`, `rss`, and `start` and `stop` of the task.

    >>> samples = pl.DataFrame({"row": [0, 0], "machine": ["n", "n"], "pid": [7, 7],
    ...     "begin": [2.0, 3.0], "end": [3.0, 4.0], "rate": [1.0, 0.5], "rss": [10.0, 20.0],
    ...     "start": [0.0, 0.0], "stop": [4.5, 4.5]})
    >>> demand = demand_from_samples(samples)
    >>> demand.fragments.durations.tolist(), demand.fragments.rates.tolist()
    ([2.0, 1.0, 1.0, 0.5], [1.0, 1.0, 0.5, 0.5])
    >>> for note in demand.cleaned: print(note)
    invented 1: heads of 2.000 s in all, before the first sample of a task, with its rate
    invented 1: tails of 0.500 s in all, after the last sample of a task, with its rate
    """
    kept, cleaned = _inside(samples)
    # What lies between two times that are the same belongs to the sample after it.
    near = pl.col("from") - pl.col("free") <= TIME_TOLERANCE
    close = pl.col("last") & (pl.col("stop") - pl.col("to") <= TIME_TOLERANCE)
    kept = kept.with_columns(
        pl.when(near).then("free").otherwise("from").alias("from"),
        pl.when(close).then("stop").otherwise("to").alias("to"),
    )
    unseen = kept.filter(pl.col("from") > pl.col("free"))
    heads, gaps = unseen.filter("first"), unseen.filter(~pl.col("first"))
    tails = kept.filter(pl.col("last") & (pl.col("stop") > pl.col("to")))
    pieces = pl.concat(
        [
            kept.select("row", "stream", "from", "to", "rate"),
            unseen.select("row", "stream", pl.col("free").alias("from"), to="from", rate="rate"),
            tails.select("row", "stream", pl.col("to").alias("from"), to="stop", rate="rate"),
        ]
    ).sort("stream", "from")
    pieces = _added(pieces).sort("row", maintain_order=True)
    fragments = Fragments.from_rows(
        pieces["row"].to_numpy(),
        (pieces["to"] - pieces["from"]).to_numpy(),
        pieces["rate"].to_numpy(),
    )
    filled = (
        _filled("heads", heads, "free", "from", "before the first sample of a task, with its rate"),
        _filled("gaps", gaps, "free", "from", "between samples, with the rate of the next one"),
        _filled("tails", tails, "to", "stop", "after the last sample of a task, with its rate"),
    )
    notes = tuple(note for note in (*cleaned, *filled) if note.count)
    return Demand(fragments, kept.group_by("row").agg(pl.max("rss").alias("memory")), notes)


def _inside(samples: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """What of each sample lies in its task's execution and is not covered by an earlier one."""
    inside = (pl.col("end") > pl.col("start") + TIME_TOLERANCE) & (
        pl.col("begin") < pl.col("stop") - TIME_TOLERANCE
    )
    kept = samples.filter(inside)
    outside = samples.height - kept.height
    streams = kept.select("row", "machine", "pid").unique(maintain_order=True)
    kept = kept.join(
        streams.with_row_index("stream"), on=["row", "machine", "pid"], nulls_equal=True
    ).sort("stream", "end", "begin")
    # In order of their ends, the sample before is the one that reaches furthest.
    before = pl.col("end").shift(1).over("stream")
    kept = kept.with_columns(
        pl.max_horizontal("begin", "start", before).alias("from"),
        pl.min_horizontal("end", "stop").alias("to"),
    )
    used = kept.filter(pl.col("to") - pl.col("from") > TIME_TOLERANCE)
    lost = (pl.col("from") - pl.col("begin")) + (pl.col("end") - pl.col("to"))
    cut = used.filter(lost > TIME_TOLERANCE).select((pl.col("rate") * lost).alias("cpu"))
    used = used.with_columns(
        pl.coalesce(pl.col("to").shift(1).over("stream"), "start").alias("free"),
        pl.col("stream").is_first_distinct().alias("first"),
        pl.col("stream").is_last_distinct().alias("last"),
    )
    seconds = float(cut["cpu"].sum())
    return used, (
        _note("skipped", outside, "samples outside the execution of their task"),
        _note("skipped", kept.height - used.height, "samples of time that another one covers"),
        _note(
            "repaired",
            cut.height,
            f"samples cut, and {seconds:.3f} CPU s with them, at the start or end of their task "
            "or at an earlier sample",
        ),
    )


def _added(pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces of each task, added up over its streams where it has more than one."""
    several = pieces.select("row", "stream").unique().filter(pl.len().over("row") > 1)
    if several.is_empty():
        return pieces
    together = pieces.join(several, on="stream", how="semi")
    times = pl.concat(
        [together.select("row", "from"), together.select("row", pl.col("to").alias("from"))]
    )
    steps = (
        times.unique()
        .sort("row", "from")
        .with_columns(pl.col("from").shift(-1).over("row").alias("to"))
        .drop_nulls("to")
    )
    rates = (
        several.join(steps, on="row")
        .sort("from")
        .join_asof(
            together.select("stream", "from", "rate").sort("from"),
            on="from",
            by="stream",
            check_sortedness=False,
        )
        .group_by("row", "from", "to")
        .agg(pl.sum("rate"))
        .sort("row", "from")
    )
    alone = pieces.join(several, on="stream", how="anti")
    return pl.concat([alone.drop("stream"), rates], how="diagonal")


def _note(kind: CleaningKind, count: int, what: str) -> Cleaning:
    return Cleaning(kind=kind, count=count, what=what)


def _filled(name: str, frame: pl.DataFrame, begin: str, end: str, where: str) -> Cleaning:
    seconds = float((frame[end] - frame[begin]).sum())
    return _note("invented", frame.height, f"{name} of {seconds:.3f} s in all, {where}")
