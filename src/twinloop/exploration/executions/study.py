"""The result of a study over real executions: its runs, and their errors by set and by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from twinloop.description.cleaning import EXAMPLES
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name
from twinloop.exploration.executions.design import ExecutionDesign, SimulationSet
from twinloop.exploration.executions.measurements import MeasuredResults
from twinloop.exploration.executions.observations import MEASURED, METRICS
from twinloop.exploration.executions.plan import ExecutionRun, RecordedExecution
from twinloop.exploration.executions.tables import (
    EXECUTION_TABLES,
    make_coverage,
    make_differences,
    make_error_rows,
    make_execution_runs,
    make_frequencies,
    make_histogram,
    make_repetitions,
    make_statistics,
)
from twinloop.exploration.executions.text import execution_study_to_text
from twinloop.exploration.study.input_hashes import RERUN_REMEDY, Hashes, find_changed_inputs
from twinloop.exploration.study.intervals import count_required_runs
from twinloop.exploration.study.state import StudyState
from twinloop.exploration.study.tables import write_study_tables
from twinloop.trace.trace import format_count


@dataclass(frozen=True, repr=False)
class ExecutionStudy(StudyState):
    """A study over real executions: every execution simulated with every set, and the errors.

    `runs` has a row per run: the execution with its labels, the set, what was simulated, what was
    measured, and the absolute errors. A *cell* is a group of executions with the same labels, such
    as a platform and an application.
    """

    design: ExecutionDesign
    executions: tuple[RecordedExecution, ...]
    sets: tuple[SimulationSet, ...]
    planned_runs: tuple[ExecutionRun, ...]
    #: The result of each run that has ended, by its key: `kpis`, `seconds`, `error`.
    results: Mapping[str, Mapping[str, Any]] = field(compare=False)
    #: The measured results of executions, from a table.
    measured: MeasuredResults = field(default_factory=MeasuredResults)
    folder: Path | None = None
    #: The hashes of all files that the runs read, by path; None: the file did not exist.
    inputs: Hashes = field(default_factory=dict, compare=False)

    # --- state -----------------------------------------------------------------------------------

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on the study as a whole."""
        notes = [*self.measured.notes]
        if changed := find_changed_inputs(self.inputs):
            notes.append(f"changed since the simulation: {', '.join(changed)} ({RERUN_REMEDY})")
        notes += self._describe_cleaning()
        unmeasured = self.unmeasured
        if unmeasured:
            notes.append(
                f"{format_count(len(unmeasured), 'execution')} of {len(self.executions):,} without "
                "measured results: simulated, but without errors"
            )
        needed = count_required_runs()
        if any(each.fitted for each in self.sets) and self.design.cross_validation.runs < needed:
            notes.append(
                f"no prediction intervals: they need {needed} simulations of each execution "
                "(cross_validation.runs)"
            )
        beyond = self.beyond_boots
        if not beyond.is_empty():
            count = format_count(beyond["execution"].n_unique(), "execution")
            notes.append(
                f"in {count} a simulation rented more instances than the execution has boots; the "
                "boots of the further instances are predicted (column beyond_boots of the runs)"
            )
        return tuple(notes)

    def _describe_cleaning(self) -> Iterator[str]:
        """Describe what was changed in the executions: how much, in how many of them."""
        found: dict[str, dict[str, int]] = {}
        for index, what, count in self._list_cleaning():
            execution = self.executions[self.planned_runs[index].execution]
            found.setdefault(what, {})[execution.name] = count
        for what, counts in found.items():
            names = [*sorted(counts)[:EXAMPLES], *(["..."] if len(counts) > EXAMPLES else [])]
            executions = format_count(len(counts), "execution")
            yield f"{what}: {sum(counts.values()):,} in {executions} ({', '.join(names)})"

    # --- tables ----------------------------------------------------------------------------------

    @property
    def cells(self) -> tuple[str, ...]:
        """The labels by which errors are grouped: those of the design that an execution has."""
        known = {label for each in self.executions for label in each.labels}
        return tuple(label for label in self.design.cells if label in known)

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per run that has ended."""
        return make_execution_runs(self)

    @cached_property
    def execution_errors(self) -> pl.DataFrame:
        """The errors, a row per run and metric: `set`, `cell`, `execution`, `metric`, `error`."""
        return make_error_rows(self)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics with an error."""
        known = set(self.execution_errors["metric"])
        return tuple(metric for metric in METRICS if metric in known)

    @cached_property
    def unmeasured(self) -> tuple[str, ...]:
        """The executions with a successful run and without any measured result."""
        rows = self.runs.filter(pl.col("error").is_null())
        known = pl.any_horizontal(pl.col(MEASURED).is_not_null())
        return tuple(rows.filter(~known)["execution"].unique(maintain_order=True))

    @cached_property
    def beyond_boots(self) -> pl.DataFrame:
        """The runs that rented more instances than the execution has boots to inject."""
        return self.runs.filter(pl.col("beyond_boots") > 0)

    @cached_property
    def statistics(self) -> pl.DataFrame:
        """The errors of each set, cell and metric: count, minimum, mean, median, maximum."""
        return make_statistics(self)

    @cached_property
    def frequencies(self) -> pl.DataFrame:
        """The weighted shares of executions with small and large errors."""
        return make_frequencies(self)

    @cached_property
    def histogram(self) -> pl.DataFrame:
        """The weighted share of executions in each interval of the error, `from` to `to`."""
        return make_histogram(self)

    @cached_property
    def differences(self) -> pl.DataFrame:
        """The differences between the errors of each set and of the first one.

        `delta` is the difference of a statistic; `paired` the statistic of the differences per
        execution, over the executions in both sets.
        """
        return make_differences(self)

    @cached_property
    def repetitions(self) -> pl.DataFrame:
        """The baseline: errors of the mean of the other repetitions as a prediction.

        These are executions with equal labels but `repetition`. The errors are the noise between
        repetitions, without any simulation.
        """
        return make_repetitions(self)

    @cached_property
    def coverage(self) -> pl.DataFrame:
        """The shares of measured values within their predicted intervals, by set, cell and value.

        Only sets with models that are fitted to other executions have intervals.
        """
        return make_coverage(self)

    def list_largest_errors(self, count: int = 10, metric: str = "makespan") -> pl.DataFrame:
        """List the runs with the largest errors of a metric, for a close analysis."""
        name = f"{metric}_error"
        if metric not in METRICS:
            raise InputError(
                f"unknown metric '{metric}'",
                kind="not-a-choice",
                field="metric",
                remedy=", ".join(METRICS),
            )
        rows = self.runs.drop_nulls(name).sort([name, "run"], descending=[True, False])
        return rows.head(count)

    # --- storage and output ----------------------------------------------------------------------

    def export(self, folder: str | Path) -> tuple[Path, ...]:
        """Write all tables as CSV and as Parquet."""
        tables = {name: getattr(self, name) for name in EXECUTION_TABLES}
        return write_study_tables(tables, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> ExecutionStudy:
        """Read a study from its folder, also while it is running."""
        from twinloop.exploration.executions.storage import load_execution_study

        return load_execution_study(Path(folder))

    def __str__(self) -> str:
        return execution_study_to_text(self)

    def __repr__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        return escape_name(
            f"<ExecutionStudy: {format_count(len(self.executions), 'execution')} with "
            f"{format_count(len(self.sets), 'set')}, {self.done:,} of {self.planned:,} runs "
            f"done{failed}>"
        )
