"""One stage of a calibration: a search and the analysis of its result, for any simulator."""

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

#: Called with the current activity and its progress.
ProgressCallback = Callable[[str, SearchProgress], None]

#: A position closer than this to the end of a range counts as at the end.
_END_MARGIN: Final = 1e-3
#: The final least squares: maximum of iterations, step of finite differences, scale of residuals.
_MAX_ITERATIONS, _STEP, _SCALE = 12, 1e-4, 1e-4
#: The maximum number of reasons of failures in a message.
_MAX_REASONS: Final = 3


class CalibrationObjective(SearchObjective, Protocol):
    """An objective that counts failures and accepts values by name."""

    failures: Any

    def at(self, values: Mapping[str, Any]) -> float:
        """Compute the loss with these values."""
        ...


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search: optimiser, budget, seed, analysis."""

    optimiser: str
    budget: SearchBudget
    seed: int
    #: The number of evaluations for the analysis; 0: no analysis; negative: chosen by their cost.
    analysis: int
    progress: ProgressCallback | None

    def to_dict(self, spaces: Sequence[Space]) -> dict[str, Any]:
        """Return the settings that affect the result as plain data, with the parameter ranges."""
        ranges = Space([parameter for each in spaces for parameter in each]).to_dict()
        return {
            "parameters": ranges["parameters"],
            "budget": {"evaluations": self.budget.evaluations, "seconds": self.budget.seconds},
            "optimiser": self.optimiser,
            "analysis": None if self.analysis < 0 else self.analysis,
        }


@dataclass(frozen=True)
class StageResult:
    """The result of a search: its history, identifiability, confidence region and posterior."""

    objective: CalibrationObjective
    history: History
    identifiability: Identifiability | None = None
    confidence_region: ConfidenceRegion | None = None
    posterior: PosteriorSample | None = None
    #: Warnings about parts of the analysis that failed.
    analysis_warnings: tuple[str, ...] = ()

    @property
    def frame(self) -> pl.DataFrame | None:
        """The confidence region as a table."""
        return None if self.confidence_region is None else self.confidence_region.frame

    @property
    def draws(self) -> pl.DataFrame | None:
        """The sample of the posterior as a table: a column per value."""
        if self.posterior is None:
            return None
        values: dict[str, Any] = self.posterior.values()
        return pl.DataFrame({name: pl.Series(name, column) for name, column in values.items()})

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the user of the result."""
        yield from self.analysis_warnings
        if self.confidence_region is not None and not self.confidence_region.complete:
            yield (
                "the confidence region is incomplete: "
                f"{self.confidence_region.evaluations:,} evaluations were too few to search it"
            )
        if self.history.failed:
            reasons = [why for why, _ in self.objective.failures.most_common(_MAX_REASONS)]
            causes = f": {'; '.join(reasons)}" if reasons else ""
            yield f"{self.history.failed:,} evaluations failed{causes}"
        for parameter, position in zip(
            self.objective.space, self.history.best_point.tolist(), strict=True
        ):
            if parameter.discrete or _END_MARGIN < position < 1.0 - _END_MARGIN:
                continue
            if position < 0.5 and parameter.decode(0.0) == 0.0:
                continue  # 0 is a natural limit, not the end of a range
            yield f"{parameter.name} is at the end of its range: a wider range may fit better"


def check_improvement(before: float, after: float) -> Iterator[str]:
    """Yield a warning if the fitted values are no better than the values before.

    >>> list(check_improvement(0.2, 0.1)), list(check_improvement(float("nan"), 0.1))
    ([], [])
    >>> print(*check_improvement(0.0, 0.1))
    the fit is no better than the values before: loss 0.1 after, 0 before; use the values before,
    or give a larger budget
    """
    if after >= before:
        yield (
            f"the fit is no better than the values before: loss {after:.4g} after, {before:.4g} "
            "before; use the values before, or give a larger budget"
        )


def refine_by_least_squares(objective: CalibrationObjective, history: History) -> History:
    """Refine the best point by least squares of the residuals, and append it to the history.

    A loss is one number; residuals of single tasks give the descent direction in a narrow valley.
    A point with a larger loss is discarded.
    """
    dimensions = len(objective.space)
    evaluations = Evaluations(objective, _MAX_ITERATIONS * (dimensions + 4))
    best = history.best_point
    residuals = evaluations.outputs(best[np.newaxis])
    if residuals is None or not np.isfinite(residuals).all():
        return history
    try:
        refined, _ = LeastSquaresFit(evaluations, _SCALE, np.full(dimensions, _STEP)).fit(
            best, None, 0.0
        )
    except BudgetSpentError:
        return history
    loss = objective(refined[np.newaxis])
    if not loss[0] < history.best_loss:
        return history
    return replace(
        history,
        points=np.concatenate([history.points, refined[np.newaxis]]),
        losses=np.concatenate([history.losses, loss]),
    )


def identify_code(code: Any, journal: Path | None, field: str) -> str | None:
    """Return the identity of user code for the header of a journal; None if it has none.

    A search with code without an identity cannot resume: the losses in the journal may be those of
    other code.

    >>> identify_code(len, None, "loss") == identify_code(max, None, "loss")
    False
    """
    identity = identity_of(code)
    if identity is None and journal is not None and journal.exists():
        raise InputError(
            f"cannot be compared with the code that {journal} was written with: it refers to an "
            "object without an identity, such as a lock or an open file",
            kind="not-serialisable",
            field=field,
            remedy="start again in another folder, or create that object inside the function",
        )
    return identity


def run_stage(
    objective: CalibrationObjective,
    settings: SearchSettings,
    *,
    journal: Path | None = None,
    header: dict[str, Any] | None = None,
    observations: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> StageResult:
    """Search, and analyse the result.

    Args:
        objective: The objective to minimise.
        settings: The settings of the search.
        journal: The file for evaluations, from which an interrupted search resumes.
        header: Data that must be equal for an interrupted search to resume.
        observations: The number of independent observations; by default all residuals.
        facts: Facts about the data that explain missing effects; see `HINTS`.
    """
    report = settings.progress
    history = minimise(
        objective,
        optimiser=settings.optimiser,
        budget=settings.budget,
        seed=settings.seed,
        journal=journal,
        header=header,
        progress=None if report is None else (lambda at: report("searching", at)),
    )
    if history.failed == len(history.losses):
        if journal is not None:
            journal.unlink()  # it contains no result to resume from
        why = "; ".join(
            f"{reason} ({n:,})" for reason, n in objective.failures.most_common(_MAX_REASONS)
        )
        raise InputError(
            f"all {len(history.losses):,} evaluations failed: {why or 'infinite losses'}",
            kind="evaluations-failed",
            field="loss",
        )
    if not settings.analysis:
        return StageResult(objective, history)
    history = refine_by_least_squares(objective, history)
    best = history.best_point
    identifiability = analyse_identifiability(
        objective, best, budget=settings.analysis, facts=facts
    )
    bound = None
    if observations is not None:
        bound = compute_loss_bound(
            float(objective(best[None])[0]), observations=observations, parameters=len(best)
        )
    region = find_confidence_region(
        objective, best, loss_bound=bound, budget=settings.analysis, seed=settings.seed
    )
    posterior: PosteriorSample | None = None
    analysis_warnings: tuple[str, ...] = ()
    try:
        posterior = sample_with_run_effects(
            objective, best, observations=observations, budget=settings.analysis, seed=settings.seed
        )
    except InputError as error:  # the fit is valid without a posterior
        problem = f"no prediction intervals: {error.problem}"
        analysis_warnings = (f"{problem} (analysis: {error.remedy})" if error.remedy else problem,)
    return StageResult(objective, history, identifiability, region, posterior, analysis_warnings)
