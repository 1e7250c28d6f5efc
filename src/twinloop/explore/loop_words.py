"""A whole loop in five lines, and what should be known beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinloop.explore.objectives import Objective
from twinloop.metrics import figures
from twinloop.trace.trace import counted

if TYPE_CHECKING:
    from twinloop.explore.loop import Loop


def lines(loop: Loop) -> tuple[str, ...]:
    """What was measured, how far the twin agrees, what was fitted, recommended, and what holds."""
    return (_measured(loop), _agreed(loop), _fitted(loop), _recommended(loop), _confirmed(loop))


def _measured(loop: Loop) -> str:
    found = figures(loop.real)
    where = "recorded earlier" if loop.offline else "on this machine"
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
    moved = ", ".join(
        f"{name} {_short(loop.fit.defaults.get(name))} -> {_short(value)}"
        for name, value in loop.fit.values.items()
    )
    known = loop.fit.identifiability
    if known is None:
        return f"Fitted: {moved}; how sure that is was not examined."
    open_ = known.table.filter(known.table["identifiable"].not_())["parameter"].to_list()
    cannot = f"the data cannot tell {', '.join(open_)}" if open_ else "the data tell all of them"
    return f"Fitted: {moved}; {cannot}."


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
    found = [f"{each.candidate} {each.verdict}" for each in made.recommendations]
    return f"Confirmed for real: {'; '.join(found)}. {first.sentence}"


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
