"""Losses made from functions of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinloop.calibration.losses.loss import BuiltInLoss
from twinloop.calibration.run_columns import Floats, RunBatch, RunColumns


@dataclass(frozen=True)
class CustomLoss(BuiltInLoss):
    """A loss computed by a function of one real run and one run of the twin."""

    function: Callable[[RunColumns, RunColumns], float] = field(kw_only=True)

    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """Compute the mean over the real runs; NaN, and the reason, where the function fails."""
        losses = np.full(len(twin), np.nan)
        for row in range(len(twin)):
            run = twin[row]
            try:
                losses[row] = np.mean([float(self.function(real, run)) for real in reals])
            except Exception as error:  # user code may raise anything
                reasons[row] = f"{self.name}: {type(error).__name__}: {error}"
            else:
                if np.isnan(losses[row]):
                    reasons[row] = f"{self.name}: is not a number"
        return losses


def loss_from_function(
    function: Callable[[RunColumns, RunColumns], float],
    needs: Iterable[str],
    name: str | None = None,
) -> CustomLoss:
    """Make a loss from a function of a real run and a run of the twin.

    Args:
        function: Returns the loss of the second run, 0 or more; NaN and exceptions are failures.
        needs: The columns of the twin that it needs, of `NEEDS`; the others are unknown (NaN).
        name: The name of the loss; by default that of the function.

    >>> def slower(real, twin):
    ...     return max(0.0, twin.makespan - real.makespan)
    >>> loss = loss_from_function(slower, needs={"makespan"})
    >>> twin = RunBatch.of({"makespan_s": [8.0, 12.0]}, tasks=[], machines=[])
    >>> loss.name, loss([twin[0]], twin).tolist()
    ('slower', [0.0, 4.0])
    """
    label = name or str(getattr(function, "__name__", type(function).__name__))
    return CustomLoss(label, frozenset(needs), "a function of the user", function=function)
