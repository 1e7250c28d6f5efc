"""Conversion of usage samples to the demand of tasks.

Every sample within the execution of its task becomes a fragment with the measured rate. Time
without samples is filled, so that the fragments of a task last as long as the task:

- the *head*, from the start to the first sample, with the rate of the first sample;
- a *gap* between two samples, with the rate of the sample after it;
- the *tail*, from the last sample to the end, with the rate of the last sample.

Filled time is counted in notes. A sample that overlaps the start, the end or an earlier sample is
cut there and keeps its rate; a sample outside of the execution is left out. Rates of several
processes or machines of a task at the same time are added.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from twinloop.description.cleaning import Cleaning, CleaningKind
from twinloop.workload.fragments import Fragments

#: Times that differ by less than this are equal (s).
TIME_TOLERANCE = 1e-6


class Demand(NamedTuple):
    """The demand of tasks: fragments, peak memory, and notes on the conversion."""

    fragments: Fragments
    #: Row of the task and its peak resident memory, if sampled.
    memory: pl.DataFrame
    cleaned: tuple[Cleaning, ...]


def demand_from_samples(samples: pl.DataFrame) -> Demand:
    """Compute the demand of tasks with known start and end.

    Args:
        samples: A row per sample: the `row` of the task, `machine` and `pid`, the window of the
            sample (`begin`, `end`), its `rate` (reference cores) and `rss` (bytes), and `start`
            and `stop` of the task. Times are in seconds.

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
    clipped, cleaned = _clip_samples(samples)
    # Gaps below the tolerance are closed: by the sample after them or, at the end of the task, by
    # the last sample.
    starts_near = pl.col("from") - pl.col("covered_until") <= TIME_TOLERANCE
    ends_near = pl.col("last") & (pl.col("stop") - pl.col("to") <= TIME_TOLERANCE)
    clipped = clipped.with_columns(
        pl.when(starts_near).then("covered_until").otherwise("from").alias("from"),
        pl.when(ends_near).then("stop").otherwise("to").alias("to"),
    )
    uncovered = clipped.filter(pl.col("from") > pl.col("covered_until"))
    heads, gaps = uncovered.filter("first"), uncovered.filter(~pl.col("first"))
    tails = clipped.filter(pl.col("last") & (pl.col("stop") > pl.col("to")))
    pieces = pl.concat(
        [
            clipped.select("row", "stream", "from", "to", "rate"),
            uncovered.select(
                "row", "stream", pl.col("covered_until").alias("from"), to="from", rate="rate"
            ),
            tails.select("row", "stream", pl.col("to").alias("from"), to="stop", rate="rate"),
        ]
    ).sort("stream", "from")
    pieces = _add_streams(pieces).sort("row", maintain_order=True)
    fragments = Fragments.from_rows(
        pieces["row"].to_numpy(),
        (pieces["to"] - pieces["from"]).to_numpy(),
        pieces["rate"].to_numpy(),
    )
    filled = (
        _note_filled(
            "heads",
            heads,
            "covered_until",
            "from",
            "before the first sample of a task, with its rate",
        ),
        _note_filled(
            "gaps", gaps, "covered_until", "from", "between samples, with the rate of the next one"
        ),
        _note_filled(
            "tails", tails, "to", "stop", "after the last sample of a task, with its rate"
        ),
    )
    notes = tuple(note for note in (*cleaned, *filled) if note.count)
    return Demand(fragments, clipped.group_by("row").agg(pl.max("rss").alias("memory")), notes)


def _clip_samples(samples: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """Clip samples to the execution of their task and to the end of earlier samples.

    The columns `from` and `to` are the clipped window, `covered_until` is the end of the sample
    before it or the start of the task, `first` and `last` mark the ends of a stream (one process).
    """
    inside = (pl.col("end") > pl.col("start") + TIME_TOLERANCE) & (
        pl.col("begin") < pl.col("stop") - TIME_TOLERANCE
    )
    kept = samples.filter(inside)
    outside = samples.height - kept.height
    streams = kept.select("row", "machine", "pid").unique(maintain_order=True)
    kept = kept.join(
        streams.with_row_index("stream"), on=["row", "machine", "pid"], nulls_equal=True
    ).sort("stream", "end", "begin")
    # Sorted by end: the sample before has the latest end so far.
    previous_end = pl.col("end").shift(1).over("stream")
    kept = kept.with_columns(
        pl.max_horizontal("begin", "start", previous_end).alias("from"),
        pl.min_horizontal("end", "stop").alias("to"),
    )
    used = kept.filter(pl.col("to") - pl.col("from") > TIME_TOLERANCE)
    cut_off = (pl.col("from") - pl.col("begin")) + (pl.col("end") - pl.col("to"))
    cut = used.filter(cut_off > TIME_TOLERANCE).select((pl.col("rate") * cut_off).alias("cpu"))
    used = used.with_columns(
        pl.coalesce(pl.col("to").shift(1).over("stream"), "start").alias("covered_until"),
        pl.col("stream").is_first_distinct().alias("first"),
        pl.col("stream").is_last_distinct().alias("last"),
    )
    seconds = float(cut["cpu"].sum())
    return used, (
        _note("skipped", outside, "samples outside the execution of their task"),
        _note(
            "skipped",
            kept.height - used.height,
            "samples of time that is covered by another sample",
        ),
        _note(
            "repaired",
            cut.height,
            f"samples cut by {seconds:.3f} CPU s in all, at the start or end of their task "
            "or at an earlier sample",
        ),
    )


def _add_streams(pieces: pl.DataFrame) -> pl.DataFrame:
    """Add the rates of the streams (processes) of each task."""
    multiple = pieces.select("row", "stream").unique().filter(pl.len().over("row") > 1)
    if multiple.is_empty():
        return pieces
    parallel = pieces.join(multiple, on="stream", how="semi")
    times = pl.concat(
        [parallel.select("row", "from"), parallel.select("row", pl.col("to").alias("from"))]
    )
    steps = (
        times.unique()
        .sort("row", "from")
        .with_columns(pl.col("from").shift(-1).over("row").alias("to"))
        .drop_nulls("to")
    )
    rates = (
        multiple.join(steps, on="row")
        .sort("from")
        .join_asof(
            parallel.select("stream", "from", "rate").sort("from"),
            on="from",
            by="stream",
            check_sortedness=False,
        )
        .group_by("row", "from", "to")
        .agg(pl.sum("rate"))
        .sort("row", "from")
    )
    single = pieces.join(multiple, on="stream", how="anti")
    return pl.concat([single.drop("stream"), rates], how="diagonal")


def _note(kind: CleaningKind, count: int, what: str) -> Cleaning:
    return Cleaning(kind=kind, count=count, what=what)


def _note_filled(name: str, frame: pl.DataFrame, begin: str, end: str, where: str) -> Cleaning:
    seconds = float((frame[end] - frame[begin]).sum())
    return _note("invented", frame.height, f"{name} of {seconds:.3f} s in all, {where}")
