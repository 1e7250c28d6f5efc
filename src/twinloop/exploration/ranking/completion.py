"""How much of its work a candidate does: the share of its tasks that complete.

A task that is rejected, killed or never placed is in no mean and not in the makespan, so that to do
less would look better than to do all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from twinloop.exploration.ranking.candidate import Candidate
from twinloop.trace.trace import format_count

#: How many candidates a sentence names.
_NAMED: Final = 3


def compute_completed_share(one: Candidate) -> float | None:
    """The share of its tasks that are predicted to complete; None: the runs do not say.

    A share, and not a number, as candidates may have different workloads.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> compute_completed_share(Candidate("easy", scenario, {"tasks": 4.0, "completed": 3.0}))
    0.75
    """
    tasks, completed = (one.predicted.get(kpi, math.nan) for kpi in ("tasks", "completed"))
    if not (math.isfinite(completed) and tasks > 0):
        return None
    return round(completed / tasks, 12)  # means over seeds may differ in the last digit


def compute_shortfalls(candidates: Sequence[Candidate], baseline: Candidate) -> list[float]:
    """How far each lies below the most complete one; 0 where the runs do not say.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> some, every = (Candidate(str(n), scenario, {"tasks": 4.0, "completed": n}) for n in (3, 4))
    >>> compute_shortfalls([some, every], baseline=every)
    [0.25, 0.0]
    """
    shares = [compute_completed_share(each) for each in candidates]
    most = max(
        (s for s in (*shares, compute_completed_share(baseline)) if s is not None), default=0.0
    )
    return [0.0 if share is None else most - share for share in shares]


def describe_fewer_completions(candidates: Sequence[Candidate], baseline: Candidate) -> str | None:
    """Which of them complete fewer tasks than others, in words; None: none does.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> some, every = (Candidate(name, scenario, {"tasks": 4.0, "completed": n})
    ...                for name, n in (("1x4", 3), ("2x8", 4)))
    >>> describe_fewer_completions([some, every], baseline=every)
    'fewer tasks complete in 1x4 (3 of 4 tasks) than in others'
    """
    known = any(each.name == baseline.name for each in candidates)
    compared = [*candidates, *(() if known else (baseline,))]
    short = compute_shortfalls(compared, baseline)
    behind = [each for each, lack in zip(compared, short, strict=True) if lack]
    if not behind:
        return None
    named = ", ".join(f"{each.name} ({_completed(each)})" for each in behind[:_NAMED])
    more = f" and {len(behind) - _NAMED} more" if len(behind) > _NAMED else ""
    return f"fewer tasks complete in {named}{more} than in others"


def _completed(one: Candidate) -> str:
    tasks, completed = one.predicted["tasks"], one.predicted["completed"]
    of = format_count(int(tasks), "task") if tasks % 1 == 0 else f"{tasks:,.2f} tasks"
    return f"{completed:,.0f} of {of}" if completed % 1 == 0 else f"{completed:,.2f} of {of}"
