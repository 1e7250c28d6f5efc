"""Explained variance: the deviation from repeated runs relative to their own spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.calibration.losses.loss import BuiltInLoss, check_comparable
from twinloop.calibration.losses.mean_absolute import split_rows
from twinloop.calibration.run_columns import Floats, RunBatch, RunColumns
from twinloop.description.errors import InputError


@dataclass(frozen=True)
class ExplainedVariance(BuiltInLoss):
    """The L1 distance of the real runs to the twin over their L1 distance to their mean.

    It is the error in units of the spread of the real runs. Its minimum is at their median, and is
    at most 1.

    >>> from twinloop.calibration.losses import get_loss
    >>> reals = [RunBatch.of({"makespan_s": [m]}, [], [])[0] for m in (9.0, 10.0, 11.0)]
    >>> get_loss("explained-variance")(reals, RunBatch.of({"makespan_s": [10.0, 13.0]}, [], []))
    array([1. , 4.5])
    """

    #: Whether the largest ratio counts instead of the mean.
    worst: bool = False

    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """Compute the mean or the largest of the ratios of all compared figures."""
        losses = np.empty(len(twin))
        for rows in split_rows(len(twin), len(twin.tasks) * len(reals)):
            # Contiguous, so that the sum of a row does not depend on the number of rows.
            ratios = np.ascontiguousarray(
                np.abs(self._compute_ratios(reals, twin.select_rows(rows))).sum(axis=1)
            )
            losses[rows] = ratios.max(axis=1) if self.worst else ratios.mean(axis=1)
        return losses

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """Compute the differences to each real run over their spread."""
        check_comparable(self.name, self.needs, reals, twin)
        ratios = self._compute_ratios(reals, twin)
        count = 1 if self.worst else ratios.shape[2]
        return ratios.reshape(len(twin), -1) / count

    def _compute_ratios(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats:
        """Compute the differences over the spread of the real runs: (rows, real runs, figures)."""
        (need,) = self.needs
        samples = np.stack([np.atleast_1d(getattr(real, need)) for real in reals])
        model = getattr(twin, need).reshape(len(twin), -1)
        known = ~np.isnan(samples).any(axis=0)
        if not known.any():
            raise InputError(
                f"no task has a known {need} in all real runs",
                kind="missing-data",
                field=self.name,
            )
        samples, model = samples[:, known], model[:, known]
        constant = samples.max(axis=0) == samples.min(axis=0)
        if constant.any():
            figure = "the makespan"
            if need == "run_time":
                task = int(np.flatnonzero(known)[constant.argmax()])
                figure = f"the run time of task '{reals[0].tasks[task]}'"
            raise InputError(
                f"{figure} is the same in all {len(reals)} repetitions of {reals[0].label}"
                if len(reals) > 1
                else f"{reals[0].label} was not repeated, so {figure} has no spread",
                kind="undefined-error",
                field=self.name,
                remedy="repeat the real run, or use a loss that needs no repetitions",
            )
        spread = np.abs(samples - samples.mean(axis=0)).sum(axis=0)
        ratios: Floats = (model[:, np.newaxis, :] - samples) / spread
        return ratios


#: The losses of this module.
EXPLAINED_VARIANCE_LOSSES = (
    ExplainedVariance(
        "explained-variance", frozenset({"makespan"}), "makespan, in spreads of the real ones"
    ),
    ExplainedVariance(
        "explained-variance-tasks", frozenset({"run_time"}),
        "run times, in spreads of the real ones: mean over tasks",
    ),
    ExplainedVariance(
        "explained-variance-max-task", frozenset({"run_time"}),
        "run times, in spreads of the real ones: the worst task", worst=True,
    ),
)  # fmt: skip
