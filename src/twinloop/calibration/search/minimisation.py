"""Minimisation of an objective by an optimiser within a budget, recorded in a journal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from twinloop.calibration.optimisers import (
    BaseOptimiser,
    Optimiser,
    choose_optimiser,
    create_optimiser,
)
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.objective import SearchObjective
from twinloop.campaign import CampaignJournal
from twinloop.campaign.journal import TRUNCATE_REMEDY
from twinloop.description.errors import InputError
from twinloop.description.quantities import DURATION
from twinloop.description.saved_json import StoredJson, check_shape

_Floats = NDArray[np.float64]

#: The maximum size of a batch of points, for fast and for slow evaluations.
MAX_BATCH: Final = 256
_MAX_SLOW_BATCH: Final = 8
#: The batch size if the number of evaluations is not given.
_DEFAULT_BATCH: Final = 64
#: The minimum number of batches, so that an optimiser can learn from losses.
_MIN_BATCHES: Final = 40
#: The time from which an evaluation is slow (s).
SLOW_EVALUATION: Final = 0.05


@dataclass(frozen=True)
class SearchBudget:
    """The budget of a search: evaluations or seconds.

    >>> SearchBudget.of("60s"), SearchBudget.of(2000), SearchBudget.of("2000")
    (SearchBudget(evaluations=None, seconds=60.0), SearchBudget(evaluations=2000, seconds=None),
    SearchBudget(evaluations=2000, seconds=None))
    """

    evaluations: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, given: str | float | SearchBudget) -> SearchBudget:
        """Read a budget: a whole number of evaluations, or a text with a unit of time."""
        if isinstance(given, SearchBudget):
            return given
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        text = str(given).strip()
        try:
            budget = cls(evaluations=int(text))
        except ValueError:
            budget = cls(seconds=_parse_seconds(text))
        if (budget.evaluations or budget.seconds or 0) <= 0:
            raise InputError(
                "must be positive", kind="out-of-range", field="budget", remedy="2000 or 60s"
            )
        return budget


def _parse_seconds(text: str) -> float:
    if not text[-1:].isalpha():
        raise InputError(
            f"'{text}' is neither a number of evaluations nor a time",
            kind="invalid-quantity",
            field="budget",
            remedy="2000 or 60s",
        )
    try:
        return DURATION.read(text)
    except InputError as error:
        raise InputError(
            error.problem, kind="invalid-quantity", field="budget", remedy="2000 or 60s"
        ) from None


@dataclass(frozen=True)
class History:
    """The evaluations of a search, in the order of the optimiser.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> tried = History(Space([LinearParameter("a", 0, 10)]), np.array([[0.5], [0.1]]),
    ...                 np.array([3.0, 1.0]), "random", 0.1)
    >>> tried.best_values, tried.best_loss
    ({'a': 1.0}, 1.0)
    """

    space: Space
    points: _Floats
    losses: _Floats
    optimiser: str
    seconds: float

    @property
    def best(self) -> int:
        """The index of the evaluation with the smallest loss."""
        if not np.isfinite(self.losses).any():
            raise InputError(
                f"all {len(self.losses):,} evaluations failed",
                kind="evaluations-failed",
                field="loss",
            )
        return int(np.nanargmin(np.where(np.isfinite(self.losses), self.losses, np.nan)))

    @property
    def best_loss(self) -> float:
        """The smallest loss."""
        return float(self.losses[self.best])

    @property
    def best_point(self) -> _Floats:
        """The point with the smallest loss, in the unit cube."""
        return np.array(self.points[self.best])

    @property
    def best_values(self) -> dict[str, Any]:
        """The values with the smallest loss."""
        return self.space.decode_one(self.best_point)

    @property
    def failed(self) -> int:
        """The number of failed evaluations."""
        return int((~np.isfinite(self.losses)).sum())

    def table(self) -> pl.DataFrame:
        """Return a row per evaluation: number, loss, best loss so far, failure, and the values."""
        losses = np.where(np.isfinite(self.losses), self.losses, np.nan)
        best = np.fmin.accumulate(losses) if len(losses) else losses
        values = self.space.decode(self.points)
        return pl.DataFrame(
            {
                "evaluation": np.arange(1, len(losses) + 1),
                "loss": losses,
                "best": best,
                "failed": np.isnan(losses),
                **{name: list(column) for name, column in values.items()},
            }
        ).with_columns(pl.col("loss", "best").fill_nan(None))


@dataclass(frozen=True)
class SearchProgress:
    """The progress of a search."""

    evaluations: int
    seconds: float
    best: float
    budget: SearchBudget

    @property
    def share(self) -> float:
        """The spent fraction of the budget, from 0 to 1."""
        spent = [0.0]
        if self.budget.evaluations:
            spent.append(self.evaluations / self.budget.evaluations)
        if self.budget.seconds:
            spent.append(self.seconds / self.budget.seconds)
        return min(max(spent), 1.0)


def minimise(
    objective: SearchObjective,
    *,
    optimiser: str = "auto",
    budget: str | float | SearchBudget = 2000,
    seed: int = 0,
    batch: int | None = None,
    journal: Path | None = None,
    header: dict[str, Any] | None = None,
    start: _Floats | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
) -> History:
    """Search for the point with the smallest loss.

    With a budget in evaluations the result is bit-identical for any number of threads or workers,
    also if the search was interrupted and resumed from its journal.

    Args:
        objective: The objective to minimise.
        optimiser: The name of an optimiser; `auto` chooses by space, budget and evaluation time.
        budget: A number of evaluations, or a time such as `60s`.
        seed: The random seed.
        batch: The number of points per batch.
        journal: The file for evaluations; if it exists, the search resumes from it.
        header: Data that must be equal for a search to resume.
        start: A point to start from, which is the first evaluation; optimisers that sample evenly
            only evaluate it.
        progress: Called after each batch.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> class Bowl:
    ...     space = Space([LinearParameter("a", 0, 10), LinearParameter("b", 0, 10)])
    ...     def __call__(self, points):
    ...         return ((points - 0.3) ** 2).sum(axis=1)
    >>> minimise(Bowl(), budget=500).best_loss < 1e-4
    True
    """
    budget = SearchBudget.of(budget)
    if seed < 0:
        raise InputError("must not be negative", kind="out-of-range", field="seed")
    if journal is None:
        return _Search(objective, budget, seed, progress, start).run(optimiser, batch, [], None)
    full_header = {**(header or {}), "seed": seed, "asked": optimiser, "batch": batch}
    if start is not None:
        full_header["start"] = start.tolist()
    with CampaignJournal.open(journal, full_header) as opened:
        search = _Search(objective, budget, seed, progress, start)
        rows = _read_rows(opened)
        try:
            return search.run(optimiser, batch, rows, opened)
        except InputError:
            if len(rows) < 2 and not search.count:  # a corrected search starts again
                journal.unlink()
            raise


class _Choice(StoredJson):
    """The first row of a journal: optimiser and batch size."""

    optimiser: str
    batch: int = Field(gt=0)


class _Batch(StoredJson):
    """A further row of a journal: a batch of points and their losses."""

    points: str
    losses: list[float] = Field(min_length=1)
    seconds: float


def _read_rows(journal: CampaignJournal) -> list[dict[str, Any]]:
    """Read the rows of a journal and check that they are those of a search."""
    rows = journal.rows
    for number, row in enumerate(rows, start=2):
        shape = _Choice if number == 2 else _Batch
        check_shape(row, shape, journal.path, TRUNCATE_REMEDY, line=number)
    return rows


class _Search:
    def __init__(
        self,
        objective: SearchObjective,
        budget: SearchBudget,
        seed: int,
        progress: Callable[[SearchProgress], None] | None,
        start: _Floats | None,
    ) -> None:
        self.objective, self.budget, self.seed = objective, budget, seed
        self.start = start
        self.progress = progress
        self.points: list[_Floats] = []
        self.losses: list[_Floats] = []
        self.count = 0
        self.best = np.inf
        self.earlier_seconds = 0.0

    def run(
        self,
        name: str,
        batch: int | None,
        rows: list[dict[str, Any]],
        journal: CampaignJournal | None,
    ) -> History:
        began = perf_counter()
        if rows:
            chosen, rows = rows[0], rows[1:]
        else:
            chosen = self._choose(name, batch)
            if journal is not None:
                journal.append(chosen)
        batch = int(chosen["batch"])
        optimiser = create_optimiser(
            chosen["optimiser"],
            self.objective.space,
            seed=self.seed,
            budget=self.budget.evaluations,
            batch=batch,
        )
        self.earlier_seconds = sum(row["seconds"] for row in rows)
        for number, row in enumerate(rows, start=3):
            points = self._next_points(optimiser, len(row["losses"]))
            if row["points"] != _hash(points):
                raise InputError(
                    "the stored points differ from those of this optimiser: it was written with "
                    "another version of the optimiser or its libraries",
                    kind="different-inputs",
                    file=None if journal is None else journal.path,
                    line=number,
                    field="points",
                    remedy="start again in another folder",
                )
            losses = np.array(row["losses"], dtype=np.float64)
            self._tell(optimiser, points, losses)
        while (
            count := self._next_batch_size(batch, self.earlier_seconds + perf_counter() - began)
        ) > 0:
            start = perf_counter()
            points = self._next_points(optimiser, count)
            losses = self.objective(points)
            self._tell(optimiser, points, losses)
            if journal is not None:
                journal.append(
                    {
                        "points": _hash(points),
                        "losses": losses.tolist(),
                        "seconds": perf_counter() - start,
                    }
                )
            if self.progress is not None:
                spent = self.earlier_seconds + perf_counter() - began
                self.progress(SearchProgress(self.count, spent, float(self.best), self.budget))
        return History(
            self.objective.space,
            np.concatenate(self.points) if self.points else np.empty((0, 0)),
            np.concatenate(self.losses) if self.losses else np.empty(0),
            str(chosen["optimiser"]),
            self.earlier_seconds + perf_counter() - began,
        )

    def _next_points(self, optimiser: Optimiser, count: int) -> _Floats:
        """Return the next points to evaluate: the point to start from is a batch of its own."""
        if self.start is not None and not self.count:
            return self.start[np.newaxis]
        return np.asarray(optimiser.ask(count))

    def _tell(self, optimiser: Optimiser, points: _Floats, losses: _Floats) -> None:
        """Pass losses to the optimiser; it did not ask for the point to start from."""
        if self.start is None or self.count:
            optimiser.tell(points, losses)
        elif isinstance(optimiser, BaseOptimiser) and np.isfinite(losses).all():
            optimiser.begin(points, losses)
        self._record(points, losses)

    def _choose(self, name: str, batch: int | None) -> dict[str, Any]:
        """Choose optimiser and batch size; the choice is stored in the journal.

        If the objective has a `cost`, which it computes by a formula, the choice is equal on any
        machine; otherwise one evaluation in the middle of the space is timed.
        """
        space = self.objective.space
        cost = getattr(self.objective, "cost", None)
        if cost is None and (name == "auto" or batch is None):
            start = perf_counter()
            self.objective(np.full((1, len(space)), 0.5))
            cost = perf_counter() - start
        cost = 0.0 if cost is None else cost
        if name == "auto":
            name = choose_optimiser(
                space, budget=self.budget.evaluations, seconds=self.budget.seconds, cost=cost
            )
        if batch is None:
            evaluations = self.budget.evaluations
            batch = _DEFAULT_BATCH if evaluations is None else max(evaluations // _MIN_BATCHES, 4)
            batch = min(batch, MAX_BATCH if cost < SLOW_EVALUATION else _MAX_SLOW_BATCH)
        return {"optimiser": name, "batch": batch, "cost": cost}

    def _next_batch_size(self, batch: int, spent: float) -> int:
        """Return the size of the next batch; 0 if the budget is spent."""
        if self.budget.seconds is not None and spent >= self.budget.seconds:
            return 0
        if self.budget.evaluations is None:
            return batch
        return min(batch, self.budget.evaluations - self.count)

    def _record(self, points: _Floats, losses: _Floats) -> None:
        self.points.append(points)
        self.losses.append(losses)
        self.count += len(losses)
        finite = losses[np.isfinite(losses)]
        if len(finite):
            self.best = min(self.best, float(finite.min()))


def _hash(points: _Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(points).tobytes()).hexdigest()[:16]


__all__ = ["MAX_BATCH", "History", "SearchBudget", "SearchProgress", "minimise"]
