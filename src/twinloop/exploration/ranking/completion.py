"""The share of completed tasks of a candidate.

A task that is rejected, killed or never placed is excluded from means and from the makespan, so a
configuration that completes fewer tasks would appear better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from twinloop.exploration.ranking.candidate import Candidate
from twinloop.trace.trace import format_count

#: Maximum number of candidates named in a sentence.
_MAX_NAMED: Final = 3


def compute_completed_share(candidate: Candidate) -> float | None:
    """Compute the predicted share of completed tasks; None if it is not known.

    It is a share and not a count, because candidates may have different workloads.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> compute_completed_share(Candidate("easy", scenario, {"tasks": 4.0, "completed": 3.0}))
    0.75
    """
    tasks, completed = (candidate.predicted.get(kpi, math.nan) for kpi in ("tasks", "completed"))
    if not (math.isfinite(completed) and tasks > 0):
        return None
    return round(completed / tasks, 12)  # removes rounding errors of means over seeds


def compute_shortfalls(candidates: Sequence[Candidate], baseline: Candidate) -> list[float]:
    """Compute the difference of each share of completed tasks from the highest one.

    The highest share includes that of the baseline; 0 if the share of a candidate is not known.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> some, every = (Candidate(str(n), scenario, {"tasks": 4.0, "completed": n}) for n in (3, 4))
    >>> compute_shortfalls([some, every], baseline=every)
    [0.25, 0.0]
    """
    shares = [compute_completed_share(each) for each in candidates]
    highest = max(
        (share for share in (*shares, compute_completed_share(baseline)) if share is not None),
        default=0.0,
    )
    return [0.0 if share is None else highest - share for share in shares]


def describe_fewer_completions(candidates: Sequence[Candidate], baseline: Candidate) -> str | None:
    """Describe the candidates that complete fewer tasks than others; None if there are none.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> some, every = (Candidate(name, scenario, {"tasks": 4.0, "completed": n})
    ...                for name, n in (("1x4", 3), ("2x8", 4)))
    >>> describe_fewer_completions([some, every], baseline=every)
    'fewer tasks complete in 1x4 (3 of 4 tasks) than in others'
    """
    has_baseline = any(each.name == baseline.name for each in candidates)
    compared = [*candidates, *(() if has_baseline else (baseline,))]
    shortfalls = compute_shortfalls(compared, baseline)
    behind = [each for each, shortfall in zip(compared, shortfalls, strict=True) if shortfall]
    if not behind:
        return None
    named = ", ".join(f"{each.name} ({_format_completed(each)})" for each in behind[:_MAX_NAMED])
    more = f" and {len(behind) - _MAX_NAMED} more" if len(behind) > _MAX_NAMED else ""
    return f"fewer tasks complete in {named}{more} than in others"


def _format_completed(candidate: Candidate) -> str:
    tasks, completed = candidate.predicted["tasks"], candidate.predicted["completed"]
    total = format_count(int(tasks), "task") if tasks % 1 == 0 else f"{tasks:,.2f} tasks"
    return f"{completed:,.0f} of {total}" if completed % 1 == 0 else f"{completed:,.2f} of {total}"
