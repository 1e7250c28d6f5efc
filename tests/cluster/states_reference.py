"""Slow reference of machine states: every state as a list of periods of constant power."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import polars as pl

#: Of each transition: its ends, and its periods as (seconds, watts, share in use).
#: Watts of None: the power model of the host at that share.
WAYS: dict[str, tuple[str, str, list[tuple[float, float | None, float]]]] = {
    "switching-off": (
        "running",
        "off",
        [(2.5, None, 0.11), (2.5, None, 0.0), (4.5, None, 0.19), (1.0, None, 0.0),
         (1.52, None, 0.15)],
    ),
    "switching-on": ("off", "running", [(20.0, 483.1, 0.0)]),
    "suspending": ("running", "suspended", [(8.0, 400.0, 0.0)]),
    "resuming": ("suspended", "running", [(4.0, None, 0.0)]),
}  # fmt: skip
WATTS = {"off": 36.4, "suspended": 60.0}


@dataclass
class ReferenceMachine:
    """A machine that follows orders; `periods` has all of its past."""

    now: float
    name: str = "running"
    since: float = 0.0
    down: bool = False
    #: In a transition: the periods that are left.
    plan: list[tuple[float, float | None, float]] = field(default_factory=list)
    #: Start, end, state, watts (None: the host's model), share in use by the machine itself.
    periods: list[tuple[float, float, str, float | None, float]] = field(default_factory=list)
    #: Start of each failure, and of each period of a state while it is not down: as in the trace.
    starts: list[tuple[float, float, str]] = field(default_factory=list)

    def advance(self, time: float) -> None:
        while self.name in WAYS and not self.down:
            seconds, watts, share = self.plan[0]
            if self.now + seconds > time + 1e-12 * time:
                self.plan[0] = (self.now + seconds - time, watts, share)
                self._pass(time, watts, share)
                return
            self.plan.pop(0)
            self._pass(self.now + seconds, watts, share)
            if not self.plan:
                self._enter(WAYS[self.name][1])
        watts = 0.0 if self.down else WATTS.get(self.name)
        self._pass(max(time, self.now), watts, 0.0)

    def _pass(self, time: float, watts: float | None, share: float) -> None:
        state = "down" if self.down else self.name
        self.periods.append((self.now, time, state, watts, share))
        self.now = time

    def _enter(self, name: str) -> None:
        self.name = name
        if name != "running":
            self.starts.append((self.now, 0.0, name))

    def order(self, target: str, *, occupied: bool) -> bool:
        target = "running" if target == "on" else target
        if self.down or (target == "off" and occupied):
            return False
        if self.name in WAYS:
            origin, goal, way = WAYS[self.name]
            if target not in (origin, goal):
                return False
            if target == origin:
                whole = sum(seconds for seconds, _, _ in way)
                left = sum(seconds for seconds, _, _ in self.plan)
                self._begin(goal, origin, 1.0 - left / whole)
            return True
        if self.name == target:
            return True
        if "running" not in (self.name, target):
            return False
        self._begin(self.name, target, 1.0)
        return True

    def _begin(self, origin: str, goal: str, share: float) -> None:
        """Begin the last part of a transition, of so much of its duration."""
        name, way = next((n, w) for n, (a, b, w) in WAYS.items() if (a, b) == (origin, goal))
        if share <= 0:
            return self._enter(goal)
        skipped = (1.0 - share) * sum(seconds for seconds, _, _ in way)
        plan = []
        for seconds, watts, use in way:
            cut = min(seconds, skipped)
            skipped -= cut
            if seconds > cut:
                plan.append((seconds - cut, watts, use))
        self._enter(name)
        self.plan = plan
        return None

    def fail(self) -> None:
        if self.name not in ("running", "off"):
            goal = WAYS[self.name][1] if self.name in WAYS else self.name
            self.name = "running" if goal == "running" else "off"
        self.plan = []
        self.down = True
        self.starts.append((self.now, 0.0, "down"))

    def restore(self) -> None:
        self.down = False
        self._enter(self.name)

    def rows(self) -> list[tuple[float, float, str]]:
        return sorted(self.starts)


@dataclass
class Integrals:
    """Energy of the machines (J), and seconds of work of the last execution of each task."""

    energy: list[float]
    computed: dict[str, float]


def integrate_power(
    placements: pl.DataFrame,
    machines: list[ReferenceMachine],
    model: dict[str, Any],
    end: float,
    *,
    overhead: float,
) -> Integrals:
    """Integrate power and work over all instants at which anything changes."""
    rows = placements.rows(named=True)
    executions: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        executions.setdefault((row["task"], row["attempt"]), []).append(row)
    edges = {end} | {t for m in machines for p in m.periods for t in p[:2]}
    edges |= {row[name] for row in rows for name in ("start", "end")}
    # The end of the startup is an edge too: it is found by counting the seconds that pass.
    energy = [0.0] * len(machines)
    waited = dict.fromkeys(executions, 0.0)
    computed = dict.fromkeys(executions, 0.0)
    ordered = sorted(edge for edge in edges if edge <= end)
    for start, stop in itertools.pairwise(ordered):
        now = start
        while now < stop:
            at = [_find_period(machine, (now + stop) / 2) for machine in machines]
            active, until = [], stop
            for key, parts in executions.items():
                where = [int(part["machine"][1:]) for part in parts]
                if not parts[0]["start"] <= now < parts[0]["end"]:
                    continue
                if any(at[m][2] != "running" for m in where):
                    continue
                active.append((key, where))
                if waited[key] < overhead - 1e-9:
                    until = min(until, now + overhead - waited[key])
            use = [period[4] for period in at]
            for key, where in active:
                if waited[key] < overhead - 1e-9:
                    waited[key] += until - now
                    continue
                computed[key] += until - now
                for part, m in zip(executions[key], where, strict=True):
                    use[m] += part["cores"] / 4.0
            for m, (_, _, _, watts, _) in enumerate(at):
                own = model["idle"] + (model["max"] - model["idle"]) * use[m]
                energy[m] += (until - now) * (own if watts is None else watts)
            now = until
    last = {
        task: computed[task, attempt]
        for (task, attempt), parts in executions.items()
        if parts[0]["reason"] == "completed"
    }
    return Integrals(energy, last)


def _find_period(
    machine: ReferenceMachine, time: float
) -> tuple[float, float, str, float | None, float]:
    return next(period for period in machine.periods if period[0] <= time < period[1])
