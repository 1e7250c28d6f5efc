"""Speed-up laws of tasks: their columns in a workload, and as arrays for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.tables import Column
from twinloop.workload.fragments import Floats, Rows

POINTS: Final = pl.List(pl.Struct({"cores": pl.Float64, "speedup": pl.Float64}))

#: The columns of the laws in the table of tasks; a task with both of the first two null has none.
LAW_COLUMNS: Final = {
    "parallel_fraction": Column(
        pl.Float64,
        "",
        "share of the work that several cores do in parallel, by the law of Amdahl; 1: linear",
    ),
    "speedup_points": Column(
        POINTS, "", "or its speed on some numbers of cores, as a multiple of that on one core"
    ),
    "min_cores": Column(
        pl.Float64, "cores", "fewest cores on one machine, with a speed-up law; null: 1"
    ),
    "max_cores": Column(
        pl.Float64, "cores", "most cores on one machine, with a speed-up law; null: `cores`"
    ),
}


@dataclass(frozen=True, slots=True)
class SpeedupLaws:
    """The speed-up laws of the tasks that have one, as arrays: row i belongs to task `tasks[i]`.

    The points of row i are those from `offsets[i]` up to `offsets[i + 1]`; a row without points
    has a parallel fraction.
    """

    tasks: Rows
    parallel_fraction: Floats
    min_cores: Floats
    max_cores: Floats
    offsets: Rows
    cores: Floats
    speedups: Floats

    def build_columns(self) -> dict[str, Any]:
        """Build the native columns."""
        return {
            "law_task": self.tasks,
            "law_parallel_fraction": self.parallel_fraction,
            "law_min_cores": self.min_cores,
            "law_max_cores": self.max_cores,
            "law_offsets": self.offsets,
            "law_cores": self.cores,
            "law_speedups": self.speedups,
        }

    def list_ranges(self) -> dict[int, tuple[float, float]]:
        """Return the fewest and the most cores of the tasks with a law, by task."""
        ranges = zip(self.min_cores.tolist(), self.max_cores.tolist(), strict=True)
        return dict(zip(self.tasks.tolist(), ranges, strict=True))


def read_laws(tasks: pl.DataFrame) -> SpeedupLaws | None:
    """Read the speed-up laws of a table of tasks; None if no task has one.

    >>> from twinloop.workload import Workload
    >>> workload = Workload(tasks=pl.DataFrame({
    ...     "id": ["a", "b"], "submit": 0.0, "cores": [2.0, 1.0], "work": 6.0, "limit": [2.0, 1.0],
    ...     "parallel_fraction": [0.9, None], "max_cores": [8.0, None]}))
    >>> read_laws(workload.tasks).list_ranges()
    {0: (1.0, 8.0)}
    """
    given = tasks.select("id", "cores", "nodes", *LAW_COLUMNS).with_row_index("row")
    if all(given[name].null_count() == given.height for name in LAW_COLUMNS):
        return None
    has_law = pl.col("parallel_fraction").is_not_null() | pl.col("speedup_points").is_not_null()
    for row in given.filter(~has_law).iter_rows(named=True):
        for name in ("min_cores", "max_cores"):
            if row[name] is not None:
                raise _refuse(row, name, "has no effect without a speed-up law")
    given = given.filter(has_law).with_columns(
        pl.col("min_cores").fill_null(pl.min_horizontal("cores", 1.0)),
        pl.col("max_cores").fill_null(pl.col("cores")),
    )
    points = [_check_law(row) for row in given.iter_rows(named=True)]
    flat = [point for each in points for point in each]
    return SpeedupLaws(
        tasks=given["row"].cast(pl.Int64).to_numpy(),
        parallel_fraction=given["parallel_fraction"].fill_null(np.nan).to_numpy(),
        min_cores=given["min_cores"].to_numpy(),
        max_cores=given["max_cores"].to_numpy(),
        offsets=np.cumsum([0, *map(len, points)], dtype=np.int64),
        cores=np.array([cores for cores, _ in flat], dtype=np.float64),
        speedups=np.array([speedup for _, speedup in flat], dtype=np.float64),
    )


def find_table_problem(points: list[tuple[float, float]]) -> str | None:
    """Return what is wrong with a table of numbers of cores and speed-ups; None if nothing is.

    >>> find_table_problem([(1, 1), (4, 3.1), (2, 1.8)])
    'must have increasing numbers of cores'
    """
    if not points:
        return "has no point"
    numbers = [number for point in points for number in point]
    if any(not 0 < number < np.inf for number in numbers):
        return "must have positive, finite numbers only"
    if any(after <= before for (before, _), (after, _) in pairwise(points)):
        return "must have increasing numbers of cores"
    return None


def _check_law(row: dict[str, Any]) -> list[tuple[float, float]]:
    """Check the law of one task, and return its points."""
    fraction, points = row["parallel_fraction"], row["speedup_points"]
    if fraction is not None and points is not None:
        raise _refuse(row, "speedup_points", "cannot be combined with a parallel fraction")
    if fraction is not None and not 0 <= fraction <= 1:
        raise _refuse(row, "parallel_fraction", f"must be a share from 0 to 1, not {fraction}")
    pairs = [] if points is None else [_read_point(each) for each in points]
    if points is not None and (problem := find_table_problem(pairs)):
        raise _refuse(row, "speedup_points", problem)
    if (row["nodes"] or 0) > 1:
        raise _refuse(row, "nodes", "must be 1 or missing: a speed-up law is that on one machine")
    low, high, cores = row["min_cores"], row["max_cores"], row["cores"]
    if cores is not None and not (0 < low <= cores <= high < np.inf):
        raise _refuse(
            row,
            "cores",
            f"{cores:g}, min_cores {low:g} and max_cores {high:g} must be positive, with "
            "min_cores <= cores <= max_cores",
        )
    return pairs


def _read_point(point: dict[str, float | None]) -> tuple[float, float]:
    cores, speedup = point["cores"], point["speedup"]
    return np.nan if cores is None else cores, np.nan if speedup is None else speedup


def _refuse(row: dict[str, Any], field: str, why: str) -> InputError:
    return InputError(why, kind="inconsistent-values", field=f"task {row['id']!r}: {field}")
