"""Candidates in order, best first, and how far the order can be trusted."""

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
    count_wins,
    estimate_scatter,
    has_uncertainty,
    sample_outcomes,
)
from twinloop.metrics.confidence import moments

if TYPE_CHECKING:
    from twinloop.calibration import Fit

#: Neighbours whose order is less sure than this are tied.
SURE: Final = 0.9
_DOUBT: Final = ("probability", "best", "tie", "unsupported")


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate in its place.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> candidate = Candidate("easy", scenario, {"makespan_s": 80.0})
    >>> RankedCandidate(1, candidate, probability=0.7).best is None
    True
    """

    rank: int
    candidate: Candidate
    #: Of a weighted ranking: from 0, best in everything, to 1, among those that complete most.
    score: float | None = None
    #: That a real run of it is better than one of the next in the whole ranking; None: not known,
    #: or the next completes fewer tasks.
    probability: float | None = None
    #: That a real run of it is better than those of all others that complete as many tasks; None:
    #: not known, or others complete more.
    best: float | None = None
    #: Those with the same number are tied; None: it is tied with nobody.
    tie: int | None = None
    #: Whether it completes fewer tasks than others, and so comes after them.
    fewer: bool = False


@dataclass(frozen=True, repr=False)
class Ranking(Sequence[Candidate]):
    """Candidates in order, best first, with the doubt about their order.

    It is a sequence of candidates; a slice of it is a ranking again, in which ranks and
    probabilities stay those of the whole. `rank_candidates` makes one.

    A candidate that completes fewer of its tasks than another comes after it, whatever its KPIs: a
    task that was rejected or killed is in no mean, and not in the makespan.

    A candidate is tied with the best of a group if their order holds with a probability of less
    than 90 %; the first that is not begins a group of its own. Without a fit the doubt about the
    model is not known; then two are tied if they are equal, or if the 90 % interval of their
    difference, seed by seed, has zero in it.

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
    #: By what, in words.
    how: str
    places: tuple[RankedCandidate, ...]
    #: What the candidates are to be better than.
    baseline: Candidate
    #: The fit that the predictions come from.
    fit: Fit | None = field(default=None, compare=False)
    #: Candidates that have no value to be ranked by: their runs failed.
    left_out: tuple[Candidate, ...] = ()
    #: How far the order can be trusted, in sentences.
    notes: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates, best first."""
        return tuple(place.candidate for place in self.places)

    @property
    def weighted(self) -> bool:
        """Whether it is by a weighted score."""
        return any(place.score is not None for place in self.places)

    @property
    def table(self) -> pl.DataFrame:
        """A row per candidate: `rank`, `name`, its levels, what it is ranked by, and the doubt.

        `score` is there in a weighted ranking only. `unsupported` says what a candidate leans on
        that the data could not tell; null: on nothing. A factor that is called like another column
        has ` (level)` behind its name.
        """
        many = self.candidates
        kpis = [objective.kpi for objective in self.objectives]
        taken = {"rank", "name", "score", *kpis, *_DOUBT}
        found = [
            pl.Series("rank", [place.rank for place in self.places], dtype=pl.Int64),
            pl.Series("name", [each.name for each in many], dtype=pl.String),
        ]
        for name in dict.fromkeys(name for each in many for name in each.levels):
            title = f"{name} (level)" if name in taken else name
            found.append(_column(title, [each.levels.get(name) for each in many]))
        for kpi in kpis:
            found.append(pl.Series(kpi, [each.predicted[kpi] for each in many], dtype=pl.Float64))
        for name in (*(("score",) if self.weighted else ()), *_DOUBT[:-1]):
            dtype = pl.Int64 if name == "tie" else pl.Float64
            found.append(
                pl.Series(name, [getattr(place, name) for place in self.places], dtype=dtype)
            )
        leans = [" ".join(each.unsupported) or None for each in many]
        return pl.DataFrame([*found, pl.Series("unsupported", leans, dtype=pl.String)])

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> Ranking: ...
    def __getitem__(self, at: int | slice) -> Candidate | Ranking:
        if isinstance(at, slice):
            return replace(self, places=self.places[at])
        return self.places[at].candidate

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
    """Put candidates in order, and say how far that can be trusted.

    Args:
        candidates: What to rank.
        by: A KPI; several, of which the first counts, and each next one among equals
            (lexicographic); or weights of KPIs, `{"makespan_s": 2, "energy_j": 1}`. A weighted
            score is the mean of the KPIs, each scaled so that the best candidate has 0 and the
            worst 1.
        baseline: What they are to be better than; it also tells how many tasks can complete.
        noise: How far real runs lie from the twin, by KPI; by default what the fit says.
        k: How many to keep; by default all.
        tolerance: In a lexicographic order, values so near to the best of their group, relative
            to it, count as equal.
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
        raise InputError(f"must be at least 1, not {k}", field="k")
    order = RankingRule.of(by, tolerance)
    fine = [each for each in candidates if order.knows(each)]
    if not fine:
        names = " and ".join(objective.kpi for objective in order.objectives)
        raise InputError(
            f"no candidate has {names}",
            field="by",
            remedy="energy needs hosts with a power model; runs that failed have no KPIs",
        )
    lacks = np.array(compute_shortfalls(fine, baseline))
    # What does less has no say in how others are scaled, nor in what is equal.
    order = order.scaled([fine[row] for row in np.flatnonzero(lacks == lacks.min())])
    values = np.array([order.values(each) for each in fine])
    classes = [np.flatnonzero(lacks == lack) for lack in np.unique(lacks)]
    rows = [int(some[row]) for some in classes for row in order.rows(values[some])]
    fine, values, lacks = [fine[row] for row in rows], values[rows], lacks[rows]
    shown = len(fine) if k is None else min(k, len(fine))
    pairs = range(min(shown, len(fine) - 1))
    holds: list[float | None] = [None] * shown
    best: Sequence[float | None] = [None] * shown
    sure = any(has_uncertainty(fine, objective, noise) for objective in order.deciding)
    if sure:
        found = order.weighed(sample_outcomes(fine, order.objectives, noise))
        best = [
            *count_wins(found[:, : len(classes[0])], order.tolerance).tolist(),
            *[None] * len(fine),
        ]
        holds[: len(pairs)] = [
            _holds(order, fine[i : i + 2], noise, found, i) if lacks[i] == lacks[i + 1] else None
            for i in pairs
        ]

    def tied(first: int, later: int) -> bool:
        if lacks[first] != lacks[later]:
            return False
        if not sure:
            return _equal(order, fine[first], fine[later])
        if later == first + 1:
            held = holds[first]
        else:
            pair = (fine[first], fine[later])
            held = _holds(order, pair, noise, found[:, [first, later]], 0)
        return held is not None and held < SURE

    groups = _groups(shown, tied)
    places = tuple(
        RankedCandidate(
            rank=i + 1,
            candidate=fine[i],
            score=float(values[i, 0]) if order.weights else None,
            probability=holds[i],
            best=best[i],
            tie=groups[i],
            fewer=bool(lacks[i]),
        )
        for i in range(shown)
    )
    return Ranking(
        objectives=order.objectives,
        how=str(order),
        places=places,
        baseline=baseline,
        fit=fit,
        left_out=tuple(each for each in candidates if not order.knows(each)),
        notes=(
            *_completion_notes(fine, baseline),
            *_notes(order, fine, noise, tied=any(groups), sure=sure),
        ),
    )


def _holds(
    order: RankingRule, pair: Sequence[Candidate], noise: Noise, found: Floats, first: int
) -> float | None:
    """That the first of two neighbours is better: by the formula, or by outcomes drawn."""
    if len(order.objectives) > 1:
        return float(count_wins(found[:, first : first + 2], order.tolerance)[0])
    held = compute_probability_better(pair[0], pair[1], order.objectives[0], noise)
    return None if math.isnan(held) else held


def _equal(order: RankingRule, one: Candidate, other: Candidate) -> bool:
    """Whether two are equal, or the interval of their difference over the seeds has zero in it."""
    from scipy import special

    if not (order.values(one) - order.values(other)).any():
        return True
    kpi = order.objectives[0].kpi
    mine, theirs = (each.by_seed.get(kpi, np.empty(0)) for each in (one, other))
    if order.weights or len(mine) != len(theirs) or len(mine) < 2:
        return False
    apart = mine - theirs
    mean, deviation = moments(apart)
    error = deviation / math.sqrt(len(apart))
    return bool(abs(mean) <= error * special.stdtrit(len(apart) - 1, (1.0 + SURE) / 2.0))


def _groups(count: int, tied: Callable[[int, int], bool]) -> list[int | None]:
    """The number of the group of each that is tied with the best of it."""
    found: list[int | None] = [None] * count
    first, number = 0, 0
    for later in range(1, count):
        if tied(first, later):
            number += found[first] is None
            found[first] = found[later] = number
        else:
            first = later
    return found


def _completion_notes(candidates: Sequence[Candidate], baseline: Candidate) -> Iterator[str]:
    said = describe_fewer_completions(candidates, baseline)
    if said is not None:
        yield (
            f"{said[0].upper()}{said[1:]}: what completes fewer is ranked after all that "
            "complete more."
        )


def _notes(
    order: RankingRule, candidates: Sequence[Candidate], noise: Noise, *, tied: bool, sure: bool
) -> Iterator[str]:
    if tied:
        yield "Those with the same number under 'tie' are tied: " + (
            f"their order is less than {100 * SURE:g} % sure."
            if sure
            else "they are equal, or the seeds cannot tell them apart."
        )
    if not sure:
        yield (
            "How sure the order is, nobody can say: without a fit the doubt about the model is not "
            "known."
        )
        return
    for objective in order.deciding:
        if estimate_scatter(objective.kpi, noise) is None:
            yield (
                f"How much {objective.kpi} scatters from one real run to the next is not known: "
                "the probabilities are those of the calibrations alone."
            )
        elif not any(len(each.draws.get(objective.kpi, ())) for each in candidates):
            yield (
                f"Other calibrations were not tried: of {objective.kpi}, the probabilities are "
                "those of the scatter of real runs alone."
            )


def _column(name: str, levels: Sequence[Any]) -> pl.Series:
    """A column of levels: numbers if all of them are, else their text."""
    present = [level for level in levels if level is not None]
    if all(type(level) is int for level in present):
        return pl.Series(name, levels, dtype=pl.Int64)
    if all(type(level) in (int, float) for level in present):
        return pl.Series(name, [None if x is None else float(x) for x in levels], dtype=pl.Float64)
    return pl.Series(name, [None if x is None else str(x) for x in levels], dtype=pl.String)
