"""Random programs of operations on hosts, leases and their activities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from .programs import ACTS_ON, COSTS, KINDS, WORKS, Operation, instants

CAPACITIES = [0.0, 0.5, 1.0, 2.0, 3.0, 10.0]
SIZES = [0.0, 0.25, 0.5, 1.0, 1.0, 2.0, 4.0]
WEIGHTS = [1.0, 1.0, 1.0, 2.0, 0.5, 3.0, 0.125, 8.0]
LIMITS = [None, None, 0.0, 0.1, 0.25, 0.5, 1.0, 2.0]
EFFICIENCIES = [
    None,
    None,
    {0: [1.0, 0.5]},
    {0: [1.0, 1.0, 0.75], 1: [0.9, 0.8, 0.7, 0.25], 2: [1.25]},
]


@dataclass(frozen=True)
class LeaseProgram:
    hosts: list[tuple[float, Any]]  # (capacity, efficiency)
    leases: list[tuple[int, float, float | None]]  # (host, size, weight)
    operations: list[Operation]


def lease_programs(max_operations: int = 50) -> st.SearchStrategy[LeaseProgram]:
    which = st.integers(0, 31)
    work, limit = st.sampled_from(WORKS), st.sampled_from(LIMITS)
    weight, size = st.sampled_from(WEIGHTS), st.sampled_from(SIZES)
    lease_weight = st.one_of(st.none(), weight)
    options = st.fixed_dictionaries(
        {
            "limit": limit,
            "weight": weight,
            "kind": st.integers(0, KINDS - 1),
            "latency": st.one_of(st.just(0.0), instants(1, 40)),
        }
    )
    choices = {
        "start": (12, st.tuples(st.just("start"), work, which, options)),
        "advance": (6, st.tuples(st.just("advance"), st.one_of(instants(1, 8), instants(1, 80)))),
        "suspend": (1, st.tuples(st.just("suspend"), which)),
        "resume": (1, st.tuples(st.just("resume"), which)),
        "cancel": (2, st.tuples(st.just("cancel"), which)),
        "set_limit": (2, st.tuples(st.just("set_limit"), which, limit)),
        "set_weight": (1, st.tuples(st.just("set_weight"), which, weight)),
        "set_remaining": (1, st.tuples(st.just("set_remaining"), which, work)),
        "move": (2, st.tuples(st.just("move"), which, which)),
        "open": (2, st.tuples(st.just("open"), which, size, lease_weight)),
        "resize": (2, st.tuples(st.just("resize"), which, size)),
        "weigh": (1, st.tuples(st.just("weigh"), which, weight)),
        "freeze": (1, st.tuples(st.just("freeze"), which)),
        "thaw": (2, st.tuples(st.just("thaw"), which)),
        "migrate": (2, st.tuples(st.just("migrate"), which, which)),
        "release": (1, st.tuples(st.just("release"), which)),
        "set_capacity": (1, st.tuples(st.just("set_capacity"), which, st.sampled_from(CAPACITIES))),
        "set_cost": (1, st.tuples(st.just("set_cost"), which, st.sampled_from(COSTS))),
    }
    often = [name for name, (times, _) in choices.items() for _ in range(times)]
    operation = st.sampled_from(often).flatmap(lambda name: choices[name][1])
    host = st.tuples(st.sampled_from(CAPACITIES[1:]), st.sampled_from(EFFICIENCIES))
    return st.builds(
        LeaseProgram,
        st.lists(host, min_size=1, max_size=2),
        st.lists(st.tuples(which, size, lease_weight), min_size=1, max_size=3),
        st.sampled_from([1, max_operations // 2]).flatmap(
            lambda count: st.lists(operation, min_size=count, max_size=max_operations)
        ),
    )


ON_LEASES = {
    "resize": "resize",
    "weigh": "set_weight",
    "freeze": "suspend",
    "thaw": "resume",
    "release": "release",
}


@dataclass
class LeaseSession:
    """One simulation, of the kernel or of the reference, and what a program made in it."""

    env: Any
    program: LeaseProgram
    stalled: type[Exception]
    activities: list[Any] = field(default_factory=list)
    leases: list[Any] = field(default_factory=list)
    released: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hosts = [self.env.resource(c, efficiency=e) for c, e in self.program.hosts]
        for host, size, weight in self.program.leases:
            self.apply(("open", host, size, weight))

    @property
    def resources(self) -> list[Any]:
        return [*self.hosts, *self.leases]

    def resolve(self, operation: Operation, safe: Any = lambda activity: True) -> Operation | None:
        """The operation on an activity with its subject looked up, or None where it has none."""
        name, *args = operation
        if name not in ACTS_ON:
            return operation
        states = ACTS_ON[name]
        fit = [i for i, a in enumerate(self.activities) if a.state in states and safe(a)]
        return (name, fit[args[0] % len(fit)], *args[1:]) if fit else None

    def apply(self, operation: Operation) -> bool:
        """Play a resolved operation; True if it was a run that stalled."""
        name, *args = operation
        if name == "start":
            work, place, options = args
            self.activities.append(self.at(place).execute(work, **options))
        elif name == "advance":
            self.env.run(until=self.env.now + args[0])
        elif name == "finish":
            return self._finish()
        elif name == "open":
            host, size, weight = args
            chosen = self.hosts[host % len(self.hosts)]
            self.leases.append(chosen.lease(size, weight=weight or (None if size else 1.0)))
        elif name == "set_capacity":
            self.hosts[args[0] % len(self.hosts)].set_capacity(args[1])
        elif name == "set_cost":
            host, cost = self.hosts[args[0] % len(self.hosts)], args[1]
            host.remove_cost() if cost is None else host.set_cost(*cost)
        elif name == "move":
            self.activities[args[0]].move(self.at(args[1]))
        elif name in ACTS_ON:
            getattr(self.activities[args[0]], name)(*args[1:])
        elif self.leases:
            self._change_lease(name, *args)
        return False

    def at(self, place: int) -> Any:
        return self.resources[place % len(self.resources)]

    def _change_lease(self, name: str, which: int, *args: Any) -> None:
        lease = self.leases[which % len(self.leases)]
        if name == "migrate":
            lease.move(self.hosts[args[0] % len(self.hosts)])
        else:
            getattr(lease, ON_LEASES[name])(*args)
        if name == "release":
            self.leases.remove(lease)
            self.released.append(lease)

    def _finish(self) -> bool:
        try:
            self.env.run()
        except self.stalled:
            return True
        return False

    def align(self, beyond: float) -> None:
        self.env.run(until=float(int(beyond) + 2))
