"""Alignment of the real data before a comparison: factor on CPU usage, time offset."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.fidelity.compared_run import ComparedRun, find_origins
from twinloop.fidelity.cpu_usage import pair_usage
from twinloop.trace.trace import Trace, format_count


@dataclass(frozen=True, slots=True)
class Alignment:
    """A factor `k` on the real CPU usage and an `offset` in s added to the real times.

    They correct systematic differences between the measurements of both runs. Since they change the
    real data, a verdict with an alignment also has the unaligned figures. `training` holds the
    digests of the real runs that it was fitted on, which cannot be assessed with it.

    >>> print(Alignment(k=1.05))
    real CPU usage x 1.05, real times +0 s (not fitted)
    """

    k: float = 1.0
    offset: float = 0.0
    training: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k) and self.k > 0):
            raise InputError(
                f"must be positive, not {self.k}", kind="out-of-range", field="alignment.k"
            )
        if not math.isfinite(self.offset):
            raise InputError(
                f"must be a finite time, not {self.offset}",
                kind="out-of-range",
                field="alignment.offset",
            )

    @property
    def has_effect(self) -> bool:
        """Whether the alignment changes the data."""
        return self.k != 1.0 or self.offset != 0.0

    def check_not_trained_on(self, real: Trace) -> None:
        """Raise an error if the alignment was fitted on this run."""
        if digest_trace(real) in self.training:
            raise InputError(
                "k and the time offset were fitted on this run",
                kind="training-data",
                field="alignment",
                remedy="fit them on training runs, and assess another run",
            )

    def __str__(self) -> str:
        fitted = (
            f"fitted on {format_count(len(self.training), 'training run')}"
            if self.training
            else "not fitted"
        )
        return f"real CPU usage x {self.k:.6g}, real times {self.offset:+.6g} s ({fitted})"


def fit_alignment(pairs: Iterable[tuple[Trace, Trace]], *, step: float = 1.0) -> Alignment:
    """Fit k and the time offset to training runs: pairs of a real run and its twin.

    `k` is the least-squares factor of the real CPU usage over all windows; the offset is the median
    of twin - real over the ends of the tasks completed in both runs, relative to the first
    submission. Where there are no data, `k` is 1 and the offset 0.

    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]})
    >>> def run(end):
    ...     placed = pl.DataFrame({"task": ["a"], "start": [0.0], "end": [end]})
    ...     return Trace(tasks=tasks, placements=placed)
    >>> fit_alignment([(run(10.0), run(10.5))]).offset
    0.5
    """
    products = squares = 0.0
    differences: list[pl.Series] = []
    training = []
    for real_trace, twin_trace in pairs:
        real = ComparedRun(real_trace, "the real run")
        twin = ComparedRun(twin_trace, "the twin").as_twin_of(real)
        training.append(digest_trace(real.trace))
        usage, _, _ = pair_usage(real, twin, step)
        real_usage, twin_usage = usage["real"].to_numpy(), usage["twin"].to_numpy()
        products += float(real_usage @ twin_usage)
        squares += float(real_usage @ real_usage)
        real_origin, twin_origin = find_origins(real, twin)
        both = real.completed.select("id", "end").join(
            twin.completed.select("id", twin_end="end"), on="id"
        )
        difference = both["twin_end"] - twin_origin - (both["end"] - real_origin)
        differences.append(difference.drop_nulls())
    if not training:
        raise InputError("at least one pair of runs is needed", kind="no-runs", field="pairs")
    offsets = np.concatenate([part.to_numpy() for part in differences])
    return Alignment(
        k=products / squares if squares > 0 and products > 0 else 1.0,
        offset=float(np.median(offsets)) if offsets.size else 0.0,
        training=tuple(training),
    )


def digest_trace(trace: Trace) -> str:
    """Compute a hash of the placements and the power of a trace, which identifies a run.

    >>> digest_trace(Trace()) == digest_trace(Trace())
    True
    """
    placed = trace.placements.select("task", "machine", "start", "end")
    digest = hashlib.sha256(placed.write_csv().encode())
    digest.update(trace.power.select("t", "watts").write_csv().encode())
    return digest.hexdigest()
