"""Random small scenarios, in plain values: the laws of the simulator are checked on them."""

import atexit
import hashlib
import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.trace.tables import RESOURCES
from twinloop.workload import Workload

_FOLDER = tempfile.TemporaryDirectory(prefix="failures-")
atexit.register(_FOLDER.cleanup)


@dataclass(frozen=True)
class Task:
    """A task; its demand is constant unless it has fragments (seconds, share of its cores)."""

    submit: float
    cores: float = 1.0
    run_time: float = 1.0
    use: float = 1.0
    fragments: tuple[tuple[float, float], ...] = ()
    requested: float | None = None
    nodes: int | None = None
    memory: float | None = None
    gpus: float | None = None
    user: str | None = None
    group: str | None = None
    queue: str | None = None
    kind: str | None = None
    deadline: float | None = None
    parents: tuple[int, ...] = ()

    @property
    def work(self) -> float:
        """Reference core-seconds."""
        parts = self.fragments or ((self.run_time, self.use),)
        return self.cores * sum(length * share for length, share in parts)


@dataclass(frozen=True)
class Case:
    """A scenario in plain values; task 3 is called `t3`, machine 0 `m0`."""

    machines: tuple[dict[str, Any], ...]
    tasks: tuple[Task, ...]
    policy: dict[str, Any] = field(default_factory=lambda: {"name": "fcfs"})
    model: dict[str, Any] = field(default_factory=dict)
    queues: tuple[dict[str, Any], ...] = ()
    maintenance: tuple[dict[str, Any], ...] = ()
    reservations: tuple[dict[str, Any], ...] = ()
    failures: tuple[tuple[int, float, float], ...] = ()
    #: Means and distribution of random failures, in place of `failures`.
    random_failures: dict[str, Any] = field(default_factory=dict)
    then: dict[str, Any] = field(default_factory=lambda: {"on_failure": "restart"})
    source: str | dict[str, Any] = "rigid"
    seed: int = 0

    def but(self, **changes: Any) -> "Case":
        return replace(self, **changes)

    @property
    def workload(self) -> Workload:
        tasks = self.tasks
        rows = {
            "id": [f"t{i}" for i in range(len(tasks))],
            "submit": [task.submit for task in tasks],
            "cores": [task.cores for task in tasks],
            "nodes": pl.Series([task.nodes for task in tasks], dtype=pl.Int64),
            "memory": pl.Series([task.memory for task in tasks], dtype=pl.Float64),
            "resources": pl.Series(
                [task.gpus and [{"name": "gpu", "amount": task.gpus}] for task in tasks],
                dtype=RESOURCES,
            ),
            "work": [task.work for task in tasks],
            "limit": [task.cores * task.use for task in tasks],
            "requested_time": pl.Series([task.requested for task in tasks], dtype=pl.Float64),
            "deadline": pl.Series([task.deadline for task in tasks], dtype=pl.Float64),
            "user": pl.Series([task.user for task in tasks], dtype=pl.String),
            "group": pl.Series([task.group for task in tasks], dtype=pl.String),
            "queue": pl.Series([task.queue for task in tasks], dtype=pl.String),
            "kind": pl.Series([task.kind for task in tasks], dtype=pl.String),
            "parents": pl.Series(
                [[f"t{p}" for p in task.parents] for task in tasks], dtype=pl.List(pl.String)
            ),
        }
        pieces = [
            (f"t{i}", length, share * task.cores)
            for i, task in enumerate(tasks)
            for length, share in task.fragments
        ]
        fragments = pl.DataFrame(
            pieces,
            schema={"task": pl.String, "duration": pl.Float64, "rate": pl.Float64},
            orient="row",
        )
        return Workload(tasks=pl.DataFrame(rows), fragments=fragments)

    @property
    def scenario(self) -> tl.Scenario:
        return self.make_scenario(self.workload)

    def make_scenario(self, workload: Workload) -> tl.Scenario:
        """Make the scenario with its workload, which other cases may share."""
        hosts = [{"names": [f"m{i}"], **host} for i, host in enumerate(self.machines)]
        parts: dict[str, Any] = {}
        if self.failures:
            parts["failures"] = {"trace": str(self._failure_file()), **self.then}
        elif self.random_failures:
            parts["failures"] = {**self.random_failures, **self.then}
        return tl.Scenario(
            platform={
                "clusters": [{"hosts": hosts}],
                "queues": list(self.queues),
                "maintenance": list(self.maintenance),
                "reservations": list(self.reservations),
            },
            workload=workload,
            policy=self.policy,
            model=self.model,
            source=self.source,
            seed=self.seed,
            **parts,
        )

    def run_to_end(self, **recordings: Any) -> Any:
        """Run the scenario with these recordings; return the native run."""
        compiled = CompiledScenario(self.scenario)
        run = compiled.start(**recordings)
        while compiled.advance(run, run.run_slice):
            pass
        return run

    def _failure_file(self) -> Path:
        rows = [
            f"m{machine},{start},{start + length if length < math.inf else ''}"
            for machine, start, length in self.failures
        ]
        text = "\n".join(["node,start,end", *rows]) + "\n"
        path = Path(_FOLDER.name, hashlib.sha256(text.encode()).hexdigest()[:16] + ".csv")
        if not path.exists():
            path.write_text(text)
        return path


#: For laws of which every example is several runs.
few = settings(max_examples=settings.default.max_examples * 2 // 5)
#: For those of which every example is many.
fewer = settings(max_examples=settings.default.max_examples // 5)


# --- machines -------------------------------------------------------------------------------------

_SCALED = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["linear", "sqrt", "square", "cubic"]),
        "idle": st.sampled_from([0.0, 50.0]),
        "max": st.sampled_from([50.0, 200.0]),
    }
)
_POWERS = st.one_of(
    _SCALED,
    st.just({"model": "constant", "power": 80.0}),
    st.just({"model": "mse", "idle": 50.0, "max": 200.0, "r": 1.4}),
    st.just({"model": "asymptotic", "idle": 50.0, "max": 200.0, "a": 0.3, "dvfs": False}),
    st.just({"model": "asymptotic", "idle": 50.0, "max": 200.0, "a": 0.3, "dvfs": True}),
    st.just({"model": "table", "points": [[0.0, 30.0], [0.5, 120.0], [1.0, 150.0]]}),
)


_GPUS = st.sampled_from([{"gpu": 1.0}, {"gpu": 2.0}, {}])


@st.composite
def machines(draw: st.DrawFn, metered: bool) -> tuple[dict[str, Any], ...]:
    limited = draw(st.booleans())
    special = draw(st.booleans())
    return tuple(
        {
            "cores": draw(st.sampled_from([1.0, 2.0, 4.0])),
            "speed": draw(st.sampled_from([1.0, 0.5, 2.0])),
            **({"memory": draw(st.sampled_from([4.0, 8.0]))} if limited else {}),
            **({"resources": draw(_GPUS)} if special else {}),
            **({"power": draw(_POWERS)} if metered else {}),
        }
        for _ in range(draw(st.integers(1, 4)))
    )


# --- tasks ----------------------------------------------------------------------------------------

_PIECES = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([1.0, 0.5, 0.0])),
    min_size=1,
    max_size=4,
).map(tuple)


@st.composite
def tasks(draw: st.DrawFn, *, most: int = 12, varying: bool = True) -> tuple[Task, ...]:
    demanding = draw(st.booleans())
    special = draw(st.integers(0, 2)) == 0
    related = draw(st.booleans())
    made: list[Task] = []
    for place in range(draw(st.integers(1, most))):
        run_time = draw(st.sampled_from([2.0, 0.0, 1.0, 3.5, 7.0]))
        pieces = draw(_PIECES) if varying and draw(st.integers(0, 2)) == 0 else ()
        length = sum(piece[0] for piece in pieces) if pieces else run_time
        more = draw(st.sampled_from([None, 0.0, 2.0, -1.0]))
        made.append(
            Task(
                submit=float(draw(st.integers(0, 12))),
                cores=draw(st.sampled_from([1.0, 2.0, 3.0])),
                run_time=run_time,
                use=draw(st.sampled_from([1.0, 0.5])),
                fragments=pieces,
                requested=None if more is None else max(0.5, length + more),
                nodes=draw(st.sampled_from([None, 1, 2])) if demanding else None,
                memory=draw(st.sampled_from([None, 1.0, 2.0])) if demanding else None,
                gpus=draw(st.sampled_from([None, None, 1.0, 2.0])) if special else None,
                user=draw(st.sampled_from(["ann", "bob", None])),
                queue=draw(st.sampled_from([None, "low", "high"])),
                kind=draw(st.sampled_from([None, "loud", "shy"])),
                deadline=draw(st.sampled_from([None, 10.0])),
                parents=(draw(st.integers(0, place - 1)),)
                if related and place and draw(st.integers(0, 3)) == 0
                else (),
            )
        )
    return tuple(made)


# --- policies -------------------------------------------------------------------------------------


def _named(name: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"name": st.just(name), "options": st.fixed_dictionaries(options)})


_BACKFILL = st.sampled_from(["none", "easy", "easy-time", "conservative"])
BATCH = (
    _named("fcfs"),
    _named("easy", depth=st.sampled_from([0, 1])),
    _named("easy-time"),
    _named("conservative", compress=st.booleans()),
    _named("sjf"),
    _named("ljf"),
    _named(
        "priority",
        age=st.sampled_from([0.0, 0.5]),
        preempt=st.sampled_from(["no", "restart", "resume"]),
    ),
    _named("priority", backfill=_BACKFILL),
    _named("fair-share", backfill=_BACKFILL, half_life=st.just(10.0)),
)
FITTING = tuple(
    _named(name)
    for name in (
        "fifo",
        "first-fit",
        "best-fit",
        "worst-fit",
        "baseline-ic1",
        "random",
        "round-robin",
    )
) + (
    _named(
        "filter",
        skip=st.booleans(),
        subset=st.sampled_from([1, 2]),
        weighers=st.sampled_from([{}, {"ram": 1.0}, {"capacity": 1.0, "vcpu": -0.5}]),
    ),
)
OVERCOMMITTING = tuple(
    _named(name, overcommit=st.sampled_from([1.0, 1.5, 2.0]))
    for name in ("pack-ic", "spread-ic", "spread-vcpu")
)

QUEUES = st.tuples(
    st.fixed_dictionaries({"name": st.just("low"), "max_running": st.sampled_from([None, 1, 2])}),
    st.fixed_dictionaries(
        {
            "name": st.just("high"),
            "priority": st.just(5.0),
            "max_running_per_user": st.sampled_from([None, 1]),
        }
    ),
)
_WINDOWS = st.tuples(st.sampled_from([2.0, 5.0, 9.0]), st.sampled_from([1.0, 4.0]))

MODELS = st.fixed_dictionaries(
    {
        "speed_factor": st.sampled_from([1.0, 0.5, 2.0]),
        "service_factor": st.sampled_from([1.0, 1.5]),
        "service_factors": st.sampled_from([{}, {}, {"loud": 0.5, "shy": 1.25}]),
        "startup_overhead": st.sampled_from([0.0, 0.0, 0.5]),
        "dispatch_latency": st.sampled_from([0.0, 0.0, 0.25]),
        "release_latency": st.sampled_from([0.0, 0.0, 0.25]),
        # Multiples of 0.1 and of 0.7 are no binary fractions, as the other times are.
        "decision_interval": st.sampled_from([0.0, 0.0, 0.0, 2.0, 0.1, 0.7]),
        "effective_capacity": st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0]),
        "sharing": st.sampled_from(["stretch", "stretch", "no-delay"]),
        "demand": st.sampled_from(["elastic", "fixed"]),
        "kill_at_requested_time": st.booleans(),
    }
)
KINDS = {
    "loud": {"pressure": 0.4, "sensitivity": 0.1},
    "shy": {"pressure": 0.1, "sensitivity": 0.5},
}
CONTENTIONS = st.sampled_from(
    [
        "none",
        {"linear": {"slope": 0.5}},
        {"table": [[1.0, 1.0], [2.0, 1.5]]},
        {"kinds": KINDS},
        {"kinds": KINDS, "within": "core"},
    ]
)


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    policies: tuple[st.SearchStrategy[dict[str, Any]], ...] = BATCH + FITTING + OVERCOMMITTING,
    metered: bool = True,
    model: st.SearchStrategy[dict[str, Any]] = MODELS,
    contention: bool = True,
    failing: bool = True,
    windows: bool = True,
    sources: tuple[str, ...] = ("rigid", "sessions:3"),
    most: int = 12,
    varying: bool = True,
) -> Case:
    """A scenario; everything that makes it special is drawn as absent more often than not."""
    hosts = draw(machines(metered))
    everywhere = {"hosts": [f"m{draw(st.integers(0, len(hosts) - 1))}"]}
    told = draw(model)
    if contention and draw(st.booleans()):
        told = {**told, "contention": draw(CONTENTIONS)}
    failures = then = None
    if failing and draw(st.booleans()):
        struck = st.tuples(
            st.integers(0, len(hosts) - 1),
            st.sampled_from([1.0, 3.0, 4.5, 8.0]),
            st.sampled_from([1.0, 2.5]),
        )
        failures = tuple(draw(st.lists(struck, min_size=1, max_size=3)))
        then = draw(
            st.sampled_from(
                [
                    {"on_failure": "restart"},
                    {"on_failure": "lost"},
                    {"on_failure": "resume", "checkpoint_interval": 1.0},
                    {"on_failure": "resume", "checkpoint_interval": 2.0, "checkpoint_cost": 0.25},
                ]
            )
        )
    closed = owned = ()
    if windows and draw(st.integers(0, 2)) == 0:
        start, length = draw(_WINDOWS)
        closed = ({"start": start, "end": start + length, **everywhere},)
    if windows and draw(st.integers(0, 2)) == 0:
        start, length = draw(_WINDOWS)
        owner = draw(st.sampled_from([{"users": ["ann"]}, {"queues": ["high"]}]))
        owned = ({"name": "own", "start": start, "end": start + length, **everywhere, **owner},)
    return Case(
        machines=hosts,
        tasks=draw(tasks(most=most, varying=varying)),
        policy=draw(st.one_of(*policies)),
        model=told,
        queues=tuple(
            {name: value for name, value in queue.items() if value is not None}
            for queue in draw(QUEUES)
        ),
        maintenance=closed,
        reservations=owned,
        failures=failures or (),
        then=then or {"on_failure": "restart"},
        source=draw(st.sampled_from(sources)),
        seed=draw(st.integers(0, 3)),
    )
