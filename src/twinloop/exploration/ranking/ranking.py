"""Rankings of candidates with the probabilities of their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.completion import compute_shortfalls, describe_fewer_completions
from twinloop.exploration.ranking.criteria import By, RankingRule
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.uncertainty import (
    Floats,
    Noise,
    compute_probability_better,
    compute_win_shares,
    get_scatter,
    has_uncertainty,
    sample_outcomes,
)
from twinloop.metrics.confidence import moments

if TYPE_CHECKING:
    from twinloop.calibration import Fit

#: Candidates are tied if the probability of their order is below this value.
TIE_PROBABILITY: Final = 0.9
_UNCERTAINTY: Final = ("probability", "best", "tie", "unsupported")


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate with its rank.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> candidate = Candidate("easy", scenario, {"makespan_s": 80.0})
    >>> RankedCandidate(1, candidate, probability=0.7).best is None
    True
    """

    rank: int
    candidate: Candidate
    #: The score of a weighted ranking: 0 for the best, 1 for the worst value of every KPI among the
    #: candidates that complete the most tasks; None: the ranking has no weights.
    score: float | None = None
    #: The probability that a real run of it is better than one of the next candidate; None: not
    #: known, or the next candidate completes fewer tasks.
    probability: float | None = None
    #: The probability that a real run of it is better than those of all other candidates that
    #: complete as many tasks; None: not known, or other candidates complete more.
    best: float | None = None
    #: Number of the group of tied candidates; None: there is no tie.
    tie: int | None = None
    #: Whether it completes a smaller share of its tasks than others and is ranked after them.
    fewer: bool = False


@dataclass(frozen=True, repr=False)
class Ranking(Sequence[Candidate]):
    """Candidates in order, best first, with the uncertainty of their order.

    A ranking is a sequence of candidates. A slice of it is a ranking with the ranks and
    probabilities of the whole. `rank_candidates` makes a ranking.

    A candidate that completes a smaller share of its tasks is ranked after the others, whatever its
    KPIs, because rejected and killed tasks are excluded from means and from the makespan.

    A candidate is tied with the best of a group if the probability of their order is below 90 %;
    else it starts a new group. Without a fit, the uncertainty of the model is not known; then two
    candidates are tied if they are equal, or if the 90 % confidence interval of their difference
    over the seeds (paired t-test) contains zero.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> easy = Candidate("easy", scenario, {"makespan_s": 80.0})
    >>> fifo = Candidate("fifo", scenario, {"makespan_s": 100.0})
    >>> ranking = rank_candidates([fifo, easy], baseline=fifo)
    >>> ranking
    <Ranking of 2 by makespan_s, best: easy>
    >>> ranking[:1].candidates == (easy,)
    True
    """

    objectives: tuple[Objective, ...]
    #: The rule of the ranking as text.
    how: str
    places: tuple[RankedCandidate, ...]
    #: The unchanged scenario, with which the candidates are compared.
    baseline: Candidate
    #: The fit that the predictions come from.
    fit: Fit | None = field(default=None, compare=False)
    #: Candidates without a value to rank by, for example because their runs failed.
    left_out: tuple[Candidate, ...] = ()
    #: Sentences on the uncertainty of the order.
    notes: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates, best first."""
        return tuple(place.candidate for place in self.places)

    @property
    def weighted(self) -> bool:
        """Whether the ranking uses a weighted score."""
        return any(place.score is not None for place in self.places)

    @property
    def table(self) -> pl.DataFrame:
        """A row per candidate: `rank`, `name`, its levels, its objectives, and the uncertainty.

        `score` exists in a weighted ranking only. `unsupported` describes extrapolations beyond the
        data of the fit; null: none. A factor with the name of another column gets the suffix
        ` (level)`.
        """
        candidates = self.candidates
        kpis = [objective.kpi for objective in self.objectives]
        reserved = {"rank", "name", "score", *kpis, *_UNCERTAINTY}
        columns = [
            pl.Series("rank", [place.rank for place in self.places], dtype=pl.Int64),
            pl.Series("name", [each.name for each in candidates], dtype=pl.String),
        ]
        for name in dict.fromkeys(name for each in candidates for name in each.levels):
            title = f"{name} (level)" if name in reserved else name
            columns.append(
                _make_level_column(title, [each.levels.get(name) for each in candidates])
            )
        for kpi in kpis:
            columns.append(
                pl.Series(kpi, [each.predicted[kpi] for each in candidates], dtype=pl.Float64)
            )
        for name in (*(("score",) if self.weighted else ()), *_UNCERTAINTY[:-1]):
            dtype = pl.Int64 if name == "tie" else pl.Float64
            columns.append(
                pl.Series(name, [getattr(place, name) for place in self.places], dtype=dtype)
            )
        unsupported = [" ".join(each.unsupported) or None for each in candidates]
        return pl.DataFrame([*columns, pl.Series("unsupported", unsupported, dtype=pl.String)])

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Ranking: ...
    def __getitem__(self, index: int | slice) -> Candidate | Ranking:
        if isinstance(index, slice):
            return replace(self, places=self.places[index])
        return self.places[index].candidate

    def __len__(self) -> int:
        return len(self.places)

    def __str__(self) -> str:
        from twinloop.exploration.ranking.text import ranking_to_text

        return ranking_to_text(self)

    def __repr__(self) -> str:
        first = f", best: {self[0].name}" if self.places else ""
        return escape_name(f"<Ranking of {len(self)} {self.how}{first}>")

    def _repr_html_(self) -> str:
        from twinloop.exploration.ranking.text import ranking_to_html

        return ranking_to_html(self)


def rank_candidates(
    candidates: Sequence[Candidate],
    by: By = "makespan_s",
    *,
    baseline: Candidate,
    noise: Noise | None = None,
    k: int | None = None,
    tolerance: float = 0.0,
    fit: Fit | None = None,
) -> Ranking:
    """Rank candidates, and compute the probabilities of their order.

    Args:
        candidates: The candidates.
        by: A KPI; several KPIs in lexicographic order; or weights of KPIs,
            `{"makespan_s": 2, "energy_j": 1}`. A weighted score is the weighted mean of the KPIs,
            each scaled to 0 for the best and 1 for the worst candidate.
        baseline: The unchanged scenario; candidates that complete a smaller share of their tasks
            than it or another candidate are ranked last.
        noise: The scatter of real runs around the twin, by KPI; by default that of the fit.
        k: The number of candidates to return; by default all.
        tolerance: In a lexicographic order, the relative distance from the best value of a group
            up to which values count as equal.
        fit: The fit that the predictions come from.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> easy, sjf, fifo = (Candidate(name, scenario, {"makespan_s": seconds})
    ...     for name, seconds in (("easy", 80.0), ("sjf", 79.0), ("fifo", 100.0)))
    >>> ranking = rank_candidates([easy, sjf, fifo], baseline=fifo,
    ...                  noise={"makespan_s": {"share": 0.02, "freedom": 10}})
    >>> ranking[0], ranking.table["tie"].to_list()
    (<Candidate sjf: makespan_s 79>, [1, 1, None])
    """
    if noise is None:
        noise = fit.noise if fit is not None else {}
    if k is not None and k < 1:
        raise InputError(f"must be at least 1, not {k}", kind="out-of-range", field="k")
    rule = RankingRule.of(by, tolerance)
    ranked = [each for each in candidates if rule.can_rank(each)]
    if not ranked:
        names = " and ".join(objective.kpi for objective in rule.objectives)
        raise InputError(
            f"no candidate has {names}",
            kind="not-ranked",
            field="by",
            remedy="energy needs hosts with a power model; failed runs have no KPIs",
        )
    shortfalls = np.array(compute_shortfalls(ranked, baseline))
    # Candidates that complete fewer tasks affect neither the scale nor the equality of others.
    rule = rule.with_scale([ranked[row] for row in np.flatnonzero(shortfalls == shortfalls.min())])
    values = np.array([rule.values(each) for each in ranked])
    classes = [np.flatnonzero(shortfalls == shortfall) for shortfall in np.unique(shortfalls)]
    rows = [int(members[row]) for members in classes for row in rule.sort_rows(values[members])]
    ranked, values, shortfalls = [ranked[row] for row in rows], values[rows], shortfalls[rows]
    count = len(ranked) if k is None else min(k, len(ranked))
    pairs = range(min(count, len(ranked) - 1))
    probabilities: list[float | None] = [None] * count
    best: Sequence[float | None] = [None] * count
    has_probabilities = any(
        has_uncertainty(ranked, objective, noise) for objective in rule.deciding_objectives
    )
    if has_probabilities:
        outcomes = rule.weigh(sample_outcomes(ranked, rule.objectives, noise))
        best = [
            *compute_win_shares(outcomes[:, : len(classes[0])], rule.tolerance).tolist(),
            *[None] * len(ranked),
        ]
        probabilities[: len(pairs)] = [
            _compute_order_probability(rule, ranked[i : i + 2], noise, outcomes, i)
            if shortfalls[i] == shortfalls[i + 1]
            else None
            for i in pairs
        ]

    def is_tied(first: int, later: int) -> bool:
        if shortfalls[first] != shortfalls[later]:
            return False
        if not has_probabilities:
            return _is_tied_over_seeds(rule, ranked[first], ranked[later])
        if later == first + 1:
            probability = probabilities[first]
        else:
            pair = (ranked[first], ranked[later])
            probability = _compute_order_probability(
                rule, pair, noise, outcomes[:, [first, later]], 0
            )
        return probability is not None and probability < TIE_PROBABILITY

    groups = _find_tie_groups(count, is_tied)
    places = tuple(
        RankedCandidate(
            rank=i + 1,
            candidate=ranked[i],
            score=float(values[i, 0]) if rule.weights else None,
            probability=probabilities[i],
            best=best[i],
            tie=groups[i],
            fewer=bool(shortfalls[i]),
        )
        for i in range(count)
    )
    return Ranking(
        objectives=rule.objectives,
        how=str(rule),
        places=places,
        baseline=baseline,
        fit=fit,
        left_out=tuple(each for each in candidates if not rule.can_rank(each)),
        notes=(
            *_list_completion_notes(ranked, baseline),
            *_list_notes(
                rule, ranked, noise, has_ties=any(groups), has_probabilities=has_probabilities
            ),
        ),
    )


def _compute_order_probability(
    rule: RankingRule, pair: Sequence[Candidate], noise: Noise, outcomes: Floats, first: int
) -> float | None:
    """Compute the probability that the first of two candidates is better; None: not known.

    For one KPI it is that of `compute_probability_better`; for several KPIs it is the share of the
    sampled `outcomes` in which it is better. `first` is the column of the first candidate there.
    """
    if len(rule.objectives) > 1:
        return float(compute_win_shares(outcomes[:, first : first + 2], rule.tolerance)[0])
    probability = compute_probability_better(pair[0], pair[1], rule.objectives[0], noise)
    return None if math.isnan(probability) else probability


def _is_tied_over_seeds(rule: RankingRule, one: Candidate, other: Candidate) -> bool:
    """Whether candidates are equal, or the interval of their difference over seeds contains 0."""
    from scipy import special

    if not (rule.values(one) - rule.values(other)).any():
        return True
    kpi = rule.objectives[0].kpi
    own, others = (each.by_seed.get(kpi, np.empty(0)) for each in (one, other))
    if rule.weights or len(own) != len(others) or len(own) < 2:
        return False
    differences = own - others
    mean, deviation = moments(differences)
    error = deviation / math.sqrt(len(differences))
    return bool(
        abs(mean) <= error * special.stdtrit(len(differences) - 1, (1.0 + TIE_PROBABILITY) / 2.0)
    )


def _find_tie_groups(count: int, is_tied: Callable[[int, int], bool]) -> list[int | None]:
    """Return the number of the tie group of each candidate; None if it is not tied."""
    groups: list[int | None] = [None] * count
    first, number = 0, 0
    for later in range(1, count):
        if is_tied(first, later):
            number += groups[first] is None
            groups[first] = groups[later] = number
        else:
            first = later
    return groups


def _list_completion_notes(candidates: Sequence[Candidate], baseline: Candidate) -> Iterator[str]:
    text = describe_fewer_completions(candidates, baseline)
    if text is not None:
        yield (
            f"{text[0].upper()}{text[1:]}: candidates that complete fewer tasks are ranked after "
            "all others."
        )


def _list_notes(
    rule: RankingRule,
    candidates: Sequence[Candidate],
    noise: Noise,
    *,
    has_ties: bool,
    has_probabilities: bool,
) -> Iterator[str]:
    if has_ties:
        yield "Candidates with the same number under 'tie' are tied: " + (
            f"the probability of their order is below {100 * TIE_PROBABILITY:g} %."
            if has_probabilities
            else "they are equal, or their difference over the seeds is not significant."
        )
    if not has_probabilities:
        yield (
            "The probability of the order is not known: without a fit, the uncertainty of the "
            "model is unknown."
        )
        return
    for objective in rule.deciding_objectives:
        if get_scatter(objective.kpi, noise) is None:
            yield (
                f"The scatter of {objective.kpi} between real runs is not known: the "
                "probabilities include only the uncertainty of the calibration."
            )
        elif not any(len(each.draws.get(objective.kpi, ())) for each in candidates):
            yield (
                f"The uncertainty of the calibration is not known: the probabilities for "
                f"{objective.kpi} include only the scatter of real runs."
            )


def _make_level_column(name: str, levels: Sequence[Any]) -> pl.Series:
    """Make a column of levels: numbers if all of them are numbers, else text."""
    present = [level for level in levels if level is not None]
    if all(type(level) is int for level in present):
        return pl.Series(name, levels, dtype=pl.Int64)
    if all(type(level) in (int, float) for level in present):
        return pl.Series(name, [None if x is None else float(x) for x in levels], dtype=pl.Float64)
    return pl.Series(name, [None if x is None else str(x) for x in levels], dtype=pl.String)
