"""Losses over the tasks of each machine, without matching tasks by ID."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from twinloop.calibration.losses.loss import BuiltInLoss, check_comparable
from twinloop.calibration.losses.mean_absolute import (
    LossTerm,
    concatenate_residuals,
    split_rows,
    sum_terms,
)
from twinloop.calibration.losses.tasks_by_machine import (
    ComparableRows,
    MachineTasks,
    count_used_machines,
    group_all_tasks,
    group_by_machine,
)
from twinloop.calibration.run_columns import Floats, RunBatch, RunColumns


@dataclass(frozen=True)
class PerMachineLoss(BuiltInLoss):
    """The difference between the tasks of each machine, averaged over machines and real runs."""

    measure: Callable[[MachineTasks], Sequence[LossTerm]] = field(kw_only=True)
    #: The columns that are compared.
    columns: tuple[str, ...] = ("run_time", "cpu_time")
    by: Literal["machine", "all"] = "machine"
    #: Whether each real task is compared with one task of the twin.
    paired: bool = False
    #: Whether the terms are signed differences.
    signed: bool = True

    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """Compute the mean over machines and runs."""
        total = np.zeros(len(twin))
        for rows in split_rows(len(twin), len(twin.tasks)):
            block, block_reasons = twin.select_rows(rows), dict[int, str]()
            for real in reals:
                losses = np.full(len(block), np.nan)
                for batch in self._group_tasks(real, block, block_reasons):
                    losses[batch.rows] = sum_terms(self._compute_terms(batch))
                total[rows] += losses
            reasons.update((rows.start + row, reason) for row, reason in block_reasons.items())
        return total / len(reals)

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """Compute the differences by machine; their absolute values sum to the loss."""
        if not self.signed:
            return None
        check_comparable(self.name, self.needs, reals, twin)
        parts = []
        for real in reals:
            run_residuals: Floats | None = None
            for batch in self._group_tasks(real, twin, {}):
                values = concatenate_residuals(self._compute_terms(batch))
                if run_residuals is None:
                    run_residuals = np.full((len(twin), values.shape[1]), np.nan)
                run_residuals[batch.rows] = values
            if run_residuals is None:
                return np.full((len(twin), 1), np.nan)
            parts.append(run_residuals)
        return np.concatenate(parts, axis=1) / len(reals)

    def weight(self, reals: Sequence[RunColumns]) -> float:
        """Return the number of machines, so that an average is over all machines."""
        if self.by == "all":
            return 1.0
        return float(np.mean([count_used_machines(real) for real in reals]))

    def _compute_terms(self, batch: ComparableRows) -> list[LossTerm]:
        return [
            part._replace(weight=group.weight * part.weight)
            for group in batch.groups
            for part in self.measure(group)
        ]

    def _group_tasks(
        self, real: RunColumns, twin: RunBatch, reasons: dict[int, str]
    ) -> Sequence[ComparableRows]:
        if self.by == "all":
            return list(group_all_tasks(real, twin, self.columns, reasons))
        return list(group_by_machine(real, twin, self.columns, reasons, paired=self.paired))
