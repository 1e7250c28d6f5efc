"""A whole loop in five lines, and what should be known beside them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.uncertainty import compute_probability_better
from twinloop.metrics import figures
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.exploration.closed_loop.result import Loop
    from twinloop.exploration.confirmation.result import Confirmation

#: How many of many are named.
_NAMED: Final = 3
#: Values that moved by less than this share did not move.
_STILL: Final = 0.01
#: What the verdict on the first recommendation means for whoever has to decide.
_TO_DO: Final = {
    "holds": "So take it",
    "reversed": "So do not take it: for real it was the other way round",
    "tie": "So the runs cannot tell: more repetitions would, or it does not matter",
    "not assessable": "So nobody can tell: that takes more than one repetition, and a difference",
    "not measured": "So nobody can tell: it was not measured",
}


def summarise_loop(loop: Loop) -> tuple[str, ...]:
    """What was measured, how far the twin agrees, what was fitted, recommended, and what holds."""
    return (_measured(loop), _agreed(loop), _fitted(loop), _recommended(loop), _confirmed(loop))


def _measured(loop: Loop) -> str:
    found = figures(loop.real)
    where = "earlier" if loop.offline else "on this machine"
    long = "" if found.makespan is None else f" in {found.makespan:.1f} s"
    probes = f", and {format_count(len(loop.probes), 'short probe')}" if loop.probes else ""
    nodes = format_count(loop.real.nodes.height, "node")
    return f"Measured {where}: {format_count(found.tasks, 'task')} on {nodes}{long}{probes}."


def _agreed(loop: Loop) -> str:
    from twinloop.exploration.closed_loop.result import count_passed_criteria

    before, fitted = count_passed_criteria(loop.before), count_passed_criteria(loop.after)
    said = f"Trust: as it came, the twin: {before}; fitted: {fitted}"
    after = loop.fit.statuses.get("after", {})
    if failing := [name for name, status in after.items() if status == "FAIL"]:
        said += f", but {len(failing)} of {len(after)} runs still fail ({', '.join(failing)})"
    if loop.unseen is not None:
        said += f"; on a new load that it had never seen: {count_passed_criteria(loop.unseen)}"
    return f"{said}."


def _fitted(loop: Loop) -> str:
    values, before = loop.fit.values, loop.fit.defaults
    far = sorted(values, key=lambda name: -_moved(name, before.get(name), values[name]))
    told = [
        _worded(name, values[name])
        for name in far
        if _moved(name, before.get(name), values[name]) >= _STILL
    ]
    known = loop.fit.identifiability
    if known is None:
        return f"Fitted: {_some(told)}; how sure that is was not examined."
    cannot = []
    for said, names in (
        ("the data cannot tell {} one by one", known.unidentifiable),
        ("whether the data tell {} is unknown (the analysis is unfinished)", known.unknown),
    ):
        if names:
            short = [name.removeprefix("contention.kinds.") for name in names]
            cannot.append(said.format(_some(short)))
    return f"Fitted: {_some(told)}; {'; '.join(cannot) or 'the data tell it all'}."


def _worded(name: str, value: Any) -> str:
    """A fitted value as people would say it.

    >>> _worded("service_factors.cache", 1.14), _worded("startup_overhead", 0.0152)
    ('cache work takes 1.14 times as long as declared', 'a start costs 15 ms')
    """
    if match := re.fullmatch(r"service_factors\.(.+)", name):
        return f"{match[1]} work takes {value:.3g} times as long as declared"
    if match := re.fullmatch(r"contention\.kinds\.(.+)\.sensitivity", name):
        return f"{match[1]} tasks suffer from neighbours ({value:.2g})"
    if match := re.fullmatch(r"contention\.kinds\.(.+)\.pressure", name):
        return f"{match[1]} tasks press on neighbours ({value:.2g})"
    said = {
        "service_factor": f"work takes {value:.3g} times as long as declared",
        "speed_factor": f"cores are {value:.3g} times as fast as declared",
    }
    if name == "startup_overhead":
        return f"a start costs {1000 * value:.2g} ms"
    return said.get(name, f"{name} {_short(value)}")


def _moved(name: str, before: object, after: object) -> float:
    """How much a value moved, in shares of what it acts on; times in seconds."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return 0.0
    change = abs(after - before)
    # A pressure alone does nothing; a sensitivity does.
    return 0.1 * change if name.endswith(".pressure") else change


def _some(said: list[str]) -> str:
    """The first few of many.

    >>> _some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = len(said) - _NAMED
    return ", ".join(said[:_NAMED]) + (f" and {rest} more" if rest > 0 else "") or "nothing"


def _recommended(loop: Loop) -> str:
    by = Objective.of(loop.plan.by)
    ranking = loop.study.top(1)
    best, base = ranking[0], ranking.baseline
    count = format_count(len(loop.study.planned_configurations), "what-if")
    old, new = base.predicted.get(by.kpi), best.predicted[by.kpi]
    if old is None:
        return f"Recommended out of {count}: {best.name}; the baseline failed."
    if old == new or best.name == base.name:
        return f"Recommended out of {count}: stay with {base.name}; none is better in {by.meaning}."
    change = f" ({(new - old) / old:+.0%})" if old else ""
    said = (
        f"Recommended out of {count}: {best.name}: {by.meaning} {_short(new)} {by.unit} instead of "
        f"{_short(old)} {by.unit} with {base.name}{change}"
    )
    sure = compute_probability_better(best, base, by, loop.fit.noise)
    if not math.isnan(sure):
        said += f"; the twin is {100 * sure:.0f} % sure that it is better"
    if best.unsupported:
        said += f"; UNSUPPORTED: {best.unsupported[0]}"
    return f"{said.removesuffix('.')}."


def _confirmed(loop: Loop) -> str:
    made = loop.confirmation
    if made is None:
        return "Confirmed: nothing was run again, so nobody knows whether it holds."
    first, *others = made.recommendations
    rest = "".join(f"; {each.candidate}: {each.verdict}" for each in others)
    said = f"{_TO_DO[first.verdict]}{_price(made)}"
    return f"Confirmed for real: {first.sentence}{rest}. {said}."


def _price(made: Confirmation) -> str:
    """What else becomes worse with the first candidate, as far as the runs show."""
    first, base = made.candidates[0].name, made.baseline.name
    found = []
    for objective in made.objectives[1:]:
        row = made.pairs.filter(metric=objective.kpi, one=first, other=base)
        if row.is_empty() or row["low"][0] is None:
            continue
        worse = row["low"][0] > 0 if objective.lower else row["high"][0] < 0
        if worse:
            found.append(f"{objective.meaning} {row['real'][0]:+.2g} {objective.unit}")
    return f"; its price: {', '.join(found)}" if found else ""


def list_notes(loop: Loop) -> tuple[str, ...]:
    """What was not measured, and what else whoever reads the rest should know."""
    found: list[str] = []
    where = "the machine that recorded it" if loop.offline else "this machine"
    if loop.real.power.is_empty():
        found.append(f"No energy was measured: {where} shows no power counters.")
    if loop.offline:
        found.append("The real runs were recorded earlier: nothing was run now.")
    isolation = loop.real.manifest.facts.get("isolation")
    if isinstance(isolation, str) and not isolation.startswith("cgroup"):
        found.append(f"Nodes were kept apart by {isolation} only: tasks can share more than cores.")
    if loop.confirmation is not None:
        about = ("energy", "baseline")
        found += [said for said in loop.confirmation.notes if not any(a in said for a in about)]
    return tuple(dict.fromkeys(found))


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)
