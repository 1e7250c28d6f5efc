"""The noise floor of a study: the error of an ideal simulator, from repetitions of real runs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from twinloop.calibration.cases import Case
from twinloop.calibration.losses import Loss, evaluate
from twinloop.calibration.run_columns import TASK_COLUMNS, RunBatch, RunColumns
from twinloop.description.errors import InputError
from twinloop.scenario.identity import values_to_hash

#: The needs of a loss of which a mean over repetitions makes sense.
_AVERAGED: Final = frozenset({"makespan", "energy", "start", "end", "run_time", "wait", "cpu_time"})


@dataclass(frozen=True)
class IdealError:
    """The mean loss of a simulator that returns the mean of the repetitions of each workload."""

    loss: float
    #: The number of runs whose losses are averaged, and of their workloads.
    runs: int
    workloads: int

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {"loss": self.loss, "runs": self.runs, "workloads": self.workloads}


def compute_ideal_error(
    loss: Loss, cases: Sequence[Case], others: Sequence[Case] = ()
) -> IdealError | None:
    """Compute the error of the ideal simulator on real runs; None if they have no repetitions.

    For the makespan M it is the mean of |M - mean(M)| / M over the runs of a workload, and the mean
    of this over the workloads that were repeated.

    Args:
        loss: The loss.
        cases: The workloads with the real runs that are compared.
        others: Further runs of the same workloads, which only the means of repetitions include.
    """
    if not loss.needs <= _AVERAGED:
        return None
    repetitions: dict[str, list[RunColumns]] = {}
    for case in (*cases, *others):
        repetitions.setdefault(_identify(case), []).extend(case.reals)
    losses, count = [], 0
    for case in cases:
        every = repetitions[_identify(case)]
        if len(every) < 2:
            continue
        twin = RunBatch.of_runs([average_runs(every)])
        try:
            each = [evaluate(loss, [real], twin).losses[0] for real in case.reals]
        except InputError:  # the loss compares repetitions with each other
            each = list(evaluate(loss, every, twin).losses)
        if np.isfinite(each).all():
            losses.append(float(np.mean(each)))
            count += len(case.reals)
    return IdealError(float(np.mean(losses)), count, len(losses)) if losses else None


def _identify(case: Case) -> str:
    """Identify the workload of a case: cases of equal scenarios are repetitions."""
    return json.dumps(values_to_hash(case.scenario.to_manifest()), sort_keys=True, default=str)


def average_runs(reals: Sequence[RunColumns]) -> RunColumns:
    """Average repetitions: each time of each task, the makespan, and the energy.

    >>> runs = RunBatch.of({"makespan_s": [90.0, 110.0]}, tasks=[], machines=[])
    >>> average_runs([runs[0], runs[1]]).makespan
    100.0
    """
    with warnings.catch_warnings():
        # A task that completed in no repetition has no mean.
        warnings.simplefilter("ignore", RuntimeWarning)
        columns = {
            name: np.nanmean(np.stack([getattr(real, name) for real in reals]), axis=0)
            for name in TASK_COLUMNS
        }
    makespan = float(np.mean([real.makespan for real in reals]))
    energy = float(np.mean([real.energy for real in reals]))
    return replace(reals[0], makespan=makespan, energy=energy, **columns)
