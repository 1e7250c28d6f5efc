"""How sure it is that one candidate is really better than another.

Two things make the order of candidates unsure: other calibrations fit the data as well, and real
runs scatter about the twin. For a calibration d that the data allows, let x and y be what the twin
predicts of two candidates. Real runs of them are taken to be x (1 + s z) and y (1 + s z'), with z
and z' independent and normal, and s the scatter that the fit saw, known from f degrees of freedom.
So the one with x is the lower with

    P = mean over d of F((y - x) / (s sqrt(x² + y²)); f)

F being the distribution function of Student's t. Both candidates are judged by the same
calibrations, so what a calibration does to both of them alike does not make their order unsure.
What of s is an error of the twin that both share is not known, so nothing of it is taken to cancel.
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

#: Outcomes that are drawn where there is scatter, at least, and numbers that these are at most.
_DRAWN, _MOST = 4000, 4_000_000
#: KPIs that scatter like another one, to which they are in proportion.
_LIKE: Final = {"energy_per_task_j": "energy_j"}


def compute_probability_better(
    one: Candidate, other: Candidate, by: str | Objective, noise: Noise
) -> float:
    """The probability that a real run of `one` is better than a real run of `other`.

    Where the scatter of real runs is not known for this KPI, the calibrations decide alone: the
    share of them under which it is better, equal ones counting half. Without calibrations (the fit
    had no analysis) the predictions stand for them. Where neither is known the answer is NaN: then
    nobody knows how sure the order is. Calibrations under which one of them failed do not count.

    Args:
        one: A candidate.
        other: Another one, of the same study.
        by: The KPI.
        noise: How far real runs lie from the twin, by KPI: `Fit.noise`.

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
    scatter = estimate_scatter(objective.kpi, noise)
    if not has_uncertainty((one, other), objective, noise):
        return math.nan
    pair = collect_draws((one, other), objective)
    pair = pair[np.isfinite(pair).all(axis=1)]
    if not len(pair):
        return math.nan
    apart = pair[:, 1] - pair[:, 0]
    if scatter is None:
        return float(np.mean((np.sign(apart) + 1.0) / 2.0))
    share, freedom = scatter
    spread = share * np.hypot(pair[:, 0], pair[:, 1])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standard = np.where(apart == 0.0, 0.0, apart / spread)
    return float(np.mean(special.stdtr(freedom, standard)))


def has_uncertainty(candidates: Sequence[Candidate], objective: Objective, noise: Noise) -> bool:
    """Whether anything is known of the doubt about a KPI: calibrations, or scatter."""
    calibrated = any(len(each.draws.get(objective.kpi, ())) for each in candidates)
    return calibrated or estimate_scatter(objective.kpi, noise) is not None


def estimate_scatter(kpi: str, noise: Noise) -> tuple[float, float] | None:
    """The scatter of a KPI from run to run, and from how many degrees of freedom it is known.

    Energy per task scatters as energy does.

    >>> estimate_scatter("energy_per_task_j", {"energy_j": {"share": 0.05, "freedom": 3.0}})
    (0.05, 3.0)
    """
    found = noise.get(kpi, noise.get(_LIKE.get(kpi, kpi)))
    return None if found is None else (float(found["share"]), float(found["freedom"]))


def collect_draws(candidates: Sequence[Candidate], objective: Objective) -> Floats:
    """A row per calibration, a column per candidate; less is better.

    Candidates for which there are none have their prediction in each row.
    """
    kpi = objective.kpi
    lengths = {len(each.draws[kpi]) for each in candidates if len(each.draws.get(kpi, ()))}
    if len(lengths) > 1:
        counts = " and ".join(map(str, sorted(lengths)))
        raise InputError(
            f"candidates were tried with {counts} calibrations, so they cannot be paired",
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
    """What real runs of all candidates may give: outcomes x candidates x KPIs; less is better.

    Each calibration is drawn as often as the others. A run that is slower than its twin is so in
    all its KPIs: they have one z in common.
    """
    rng = np.random.default_rng(seed)
    drawn = [collect_draws(candidates, objective) for objective in objectives]
    scatters = [estimate_scatter(objective.kpi, noise) for objective in objectives]
    rows = max(map(len, drawn))
    size = len(candidates) * len(objectives)
    if any(scatters):
        rows *= max(1, min(_DRAWN, _MOST // max(size, 1)) // rows)
    z = rng.standard_normal((rows, len(candidates))) if any(scatters) else None
    found = np.empty((rows, len(candidates), len(objectives)))
    for column, (table, scatter) in enumerate(zip(drawn, scatters, strict=True)):
        values = np.resize(table, (rows, len(candidates)))
        if scatter is not None and z is not None:
            share, freedom = scatter
            scale = share * np.sqrt(freedom / rng.chisquare(freedom, (rows, 1)))
            values = values + np.abs(values) * scale * z
        found[:, :, column] = values
    return found


def count_wins(found: Floats, tolerance: float = 0.0) -> Floats:
    """How often each candidate is the best, by the first KPI, of those equal by the next.

    Args:
        found: Outcomes x candidates x KPIs; less is better. NaN loses.
        tolerance: Values so near to the lowest, relative to it, count as equal.

    >>> count_wins(np.array([[[1.0, 9.0], [1.0, 5.0], [2.0, 1.0]]])).tolist()
    [0.0, 1.0, 0.0]
    """
    left = np.ones(found.shape[:2], dtype=np.bool_)
    for column in range(found.shape[2]):
        values = np.where(left, np.nan_to_num(found[:, :, column], nan=np.inf), np.inf)
        lowest = values.min(axis=1, keepdims=True)
        far = np.where(np.isfinite(lowest), lowest + tolerance * np.abs(lowest), lowest)
        left &= values <= far
    share: Floats = (left / left.sum(axis=1, keepdims=True)).mean(axis=0)
    return share
