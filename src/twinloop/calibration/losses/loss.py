"""What a loss is: how unlike the real runs of a scenario each run of its twin is."""

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

#: How the losses of several scenarios become one.
Aggregation = Literal["avg", "max"]

#: What a loss may look at.
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
    """How unlike the real runs each run of the twin is: 0 is alike, more is worse.

    Any object with these attributes is one; `custom` makes one of a function. The losses that
    come with Twinloop also have `aggregation`, `evaluate`, and a `summary` in one line.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """What of a run it looks at, of `NEEDS`."""
        ...

    def __call__(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats:
        """The loss of each row of `twin`, given the real runs of one scenario."""
        ...

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """What it compares, twin minus real over a scale, row by row; None: nothing like that."""
        ...


class LossValues(NamedTuple):
    """The loss of each row; NaN where there is none, and then the reason, by row.

    >>> LossValues(np.array([0.5, np.nan]), {1: "task 'a' did not complete in the twin"}).reasons[1]
    "task 'a' did not complete in the twin"
    """

    losses: Floats
    reasons: Mapping[int, str]


@dataclass(frozen=True)
class BuiltInLoss(ABC):
    """A loss that comes with Twinloop."""

    name: str
    needs: frozenset[str]
    #: What it is, in one line.
    summary: str
    #: How scenarios are put together if nobody says.
    aggregation: Aggregation = "avg"

    @abstractmethod
    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """The loss of each row, and into `reasons` why it is NaN."""

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """What it compares, twin minus real over a scale, row by row; None: nothing like that."""
        return None

    def weight(self, reals: Sequence[RunColumns]) -> float:
        """How much the scenario weighs in an average over several."""
        return 1.0

    def evaluate(self, reals: Sequence[RunColumns], twin: RunBatch) -> LossValues:
        """The loss of each row, and why it is NaN where it is. Only bad real runs are an error."""
        check_comparable(self.name, self.needs, reals, twin)
        reasons: dict[int, str] = {}
        losses = self.score(reals, twin, reasons)
        for row in np.flatnonzero(np.isnan(losses)).tolist():
            if row not in reasons:
                reasons[row] = describe_missing(self.needs, reals, twin, row)
        return LossValues(losses, reasons)

    def __call__(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats:
        """The loss of each row; NaN where there is none. Of a single row, that is an error."""
        losses, reasons = self.evaluate(reals, twin)
        if len(twin) == 1 and reasons:
            raise InputError(reasons[0], field=self.name)
        return losses


def evaluate(loss: Loss, reals: Sequence[RunColumns], twin: RunBatch) -> LossValues:
    """The losses of any loss, with the reasons; what its own code raises becomes one.

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
    """The losses of several scenarios as one: a row per scenario in, a number per column out.

    A column with a NaN is NaN: a candidate that fails in one scenario has failed.

    Args:
        per_case: A row per scenario, a column per candidate.
        method: `avg` or `max`.
        weights: How much each scenario weighs in the average, as `compute_weight` says it.

    >>> aggregate([[1.0, 4.0], [3.0, 0.0]]).tolist(), aggregate([[1.0], [3.0]], "max").tolist()
    ([2.0, 2.0], [3.0])
    """
    losses = np.asarray(per_case, dtype=np.float64)
    if method not in get_args(Aggregation):
        raise InputError(
            f"'{method}' is no way to put losses together",
            field="aggregation",
            remedy=f"one of {', '.join(get_args(Aggregation))}",
        )
    if losses.ndim != 2 or not len(losses):
        raise InputError(f"must be a row per scenario, not {losses.shape}", field="per_case")
    if method == "max":
        return np.asarray(losses.max(axis=0), dtype=np.float64)
    return np.asarray(np.average(losses, axis=0, weights=weights), dtype=np.float64)


def compute_weight(loss: Loss, reals: Sequence[RunColumns]) -> float:
    """How much a scenario weighs in an average: as many machines as a loss by machine compares.

    >>> from twinloop.calibration.losses import get_loss
    >>> compute_weight(get_loss("makespan"), [])
    1.0
    """
    inner = getattr(loss, "weight", None)
    return 1.0 if inner is None else float(inner(reals))


def check_comparable(
    name: str, needs: frozenset[str], reals: Sequence[RunColumns], twin: RunBatch
) -> None:
    """Refuse runs that cannot be compared whatever the twin does."""
    if not reals:
        raise InputError("there is no real run to compare with", field=name)
    unknown = sorted(needs - NEEDS.keys())
    if unknown:
        remedy = suggest_name(unknown[0], list(NEEDS))
        raise InputError(f"needs '{unknown[0]}', which no run has", field=name, remedy=remedy)
    for need in needs - {"machine"}:
        if getattr(twin, need) is None:
            raise InputError(
                f"the runs of the twin have no {need}", field=name, remedy="ask for it: outputs_for"
            )
    for real in reals:
        refuse_different_scenarios(real, twin)
        for need in sorted(needs - {"machine"}):
            if np.all(np.isnan(getattr(real, need))):
                raise InputError(f"{real.called} has no {NEEDS[need]}", field=name)


def describe_missing(
    needs: frozenset[str], reals: Sequence[RunColumns], twin: RunBatch, row: int
) -> str:
    """What the twin does not say in a row, and the real runs do."""
    for need in sorted(needs - {"machine", "power"}):
        column = getattr(twin, need)[row]
        if np.ndim(column) == 0:
            if np.isnan(column):
                return f"the {NEEDS[need]} of the twin is not known"
            continue
        for real in reals:
            lacking = np.flatnonzero(np.isnan(column) & ~np.isnan(getattr(real, need)))
            if lacking.size:
                task = twin.tasks[lacking[0]]
                return f"task '{task}' did not complete in the twin: no {need}"
    return "the twin does not say all that is compared"
