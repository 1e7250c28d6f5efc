"""The probability that one candidate is better than another in real runs.

The order of candidates is uncertain for two reasons: the parameters of the twin are uncertain, and
real runs scatter around the twin. For a draw d of the parameters, let x and y be the predictions
for two candidates. Their real runs are modelled as x (1 + s z) and y (1 + s z'), with z and z'
independent and normal, and s the scatter estimated by the fit with f degrees of freedom. The first
candidate has the lower value with the probability

    P = mean over d of F((y - x) / (s sqrt(x² + y²)); f)

where F is the distribution function of Student's t. Both candidates are predicted with the same
draws, so an effect of the parameters that is equal for both does not make their order uncertain.
The part of s that is an error of the twin common to both is not known, so none of it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.objectives import Objective

Floats = NDArray[np.float64]
#: By KPI: `share`, a standard deviation relative to the prediction, and `freedom`.
Noise = Mapping[str, Mapping[str, float]]

#: Number of outcomes that are sampled with scatter, and maximum number of values in them. The
#: number of outcomes is rounded down to a multiple of the number of draws, but not to 0.
_OUTCOMES, _MAX_VALUES = 4000, 4_000_000
#: KPIs with the relative scatter of another one, to which they are proportional.
_SAME_SCATTER: Final = {"energy_per_task_j": "energy_j"}


def compute_probability_better(
    one: Candidate, other: Candidate, by: str | Objective, noise: Noise
) -> float:
    """Compute the probability that a real run of `one` is better than a real run of `other`.

    If the scatter of real runs is not known for this KPI, the probability is the share of draws for
    which `one` is better; equal values count half. Without draws (a fit without analysis) the
    predictions are used instead. The result is NaN if neither scatter nor draws are known. Draws
    for which one of the candidates failed are ignored.

    Args:
        one: A candidate.
        other: Another candidate of the same study.
        by: The KPI.
        noise: The scatter of real runs around the twin, by KPI: `Fit.noise`.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> easy, fifo = (Candidate(name, scenario, {"makespan_s": seconds})
    ...               for name, seconds in (("easy", 95.0), ("fifo", 100.0)))
    >>> noise = {"makespan_s": {"share": 0.03, "freedom": 8}}
    >>> round(compute_probability_better(easy, fifo, "makespan_s", noise), 2)
    0.87
    >>> compute_probability_better(easy, fifo, "makespan_s", {})
    nan
    """
    from scipy import special

    objective = Objective.of(by)
    scatter = get_scatter(objective.kpi, noise)
    if not has_uncertainty((one, other), objective, noise):
        return math.nan
    pair = collect_draws((one, other), objective)
    pair = pair[np.isfinite(pair).all(axis=1)]
    if not len(pair):
        return math.nan
    difference = pair[:, 1] - pair[:, 0]
    if scatter is None:
        return float(np.mean((np.sign(difference) + 1.0) / 2.0))
    share, freedom = scatter
    spread = share * np.hypot(pair[:, 0], pair[:, 1])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standard = np.where(difference == 0.0, 0.0, difference / spread)
    return float(np.mean(special.stdtr(freedom, standard)))


def has_uncertainty(candidates: Sequence[Candidate], objective: Objective, noise: Noise) -> bool:
    """Whether the uncertainty of a KPI is known, from draws or from scatter."""
    calibrated = any(len(each.draws.get(objective.kpi, ())) for each in candidates)
    return calibrated or get_scatter(objective.kpi, noise) is not None


def get_scatter(kpi: str, noise: Noise) -> tuple[float, float] | None:
    """Return the relative scatter of a KPI between runs, and its degrees of freedom; None: unknown.

    The energy per task has the relative scatter of the energy.

    >>> get_scatter("energy_per_task_j", {"energy_j": {"share": 0.05, "freedom": 3.0}})
    (0.05, 3.0)
    """
    scatter = noise.get(kpi, noise.get(_SAME_SCATTER.get(kpi, kpi)))
    return None if scatter is None else (float(scatter["share"]), float(scatter["freedom"]))


def collect_draws(candidates: Sequence[Candidate], objective: Objective) -> Floats:
    """Collect draws: a row per draw, a column per candidate; lower is better.

    A candidate without draws has its prediction in each row, NaN if there is none.
    """
    kpi = objective.kpi
    lengths = {len(each.draws[kpi]) for each in candidates if len(each.draws.get(kpi, ()))}
    if len(lengths) > 1:
        counts = " and ".join(map(str, sorted(lengths)))
        raise InputError(
            f"candidates have {counts} draws, so they cannot be paired",
            kind="not-comparable",
            field="candidates",
            remedy="compare candidates of one study",
        )
    rows = np.empty((max(lengths, default=1), len(candidates)))
    for column, each in enumerate(candidates):
        drawn = each.draws.get(kpi, ())
        rows[:, column] = drawn if len(drawn) else each.predicted.get(kpi, math.nan)
    return rows if objective.lower else -rows


def sample_outcomes(
    candidates: Sequence[Candidate], objectives: Sequence[Objective], noise: Noise, seed: int = 0
) -> Floats:
    """Sample outcomes of real runs: outcomes x candidates x KPIs; lower is better.

    Each draw of the parameters is used equally often. The KPIs of a run have a common z, because a
    run that is slower than its twin is worse in all KPIs.
    """
    rng = np.random.default_rng(seed)
    tables = [collect_draws(candidates, objective) for objective in objectives]
    scatters = [get_scatter(objective.kpi, noise) for objective in objectives]
    rows = max(map(len, tables))
    size = len(candidates) * len(objectives)
    if any(scatters):
        rows *= max(1, min(_OUTCOMES, _MAX_VALUES // max(size, 1)) // rows)
    z = rng.standard_normal((rows, len(candidates))) if any(scatters) else None
    outcomes = np.empty((rows, len(candidates), len(objectives)))
    for column, (table, scatter) in enumerate(zip(tables, scatters, strict=True)):
        values = np.resize(table, (rows, len(candidates)))
        if scatter is not None and z is not None:
            share, freedom = scatter
            scale = share * np.sqrt(freedom / rng.chisquare(freedom, (rows, 1)))
            values = values + np.abs(values) * scale * z
        outcomes[:, :, column] = values
    return outcomes


def compute_win_shares(outcomes: Floats, tolerance: float = 0.0) -> Floats:
    """Compute the share of outcomes in which each candidate is the best (lexicographic order).

    Args:
        outcomes: Outcomes x candidates x KPIs; lower is better. NaN is the worst.
        tolerance: Relative distance from the lowest value up to which values count as equal.

    >>> compute_win_shares(np.array([[[1.0, 9.0], [1.0, 5.0], [2.0, 1.0]]])).tolist()
    [0.0, 1.0, 0.0]
    """
    is_best = np.ones(outcomes.shape[:2], dtype=np.bool_)
    for column in range(outcomes.shape[2]):
        values = np.where(is_best, np.nan_to_num(outcomes[:, :, column], nan=np.inf), np.inf)
        lowest = values.min(axis=1, keepdims=True)
        limit = np.where(np.isfinite(lowest), lowest + tolerance * np.abs(lowest), lowest)
        is_best &= values <= limit
    shares: Floats = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares
