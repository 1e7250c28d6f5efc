"""Groups of configurations with equal predictions in a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking


def group_equal_places(ranking: Ranking) -> list[list[RankedCandidate]]:
    """Group the places of a ranking, in order; a group has equal predictions in all KPIs.

    >>> from twinloop.exploration.ranking.candidate import Candidate
    >>> from twinloop.exploration.ranking.ranking import rank_candidates
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> a, b, c = (Candidate(name, scenario, {"makespan_s": seconds})
    ...     for name, seconds in (("a", 80.0), ("b", 90.0), ("c", 80.0)))
    >>> groups = group_equal_places(rank_candidates([a, b, c], baseline=b))
    >>> [[place.candidate.name for place in group] for group in groups]
    [['a', 'c'], ['b']]
    """
    groups: dict[tuple[tuple[str, float], ...], list[RankedCandidate]] = {}
    for place in ranking.places:
        groups.setdefault(tuple(sorted(place.candidate.predicted.items())), []).append(place)
    return list(groups.values())


def name_group(group: Sequence[RankedCandidate]) -> str:
    """Name a group of places.

    >>> from types import SimpleNamespace
    >>> name_group([SimpleNamespace(candidate=SimpleNamespace(name=name)) for name in "ab"])
    'a (+1 equal)'
    """
    name, more = group[0].candidate.name, len(group) - 1
    return f"{name} (+{more:,} equal)" if more else name


def get_lead_probability(group: Sequence[RankedCandidate], ranking: Ranking) -> float | None:
    """Return the probability that a group is better than the next candidate.

    None if it is unknown, or if the next candidate has an equal value of the first objective.

    >>> from twinloop.exploration.ranking.candidate import Candidate
    >>> from twinloop.exploration.ranking.ranking import rank_candidates
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> a, b, c = (Candidate(name, scenario, {"makespan_s": seconds})
    ...     for name, seconds in (("a", 80.0), ("b", 80.0), ("c", 90.0)))
    >>> noise = {"makespan_s": {"share": 0.1, "freedom": 9}}
    >>> ranking = rank_candidates([a, b, c], baseline=c, noise=noise)
    >>> get_lead_probability(ranking.places[:1], ranking) is None
    True
    >>> get_lead_probability(ranking.places[:2], ranking) > 0.5
    True
    """
    last = group[-1]
    kpi = ranking.objectives[0].kpi
    following = ranking.places[last.rank :][:1]
    if following and following[0].candidate.predicted[kpi] == last.candidate.predicted[kpi]:
        return None
    return last.probability
