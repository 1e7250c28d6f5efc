"""Errors of a twin: by figure, by task, by user, by size class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from twinloop.fidelity.common_tasks import (
    QUANTITIES,
    average_by_group,
    match_tasks,
    select_worst_tasks,
    sort_size_classes,
)
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.power_series import align_power_series
from twinloop.fidelity.verdict_text import format_figure
from twinloop.metrics import energy
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count


@dataclass(frozen=True, slots=True, repr=False)
class Errors:
    """Errors of a twin, as twin minus real; tasks are matched by ID.

    - `figures`: `figure`, `unit`, `real`, `twin`, `error`, `relative` (to real), `floor` (median
      absolute `relative` between repetitions of the real run).
    - `tasks`: a row per task completed in both: `id`, `user`, `kind`, `cores`, `machine_real`,
      `machine_twin`, and `wait_real`, `wait_twin`, `wait_error`, likewise for `turnaround` and
      `run_time`, in s; `cores_class` and `run_time_class`.
    - `worst`: for each quantity the tasks with the largest errors: `quantity`, `id`, `user`,
      `kind`, `machine_real`, `machine_twin`, `real`, `twin`, `error`.
    - `users` and `sizes`: by user, and by class of cores and run time: `tasks`, and for each
      quantity the mean in both, the mean error and the mean absolute error (`..._off`).
    - `same_machine`: the number of the `placed` tasks (with known machines in both) that ran on the
      same machines in both; None if no machine is known.
    - `power_mape` (share) and `power_bias` (W): mean absolute relative error and mean error of the
      total power in the windows known in both; None if there are none.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> Errors.from_runs(*sides).matched
    0
    """

    figures: pl.DataFrame
    tasks: pl.DataFrame
    worst: pl.DataFrame
    users: pl.DataFrame
    sizes: pl.DataFrame
    matched: int
    only_real: int
    only_twin: int
    same_machine: int | None
    placed: int
    power_mape: float | None
    power_bias: float | None

    @classmethod
    def from_runs(cls, real: ComparedRun, twin: ComparedRun, step: float = 1.0) -> Errors:
        """Compute the errors of a twin, with power in windows of `step` seconds."""
        tasks = match_tasks(real, twin)
        placed = tasks.drop_nulls(["machine_real", "machine_twin"])
        same = placed.filter(pl.col("machine_real") == pl.col("machine_twin")).height
        power = _pair_power(real, twin, step)
        bias = float((power[1] - power[0]).mean()) if power[0].size else None
        return cls(
            figures=_compare_figures(real, twin, power, step),
            tasks=tasks,
            worst=select_worst_tasks(tasks),
            users=average_by_group(tasks.drop_nulls("user"), "user").sort(
                "tasks", "user", descending=[True, False]
            ),
            sizes=sort_size_classes(average_by_group(tasks, "cores_class", "run_time_class")),
            matched=tasks.height,
            only_real=real.completed.height - tasks.height,
            only_twin=twin.completed.height - tasks.height,
            same_machine=same if placed.height else None,
            placed=placed.height,
            power_mape=_compute_mape(*power),
            power_bias=bias,
        )

    def with_floor(self, repeated: Iterable[Mapping[str, float]]) -> Errors:
        """Return a copy whose `floor` is the median relative error between repetitions.

        Args:
            repeated: The relative errors of each pair of repetitions, by figure.
        """
        pairs = list(repeated)
        floors = []
        for name in self.figures["figure"]:
            sizes = [abs(errors[name]) for errors in pairs if name in errors]
            floors.append(float(np.median(sizes)) if sizes else None)
        return replace(
            self, figures=self.figures.with_columns(floor=pl.Series(floors, dtype=pl.Float64))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the errors, without `tasks`, as plain data."""
        return {
            "figures": self.figures.to_dicts(),
            "worst": self.worst.to_dicts(),
            "users": self.users.to_dicts(),
            "sizes": self.sizes.to_dicts(),
            "matched": self.matched,
            "only_real": self.only_real,
            "only_twin": self.only_twin,
            "same_machine": self.same_machine,
            "placed": self.placed,
            "power_mape": self.power_mape,
            "power_bias_w": self.power_bias,
        }

    def lines(self) -> Iterator[str]:
        """Yield the errors as lines of text."""
        yield f"{format_count(self.matched, 'task')} completed in both" + "".join(
            f", {format_count(count, 'task')} only in {run}"
            for count, run in ((self.only_real, "the real run"), (self.only_twin, "the twin"))
            if count
        )
        if self.same_machine is not None:
            yield f"{self.same_machine:,} of {self.placed:,} tasks on the same machines"
        if self.power_mape is not None:
            bias = format_figure(self.power_bias, "W")
            yield f"power: MAPE {format_figure(self.power_mape, 'share')}, bias {bias}"
        for frame, by in ((self.users, ["user"]), (self.sizes, ["cores_class", "run_time_class"])):
            yield from _describe_worst_group(frame, by)
        for row in self.worst.unique("quantity", keep="first", maintain_order=True).to_dicts():
            yield describe_task_error(row)

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def compute_relative_errors(
    real: ComparedRun, twin: ComparedRun, step: float = 1.0
) -> dict[str, float]:
    """Compute the relative errors of `Errors.figures`, by figure; unknown ones are left out.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> compute_relative_errors(*sides)
    {}
    """
    known = _compare_figures(real, twin, _pair_power(real, twin, step), step).drop_nulls("relative")
    return dict(zip(known["figure"], known["relative"], strict=True))


def _compare_figures(
    real: ComparedRun, twin: ComparedRun, power: tuple[Floats, Floats], step: float
) -> pl.DataFrame:
    def means(name: str) -> tuple[float | None, float | None]:
        return to_float(real.completed[name].mean()), to_float(twin.completed[name].mean())

    rows = [
        ("completed tasks", "", float(real.completed.height), float(twin.completed.height)),
        *((f"mean {name.replace('_', ' ')}", "s", *means(name)) for name in QUANTITIES),
        ("makespan", "s", real.makespan, twin.makespan),
        ("energy", "J", energy(real.trace), energy(twin.trace)),
    ]
    if power[0].size:
        joules = [float(watts.sum() * step) for watts in power]
        rows.append(("energy while both known", "J", joules[0], joules[1]))
    columns = {"figure": pl.String, "unit": pl.String, "real": pl.Float64, "twin": pl.Float64}
    known = [row for row in rows if row[2] is not None and row[3] is not None]
    frame = pl.DataFrame(known, schema=columns, orient="row")
    change = pl.col("twin") - pl.col("real")
    # A smaller difference is a rounding error.
    change = pl.when(change.abs() <= 1e-9 * pl.col("real").abs()).then(0.0).otherwise(change)
    relative = pl.when(pl.col("real") != 0).then(pl.col("error") / pl.col("real").abs())
    return frame.with_columns(error=change).with_columns(
        relative=relative, floor=pl.lit(None, dtype=pl.Float64)
    )


def _pair_power(real: ComparedRun, twin: ComparedRun, step: float) -> tuple[Floats, Floats]:
    """Return the total power of both runs (W) in the windows known in both."""
    series = align_power_series(real, twin, step, 0.0)
    if isinstance(series, str):
        return np.empty(0), np.empty(0)
    first = max(run.first for run in series)
    last = max(first, min(run.first + run.watts.size for run in series))
    real_watts, twin_watts = (run.slice(first, last) for run in series)
    known = ~(np.isnan(real_watts) | np.isnan(twin_watts))
    return real_watts[known], twin_watts[known]


def _compute_mape(real: Floats, twin: Floats) -> float | None:
    """Compute the mean absolute relative error where the real power is positive; None if never."""
    positive = real > 0
    if not positive.any():
        return None
    return float((np.abs(twin - real)[positive] / real[positive]).mean())


def _describe_worst_group(frame: pl.DataFrame, by: list[str]) -> Iterator[str]:
    """Describe the group with the largest turnaround errors, if there are several groups."""
    known = frame.drop_nulls("turnaround_off").sort("turnaround_off", descending=True)
    if frame.height < 2 or not known.height or not known["turnaround_off"][0] > 0:
        return
    row = known.row(0, named=True)
    if by == ["user"]:
        group = f"user {row['user']}"
    else:
        group = f"size class of cores {row['cores_class']}, run time {row['run_time_class']}"
    size, mean = (format_figure(row[f"turnaround_{name}"], "s") for name in ("off", "error"))
    count = format_count(row["tasks"], "task")
    yield f"furthest off, {group}: turnarounds by {size} (mean error {mean}), {count}"


def describe_task_error(row: dict[str, Any]) -> str:
    """Describe a row of `Errors.worst`.

    >>> describe_task_error({"quantity": "wait", "id": "7", "user": "ann", "kind": None,
    ...     "machine_real": "n1", "machine_twin": "n2", "real": 3.0, "twin": 5.0, "error": 2.0})
    'wait off by 2 s: task 7, user ann, on n1, in the twin n2: real 3 s, twin 5 s'
    """
    parts = [f"task {row['id']}"]
    parts += [f"{what} {row[what]}" for what in ("user", "kind") if row[what] is not None]
    if row["machine_real"] is not None:
        machines = row["machine_real"]
        if row["machine_twin"] not in (None, machines):
            machines += f", in the twin {row['machine_twin']}"
        parts.append(f"on {machines}")
    name = row["quantity"].replace("_", " ")
    return (
        f"{name} off by {format_figure(row['error'], 's')}: {', '.join(parts)}: "
        f"real {_format_seconds(row['real'])}, twin {_format_seconds(row['twin'])}"
    )


def _format_seconds(value: float) -> str:
    """Format a time with five significant digits, so that small errors are visible."""
    return f"{value:,.0f} s" if abs(value) >= 1e5 else f"{value:,.5g} s"
