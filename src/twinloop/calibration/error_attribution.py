"""The decision recipe: which value a failed criterion points to, and what moved because of it.

After section 4.4.4 of Xie, "From Reality to Simulation: A Trace-Driven Closed-Loop Evaluation
Methodology for Cloud Datacenters" (master thesis, UvA and VU Amsterdam): a symptom, the value that
most likely causes it, and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from twinloop.fidelity import Verdict


@dataclass(frozen=True)
class AttributionRule:
    """What a symptom points to.

    >>> ATTRIBUTION_RULES[0].metric
    'completions'
    """

    metric: str
    #: Patterns of the names of values, the likeliest first.
    values: tuple[str, ...]
    because: str


ATTRIBUTION_RULES: Final = (
    AttributionRule(
        "completions",
        ("speed_factor", "service_factor*", "contention.*", "effective_capacity"),
        "work gets done at another pace than in reality",
    ),
    AttributionRule(
        "cpu usage",
        ("service_factor*", "contention.*", "startup_overhead", "speed_factor"),
        "single tasks take another time, or draw another share of a core, than in reality",
    ),
    AttributionRule(
        "wait times",
        (
            "effective_capacity",
            "startup_overhead",
            "dispatch_latency",
            "release_latency",
            "decision_interval",
            "service_factor*",
            "speed_factor",
            "contention.*",
        ),
        "tasks get their turn earlier or later than in reality",
    ),
    AttributionRule("power", ("power.*",), "watts follow the load in another way than in reality"),
)


def explain_changes(
    before: Sequence[tuple[str, Verdict]],
    after: Sequence[tuple[str, Verdict]],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> tuple[str, ...]:
    """What failed, what that points to, what moved, and what became of it, in sentences.

    Args:
        before: The verdicts on the twin as it was, by the name of the run.
        after: Those on the calibrated one, in the same order.
        old: The values as they were.
        new: The values as they are.
    """
    lines = [
        line for advice in ATTRIBUTION_RULES for line in _said(advice, before, after, old, new)
    ]
    failed = {(run, name) for run, name, _ in _every(before)}
    lines += [
        f"newly failing: {name} is {figure} ({run})"
        for run, name, figure in _every(after)
        if (run, name) not in failed
    ]
    if not lines and before:
        lines.append("no criterion failed before")
    told = {name for advice in ATTRIBUTION_RULES for name in new if _matches(name, advice.values)}
    lines += [
        f"{name} moved {said}; no criterion speaks of it"
        for name, value in new.items()
        if name not in told and (said := describe_change(old.get(name), value)) is not None
    ]
    return tuple(lines)


def describe_change(old: Any, new: Any) -> str | None:
    """How a value moved; None: not so that anybody would see it.

    >>> describe_change(1.0, 1.07), describe_change("a", "b")
    ('from 1 to 1.07', 'from a to b')
    >>> describe_change(None, 2.0), describe_change(1.0, 1.00001)
    ('to 2', None)
    """
    said = [f"{v:.4g}" if isinstance(v, int | float) else str(v) for v in (old, new)]
    if old is None:
        return f"to {said[1]}"
    return f"from {said[0]} to {said[1]}" if said[0] != said[1] else None


def _said(
    advice: AttributionRule,
    before: Sequence[tuple[str, Verdict]],
    after: Sequence[tuple[str, Verdict]],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> Iterator[str]:
    failed = list(_failures(advice.metric, before))
    if not failed:
        return
    run, name, figure = failed[0]
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    yield f"{advice.metric}: {name} was {figure} ({run}{others}): {advice.because}"
    answering = [name for pattern in advice.values for name in new if fnmatchcase(name, pattern)]
    if not answering:
        wanted = " or ".join(pattern.rstrip("*.") for pattern in advice.values[:2])
        yield f"  no value that answers it was free: try {wanted}"
        return
    for name in answering:
        if (said := describe_change(old.get(name), new[name])) is not None:
            yield f"  {name} moved {said}"
    left = len(list(_failures(advice.metric, after)))
    yield f"  failed criteria before and after: {len(failed)} and {left}"


def _every(verdicts: Sequence[tuple[str, Verdict]]) -> Iterator[tuple[str, str, str]]:
    for advice in ATTRIBUTION_RULES:
        yield from _failures(advice.metric, verdicts)


def _failures(
    metric: str, verdicts: Sequence[tuple[str, Verdict]]
) -> Iterator[tuple[str, str, str]]:
    for run, verdict in verdicts:
        for finding in verdict.findings:
            if finding.metric == metric and finding.status == "FAIL":
                yield (
                    run,
                    finding.name,
                    f"{finding.figure_text} where {finding.threshold} is asked for",
                )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
