"""Runs as columns of tasks in the order of a scenario, the form that losses compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from twinloop.calibration.power_windows import average_power
from twinloop.calibration.trace_columns import extract_columns
from twinloop.description.errors import InputError
from twinloop.metrics.energy_and_carbon import energy
from twinloop.trace.trace import Trace, require_trace

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: The columns that have a number for each task.
TASK_COLUMNS: Final = ("submit", "start", "end", "run_time", "wait", "cpu_time")

#: The outputs of `CompiledScenario.run_many` for each need of a loss.
OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "makespan": ("makespan_s",),
    "start": ("task_start",),
    "end": ("task_end",),
    "run_time": ("task_start", "task_end"),
    "wait": ("task_start", "task_submit"),
    "cpu_time": ("task_cpu",),
    "machine": ("task_machine",),
    "energy": ("energy_j",),
}


@dataclass(frozen=True, eq=False)
class RunColumns:
    """One run as columns, in the order of the tasks of a scenario.

    Times in s since t = 0; NaN if unknown or if the task did not complete. `run_time` is
    `end` - `start`, and `wait` is `start` - `submit`, also for a task with parents. The `makespan`
    is that of `twinloop.metrics`: from the first submission to the last end of the tasks that ran.

    >>> import polars as pl
    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0], "cpu_time": [2.0, None]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "machine": ["n1", "n2"],
    ...         "start": [0.5, 2.0], "end": [3.0, 9.0]}),
    ... )
    >>> run = RunColumns.of(trace, tasks=["b", "a", "c"], machines=["n1", "n2"])
    >>> run.run_time.tolist(), run.machine.tolist(), run.makespan
    ([7.0, 2.5, nan], [1, 0, -1], 9.0)
    """

    tasks: tuple[str, ...]
    machines: tuple[str, ...]
    submit: Floats
    start: Floats
    end: Floats
    run_time: Floats
    wait: Floats
    cpu_time: Floats
    #: Index into `machines`; -1: unknown, or not one of them.
    machine: Indices
    makespan: float
    #: In J; NaN: unknown.
    energy: float = np.nan
    #: Mean power (W) in windows of `power_step` seconds from the start of the twin; NaN: unknown.
    power: Floats = field(default_factory=lambda: np.empty(0))
    power_step: float | None = None
    #: The name in messages.
    name: str = ""
    #: Machines of the run that are not in `machines`.
    unknown_machines: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        trace: Trace,
        tasks: Iterable[str],
        machines: Iterable[str],
        *,
        power_step: float | None = None,
        power_begin: float = 0.0,
        name: str = "",
    ) -> RunColumns:
        """Read the columns of a trace, real or simulated.

        A task that is not in the trace is NaN in every column; a task that did not complete is
        NaN in all but `submit`. A task of unknown status that ended counts as completed.

        Args:
            trace: The run.
            tasks: The ids of the tasks of the scenario. Any other task in the trace is an error.
            machines: The names of the machines of the scenario.
            power_step: The length of the windows of `power` in s; None: no power.
            power_begin: The start of the first window (s).
            name: The name in messages.
        """
        trace = require_trace(trace)
        ids, names = tuple(tasks), tuple(machines)
        found, unknown = extract_columns(trace, ids, names, name)
        joules = energy(trace)
        return cls(
            tasks=ids,
            machines=names,
            **found,
            energy=np.nan if joules is None else joules,
            power=np.empty(0)
            if power_step is None
            else average_power(trace, power_step, power_begin),
            power_step=power_step,
            name=name,
            unknown_machines=unknown,
        )

    @property
    def label(self) -> str:
        """The run in messages.

        >>> RunColumns.of(Trace(), [], [], name="day 1").label
        "the run 'day 1'"
        """
        return f"the run '{self.name}'" if self.name else "the run"


@dataclass(frozen=True, eq=False)
class RunBatch:
    """Many runs of a scenario: the columns of `RunColumns` with a row per run; None if missing.

    >>> import numpy as np
    >>> runs = RunBatch.of({"task_start": np.zeros((3, 2)), "task_end": np.ones((3, 2))},
    ...                tasks=["a", "b"], machines=["n1"])
    >>> len(runs), runs.run_time.shape, runs.makespan is None, runs[0].run_time.tolist()
    (3, (3, 2), True, [1.0, 1.0])
    """

    tasks: tuple[str, ...]
    machines: tuple[str, ...]
    count: int
    makespan: Floats | None = None
    submit: Floats | None = None
    start: Floats | None = None
    end: Floats | None = None
    run_time: Floats | None = None
    wait: Floats | None = None
    cpu_time: Floats | None = None
    machine: Indices | None = None
    energy: Floats | None = None
    power: Floats | None = None
    power_step: float | None = None

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, npt.ArrayLike],
        tasks: Iterable[str],
        machines: Iterable[str],
        *,
        power_step: float | None = None,
    ) -> RunBatch:
        """Make a batch from the outputs of `CompiledScenario.run_many`; see `select_outputs`.

        Args:
            outputs: Arrays by name, a row per run: `makespan_s`, `energy_j`, `task_submit`,
                `task_start`, `task_end`, `task_cpu`, `task_machine`, and `power`, the mean watts
                in windows of `power_step` from the start of the run. Other names are ignored.
            tasks: The ids of the tasks in the order of the columns: `compiled.names.tasks`.
            machines: The names of the machines: `compiled.names.machines`.
            power_step: The length of the windows of power in s.
        """
        ids = tasks if isinstance(tasks, tuple) else tuple(tasks)
        names = machines if isinstance(machines, tuple) else tuple(machines)
        columns: dict[str, Any] = {}
        for column, output in _OUTPUT_OF_COLUMN.items():
            if output in outputs:
                dtype = np.intp if column == "machine" else np.float64
                columns[column] = np.ascontiguousarray(outputs[output], dtype=dtype)
        if not columns:
            raise InputError(
                "has no output that a loss compares", kind="missing-data", field="outputs"
            )
        count = len(next(iter(columns.values())))
        for column, values in columns.items():
            shape = {"makespan": (count,), "energy": (count,), "power": (count, values.shape[-1])}
            expected = shape.get(column, (count, len(ids)))
            if values.shape != expected:
                raise InputError(
                    f"must have shape {expected}, not {values.shape}",
                    kind="wrong-count",
                    field=column,
                )
        if "start" in columns and "end" in columns:
            columns["run_time"] = columns["end"] - columns["start"]
        if "start" in columns and "submit" in columns:
            columns["wait"] = columns["start"] - columns["submit"]
        return cls(ids, names, count, **columns, power_step=power_step)

    @classmethod
    def of_runs(cls, runs: Sequence[RunColumns]) -> RunBatch:
        """Make a batch from runs of the same scenario, a row each.

        >>> run = RunColumns.of(Trace(), ["a"], ["n1"])
        >>> RunBatch.of_runs([run, run]).run_time.tolist()
        [[nan], [nan]]
        """
        if not runs:
            raise InputError("must have at least one run", kind="no-runs", field="runs")
        first = runs[0]
        for run in runs:
            refuse_different_scenarios(first, run)
        windows = max(run.power.size for run in runs)
        power = np.full((len(runs), windows), np.nan)
        for row, run in zip(power, runs, strict=True):
            row[: run.power.size] = run.power
        return cls(
            first.tasks,
            first.machines,
            len(runs),
            **{name: np.stack([getattr(run, name) for run in runs]) for name in TASK_COLUMNS},
            machine=np.stack([run.machine for run in runs]),
            makespan=np.array([run.makespan for run in runs]),
            energy=np.array([run.energy for run in runs]),
            power=power if windows else None,
            power_step=first.power_step,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[RunBatch]) -> RunBatch:
        """Concatenate the rows of batches of one scenario, in the columns that all of them have.

        >>> runs = RunBatch.of({"makespan_s": [1.0]}, tasks=["a"], machines=["n1"])
        >>> RunBatch.concatenate([runs, runs]).makespan.tolist()
        [1.0, 1.0]
        """
        if not parts:
            raise InputError("must have at least one run", kind="no-runs", field="runs")
        first = parts[0]
        for part in parts:
            refuse_different_scenarios(first, part)
        columns = {name: [getattr(part, name) for part in parts] for name in _COLUMNS}
        return cls(
            first.tasks,
            first.machines,
            sum(part.count for part in parts),
            **{
                name: np.concatenate(found)
                for name, found in columns.items()
                if all(column is not None for column in found)
            },
            power_step=first.power_step,
        )

    def select_rows(self, rows: slice) -> RunBatch:
        """Select rows.

        >>> runs = RunBatch.of({"makespan_s": [1.0, 2.0, 3.0]}, [], [])
        >>> runs.select_rows(slice(1, 3)).makespan.tolist()
        [2.0, 3.0]
        """
        found = {name: getattr(self, name) for name in _COLUMNS}
        return RunBatch(
            self.tasks,
            self.machines,
            len(range(self.count)[rows]),
            **{name: column[rows] for name, column in found.items() if column is not None},
            power_step=self.power_step,
        )

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> RunColumns:
        """Return one run; columns that are None become NaN."""
        size = len(self.tasks)

        def select_row(column: Any, missing: Any) -> Any:
            return missing if column is None else column[row]

        unknown = np.full(size, np.nan)
        return RunColumns(
            tasks=self.tasks,
            machines=self.machines,
            **{name: select_row(getattr(self, name), unknown) for name in TASK_COLUMNS},
            machine=select_row(self.machine, np.full(size, -1, dtype=np.intp)),
            makespan=float(select_row(self.makespan, np.nan)),
            energy=float(select_row(self.energy, np.nan)),
            power=select_row(self.power, np.empty(0)),
            power_step=self.power_step,
        )


_COLUMNS: Final = (*TASK_COLUMNS, "machine", "makespan", "energy", "power")
_OUTPUT_OF_COLUMN: Final = {
    "makespan": "makespan_s",
    "submit": "task_submit",
    "start": "task_start",
    "end": "task_end",
    "cpu_time": "task_cpu",
    "machine": "task_machine",
    "energy": "energy_j",
    "power": "power",
}


def select_outputs(needs: Iterable[str]) -> tuple[str, ...]:
    """Select the outputs of `CompiledScenario.run_many` that contain the columns a loss needs.

    Power is not among them: `CompiledScenario.power_many` computes it.

    >>> select_outputs({"run_time", "makespan"})
    ('makespan_s', 'task_start', 'task_end')
    """
    wanted_columns = set(needs)
    names = [
        output for need, outputs in OUTPUTS.items() if need in wanted_columns for output in outputs
    ]
    return tuple(dict.fromkeys(names))


def refuse_different_scenarios(one: RunColumns | RunBatch, other: RunColumns | RunBatch) -> None:
    """Raise an error if two runs differ in their tasks or machines.

    >>> one, other = (RunColumns.of(Trace(), [task], []) for task in ("a", "b"))
    >>> refuse_different_scenarios(one, other)
    Traceback (most recent call last):
    twinloop.InputError: the runs are not of the same tasks
        (make them with the tasks and machines of one scenario) [TL0904]
    """
    for what in ("tasks", "machines"):
        if getattr(one, what) != getattr(other, what):
            raise InputError(
                f"the runs are not of the same {what}",
                kind="not-comparable",
                remedy="make them with the tasks and machines of one scenario",
            )
