"""Attribution of errors: the model values that a failed criterion points to.

Rules after section 4.4.4 of Xie, "From Reality to Simulation: A Trace-Driven Closed-Loop
Evaluation Methodology for Cloud Datacenters" (master thesis, UvA and VU Amsterdam): a symptom, its
most likely cause among the values of the model, and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from twinloop.fidelity import Verdict


@dataclass(frozen=True)
class AttributionRule:
    """The values that a failed criterion points to.

    >>> ATTRIBUTION_RULES[0].metric
    'completions'
    """

    metric: str
    #: Patterns of the names of values, the most likely first.
    values: tuple[str, ...]
    because: str


ATTRIBUTION_RULES: Final = (
    AttributionRule(
        "completions",
        ("speed_factor", "service_factor*", "contention.*", "effective_capacity"),
        "the rate of work differs from the real one",
    ),
    AttributionRule(
        "cpu usage",
        ("service_factor*", "contention.*", "startup_overhead", "speed_factor"),
        "run times of single tasks, or their shares of a core, differ from the real ones",
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
        "tasks start earlier or later than in reality",
    ),
    AttributionRule("power", ("power.*",), "power depends on load in another way than in reality"),
)


def explain_changes(
    before: Sequence[tuple[str, Verdict]],
    after: Sequence[tuple[str, Verdict]],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> tuple[str, ...]:
    """Explain each changed value by the criteria that failed, in sentences.

    Args:
        before: The verdicts on the twin before the calibration, by the name of the run.
        after: The verdicts on the calibrated twin, in the same order.
        old: The values before.
        new: The fitted values.
    """
    lines = [
        line for rule in ATTRIBUTION_RULES for line in _explain_rule(rule, before, after, old, new)
    ]
    failed = {(run, name) for run, name, _ in _list_all_failures(before)}
    lines += [
        f"newly failing: {name} is {figure} ({run})"
        for run, name, figure in _list_all_failures(after)
        if (run, name) not in failed
    ]
    if not lines and before:
        lines.append("no criterion failed before")
    covered = {name for rule in ATTRIBUTION_RULES for name in new if _matches(name, rule.values)}
    lines += [
        f"{name} moved {change}; no criterion depends on it"
        for name, value in new.items()
        if name not in covered and (change := describe_change(old.get(name), value)) is not None
    ]
    return tuple(lines)


def describe_change(old: Any, new: Any) -> str | None:
    """Describe the change of a value; None if it does not show in four digits.

    >>> describe_change(1.0, 1.07), describe_change("a", "b")
    ('from 1 to 1.07', 'from a to b')
    >>> describe_change(None, 2.0), describe_change(1.0, 1.00001)
    ('to 2', None)
    """
    texts = [f"{v:.4g}" if isinstance(v, int | float) else str(v) for v in (old, new)]
    if old is None:
        return f"to {texts[1]}"
    return f"from {texts[0]} to {texts[1]}" if texts[0] != texts[1] else None


def _explain_rule(
    rule: AttributionRule,
    before: Sequence[tuple[str, Verdict]],
    after: Sequence[tuple[str, Verdict]],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> Iterator[str]:
    failed = list(_list_failures(rule.metric, before))
    if not failed:
        return
    run, name, figure = failed[0]
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    yield f"{rule.metric}: {name} was {figure} ({run}{others}): {rule.because}"
    responsible = [name for pattern in rule.values for name in new if fnmatchcase(name, pattern)]
    if not responsible:
        suggested = " or ".join(pattern.rstrip("*.") for pattern in rule.values[:2])
        yield f"  no value that affects it was fitted: try {suggested}"
        return
    for name in responsible:
        if (change := describe_change(old.get(name), new[name])) is not None:
            yield f"  {name} moved {change}"
    remaining = len(list(_list_failures(rule.metric, after)))
    yield f"  failed criteria before and after: {len(failed)} and {remaining}"


def _list_all_failures(verdicts: Sequence[tuple[str, Verdict]]) -> Iterator[tuple[str, str, str]]:
    for rule in ATTRIBUTION_RULES:
        yield from _list_failures(rule.metric, verdicts)


def _list_failures(
    metric: str, verdicts: Sequence[tuple[str, Verdict]]
) -> Iterator[tuple[str, str, str]]:
    for run, verdict in verdicts:
        for finding in verdict.findings:
            if finding.metric == metric and finding.status == "FAIL":
                yield (
                    run,
                    finding.name,
                    f"{finding.figure_text} where {finding.threshold} is required",
                )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
