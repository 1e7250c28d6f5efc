"""Deterministic random scenarios in plain values, from a seed.

Every draw uses `Random.random`, the only method whose sequence is the same in all versions of
Python. All times, and the products that make up the work of a task, are exact in binary, so that no
sum depends on its order; rounding enters with the speeds and factors of the engine.

Consecutive seeds form a group with the same machines and tasks, whose columns are built once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeVar

from tests.cluster.scenarios import KINDS, Case, Task

_Value = TypeVar("_Value")

#: Number of scenarios with the same machines and tasks.
GROUP: Final = 4

#: `tied`: whole seconds, many simultaneous events, nothing shared; `unshared`: irregular times,
#: nothing shared; `shared`: irregular times, and tasks slow each other down.
Style = Literal["tied", "unshared", "shared"]
STYLES: Final[tuple[Style, ...]] = ("tied", "shared", "unshared", "shared", "shared")

_GRID: Final = 2.0**20
_BACKFILL: Final = ("none", "easy", "easy-time", "conservative")


def _name(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "options": options}


#: Policies that may spread a task over machines.
BATCH: Final = (
    _name("fcfs"),
    _name("easy"),
    _name("easy", depth=3),
    _name("easy-time"),
    _name("easy-time", depth=2),
    _name("conservative"),
    _name("conservative", compress=False),
    _name("conservative", depth=4),
    _name("conservative", depth=3, compress=False),
    _name("sjf"),
    _name("ljf"),
    *(_name("priority", age=0.01, backfill=backfill) for backfill in _BACKFILL),
    _name("priority", backfill="conservative", compress=False),
    *(_name("priority", age=0.01, preempt=preempt) for preempt in ("restart", "resume")),
    *(
        _name("priority", preempt=preempt, backfill=backfill)
        for preempt in ("restart", "resume")
        for backfill in ("easy", "conservative")
    ),
    *(_name("fair-share", half_life=100.0, backfill=backfill) for backfill in _BACKFILL),
    _name("fair-share", half_life=30.0, share_by="group"),
    _name("fair-share", share_by="group", backfill="easy", depth=2),
)
#: Policies that give a task one machine, and no more cores than the machine has.
FITTING: Final = (
    _name("fifo"),
    _name("first-fit"),
    _name("best-fit"),
    _name("worst-fit"),
    _name("pack-ic"),
    _name("spread-ic"),
    _name("spread-vcpu"),
    _name("baseline-ic1"),
    _name("random"),
    _name("round-robin"),
    _name("filter"),
    _name("filter", skip=True, weighers={"ram": 1.0}),
    _name("filter", skip=True, subset=2, weighers={"capacity": 1.0, "vcpu": -0.5}),
    _name("filter", subset=3),
    _name("filter", skip=True, pick="random"),
    _name("filter", skip=True, pick="round-robin"),
    _name("filter", filters={"vcpu": 1.0, "instance_count": 3}, weighers={"instance_count": -1.0}),
)
OVERCOMMITTING: Final = (
    *(
        _name(name, overcommit=overcommit)
        for name in ("pack-ic", "spread-ic", "spread-vcpu")
        for overcommit in (1.5, 2.0)
    ),
    _name("filter", filters={"vcpu": 2.0, "ram": 1.0, "resource": 1.0}, subset=2),
    _name("filter", filters={"vcpu": 1.5, "ram": 1.5, "resource": 2.0}, skip=True),
    _name("filter", filters={"vcpu": 3.0, "instance_count": 5}, pick="random"),
    _name("filter", filters={"instance_count": 3}, pick="round-robin"),
    _name("filter", filters={"vcpu": 1.5}, weighers={"vcpu": 1.0, "ram": -1.0}),
)
CONTENTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"linear": {"slope": 0.5}},
    {"table": [[0.5, 1.0], [1.0, 1.1], [2.0, 1.5]]},
    {"kinds": KINDS},
    {"kinds": KINDS, "within": "core"},
)
POWERS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"model": model, "idle": 50.0, "max": 200.0}
        for model in ("linear", "sqrt", "square", "cubic")
    ),
    {"model": "constant", "power": 80.0},
    {"model": "mse", "idle": 50.0, "max": 200.0, "r": 1.4},
    {"model": "asymptotic", "idle": 50.0, "max": 200.0, "a": 0.3, "dvfs": False},
    {"model": "asymptotic", "idle": 40.0, "max": 150.0, "a": 0.3, "dvfs": True},
    {"model": "table", "points": [[0.0, 30.0], [0.5, 120.0], [1.0, 150.0]]},
)
AFTER_FAILURE: Final[tuple[dict[str, Any], ...]] = (
    {"on_failure": "restart"},
    {"on_failure": "lost"},
    {"on_failure": "resume", "checkpoint_interval": 4.0},
    {"on_failure": "resume", "checkpoint_interval": 5.0, "checkpoint_cost": 0.5},
)
QUEUES: Final = ("low", "high")


def make_case(seed: int) -> Case:
    """Make the scenario of a seed."""
    return _draw_case(seed, _draw_group(seed // GROUP))


def find_usage_step(seed: int) -> float | None:
    """Return the length of the usage windows to record (s); None: no windows."""
    return (None, 5.0, None, 0.7)[(seed + seed // GROUP) % 4]


def records_power(seed: int) -> bool:
    """Whether the use of machines is recorded, from which the power over time is computed."""
    return seed % 3 == 0


class _Group(NamedTuple):
    """The parts that the scenarios of a group share."""

    style: Style
    #: Whether the policies are of `BATCH`.
    is_batch: bool
    machines: tuple[dict[str, Any], ...]
    tasks: tuple[Task, ...]
    #: Time of the last submission (s).
    span: float


class _Draw:
    """A stream of random values."""

    def __init__(self, seed: int | str) -> None:
        self.random = Random(seed).random

    def is_chosen(self, probability: float) -> bool:
        return self.random() < probability

    def choose(self, values: Sequence[_Value]) -> _Value:
        return values[int(self.random() * len(values))]

    def draw_integer(self, least: int, most: int) -> int:
        return least + int(self.random() * (most + 1 - least))

    def draw_time(self, style: Style, least: float, most: float) -> float:
        """Draw a time (s): a whole number if the scenario is tied."""
        time = least + self.random() * (most - least)
        return float(round(time)) if style == "tied" else round(time * _GRID) / _GRID


# --- machines and tasks ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _draw_group(group: int) -> _Group:
    draw = _Draw(f"group {group}")
    style = STYLES[group % len(STYLES)]
    is_batch = draw.is_chosen(0.55)
    count = 10 + int(50 * draw.random() * draw.random())
    # Fewer cores than the tasks request together, so that tasks wait.
    machines = _draw_machines(draw, count * draw.choose((0.2, 0.4, 0.8)))
    load = draw.choose((0.7, 1.0, 2.0, 4.0))
    # A task has about 35 core-seconds of work.
    span = 35.0 * count / load / sum(host["cores"] for host in machines)
    tasks = tuple(_draw_tasks(draw, style, machines, count, span, is_batch=is_batch))
    return _Group(style, is_batch, machines, tasks, span)


def _draw_machines(draw: _Draw, total: float) -> tuple[dict[str, Any], ...]:
    """Draw up to eight machines with about this total number of cores."""
    speeds = draw.choose(((1.0,), (1.0,), (1.0, 0.5, 2.0), (1.0, 1.3), (0.7, 1.1, 1.7)))
    cores = draw.choose(((4.0,), (1.0, 2.0), (1.0, 2.0, 4.0), (2.0, 2.5), (2.0, 8.0)))
    has_memory, has_gpus = draw.is_chosen(0.4), draw.is_chosen(0.3)
    has_power, is_partial = draw.is_chosen(0.7), draw.is_chosen(0.15)
    powers = draw.choose((POWERS, (draw.choose(POWERS),)))
    machines: list[dict[str, Any]] = []
    while not machines or (total > 0.0 and len(machines) < 8):
        place = len(machines)
        host: dict[str, Any] = {"cores": draw.choose(cores), "speed": draw.choose(speeds)}
        if has_memory:
            host["memory"] = draw.choose((16.0, 32.0))
        if has_gpus:
            host["resources"] = {"gpu": (4.0, 1.0, 2.0)[place % 3]}
        if has_power and not (is_partial and place % 3 == 1):
            host["power"] = draw.choose(powers)
        machines.append(host)
        total -= host["cores"]
    return tuple(machines)


def _draw_tasks(
    draw: _Draw,
    style: Style,
    machines: tuple[dict[str, Any], ...],
    count: int,
    span: float,
    *,
    is_batch: bool,
) -> Iterator[Task]:
    widths = draw.choose(((1.0, 1.0, 2.0, 4.0), (1.0, 2.0), (0.5, 1.0, 1.5, 2.0, 3.0)))
    # Wider tasks are rejected or, with a single machine per task, overload small machines.
    cores = [host["cores"] for host in machines]
    widest = sum(cores) if is_batch else min(cores)
    widths = tuple(width for width in widths if width <= widest)
    uses: tuple[float, ...] = draw.choose(((1.0,), (1.0, 0.5, 0.75)))
    if style == "shared" and draw.is_chosen(0.35):
        uses = (1.0, 1.5, 2.0)
    is_varying, is_related = draw.is_chosen(0.4), draw.is_chosen(0.35)
    has_nodes = is_batch and draw.is_chosen(0.5)
    users = draw.choose((("ann", "bob"), ("ann", "bob", "cleo", None), ("ann",)))
    has_memory = draw.is_chosen(0.5)
    has_gpus = "resources" in machines[0]
    for place in range(count):
        pieces = _draw_fragments(draw, style, uses) if is_varying and draw.is_chosen(0.6) else ()
        run_time = draw.draw_time(style, 1.0, 40.0)
        if style != "shared" and draw.is_chosen(0.03):
            run_time = 0.0
        length = sum(piece[0] for piece in pieces) if pieces else run_time
        yield Task(
            submit=draw.draw_time(style, 0.0, span),
            cores=draw.choose(widths),
            run_time=run_time,
            use=draw.choose(uses),
            fragments=pieces,
            requested=_draw_requested(draw, style, length),
            nodes=draw.choose((None, 1, min(2, len(machines)))) if has_nodes else None,
            memory=draw.choose((None, 1.0, 2.0, 8.0)) if has_memory else None,
            gpus=draw.choose((None, None, None, 1.0, 2.0)) if has_gpus else None,
            user=draw.choose(users),
            group=draw.choose(("physics", "biology", None)),
            queue=draw.choose((None, *QUEUES)),
            kind=draw.choose((None, *KINDS)),
            deadline=draw.choose((None, 60.0)),
            parents=_draw_parents(draw, place) if is_related else (),
        )


def _draw_fragments(
    draw: _Draw, style: Style, uses: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    most = max(uses)
    return tuple(
        (draw.draw_time(style, 1.0, 15.0), draw.choose((0.0, 0.25, 0.5, 0.875, 1.0)) * most)
        for _ in range(draw.draw_integer(1, 6))
    )


def _draw_requested(draw: _Draw, style: Style, length: float) -> float | None:
    kind = draw.choose(("none", "exact", "more", "more", "less"))
    if kind == "none":
        return None
    if kind == "exact":
        return max(1.0, length)
    if kind == "less":
        return max(1.0, draw.draw_time(style, 0.5 * length, length))
    return length + draw.draw_time(style, 1.0, 60.0)


def _draw_parents(draw: _Draw, place: int) -> tuple[int, ...]:
    if place == 0 or not draw.is_chosen(0.35):
        return ()
    count = draw.choose((1, 1, 2))
    first = max(0, place - 8)
    return tuple(sorted({draw.draw_integer(first, place - 1) for _ in range(count)}))


# --- the scenario ---------------------------------------------------------------------------------


def _draw_case(seed: int, group: _Group) -> Case:
    draw = _Draw(seed)
    policies = BATCH if group.is_batch else FITTING
    if group.style == "shared" and not group.is_batch and draw.is_chosen(0.6):
        policies = OVERCOMMITTING
    # In turn, so that all occur: the numbers of policies have no divisor in common with the period
    # of the styles.
    policy = policies[seed % len(policies)]
    has_queues = policy["name"] == "priority" or draw.is_chosen(0.4)
    case = Case(
        machines=group.machines,
        tasks=group.tasks,
        policy=policy,
        model=_draw_model(draw, group.style)
        | (_draw_sharing(draw, group, policy) if group.style == "shared" else {}),
        queues=_draw_queues(draw, group) if has_queues else (),
        maintenance=tuple(
            _draw_window(draw, group)
            for _ in range(draw.draw_integer(1, 2) if draw.is_chosen(0.25) else 0)
        ),
        reservations=_draw_reservations(draw, group, has_queues) if draw.is_chosen(0.25) else (),
        source=_draw_source(draw),
        seed=draw.draw_integer(0, 1000),
        **_draw_failures(draw, group),
    )
    return _avoid_lost_children(case)


def _avoid_lost_children(case: Case) -> Case:
    """Set a release latency to zero where it would make tasks lose their children.

    If a machine fails between the end of a task and its release, the children of the task never
    become ready: a defect, which the stored outcomes must not preserve.
    """
    has_outages = case.failures or case.random_failures or case.maintenance
    if not has_outages or not any(task.parents for task in case.tasks):
        return case
    return case.but(model={**case.model, "release_latency": 0.0})


def _draw_model(draw: _Draw, style: Style) -> dict[str, Any]:
    is_tied = style == "tied"
    choices: dict[str, tuple[float, Sequence[Any]]] = {
        "startup_overhead": (0.2, (1.0, 2.0) if is_tied else (0.25, 0.6)),
        "dispatch_latency": (0.2, (1.0, 2.0) if is_tied else (0.25, 0.6)),
        "release_latency": (0.2, (1.0, 2.0) if is_tied else (0.25, 0.6)),
        "decision_interval": (0.2, (1.0, 5.0) if is_tied else (3.0, 0.7)),
        "speed_factor": (0.25, (0.5, 2.0) if is_tied else (0.9, 1.5)),
        "service_factor": (0.25, (0.5, 2.0) if is_tied else (1.1, 0.8)),
        "service_factors": (0.2, ({"loud": 0.5, "shy": 1.5},)),
        "kill_at_requested_time": (0.25, (True,)),
        "effective_capacity": (0.1, (0.75,)),
    }
    return {
        name: draw.choose(values)
        for name, (probability, values) in choices.items()
        if draw.is_chosen(probability)
    }


def _draw_sharing(draw: _Draw, group: _Group, policy: dict[str, Any]) -> dict[str, Any]:
    """Draw the reasons for which tasks share machines."""
    model: dict[str, Any] = {"demand": "fixed"} if draw.is_chosen(0.25) else {}
    if draw.is_chosen(0.2):
        model["sharing"] = "no-delay"
    if draw.is_chosen(0.4):
        model["contention"] = draw.choose(CONTENTIONS)
    # With neither, nothing might be shared.
    if draw.is_chosen(0.5) or ("contention" not in model and policy not in OVERCOMMITTING):
        model["effective_capacity"] = draw.choose((1.5, 2.0, 3.0))
    return model


def _draw_queues(draw: _Draw, group: _Group) -> tuple[dict[str, Any], ...]:
    names = [f"m{i}" for i in range(len(group.machines))]
    low: dict[str, Any] = {"name": "low", "priority": 1.0}
    high: dict[str, Any] = {"name": "high", "priority": 5.0}
    if draw.is_chosen(0.5):
        low |= draw.choose(
            (
                {"max_running": 3},
                {"max_cores": 2.0},
                {"max_nodes": 1},
                {"max_time": 40.0},
                {"max_memory": 6.0},
            )
        )
    if draw.is_chosen(0.5):
        high |= draw.choose(({"max_running_per_user": 2}, {"max_running": 2}))
    if draw.is_chosen(0.3):
        low["hosts"] = names[: max(1, len(names) // 2)]
    if draw.is_chosen(0.2):
        high["hosts"] = names[len(names) // 3 :]
    return low, high


def _draw_failures(draw: _Draw, group: _Group) -> dict[str, Any]:
    if not draw.is_chosen(0.4):
        return {}
    then = draw.choose(AFTER_FAILURE)
    if group.style != "tied" and draw.is_chosen(0.3):
        shape = {"distribution": "weibull", "shape": 0.7} if draw.is_chosen(0.5) else {}
        return {"random_failures": {"mtbf": 150.0, "mttr": 5.0, **shape}, "then": then}
    failures = tuple(
        (
            draw.draw_integer(0, len(group.machines) - 1),
            draw.draw_time(group.style, 1.0, group.span + 50.0),
            draw.draw_time(group.style, 1.0, 30.0) if draw.is_chosen(0.97) else float("inf"),
        )
        for _ in range(draw.draw_integer(1, 6))
    )
    return {"failures": failures, "then": then}


def _draw_window(draw: _Draw, group: _Group) -> dict[str, Any]:
    start = draw.draw_time(group.style, 1.0, group.span + 50.0)
    first = draw.draw_integer(0, len(group.machines) - 1)
    return {
        "start": start,
        "end": start + draw.draw_time(group.style, 2.0, 40.0),
        "hosts": [f"m{i}" for i in range(first, min(first + 2, len(group.machines)))],
    }


def _draw_reservations(draw: _Draw, group: _Group, has_queues: bool) -> tuple[dict[str, Any], ...]:
    window = _draw_window(draw, group)
    owners: list[dict[str, Any]] = [{"users": ["ann"]}]
    if has_queues:
        owners.append({"queues": ["high"]})
    return ({"name": "own", **window, **draw.choose(owners)},)


def _draw_source(draw: _Draw) -> str | dict[str, Any]:
    if draw.is_chosen(0.7):
        return "rigid"
    by = draw.choose(("arrival", "last", "max"))
    return {"sessions": {"by": by, "threshold": draw.choose((2.0, 10.0))}}


# --- perturbation ---------------------------------------------------------------------------------


def perturb(case: Case, seed: int, size: float) -> Case:
    """Return the case with the times of its tasks changed by at most this relative size."""
    draw = _Draw(seed)

    def change(value: float) -> float:
        return value * (1.0 + size * (2.0 * draw.random() - 1.0))

    return case.but(
        tasks=tuple(
            replace(
                task,
                submit=change(task.submit),
                run_time=change(task.run_time),
                fragments=tuple((change(length), share) for length, share in task.fragments),
            )
            for task in case.tasks
        )
    )
