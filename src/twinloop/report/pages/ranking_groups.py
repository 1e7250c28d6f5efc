"""Places of a ranking that come out the same, taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking


def group_equal_places(ranking: Ranking) -> list[list[RankedCandidate]]:
    """The places in order; those whose predictions are equal in everything are in one list.

    >>> from twinloop.exploration.ranking.candidate import Candidate
    >>> from twinloop.exploration.ranking.ranking import ranked
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> a, b, c = (Candidate(name, scenario, {"makespan_s": seconds})
    ...     for name, seconds in (("a", 80.0), ("b", 90.0), ("c", 80.0)))
    >>> groups = group_equal_places(ranked([a, b, c], baseline=b))
    >>> [[place.candidate.name for place in group] for group in groups]
    [['a', 'c'], ['b']]
    """
    found: dict[tuple[tuple[str, float], ...], list[RankedCandidate]] = {}
    for place in ranking.places:
        found.setdefault(tuple(sorted(place.candidate.predicted.items())), []).append(place)
    return list(found.values())


def name_group(fold: Sequence[RankedCandidate]) -> str:
    """What such places are called together.

    >>> from types import SimpleNamespace
    >>> name_group([SimpleNamespace(candidate=SimpleNamespace(name=name)) for name in "ab"])
    'a and 1 more that comes out the same'
    """
    name, more = fold[0].candidate.name, len(fold) - 1
    if not more:
        return name
    return f"{name} and {more:,} more that {'comes' if more == 1 else 'come'} out the same"


def get_lead_probability(fold: Sequence[RankedCandidate], ranking: Ranking) -> float | None:
    """How sure it is that these are better than the next; None where it is equal, or not known.

    >>> from twinloop.exploration.ranking.candidate import Candidate
    >>> from twinloop.exploration.ranking.ranking import ranked
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> a, b, c = (Candidate(name, scenario, {"makespan_s": seconds})
    ...     for name, seconds in (("a", 80.0), ("b", 80.0), ("c", 90.0)))
    >>> ranking = ranked([a, b, c], baseline=c, noise={"makespan_s": {"share": 0.1, "freedom": 9}})
    >>> get_lead_probability(ranking.places[:1], ranking) is None
    True
    >>> get_lead_probability(ranking.places[:2], ranking) > 0.5
    True
    """
    last = fold[-1]
    kpi = ranking.objectives[0].kpi
    after = ranking.places[last.rank :][:1]
    if after and after[0].candidate.predicted[kpi] == last.candidate.predicted[kpi]:
        return None
    return last.probability
