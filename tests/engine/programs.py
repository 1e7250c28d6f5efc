"""Random programs of operations, and how one is played on the kernel or on the reference.

Times are multiples of 1/8 s, so that an instant named by a program is the same number in both; the
other figures have few digits in moderate ranges, so that a comparison to 1e-9 is a fair one.
Activities are named by a number that is taken modulo those an operation may act on: every list of
operations is a program, and a failing one shrinks by dropping operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from hypothesis import strategies as st

Operation = tuple[Any, ...]

WORKS = [0.0, 0.25, 1.0, 1.0, 2.0, 5.0, 10.0, 10.0, 33.3, 100.0]
CAPACITIES = [0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 10.0]
WEIGHTS = [1.0, 1.0, 1.0, 2.0, 0.5, 3.0, 0.01, 100.0]
LIMITS = [None, None, None, 0.0, 0.1, 0.5, 1.0, 1.0, 2.0, 7.0]
EFFICIENCIES = [
    None,
    None,
    {0: [1.0, 0.5]},
    {0: [1.0, 1.0, 0.75], 1: [0.9, 0.8, 0.7, 0.25], 2: [1.25]},
    {0: [1.0, 1.0, 0.0], 1: [0.5, 1.0]},
]
COSTS = [None, (0.0, 0.0), (1.0, 1.0), (0.5, 2.0), (0.0, 3.0), (4.0, 1.0)]  # unused, all in use
KINDS = 3
PROFILE_LENGTH = 3


def by_count(counts: dict[int, int]) -> dict[int, float]:
    """An efficiency a table cannot say: a kind suffers from the other kinds only."""
    present = sum(counts.values())
    return {kind: 1.0 / (1 + (present - own) * (kind + 1) / 4) for kind, own in counts.items()}


@dataclass(frozen=True)
class Program:
    sharing: str
    resources: list[tuple[float, Any]]  # (capacity, efficiency)
    operations: list[Operation]


def instants(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda n: n / 8)


def programs(
    sharing: tuple[str, ...] = ("max-min", "strict-priority"),
    max_operations: int = 60,
) -> st.SearchStrategy[Program]:
    which = st.integers(0, 31)
    path = st.lists(st.integers(0, 3), min_size=1, max_size=3)
    work = st.sampled_from(WORKS)
    limit = st.sampled_from(LIMITS)
    weight = st.sampled_from(WEIGHTS)
    capacity = st.sampled_from(CAPACITIES)
    start = st.tuples(
        st.just("start"),
        work,
        path,
        st.fixed_dictionaries(
            {
                "limit": limit,
                "weight": weight,
                "kind": st.integers(0, KINDS - 1),
                "priority": st.integers(0, 2),
                "latency": st.one_of(st.just(0.0), instants(1, 40)),
            }
        ),
        st.booleans(),  # whether it starts at a time, or after a latency
    )
    profile = st.lists(st.tuples(instants(1, 24), capacity), min_size=1, max_size=PROFILE_LENGTH)
    choices = {
        "start": (8, start),
        "start_equal": (5, st.tuples(st.just("start_equal"), which, work)),
        "advance": (6, st.tuples(st.just("advance"), st.one_of(instants(1, 8), instants(1, 80)))),
        "finish": (1, st.just(("finish",))),
        "suspend": (2, st.tuples(st.just("suspend"), which)),
        "resume": (2, st.tuples(st.just("resume"), which)),
        "cancel": (1, st.tuples(st.just("cancel"), which)),
        "set_limit": (2, st.tuples(st.just("set_limit"), which, limit)),
        "set_weight": (2, st.tuples(st.just("set_weight"), which, weight)),
        "set_remaining": (1, st.tuples(st.just("set_remaining"), which, work)),
        "move": (2, st.tuples(st.just("move"), which, path)),
        "set_capacity": (2, st.tuples(st.just("set_capacity"), which, capacity)),
        "set_cost": (2, st.tuples(st.just("set_cost"), which, st.sampled_from(COSTS))),
        "set_profile": (1, st.tuples(st.just("set_profile"), which, profile, st.booleans())),
    }
    often = [name for name, (times, _) in choices.items() for _ in range(times)]
    operation = st.sampled_from(often).flatmap(lambda name: choices[name][1])
    efficiency = st.sampled_from([*EFFICIENCIES, by_count])
    return st.builds(
        Program,
        st.sampled_from(sharing),
        st.lists(st.tuples(capacity, efficiency), min_size=1, max_size=4),
        # Left alone, lists are short: ask for long ones too, yet let a failure shrink.
        st.sampled_from([1, max_operations // 3, 2 * max_operations // 3]).flatmap(
            lambda size: st.lists(operation, min_size=size, max_size=max_operations)
        ),
    )


ACTS_ON = {
    "suspend": ("waiting", "running"),
    "resume": ("waiting", "suspended"),
    "cancel": ("waiting", "running", "suspended"),
    "set_limit": ("waiting", "running", "suspended"),
    "set_weight": ("waiting", "running", "suspended"),
    "set_remaining": ("waiting", "running", "suspended"),
    "move": ("waiting", "running", "suspended"),
}


class Session:
    """One simulation, of the kernel or of the reference, and the handles a program made in it."""

    def __init__(self, env: Any, program: Program, stalled: type[Exception]) -> None:
        self.env = env
        self.resources = [env.resource(c, efficiency=e) for c, e in program.resources]
        self.activities: list[Any] = []
        self.starts: list[Operation] = []
        self.periodic = False
        self.stalled = stalled

    def resolve(
        self, operation: Operation, safe: Callable[[Any], bool] = lambda activity: True
    ) -> Operation | None:
        """The operation with its subject looked up, or None where it has none.

        `safe` may refuse activities, such as those about to end within the rounding of a float.
        """
        name, *args = operation
        if name in ACTS_ON:
            fit = [i for i, a in enumerate(self.activities) if a.state in ACTS_ON[name] and safe(a)]
            return (name, fit[args[0] % len(fit)], *args[1:]) if fit else None
        if name == "start_equal":  # the same in all but the work: equal flows form a bundle
            if not self.starts:
                return None
            _, _, *rest = self.starts[args[0] % len(self.starts)]
            return ("start", args[1], *rest)
        if name in ("set_capacity", "set_cost", "set_profile"):
            return (name, args[0] % len(self.resources), *args[1:])
        if name == "finish" and self.periodic:
            return (
                "advance",
                10.0,
            )  # when a run past a profile that repeats stalls is its own affair
        return operation

    def apply(self, operation: Operation) -> bool:
        """Play a resolved operation; True if it was a run that stalled."""
        name, *args = operation
        if name == "start":
            work, path, options, absolute = args
            self.starts.append(operation)
            if absolute:
                options = options | {"at": float(self.env.now) + options["latency"], "latency": 0.0}
            name = f"a{len(self.activities)}"
            self.activities.append(self.env.start(work, self._along(path), name=name, **options))
        elif name == "advance":
            self.env.run(until=self.env.now + args[0])
        elif name == "finish":
            return self._finish()
        elif name == "set_capacity":
            self.resources[args[0]].set_capacity(args[1])
        elif name == "set_cost":
            resource, cost = self.resources[args[0]], args[1]
            resource.remove_cost() if cost is None else resource.set_cost(*cost)
        elif name == "set_profile":
            self._set_profile(*args)
        elif name == "move":
            self.activities[args[0]].move(self._along(args[1]))
        else:
            getattr(self.activities[args[0]], name)(*args[1:])
        return False

    def _along(self, path: list[int]) -> list[Any]:
        return [self.resources[i] for i in dict.fromkeys(i % len(self.resources) for i in path)]

    def _set_profile(self, which: int, steps: list[tuple[float, float]], repeat: bool) -> None:
        times, time = [], self.env.now
        for step, _ in steps:
            time += step if isinstance(time, float) else type(time)(step)
            times.append(float(time))
        period = sum(step for step, _ in steps) if repeat else None
        self.periodic |= repeat
        self.resources[which].set_profile(times, [c for _, c in steps], period=period)

    def _finish(self) -> bool:
        try:
            self.env.run()
        except self.stalled:
            return True
        return False

    def align(self, beyond: float) -> None:
        """Go on to a round time, where the clocks of two sessions are the same number again."""
        self.env.run(until=float(ceil(beyond) + 1))
