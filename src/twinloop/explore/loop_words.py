"""A whole loop in five lines, and what should be known beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twinloop.explore.objectives import Objective
from twinloop.metrics import figures
from twinloop.trace.trace import counted

if TYPE_CHECKING:
    from twinloop.explore.loop import Loop


#: How many of many are named.
_NAMED: Final = 3
#: What the verdict on the first recommendation means for whoever has to decide.
_TO_DO: Final = {
    "holds": "So take the first: it did for real what was foretold.",
    "reversed": "So do not take the first: for real it was the other way round.",
    "tie": "So the runs cannot tell: more repetitions would, or it does not matter.",
    "not assessable": "So nobody can tell: it needs more than one repetition, and a difference.",
    "not measured": "So nobody can tell: it was not measured.",
}


def lines(loop: Loop) -> tuple[str, ...]:
    """What was measured, how far the twin agrees, what was fitted, recommended, and what holds."""
    return (_measured(loop), _agreed(loop), _fitted(loop), _recommended(loop), _confirmed(loop))


def _measured(loop: Loop) -> str:
    found = figures(loop.real)
    where = "earlier" if loop.offline else "on this machine"
    long = "" if found.makespan is None else f" in {found.makespan:.1f} s"
    probes = f", and {counted(len(loop.probes), 'probe')}" if loop.probes else ""
    nodes = counted(loop.real.nodes.height, "node")
    return f"Measured {where}: {counted(found.tasks, 'task')} on {nodes}{long}{probes}."


def _agreed(loop: Loop) -> str:
    from twinloop.explore.loop import tally

    said = f"Trust: the twin as it was: {tally(loop.before)}; fitted: {tally(loop.after)}"
    if loop.unseen is not None:
        said += f"; on a new load that it had never seen: {tally(loop.unseen)}"
    return f"{said}."


def _fitted(loop: Loop) -> str:
    values, before = loop.fit.values, loop.fit.defaults
    far = sorted(values, key=lambda name: -_moved(before.get(name), values[name]))
    said = [f"{name} {_short(before.get(name))} -> {_short(values[name])}" for name in far]
    known = loop.fit.identifiability
    if known is None:
        return f"Fitted: {_some(said)}; how sure that is was not examined."
    open_ = known.table.filter(known.table["identifiable"].not_())["parameter"].to_list()
    cannot = f"the data cannot tell {_some(open_)}" if open_ else "the data tell all of them"
    return f"Fitted: {_some(said)}; {cannot}."


def _moved(before: object, after: object) -> float:
    """How far a value moved, whatever its unit: a factor from 1, all else from where it was."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return 0.0
    return abs(after - before) / max(abs(before), abs(after), 1e-12)


def _some(said: list[str]) -> str:
    """The first few of many.

    >>> _some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = len(said) - _NAMED
    return ", ".join(said[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _recommended(loop: Loop) -> str:
    by = Objective.of(loop.plan.by)
    ranking = loop.study.top(loop.plan.top, by)
    best, base = ranking[0], ranking.baseline
    if best.name == base.name:
        return f"Recommended: leave it as it is ({base.name}): nothing is better in {by.kpi}."
    new, old = best.predicted[by.kpi], base.predicted[by.kpi]
    change = f" ({(new - old) / old:+.0%})" if old else ""
    said = (
        f"Recommended out of {counted(len(loop.study.planned_configurations), 'what-if')}: "
        f"{best.name}: {by.meaning} {_short(new)} {by.unit} instead of {_short(old)} {by.unit} "
        f"with {base.name}{change}"
    )
    if best.unsupported:
        said += f"; UNSUPPORTED: {best.unsupported[0]}"
    return f"{said.removesuffix('.')}."


def _confirmed(loop: Loop) -> str:
    made = loop.confirmation
    if made is None:
        return "Confirmed: nothing was run again, so nobody knows whether it holds."
    first = made.recommendations[0]
    found = [f"{each.candidate}: {each.verdict}" for each in made.recommendations]
    return f"Confirmed for real: {'; '.join(found)}. {_TO_DO[first.verdict]}"


def notes(loop: Loop) -> tuple[str, ...]:
    """What was not measured, what the runs say of themselves, what the loop cannot know."""
    found: list[str] = []
    if loop.real.power.is_empty():
        found.append("No energy was measured: this machine shows no power counters to the run.")
    if loop.offline:
        found.append("The real runs were recorded earlier: nothing was run on this machine.")
    isolation = loop.real.manifest.facts.get("isolation")
    if isinstance(isolation, str) and not isolation.startswith("cgroup"):
        found.append(f"Nodes were kept apart by {isolation} only: tasks can share more than cores.")
    if loop.confirmation is not None:
        found += loop.confirmation.notes
    return tuple(dict.fromkeys(found))


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)
