"""Failures of nodes: recorded or drawn, and what becomes of the tasks that ran there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field, WithJsonSchema, model_validator

from twinloop.description import Description, FilePath
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import DURATION, Positive, Seconds, number_to_text
from twinloop.scenario.failure_log import failures_to_frame, read_failure_log
from twinloop.workload.generators.elementary import Floats, exp, log, log_gamma
from twinloop.workload.generators.random_stream import RandomStream

_Duration = Annotated[Seconds, Field(gt=0), WithJsonSchema(DURATION.schema(positive=True))]

#: More failures than this are no cluster, but a slip in the unit of a duration.
MAX_FAILURES: Final = 10_000_000

_FIRST_BLOCK = 16
_LARGEST_BLOCK = 1 << 16


class Failures(Description):
    """When nodes fail, from a trace or from mean times, and what becomes of their tasks.

    With mean times every node is up and down by turns, on its own. It is up at first, as if just
    repaired. The times up follow the distribution, with the mean `mtbf`; the times down are
    exponential, with the mean `mttr`.

    >>> Failures(mtbf="30d", mttr="4h").on_failure
    'restart'
    >>> Failures(trace="failures.csv", on_failure="resume", checkpoint_interval="1h").checkpoint_cost
    0.0
    """

    trace: FilePath | None = Field(
        None,
        description="file of the failures: CSV with the columns node, start and end (s), or a "
        "failure trace of OpenDC in Parquet",
    )
    mtbf: _Duration | None = Field(
        None, description="mean time that a node is up, from a repair to the next failure (s)"
    )
    mttr: _Duration | None = Field(None, description="mean time that a repair takes (s)")
    distribution: Literal["exponential", "weibull"] = Field(
        "exponential", description="distribution of the times up"
    )
    shape: Positive | None = Field(
        None,
        description="shape of the Weibull distribution, from 0.2 to 20; below 1, a node "
        "that has just been repaired is the likeliest to fail",
    )
    on_failure: Literal["restart", "resume", "lost"] = Field(
        "restart",
        description="a task on a failed node starts again from nothing (restart), goes on from "
        "its last checkpoint (resume), or is lost",
    )
    checkpoint_interval: _Duration | None = Field(
        None, description="time between two checkpoints of a running task (s)"
    )
    checkpoint_cost: Seconds = Field(0.0, description="time that a checkpoint adds to the task (s)")

    @model_validator(mode="after")
    def _consistent(self) -> Failures:
        findings = ProblemCollector()
        self._check_origin(findings)
        if self.distribution == "weibull" and self.shape is None:
            findings.add(("shape",), "is missing", "a Weibull distribution needs it, such as 0.7")
        if self.shape is not None and not 0.2 <= self.shape <= 20:
            findings.add(
                ("shape",), f"must lie between 0.2 and 20, not {number_to_text(self.shape)}"
            )
        if self.distribution != "weibull" and self.shape is not None:
            findings.add(("shape",), "means nothing unless the distribution is 'weibull'")
        if self.on_failure == "resume" and self.checkpoint_interval is None:
            findings.add(("checkpoint_interval",), "is missing: a task resumes from a checkpoint")
        for name in ("checkpoint_interval", "checkpoint_cost"):
            if self.on_failure != "resume" and getattr(self, name):
                findings.add((name,), "means nothing unless then is 'resume'")
        findings.check()
        return self

    def _check_origin(self, findings: ProblemCollector) -> None:
        if self.trace is not None:
            drawn = {"mtbf": self.mtbf, "mttr": self.mttr, "shape": self.shape}
            if self.distribution != "exponential":
                drawn["distribution"] = 1.0
            for name in (name for name, value in drawn.items() if value is not None):
                findings.add((name,), "cannot stand beside a trace", "keep one of them")
        elif self.mtbf is None and self.mttr is None:
            findings.add((), "has neither a trace nor mean times", "set trace, or mtbf and mttr")
        else:
            for name in (name for name in ("mtbf", "mttr") if getattr(self, name) is None):
                findings.add((name,), "is missing", "mtbf and mttr stand together")


def compute_failure_intervals(
    failures: Failures, nodes: Sequence[str], horizon: float, seed: int = 0
) -> pl.DataFrame:
    """The failures that begin before the horizon: `node`, `start` and `end` in seconds.

    Sorted by start, then by the order of the nodes. Failures of one node that overlap or touch
    are one. What is drawn for a node depends on the seed and its
    name alone, and a longer horizon only adds to it.

    A failure of OpenDC's trace begins `failure_interval` after the end of the one before, and
    strikes a share of the nodes, rounded down. Which ones is drawn; one more node in the platform
    changes at most one of them. The trace is not repeated when it ends.

    Args:
        failures: Where they come from.
        nodes: The names of all nodes.
        horizon: The time up to which failures are wanted (s).
        seed: Where the randomness starts.

    >>> often = Failures(mtbf="1d", mttr="1h")
    >>> few = compute_failure_intervals(often, ["a", "b"], horizon=30 * 86400.0, seed=7)
    >>> more = compute_failure_intervals(often, ["a", "b", "c"], horizon=60 * 86400.0, seed=7)
    >>> few.filter(node="a").equals(more.filter(node="a")[:few.filter(node="a").height])
    True
    """
    if not 0 <= horizon < np.inf:
        raise InputError(f"must be a finite time, not {horizon}", field="horizon")
    if failures.trace is not None:
        return read_failure_log(failures.trace, nodes, horizon, seed)
    count = 0
    parts = []
    for place, node in enumerate(nodes):
        starts, ends = _drawn(failures, node, horizon, seed, MAX_FAILURES - count)
        count += len(starts)
        parts.append((np.full(len(starts), place), starts, ends))
    return failures_to_frame(nodes, parts)


def _drawn(
    failures: Failures, node: str, horizon: float, seed: int, most: int
) -> tuple[Floats, Floats]:
    draws = RandomStream(seed, f"failures of {node}")
    starts, ends = [np.empty(0)], [np.empty(0)]
    now, drawn, block = 0.0, 0, _FIRST_BLOCK
    while now < horizon:
        # By turns from one stream: what comes first does not depend on how much is drawn at once.
        up, down = draws.exponential(2 * block).reshape(-1, 2).T
        turns = np.empty(2 * block + 1)
        turns[0] = now
        turns[1::2] = _times_up(up, failures)
        turns[2::2] = down * (failures.mttr or 0.0)
        times = np.cumsum(turns)
        starts.append(times[1::2])
        ends.append(times[2::2])
        now, drawn, block = float(times[-1]), drawn + block, min(2 * block, _LARGEST_BLOCK)
        if now < horizon and drawn > most:
            raise InputError(
                f"there would be more than {MAX_FAILURES:,} failures in {number_to_text(horizon)} s",
                field="failures.mtbf",
                remedy="is the unit right? 30d, 12h, 90min",
            )
    start, end = np.concatenate(starts), np.concatenate(ends)
    before = start < horizon
    return start[before], end[before]


def _times_up(exponential: Floats, failures: Failures) -> Floats:
    mean = failures.mtbf or 0.0
    if failures.shape is None:
        return mean * exponential
    power = 1.0 / failures.shape
    # The mean of E^power, E being exponential with mean 1, is gamma(1 + power).
    scale = mean * float(exp(-log_gamma(1.0 + power)))
    return scale * exp(log(np.maximum(exponential, 2.0**-60)) * power)
