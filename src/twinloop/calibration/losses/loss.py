"""The interface of losses, their evaluation and their aggregation over scenarios."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from twinloop.calibration.run_columns import (
    Floats,
    RunBatch,
    RunColumns,
    refuse_different_scenarios,
)
from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError, TwinloopError

#: How the losses of several scenarios are combined.
Aggregation = Literal["avg", "max"]

#: The columns of a run that a loss may need.
NEEDS: Final[Mapping[str, str]] = {
    "makespan": "makespan",
    "start": "starts of tasks",
    "end": "ends of tasks",
    "run_time": "run times of tasks",
    "wait": "waits of tasks",
    "cpu_time": "CPU times of tasks",
    "machine": "machines of tasks",
    "energy": "energy",
    "power": "power",
}


class Loss(Protocol):
    """The difference between real runs and each run of the twin: 0 is equal, larger is worse.

    Any object with these attributes is a loss; `loss_from_function` makes one of a function. The
    built-in losses also have `aggregation`, `evaluate`, and a `summary` of one line.
    """

    @property
    def name(self) -> str:
        """The name of the loss."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """The columns of a run that it needs, of `NEEDS`."""
        ...

    def __call__(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats:
        """The loss of each row of `twin`, given the real runs of one scenario."""
        ...

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """Compute the residuals (twin - real) / scale, a row per run; None if there are none."""
        ...


class LossValues(NamedTuple):
    """The loss of each row, NaN if it has none, and the reasons of missing losses by row.

    >>> LossValues(np.array([0.5, np.nan]), {1: "task 'a' did not complete in the twin"}).reasons[1]
    "task 'a' did not complete in the twin"
    """

    losses: Floats
    reasons: Mapping[int, str]


@dataclass(frozen=True)
class BuiltInLoss(ABC):
    """A built-in loss."""

    name: str
    needs: frozenset[str]
    #: A description of one line.
    summary: str
    #: The default aggregation over scenarios.
    aggregation: Aggregation = "avg"

    @abstractmethod
    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """Compute the loss of each row; reasons of NaN are added to `reasons`."""

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """Compute the residuals (twin - real) / scale, a row per run; None if there are none."""
        return None

    def weight(self, reals: Sequence[RunColumns]) -> float:
        """Compute the weight of the scenario in an average over several."""
        return 1.0

    def evaluate(self, reals: Sequence[RunColumns], twin: RunBatch) -> LossValues:
        """Evaluate each row, with the reasons of NaN; an error only for unusable real runs."""
        check_comparable(self.name, self.needs, reals, twin)
        reasons: dict[int, str] = {}
        losses = self.score(reals, twin, reasons)
        for row in np.flatnonzero(np.isnan(losses)).tolist():
            if row not in reasons:
                reasons[row] = describe_missing(self.needs, reals, twin, row)
        return LossValues(losses, reasons)

    def __call__(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats:
        """The loss of each row, NaN if it has none; an error if the only row has none."""
        losses, reasons = self.evaluate(reals, twin)
        if len(twin) == 1 and reasons:
            raise InputError(reasons[0], kind="missing-data", field=self.name)
        return losses


def evaluate(loss: Loss, reals: Sequence[RunColumns], twin: RunBatch) -> LossValues:
    """Evaluate any loss, with the reasons of missing values; an exception becomes a reason.

    >>> from twinloop.calibration.losses import loss_from_function
    >>> twin = RunBatch.of({"makespan_s": [2.0, 0.0]}, tasks=[], machines=[])
    >>> def mine(real, twin):
    ...     return [0.5][twin.makespan == 0]
    >>> loss = loss_from_function(mine, {"makespan"})
    >>> evaluate(loss, [twin[0]], twin)
    LossValues(losses=array([0.5, nan]), reasons={1: 'mine: IndexError: list index out of range'})
    """
    inner = getattr(loss, "evaluate", None)
    if inner is not None:
        found: LossValues = inner(reals, twin)
        return found
    try:
        losses = np.asarray(loss(reals, twin), dtype=np.float64)
    except TwinloopError:
        raise
    except Exception as error:
        why = f"{loss.name}: {type(error).__name__}: {error}"
        return LossValues(np.full(len(twin), np.nan), dict.fromkeys(range(len(twin)), why))
    unknown = np.flatnonzero(np.isnan(losses)).tolist()
    return LossValues(losses, dict.fromkeys(unknown, f"{loss.name}: is not a number"))


def aggregate(
    per_case: npt.ArrayLike, method: str = "avg", weights: Sequence[float] | None = None
) -> Floats:
    """Combine the losses of several scenarios: a row per scenario in, a number per column out.

    A column with a NaN is NaN: a candidate that fails in one scenario has failed.

    Args:
        per_case: A row per scenario, a column per candidate.
        method: `avg` or `max`.
        weights: The weight of each scenario in the average; see `compute_weight`.

    >>> aggregate([[1.0, 4.0], [3.0, 0.0]]).tolist(), aggregate([[1.0], [3.0]], "max").tolist()
    ([2.0, 2.0], [3.0])
    """
    losses = np.asarray(per_case, dtype=np.float64)
    if method not in get_args(Aggregation):
        raise InputError(
            f"'{method}' is not an aggregation",
            kind="not-a-choice",
            field="aggregation",
            remedy=f"one of {', '.join(get_args(Aggregation))}",
        )
    if losses.ndim != 2 or not len(losses):
        raise InputError(
            f"must be a row per scenario, not {losses.shape}", kind="wrong-count", field="per_case"
        )
    if method == "max":
        return np.asarray(losses.max(axis=0), dtype=np.float64)
    return np.asarray(np.average(losses, axis=0, weights=weights), dtype=np.float64)


def compute_weight(loss: Loss, reals: Sequence[RunColumns]) -> float:
    """Compute the weight of a scenario in an average over scenarios.

    It is the number of machines for a loss by machine, else 1.

    >>> from twinloop.calibration.losses import get_loss
    >>> compute_weight(get_loss("makespan"), [])
    1.0
    """
    inner = getattr(loss, "weight", None)
    return 1.0 if inner is None else float(inner(reals))


def check_comparable(
    name: str, needs: frozenset[str], reals: Sequence[RunColumns], twin: RunBatch
) -> None:
    """Raise an error if the loss cannot compare the real runs with the twin."""
    if not reals:
        raise InputError("there is no real run to compare with", kind="no-runs", field=name)
    unknown = sorted(needs - NEEDS.keys())
    if unknown:
        remedy = suggest_name(unknown[0], list(NEEDS))
        raise InputError(
            f"needs '{unknown[0]}', which is not a column of a run",
            kind="missing-data",
            field=name,
            remedy=remedy,
        )
    for need in needs - {"machine"}:
        if getattr(twin, need) is None:
            raise InputError(
                f"the runs of the twin have no {need}",
                kind="missing-data",
                field=name,
                remedy="simulate with the outputs of select_outputs(loss.needs)",
            )
    for real in reals:
        refuse_different_scenarios(real, twin)
        for need in sorted(needs - {"machine"}):
            if np.all(np.isnan(getattr(real, need))):
                raise InputError(
                    f"{real.label} has no {NEEDS[need]}", kind="missing-data", field=name
                )


def describe_missing(
    needs: frozenset[str], reals: Sequence[RunColumns], twin: RunBatch, row: int
) -> str:
    """Describe a figure that a row of the twin lacks and the real runs have."""
    for need in sorted(needs - {"machine", "power"}):
        column = getattr(twin, need)[row]
        if np.ndim(column) == 0:
            if np.isnan(column):
                return f"the {NEEDS[need]} of the twin is unknown"
            continue
        for real in reals:
            missing = np.flatnonzero(np.isnan(column) & ~np.isnan(getattr(real, need)))
            if missing.size:
                task = twin.tasks[missing[0]]
                return f"task '{task}' did not complete in the twin: no {need}"
    return "the twin lacks a figure that is compared"
