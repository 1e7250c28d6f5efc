"""A slow, obvious fluid simulator: the kernel is compared with this one.

Everything is recomputed from scratch at every event, in exact fractions, so that no tolerance and
no cleverness stand between the rules and the figures. The names are those of `twinloop.engine`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

Efficiency = dict[int, list[float]] | Callable[[dict[int, int]], dict[int, float]] | None
Load = dict["Activity", Fraction]


class Stalled(Exception):
    """Nothing more will happen, and these activities have not ended."""

    def __init__(self, activities: list[Activity]) -> None:
        super().__init__(", ".join(str(a.name) for a in activities))
        self.activities = activities


@dataclass(eq=False)
class Resource:
    world: World
    capacity: Fraction
    efficiency: Efficiency = None
    profile: list[tuple[Fraction, Fraction]] = field(default_factory=list)  # (time, capacity)
    period: Fraction | None = None
    consumed: Fraction = Fraction(0)
    done: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    costs: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))  # unused, all in use

    def set_cost(self, idle: float, full: float) -> None:
        self.costs = (Fraction(idle), Fraction(full))

    def remove_cost(self) -> None:
        self.costs = (Fraction(0), Fraction(0))

    def cost_rate(self, used: Fraction) -> Fraction:
        idle, full = self.costs
        return idle + (full - idle) * (used / self.capacity if self.capacity else 0)

    def set_capacity(self, capacity: float) -> None:
        self.capacity = Fraction(capacity)

    def set_profile(
        self, times: Sequence[float], capacities: Sequence[float], period: float | None = None
    ) -> None:
        changes = zip(times, capacities, strict=True)
        self.profile = [(Fraction(t), Fraction(c)) for t, c in changes]
        self.period = None if period is None else Fraction(period)

    def follow_profile(self, now: Fraction) -> None:
        while self.profile and self.profile[0][0] <= now:
            time, self.capacity = self.profile.pop(0)
            if self.period is not None:
                self.profile.append((time + self.period, self.capacity))

    def execute(self, work: float, **options: object) -> Activity:
        return self.world.start(work, [self], **options)  # type: ignore[arg-type]

    def factors(self) -> dict[int, Fraction]:
        """The efficiency of each kind that runs here."""
        counts = Counter(a.kind for a in self.world.drawing() if self in a.resources)
        if self.efficiency is None:
            return dict.fromkeys(counts, Fraction(1))
        if callable(self.efficiency):
            return {kind: Fraction(e) for kind, e in self.efficiency(dict(counts)).items()}
        present = counts.total()
        tables = {kind: self.efficiency.get(kind, [1.0]) for kind in counts}
        return {kind: Fraction(t[min(present, len(t)) - 1]) for kind, t in tables.items()}


@dataclass(eq=False)
class Activity:
    world: World
    remaining: Fraction
    resources: list[Resource]
    limit: Fraction | None
    weight: Fraction
    kind: int
    priority: int
    begins: Fraction
    name: str | None = None
    phase: str = "waiting"  # then "running", at last "finished" or "cancelled"
    suspended: bool = False
    started: Fraction | None = None
    finished: Fraction | None = None
    done: Fraction = Fraction(0)
    consumed: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)

    @property
    def rate(self) -> Fraction:
        return self.world.rates().get(self, Fraction(0))

    @property
    def state(self) -> str:
        return "suspended" if self.suspended and self.phase == "running" else self.phase

    @property
    def live(self) -> bool:
        return self.phase in ("waiting", "running")

    def suspend(self) -> None:
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    def cancel(self) -> None:
        self.phase, self.finished = "cancelled", self.world.now

    def set_limit(self, limit: float | None) -> None:
        self.limit = None if limit is None else Fraction(limit)

    def set_weight(self, weight: float) -> None:
        self.weight = Fraction(weight)

    def set_remaining(self, remaining: float) -> None:
        self.remaining = Fraction(remaining)

    def move(self, resources: Resource | Iterable[Resource]) -> None:
        self.resources = [resources] if isinstance(resources, Resource) else list(resources)


class World:
    def __init__(self, start: float = 0.0, sharing: str = "max-min") -> None:
        self.now = Fraction(start)
        self.strict = {"max-min": False, "strict-priority": True}[sharing]
        self.resources: list[Resource] = []
        self.activities: list[Activity] = []

    def resource(self, capacity: float, efficiency: Efficiency = None) -> Resource:
        self.resources.append(Resource(self, Fraction(capacity), efficiency))
        return self.resources[-1]

    def start(
        self,
        work: float,
        resources: Iterable[Resource],
        *,
        limit: float | None = None,
        weight: float = 1.0,
        kind: int = 0,
        priority: int = 0,
        latency: float = 0.0,
        at: float | None = None,
        name: str | None = None,
    ) -> Activity:
        begins = self.now + Fraction(latency) if at is None else Fraction(at)
        cap = None if limit is None else Fraction(limit)
        activity = Activity(
            self,
            Fraction(work),
            list(resources),
            cap,
            Fraction(weight),
            kind,
            priority,
            begins,
            name,
        )
        self.activities.append(activity)
        if begins == self.now:
            self._begin(activity)
        return activity

    def drawing(self) -> list[Activity]:
        """The activities that run; a limit of 0 pauses."""
        return [a for a in self.activities if a.state == "running" and a.limit != 0]

    def rates(self) -> Load:
        """What each activity draws now."""
        free = {r: r.capacity for r in self.resources}
        drawing = self.drawing()
        if not self.strict:
            return fill(drawing, free)
        rates: Load = {}
        for priority in sorted({a.priority for a in drawing}, reverse=True):
            rates |= fill([a for a in drawing if a.priority == priority], free)
        return rates

    def speeds(self, rates: Load) -> Load:
        """The progress each activity makes now: its rate times the efficiencies on its way."""
        factors = {r: r.factors() for r in self.resources}
        return {
            a: rate * prod(factors[r][a.kind] for r in a.resources) for a, rate in rates.items()
        }

    def ends(self) -> Load:
        """When each activity would end if nothing changed; those that would not are left out."""
        speeds = self.speeds(self.rates())
        ends = {a: self.now + a.remaining / v for a, v in speeds.items() if v > 0}
        return ends | {a: self.now for a in speeds if a.remaining == 0}

    def peek(self) -> Fraction | None:
        times = list(self.ends().values())
        times += [r.profile[0][0] for r in self.resources if r.profile]
        times += [a.begins for a in self.activities if a.state == "waiting"]
        return min(times, default=None)

    def run(self, until: float | Fraction | None = None) -> None:
        """To the end, or to a time whose own events are left for the next run."""
        while (time := self.peek()) is not None and (until is None or time < until):
            self.step(time)
        if until is not None:
            self._advance(Fraction(until))
        elif live := [a for a in self.activities if a.live]:
            raise Stalled(live)

    def step(self, time: Fraction) -> None:
        """Play the events of the next time."""
        self._advance(time)
        for a in self.drawing():
            if a.remaining == 0:
                a.phase, a.finished = "finished", self.now
        for r in self.resources:
            r.follow_profile(self.now)
        for a in self.activities:
            if a.state == "waiting" and a.begins <= self.now:
                self._begin(a)

    def _begin(self, activity: Activity) -> None:
        activity.phase, activity.started = "running", self.now

    def _advance(self, time: Fraction) -> None:
        rates = self.rates()
        for r in self.resources:
            here = {a: rate for a, rate in rates.items() if r in a.resources}
            used = sum(here.values(), Fraction(0))
            cost = r.cost_rate(used) * (time - self.now)
            r.cost += cost
            for a, rate in here.items():
                a.cost += cost * rate / used if used else 0
        for a, speed in self.speeds(rates).items():
            consumed, done = rates[a] * (time - self.now), speed * (time - self.now)
            a.remaining -= done
            for counters in (a, *a.resources):
                counters.consumed += consumed
                counters.done += done
        self.now = time


def fill(activities: list[Activity], free: dict[Resource, Fraction]) -> Load:
    """Progressive filling of what is `free`, which is left with what nobody took.

    All rates grow as weight x level; an activity stops growing when it meets its limit or when one
    of its resources is full.
    """
    rates: Load = {}
    rising = list(activities)
    while rising:
        weights = {r: sum(a.weight for a in rising if r in a.resources) for r in free}
        full = {r: free[r] / w for r, w in weights.items() if w}
        stop = {
            a: min(
                [full[r] for r in a.resources] + ([] if a.limit is None else [a.limit / a.weight])
            )
            for a in rising
        }
        level = min(stop.values())
        for a in [a for a in rising if stop[a] == level]:
            rates[a] = a.weight * level
            rising.remove(a)
            for r in a.resources:
                free[r] -= rates[a]
    return rates
