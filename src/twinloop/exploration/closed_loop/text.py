"""The summary of a closed loop in five lines, and its notes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.uncertainty import compute_probability_better
from twinloop.metrics import figures
from twinloop.trace import Trace
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.closed_loop.result import Loop
    from twinloop.exploration.confirmation.result import Confirmation

#: Maximum number of items named in a list.
_MAX_NAMED: Final = 3
#: Smaller changes of fitted values, as computed by `_compute_change`, are not reported.
_MIN_CHANGE: Final = 0.01
#: Advice for each verdict on the first recommendation.
_ADVICE: Final = {
    "holds": "Adopt it",
    "reversed": "Do not adopt it: the real runs show the opposite",
    "tie": "Not distinguishable with this data: add repetitions, or keep the baseline",
    "not assessable": "Not assessable: more repetitions or a predicted difference are needed",
    "not measured": "Not measured: no conclusion is possible",
}


def summarise_loop(loop: Loop) -> tuple[str, ...]:
    """Summarise measurement, agreement, calibration, recommendation and confirmation."""
    return (
        _describe_measurement(loop),
        _describe_agreement(loop),
        _describe_calibration(loop),
        _describe_recommendation(loop),
        _describe_confirmation(loop),
    )


def _describe_measurement(loop: Loop) -> str:
    measured = figures(loop.real)
    where = "earlier" if loop.offline else "on this machine"
    duration = "" if measured.makespan is None else f" in {measured.makespan:.1f} s"
    probes = f", and {format_count(len(loop.probes), 'short probe')}" if loop.probes else ""
    nodes = format_count(loop.real.nodes.height, "node")
    return f"Measured {where}: {format_count(measured.tasks, 'task')} on {nodes}{duration}{probes}."


def _describe_agreement(loop: Loop) -> str:
    from twinloop.exploration.closed_loop.result import describe_passed_criteria

    before, fitted = describe_passed_criteria(loop.before), describe_passed_criteria(loop.after)
    text = (
        f"Agreement: before calibration, {_describe_error(loop.real, loop.twin)}{before}; after "
        f"calibration, {_describe_error(loop.real, loop.fitted_twin)}{fitted}"
    )
    after = loop.fit.statuses.get("after", {})
    if failing := [name for name, status in after.items() if status == "FAIL"]:
        text += f", but {len(failing)} of {len(after)} runs still fail ({', '.join(failing)})"
    if loop.unseen is not None:
        held_out = describe_passed_criteria(loop.unseen)
        text += f"; for a run that the calibration did not use, {held_out}"
    return f"{text}."


def _describe_error(real: Trace, twin: Trace) -> str:
    """Describe the error of the simulated makespan; empty if it is not known.

    >>> _describe_error(Trace(), Trace())
    ''
    """
    measured, simulated = figures(real).makespan, figures(twin).makespan
    if not measured or simulated is None:
        return ""
    error = 100 * abs(simulated / measured - 1.0)
    return f"the simulated makespan is off by {error:.1f} % and "


def _describe_calibration(loop: Loop) -> str:
    values, before = loop.fit.values, loop.fit.defaults
    ordered = sorted(
        values, key=lambda name: -_compute_change(name, before.get(name), values[name])
    )
    changed = [
        _describe_value(name, values[name])
        for name in ordered
        if _compute_change(name, before.get(name), values[name]) >= _MIN_CHANGE
    ]
    identifiability = loop.fit.identifiability
    if identifiability is None:
        return f"Calibration: {_join_first(changed)}; identifiability was not analysed."
    limits = []
    for text, names in (
        ("not identifiable with this data: {}", identifiability.unidentifiable),
        ("identifiability not known (the analysis is unfinished): {}", identifiability.unknown),
    ):
        if names:
            short = [name.removeprefix("contention.kinds.") for name in names]
            limits.append(text.format(_join_first(short)))
    summary = "; ".join(limits) or "all values are identifiable"
    return f"Calibration: {_join_first(changed)}; {summary}."


def _describe_value(name: str, value: Any) -> str:
    """Describe a fitted value.

    >>> _describe_value("service_factors.cache", 1.14), _describe_value("startup_overhead", 0.0152)
    ('cache work takes 1.14 times as long as declared', 'the start of a task takes 15 ms')
    """
    if match := re.fullmatch(r"service_factors\.(.+)", name):
        return f"{match[1]} work takes {value:.3g} times as long as declared"
    if match := re.fullmatch(r"contention\.kinds\.(.+)\.sensitivity", name):
        return f"{match[1]} tasks are slowed down by neighbours (sensitivity {value:.2g})"
    if match := re.fullmatch(r"contention\.kinds\.(.+)\.pressure", name):
        return f"{match[1]} tasks slow down neighbours (pressure {value:.2g})"
    texts = {
        "service_factor": f"work takes {value:.3g} times as long as declared",
        "speed_factor": f"cores are {value:.3g} times as fast as declared",
    }
    if name == "startup_overhead":
        return f"the start of a task takes {1000 * value:.2g} ms"
    return texts.get(name, f"{name} {_format_value(value)}")


def _compute_change(name: str, before: object, after: object) -> float:
    """Compute the absolute change of a value, of times in s; 0 if it is not a number.

    It orders values by their effect, so the change of a pressure counts a tenth.
    """
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return 0.0
    change = abs(after - before)
    # A pressure has an effect only together with a sensitivity.
    return 0.1 * change if name.endswith(".pressure") else change


def _join_first(texts: list[str]) -> str:
    """Join the first texts of a list, and count the others.

    >>> _join_first(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = len(texts) - _MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(texts[:_MAX_NAMED]) + more or "no value changed"


def _describe_recommendation(loop: Loop) -> str:
    by = Objective.of(loop.plan.by)
    ranking = loop.study.top(1)
    best, base = ranking[0], ranking.baseline
    count = format_count(len(loop.study.planned_configurations), "configuration")
    old, new = base.predicted.get(by.kpi), best.predicted[by.kpi]
    if old is None:
        return f"Recommendation out of {count}: {best.name}; the baseline failed."
    if old == new or best.name == base.name:
        return (
            f"Recommendation out of {count}: keep {base.name}; no configuration has a better "
            f"{by.meaning}."
        )
    change = f" ({(new - old) / old:+.0%})" if old else ""
    text = (
        f"Recommendation out of {count}: {best.name}: {by.meaning} {_format_value(new)} {by.unit} "
        f"instead of {_format_value(old)} {by.unit} with {base.name}{change}"
    )
    probability = compute_probability_better(best, base, by, loop.fit.noise)
    if not math.isnan(probability):
        text += f"; probability that it is better: {100 * probability:.0f} %"
    if best.unsupported:
        text += f"; UNSUPPORTED: {best.unsupported[0]}"
    return f"{text.removesuffix('.')}."


def _describe_confirmation(loop: Loop) -> str:
    confirmation = loop.confirmation
    if confirmation is None:
        return "Confirmation: none; the recommendation has not been tested by real runs."
    first, *others = confirmation.recommendations
    rest = "".join(f"; {each.candidate}: {each.verdict}" for each in others)
    advice = f"{_ADVICE[first.verdict]}{_describe_drawbacks(confirmation)}"
    return f"Confirmation by real runs: {first.sentence}{rest}. {advice}."


def _describe_drawbacks(confirmation: Confirmation) -> str:
    """List the other metrics that are significantly worse with the first candidate."""
    first, base = confirmation.candidates[0].name, confirmation.baseline.name
    drawbacks = []
    for objective in confirmation.objectives[1:]:
        row = confirmation.pairs.filter(metric=objective.kpi, one=first, other=base)
        if row.is_empty() or row["low"][0] is None:
            continue
        worse = row["low"][0] > 0 if objective.lower else row["high"][0] < 0
        if worse:
            drawbacks.append(f"{objective.meaning} {row['real'][0]:+.2g} {objective.unit}")
    return f"; drawback: {', '.join(drawbacks)}" if drawbacks else ""


def list_notes(loop: Loop) -> tuple[str, ...]:
    """List notes on missing measurements and on the conditions of the runs."""
    notes: list[str] = []
    where = "the recording machine" if loop.offline else "this machine"
    if loop.real.power.is_empty():
        notes.append(f"No energy was measured: {where} has no power counters.")
    if loop.offline:
        notes.append("The real runs were recorded earlier; nothing was executed now.")
    isolation = loop.real.manifest.facts.get("isolation")
    if isinstance(isolation, str) and not isolation.startswith("cgroup"):
        notes.append(f"Nodes were isolated by {isolation} only: tasks can share more than cores.")
    if loop.confirmation is not None:
        skipped = ("energy", "baseline")
        confirmation_notes = loop.confirmation.notes
        notes += [note for note in confirmation_notes if not any(word in note for word in skipped)]
    return tuple(dict.fromkeys(notes))


def _format_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)
