"""The search: an optimiser asks, an objective answers, a journal remembers."""

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

from twinloop.calibration.optimisers import choose_optimiser, create_optimiser
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.objective import SearchObjective
from twinloop.campaign import CampaignJournal
from twinloop.campaign.journal import TRUNCATE_REMEDY
from twinloop.description.errors import InputError
from twinloop.description.quantities import DURATION
from twinloop.description.saved_json import StoredJson, check_shape

_Floats = NDArray[np.float64]

#: Points that are asked for at once, at most, where an evaluation is fast and where it is slow.
BATCH: Final = 256
_SLOW_BATCH: Final = 8
#: Points that are asked for at once if nobody knows how many there will be.
_USUAL: Final = 64
#: How often an optimiser is told at least what became of its points, and so can learn from them.
_ROUNDS: Final = 40
#: An evaluation that takes this long is slow (s).
SLOW: Final = 0.05


@dataclass(frozen=True)
class SearchBudget:
    """How much a search may spend: evaluations or seconds.

    >>> SearchBudget.of("60s"), SearchBudget.of(2000), SearchBudget.of("2000")
    (SearchBudget(evaluations=None, seconds=60.0), SearchBudget(evaluations=2000, seconds=None),
    SearchBudget(evaluations=2000, seconds=None))
    """

    evaluations: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, given: str | float | SearchBudget) -> SearchBudget:
        """A whole number is a number of evaluations, a text with a unit is a time."""
        if isinstance(given, SearchBudget):
            return given
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        text = str(given).strip()
        try:
            found = cls(evaluations=int(text))
        except ValueError:
            found = cls(seconds=_seconds(text))
        if (found.evaluations or found.seconds or 0) <= 0:
            raise InputError("must be more than nothing", field="budget", remedy="2000 or 60s")
        return found


def _seconds(text: str) -> float:
    if not text[-1:].isalpha():
        raise InputError(
            f"'{text}' is neither a number of evaluations nor a time",
            field="budget",
            remedy="2000 or 60s",
        )
    try:
        return DURATION.read(text)
    except InputError as error:
        raise InputError(error.problem, field="budget", remedy="2000 or 60s") from None


@dataclass(frozen=True)
class History:
    """All that was tried, in the order in which it was asked for.

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
        """The number of the evaluation with the smallest loss."""
        if not np.isfinite(self.losses).any():
            raise InputError(
                f"not one of {len(self.losses):,} evaluations gave a loss", field="loss"
            )
        return int(np.nanargmin(np.where(np.isfinite(self.losses), self.losses, np.nan)))

    @property
    def best_loss(self) -> float:
        """The smallest loss."""
        return float(self.losses[self.best])

    @property
    def best_point(self) -> _Floats:
        """Where it was found, in the unit cube."""
        return np.array(self.points[self.best])

    @property
    def best_values(self) -> dict[str, Any]:
        """Where it was found."""
        return self.space.decode_one(self.best_point)

    @property
    def failed(self) -> int:
        """How many evaluations gave no loss."""
        return int((~np.isfinite(self.losses)).sum())

    def table(self) -> pl.DataFrame:
        """A row per evaluation: its number, loss, the best so far, if it failed, and the values."""
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
    """How far a search is."""

    evaluations: int
    seconds: float
    best: float
    budget: SearchBudget

    @property
    def share(self) -> float:
        """What part of the budget is spent, from 0 to 1."""
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
    progress: Callable[[SearchProgress], None] | None = None,
) -> History:
    """Look for the point with the smallest loss.

    With a number of evaluations the result is the same bit for bit whatever the number of threads
    or workers, also if the search was interrupted and goes on from its journal.

    Args:
        objective: What is made small.
        optimiser: Its name; `auto` looks at space, budget and the time of one evaluation.
        budget: A number of evaluations, or a time such as `60s`.
        seed: Where its randomness starts.
        batch: How many points are asked for at once.
        journal: Where to remember what was tried; a search whose journal is there goes on.
        header: What must be the same for a search to go on.
        progress: Told how far it is, batch by batch.

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
        raise InputError("must not be negative", field="seed")
    if journal is None:
        return _Search(objective, budget, seed, progress).run(optimiser, batch, [], None)
    said = {**(header or {}), "seed": seed, "asked": optimiser, "batch": batch}
    with CampaignJournal.open(journal, said) as kept:
        found = _Search(objective, budget, seed, progress)
        told = _read_rows(kept)
        try:
            return found.run(optimiser, batch, told, kept)
        except InputError:
            if len(told) < 2 and not found.count:  # a corrected search begins anew
                journal.unlink()
            raise


class _Choice(StoredJson):
    """What the first line of a journal holds: what is searched with."""

    optimiser: str
    batch: int = Field(gt=0)


class _Batch(StoredJson):
    """What every further line holds: a batch of points that was tried."""

    points: str
    losses: list[float] = Field(min_length=1)
    seconds: float


def _read_rows(journal: CampaignJournal) -> list[dict[str, Any]]:
    """The rows of a journal, if they can be those of a search."""
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
    ) -> None:
        self.objective, self.budget, self.seed = objective, budget, seed
        self.progress = progress
        self.points: list[_Floats] = []
        self.losses: list[_Floats] = []
        self.count = 0
        self.best = np.inf
        self.before = 0.0

    def run(
        self,
        name: str,
        batch: int | None,
        told: list[dict[str, Any]],
        journal: CampaignJournal | None,
    ) -> History:
        began = perf_counter()
        if told:
            chosen, told = told[0], told[1:]
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
        self.before = sum(row["seconds"] for row in told)
        for number, row in enumerate(told, start=3):
            points = np.asarray(optimiser.ask(len(row["losses"])))
            if row["points"] != _hash(points):
                raise InputError(
                    "the points that were tried are not those that would be tried today: another "
                    "version of the optimiser, or of what it stands on",
                    file=None if journal is None else journal.path,
                    line=number,
                    field="points",
                    remedy="begin anew, in another folder",
                )
            losses = np.array(row["losses"], dtype=np.float64)
            optimiser.tell(points, losses)
            self._take(points, losses)
        while (count := self._next(batch, self.before + perf_counter() - began)) > 0:
            start = perf_counter()
            points = np.asarray(optimiser.ask(count))
            losses = self.objective(points)
            optimiser.tell(points, losses)
            self._take(points, losses)
            if journal is not None:
                journal.append(
                    {
                        "points": _hash(points),
                        "losses": losses.tolist(),
                        "seconds": perf_counter() - start,
                    }
                )
            if self.progress is not None:
                spent = self.before + perf_counter() - began
                self.progress(SearchProgress(self.count, spent, float(self.best), self.budget))
        return History(
            self.objective.space,
            np.concatenate(self.points) if self.points else np.empty((0, 0)),
            np.concatenate(self.losses) if self.losses else np.empty(0),
            str(chosen["optimiser"]),
            self.before + perf_counter() - began,
        )

    def _choose(self, name: str, batch: int | None) -> dict[str, Any]:
        """What to search with: decided once, and remembered.

        How long an evaluation takes, the objective says itself, so that the same search is made on
        any machine; if it does not, the middle of the space is tried once to see.
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
            wanted = self.budget.evaluations
            batch = _USUAL if wanted is None else max(wanted // _ROUNDS, 4)
            batch = min(batch, BATCH if cost < SLOW else _SLOW_BATCH)
        return {"optimiser": name, "batch": batch, "cost": cost}

    def _next(self, batch: int, spent: float) -> int:
        """How many to try next; 0: the budget is spent."""
        if self.budget.seconds is not None and spent >= self.budget.seconds:
            return 0
        if self.budget.evaluations is None:
            return batch
        return min(batch, self.budget.evaluations - self.count)

    def _take(self, points: _Floats, losses: _Floats) -> None:
        self.points.append(points)
        self.losses.append(losses)
        self.count += len(losses)
        finite = losses[np.isfinite(losses)]
        if len(finite):
            self.best = min(self.best, float(finite.min()))


def _hash(points: _Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(points).tobytes()).hexdigest()[:16]


__all__ = ["BATCH", "History", "SearchBudget", "SearchProgress", "minimise"]
