"""One search and what is made of it: the same for our simulator and for foreign ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from twinloop.calibration.identifiability import Identifiability, analyse_identifiability
from twinloop.calibration.identifiability.constrained_fits import LeastSquaresFit
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.minimisation import History, SearchBudget, SearchProgress, minimise
from twinloop.calibration.search.objective import SearchObjective
from twinloop.calibration.uncertainty.confidence_region import (
    ConfidenceRegion,
    compute_loss_bound,
    find_confidence_region,
)
from twinloop.calibration.uncertainty.evaluation_count import BudgetSpentError, Evaluations
from twinloop.calibration.uncertainty.prediction_intervals import PosteriorSample
from twinloop.calibration.uncertainty.run_effects import sample_with_run_effects
from twinloop.description.errors import InputError
from twinloop.policy.code_identity import identify as identity_of

#: Told what is being done, and how far it is.
ProgressCallback = Callable[[str, SearchProgress], None]

#: A position nearer to the end of a range than this lies at it.
_END: Final = 1e-3
#: The last step: how often it is repeated at most, how far it looks for slopes, how fine it is.
_POLISH, _STEP, _FINE = 12, 1e-4, 1e-4
#: How many reasons of failures are named.
_NAMED: Final = 3


class CalibrationObjective(SearchObjective, Protocol):
    """An objective that counts what fails, and takes values by name."""

    failures: Any

    def at(self, values: Mapping[str, Any]) -> float:
        """The loss with these values."""
        ...


@dataclass(frozen=True)
class SearchSettings:
    """How to search, and what it may cost."""

    optimiser: str
    budget: SearchBudget
    seed: int
    #: Evaluations that may be spent on what the data can tell; 0: leave it out.
    analysis: int
    progress: ProgressCallback | None

    def asked(self, spaces: Sequence[Space]) -> dict[str, Any]:
        """All of it that a result depends on, as plain data, with the ranges of the parameters."""
        ranges = Space([parameter for each in spaces for parameter in each]).to_dict()
        return {
            "parameters": ranges["parameters"],
            "budget": {"evaluations": self.budget.evaluations, "seconds": self.budget.seconds},
            "optimiser": self.optimiser,
            "analysis": None if self.analysis < 0 else self.analysis,
        }


@dataclass(frozen=True)
class StageResult:
    """A search that was made: what it found, and what the data can tell of it."""

    objective: CalibrationObjective
    history: History
    identifiability: Identifiability | None = None
    confidence_region: ConfidenceRegion | None = None
    acceptable: PosteriorSample | None = None
    #: What an analysis could not say, and why.
    lacking: tuple[str, ...] = ()

    @property
    def frame(self) -> pl.DataFrame | None:
        """The cloud as a table."""
        return None if self.confidence_region is None else self.confidence_region.frame

    @property
    def draws(self) -> pl.DataFrame | None:
        """Calibrations that the data allows, each as likely as the others."""
        if self.acceptable is None:
            return None
        found: dict[str, Any] = self.acceptable.values()
        return pl.DataFrame({name: pl.Series(name, column) for name, column in found.items()})

    def warnings(self) -> Iterator[str]:
        """What whoever uses the result should know."""
        yield from self.lacking
        if self.confidence_region is not None and not self.confidence_region.complete:
            yield (
                "the loss cloud is unfinished: "
                f"{self.confidence_region.evaluations:,} evaluations were too "
                "few to look for all calibrations that do as well"
            )
        if self.history.failed:
            reasons = [why for why, _ in self.objective.failures.most_common(_NAMED)]
            said = f": {'; '.join(reasons)}" if reasons else ""
            yield f"{self.history.failed:,} evaluations failed{said}"
        for parameter, position in zip(
            self.objective.space, self.history.best_point.tolist(), strict=True
        ):
            if parameter.discrete or _END < position < 1.0 - _END:
                continue
            if position < 0.5 and parameter.decode(0.0) == 0.0:
                continue  # nothing at all is a good answer, and no end of a range
            yield f"{parameter.name} lies at the end of its range: a wider one may fit better"


def check_improvement(before: float, after: float) -> Iterator[str]:
    """A warning if the values that were found are no better than those before.

    >>> list(check_improvement(0.2, 0.1)), list(check_improvement(float("nan"), 0.1))
    ([], [])
    >>> print(*check_improvement(0.0, 0.1))
    the fit is no better than the values before: its loss is 0.1, theirs 0; keep those, or search
    longer
    """
    if after >= before:
        yield (
            f"the fit is no better than the values before: its loss is {after:.4g}, theirs "
            f"{before:.4g}; keep those, or search longer"
        )


def refine_by_least_squares(objective: CalibrationObjective, history: History) -> History:
    """The search with a last step: least squares of all that the loss compares, from its best.

    A loss is one number; where differences of single tasks are known, they lead on to the bottom
    of the valley that the search has found. What is worse than the best is not taken.
    """
    dimensions = len(objective.space)
    evaluations = Evaluations(objective, _POLISH * (dimensions + 4))
    best = history.best_point
    residuals = evaluations.outputs(best[np.newaxis])
    if residuals is None or not np.isfinite(residuals).all():
        return history
    try:
        found, _ = LeastSquaresFit(evaluations, _FINE, np.full(dimensions, _STEP)).fit(
            best, None, 0.0
        )
    except BudgetSpentError:
        return history
    loss = objective(found[np.newaxis])
    if not loss[0] < history.best_loss:
        return history
    return replace(
        history,
        points=np.concatenate([history.points, found[np.newaxis]]),
        losses=np.concatenate([history.losses, loss]),
    )


def identify_code(code: Any, journal: Path | None, field: str) -> str | None:
    """The identity of user code for the header of a journal; None where it has none.

    Code without an identity cannot resume: the losses in the journal may be those of other code.

    >>> identify_code(len, None, "loss") == identify_code(max, None, "loss")
    False
    """
    found = identity_of(code)
    if found is None and journal is not None and journal.exists():
        raise InputError(
            f"cannot be compared with the code that {journal} was written with: it holds an object "
            "without an identity, such as a lock or an open file",
            field=field,
            remedy="begin anew, in another folder; or make that object inside the function",
        )
    return found


def run_stage(
    objective: CalibrationObjective,
    effort: SearchSettings,
    *,
    journal: Path | None = None,
    header: dict[str, Any] | None = None,
    observations: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> StageResult:
    """Search, and look at what was found.

    Args:
        objective: What is made small.
        effort: How.
        journal: Where to remember what was tried.
        header: What must be the same for an interrupted search to go on.
        observations: How many of the figures that are compared are independent; by default all.
        facts: What is known of the data, for those who explain.
    """
    told = effort.progress
    history = minimise(
        objective,
        optimiser=effort.optimiser,
        budget=effort.budget,
        seed=effort.seed,
        journal=journal,
        header=header,
        progress=None if told is None else (lambda at: told("searching", at)),
    )
    if history.failed == len(history.losses):
        if journal is not None:
            journal.unlink()  # it knows nothing that is worth going on from
        why = "; ".join(f"{reason} ({n:,})" for reason, n in objective.failures.most_common(_NAMED))
        raise InputError(
            f"not one of {len(history.losses):,} evaluations gave a loss: {why or 'all infinite'}",
            field="loss",
        )
    if not effort.analysis:
        return StageResult(objective, history)
    history = refine_by_least_squares(objective, history)
    best = history.best_point
    known = analyse_identifiability(objective, best, budget=effort.analysis, facts=facts)
    bound = None
    if observations is not None:
        bound = compute_loss_bound(
            float(objective(best[None])[0]), observations=observations, parameters=len(best)
        )
    near = find_confidence_region(
        objective, best, loss_bound=bound, budget=effort.analysis, seed=effort.seed
    )
    found: PosteriorSample | None = None
    lacking: tuple[str, ...] = ()
    try:
        found = sample_with_run_effects(
            objective, best, observations=observations, budget=effort.analysis, seed=effort.seed
        )
    except InputError as error:  # what was found is good without
        said = f"no limits of predictions: {error.problem}"
        lacking = (f"{said} (analysis: {error.remedy})" if error.remedy else said,)
    return StageResult(objective, history, known, near, found, lacking)
