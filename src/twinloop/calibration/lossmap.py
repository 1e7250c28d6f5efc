"""Lossmaps: the validation loss on large runs as a function of the training set.

After section 5.4 of McDonald, "A Systematic and Automated Methodology for Calibrating Simulators of
Parallel and Distributed Computing Systems" (dissertation, University of Hawai'i at Manoa, 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import polars as pl

from twinloop.calibration.splits import count_nodes
from twinloop.description.errors import InputError, TwinloopError
from twinloop.metrics.tasks import per_task
from twinloop.trace.trace import Trace, require_trace

Scheme = Literal["single", "rectangular"]


@dataclass(frozen=True)
class Sample:
    """A real run with its size: workers, tasks and makespan.

    >>> Sample(workers=4, tasks=100, makespan=60.0).cost
    240.0
    """

    workers: int
    tasks: int
    #: From the first submission to the last end (s).
    makespan: float
    #: The run itself, in any form that the fit accepts.
    run: Any = None

    @classmethod
    def of(cls, trace: Trace, *, workers_used: int | None = None) -> Sample:
        """Measure a trace; its workers are its nodes, unless given.

        >>> Sample.of(Trace(), workers_used=3).workers
        3
        """
        ran = per_task(require_trace(trace)).filter("ran")
        first, last = ran["submit"].min(), ran["end"].max()
        length = 0.0 if first is None or last is None else float(last - first)  # type: ignore[operator, arg-type]
        return cls(workers_used or count_nodes(trace), trace.tasks.height, length, trace)

    @property
    def cost(self) -> float:
        """The cost of the run in worker-seconds: workers times makespan."""
        return self.workers * self.makespan


@dataclass(frozen=True)
class TrainingSet:
    """Training runs, selected by a scheme at a point of the grid of workers and tasks."""

    scheme: Scheme
    workers: int
    tasks: int
    samples: tuple[Sample, ...]

    @property
    def cost(self) -> float:
        """The cost of all runs in worker-seconds."""
        return sum_costs(self.samples)


#: Fits to training samples, and returns a function that computes the loss on any samples.
FitFunction: TypeAlias = Callable[[Sequence[Sample]], Callable[[Sequence[Sample]], float]]

_SCHEMA: Final = {
    "scheme": pl.String,
    "workers": pl.Int64,
    "tasks": pl.Int64,
    "samples": pl.Int64,
    "cost": pl.Float64,
    "train_loss": pl.Float64,
    "validation_loss": pl.Float64,
    "error": pl.String,
}


def sum_costs(samples: Sequence[Sample]) -> float:
    """Sum the costs of runs, in worker-seconds.

    >>> sum_costs([Sample(2, 10, 30.0), Sample(1, 10, 50.0)])
    110.0
    """
    return sum(sample.cost for sample in samples)


def make_single_sets(samples: Sequence[Sample]) -> list[TrainingSet]:
    """Make a training set at each point of the grid: the runs with these workers and tasks.

    >>> [(s.workers, s.tasks) for s in make_single_sets([Sample(1, 9, 5.0), Sample(2, 9, 4.0)])]
    [(1, 9), (2, 9)]
    """
    return list(_make_sets("single", samples))


def make_rectangular_sets(samples: Sequence[Sample]) -> list[TrainingSet]:
    """Make a training set up to each point of the grid: at most these workers and tasks.

    >>> [len(s.samples) for s in make_rectangular_sets([Sample(1, 9, 5.0), Sample(2, 9, 4.0)])]
    [1, 2]
    """
    return list(_make_sets("rectangular", samples))


def hold_out_large(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Divide samples into training and validation; the large ones are for validation.

    A large run has the most workers or the most tasks, and the fewest of neither.

    >>> grid = [Sample(n, m, 1.0) for n in (1, 2) for m in (10, 20)]
    >>> [(s.workers, s.tasks) for s in hold_out_large(grid)[1]]
    [(2, 20)]
    """
    counts, sizes = {s.workers for s in samples}, {s.tasks for s in samples}
    large = [
        (sample.workers == max(counts) or sample.tasks == max(sizes))
        and sample.workers > min(counts)
        and sample.tasks > min(sizes)
        for sample in samples
    ]
    if not any(large):
        raise InputError(
            "no run is larger than another in workers and in tasks",
            kind="too-few-values",
            field="samples",
            remedy="give runs on several numbers of workers, and of several numbers of tasks",
        )
    return (
        [sample for sample, chosen in zip(samples, large, strict=True) if not chosen],
        [sample for sample, chosen in zip(samples, large, strict=True) if chosen],
    )


@dataclass(frozen=True, repr=False)
class Lossmap:
    """Training and validation losses, a row per training set.

    `frame` has `scheme`, `workers`, `tasks`, `samples`, `cost` (worker-seconds), `train_loss`,
    `validation_loss`, and `error` if the fit failed.
    """

    frame: pl.DataFrame

    @property
    def best(self) -> dict[str, Any]:
        """The training set with the smallest validation loss."""
        known = self.frame.drop_nulls("validation_loss").sort("validation_loss", "cost")
        if not known.height:
            raise InputError(
                "no fit succeeded", kind="evaluations-failed", remedy="see the column error"
            )
        return known.row(0, named=True)

    @property
    def front(self) -> pl.DataFrame:
        """The Pareto front of cost and validation loss, by increasing cost."""
        known = self.frame.drop_nulls("validation_loss").sort("cost", "validation_loss")
        best_so_far = pl.col("validation_loss").cum_min().shift()
        better = (pl.col("validation_loss") < best_so_far).fill_null(True)
        return known.filter(better)

    def __str__(self) -> str:
        lines: list[str] = []
        for (scheme,), rows in self.frame.group_by("scheme", maintain_order=True):
            sizes = sorted(set(rows["tasks"]))
            lines += [f"validation loss, {scheme} training", "workers \\ tasks"]
            lines[-1] += "".join(f"{size:>10}" for size in sizes)
            for count in sorted(set(rows["workers"])):
                cells = {
                    row["tasks"]: row["validation_loss"]
                    for row in rows.filter(pl.col("workers") == count).iter_rows(named=True)
                }
                texts = ("" if (loss := cells.get(m)) is None else f"{loss:.4g}" for m in sizes)
                lines.append(f"{count:>15}" + "".join(f"{text:>10}" for text in texts))
        return "\n".join(lines)

    __repr__ = __str__


def compute_lossmap(
    samples: Sequence[Sample],
    fit: FitFunction,
    *,
    validation: Sequence[Sample] | None = None,
    progress: Callable[[TrainingSet], None] | None = None,
) -> Lossmap:
    """Fit to every single-sample and every rectangular training set, and validate each fit.

    A fit that raises a TwinloopError is a row without losses. A rectangle with a single point of
    the grid equals the single-sample set and is left out.

    Args:
        samples: The runs.
        fit: Fits to samples, and returns the loss of the fit on any samples.
        validation: The validation runs; None: the large ones of `samples`, which then are in no
            training set.
        progress: Called with each training set before its fit.

    >>> grid = [Sample(n, m, m / n) for n in (1, 2) for m in (10, 20)]
    >>> def fit(train):
    ...     rate = sum(s.makespan * s.workers for s in train) / sum(s.tasks for s in train)
    ...     return lambda some: max(abs(s.tasks * rate / s.workers - s.makespan) for s in some)
    >>> print(compute_lossmap(grid, fit))
    validation loss, single training
    workers \\ tasks        10        20
                  1         0         0
                  2         0
    validation loss, rectangular training
    workers \\ tasks        10        20
                  1                   0
                  2         0
    """
    if validation is None:
        train, validation_samples = hold_out_large(samples)
    else:
        train, validation_samples = list(samples), list(validation)
    if not train or not validation_samples:
        raise InputError(
            "training or validation is empty",
            kind="too-few-values",
            field="samples",
            remedy="add runs",
        )
    rows = []
    for chosen in (*make_single_sets(train), *make_rectangular_sets(train)):
        if (
            chosen.scheme == "rectangular"
            and len({(s.workers, s.tasks) for s in chosen.samples}) < 2
        ):
            continue
        if progress is not None:
            progress(chosen)
        row: dict[str, Any] = {
            "scheme": chosen.scheme,
            "workers": chosen.workers,
            "tasks": chosen.tasks,
            "samples": len(chosen.samples),
            "cost": chosen.cost,
        }
        try:
            loss = fit(chosen.samples)
            row |= {"train_loss": loss(chosen.samples), "validation_loss": loss(validation_samples)}
        except TwinloopError as error:
            row["error"] = str(error)
        rows.append(row)
    return Lossmap(pl.DataFrame(rows, schema=_SCHEMA))


def _make_sets(scheme: Scheme, samples: Sequence[Sample]) -> Iterator[TrainingSet]:
    for count, size in sorted({(sample.workers, sample.tasks) for sample in samples}):
        chosen = tuple(
            sample
            for sample in samples
            if (sample.workers, sample.tasks) == (count, size)
            or (scheme == "rectangular" and sample.workers <= count and sample.tasks <= size)
        )
        yield TrainingSet(scheme, count, size, chosen)
