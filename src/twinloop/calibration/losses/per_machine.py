"""Losses of the tasks of each machine, which need no task to be matched with another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from twinloop.calibration.losses.loss import BuiltIn, check
from twinloop.calibration.losses.mean_absolute import Part, blocks, mean_size, side_by_side
from twinloop.calibration.losses.tasks_by_machine import (
    Batch,
    Group,
    by_machine,
    together,
    used_machines,
)
from twinloop.calibration.run_columns import Floats, Run, Runs


@dataclass(frozen=True)
class Grouped(BuiltIn):
    """The mean over machines, and over the real runs, of what tells their tasks from the twin's."""

    measure: Callable[[Group], Sequence[Part]] = field(kw_only=True)
    #: What of each task is compared.
    columns: tuple[str, ...] = ("run_time", "cpu_time")
    by: Literal["machine", "all"] = "machine"
    #: Whether each real task is held against one of the twin.
    paired: bool = False
    #: Whether what it measures are differences with a sign.
    signed: bool = True

    def score(self, reals: Sequence[Run], twin: Runs, reasons: dict[int, str]) -> Floats:
        """The mean over machines and runs."""
        total = np.zeros(len(twin))
        for rows in blocks(len(twin), len(twin.tasks)):
            some, why = twin.part(rows), dict[int, str]()
            for real in reals:
                losses = np.full(len(some), np.nan)
                for batch in self._batches(real, some, why):
                    losses[batch.rows] = mean_size(self._parts(batch))
                total[rows] += losses
            reasons.update((rows.start + row, reason) for row, reason in why.items())
        return total / len(reals)

    def residuals(self, reals: Sequence[Run], twin: Runs) -> Floats | None:
        """The differences, machine by machine; their sizes add up to the loss."""
        if not self.signed:
            return None
        check(self.name, self.needs, reals, twin)
        found = []
        for real in reals:
            whole: Floats | None = None
            for batch in self._batches(real, twin, {}):
                values = side_by_side(self._parts(batch))
                if whole is None:
                    whole = np.full((len(twin), values.shape[1]), np.nan)
                whole[batch.rows] = values
            if whole is None:
                return np.full((len(twin), 1), np.nan)
            found.append(whole)
        return np.concatenate(found, axis=1) / len(reals)

    def weight(self, reals: Sequence[Run]) -> float:
        """The number of machines, so that an average is over all machines of all scenarios."""
        if self.by == "all":
            return 1.0
        return float(np.mean([used_machines(real) for real in reals]))

    def _parts(self, batch: Batch) -> list[Part]:
        return [
            part._replace(weight=group.weight * part.weight)
            for group in batch.groups
            for part in self.measure(group)
        ]

    def _batches(self, real: Run, twin: Runs, reasons: dict[int, str]) -> Sequence[Batch]:
        if self.by == "all":
            return list(together(real, twin, self.columns, reasons))
        return list(by_machine(real, twin, self.columns, reasons, paired=self.paired))
