"""Which losses can be computed from a recorded run."""

from __future__ import annotations

from collections.abc import Iterable

from twinloop.calibration.losses.loss import BuiltInLoss, check_comparable
from twinloop.calibration.losses.mean_absolute import AbsoluteDifferenceLoss
from twinloop.calibration.losses.registry import LOSSES
from twinloop.calibration.run_columns import RunBatch, RunColumns
from twinloop.description.errors import InputError
from twinloop.trace.trace import Trace

#: The losses of studies of workflow simulators.
WORKFLOW_LOSSES = ("L1", "L2", "L3", "L4", "L5", "L6")


def list_unsupported_losses(trace: Trace, names: Iterable[str] = LOSSES) -> dict[str, str]:
    """List the losses that a recorded run does not support, with the reason of each.

    Losses of power are not checked, because their windows depend on the calibration.

    >>> import polars as pl
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [2.0]}))
    >>> list_unsupported_losses(trace, ["mean-task", "matched", "L1"])
    {'matched': 'the run has no ends of tasks', 'L1': 'the run has no makespan'}
    """
    machines = trace.placements["machine"].drop_nulls().unique(maintain_order=True)
    run = RunColumns.of(trace, trace.tasks["id"], machines)
    twin = RunBatch.of_runs([run])
    reasons = {}
    for name in names:
        try:
            _try_loss(LOSSES[name], run, twin)
        except InputError as error:
            reasons[name] = error.problem
    return reasons


def _try_loss(loss: BuiltInLoss, run: RunColumns, twin: RunBatch) -> None:
    """Compare a run with itself; an error if the loss needs what the run lacks."""
    if "power" in loss.needs:
        return
    if "machine" in loss.needs and not (run.machine >= 0).any():
        raise InputError(f"{run.label} has no machines of tasks", kind="missing-data")
    if isinstance(loss, AbsoluteDifferenceLoss):
        loss([run], twin)
    else:
        check_comparable(loss.name, loss.needs, [run], twin)
