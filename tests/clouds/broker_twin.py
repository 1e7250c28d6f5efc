"""A slow twin of the brokers `asap` and `afap`: a loop over seconds, with instances of one core."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from tests.clouds.cases import make_host
from twinloop.engine import simulate
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.injection import inject

NOT_YET = inf


@dataclass(frozen=True)
class BrokerCase:
    """A workload, what its instances do, and the settings of a broker; all times in seconds."""

    strategy: str
    #: Submission, run time and predicted run time of each task, and its parents.
    tasks: tuple[tuple[int, int, int], ...]
    parents: tuple[tuple[int, ...], ...] = ()
    #: Request date, boot time and lag of each instance; later ones are requested at once, and boot
    #: for the median, or for `boot` if none is recorded.
    boots: tuple[tuple[int, int, int], ...] = ()
    boot: int = 10
    base: float = 10.0
    per_booting: float = 0.0
    unit: int = 60
    margin: int = 5
    limit: int | None = None
    #: Whether the cloud has the limit, in place of the broker.
    is_limit_of_cloud: bool = False
    interval: int = 0
    later_interval: int | None = None
    published: bool = False
    validation: bool = False
    price: int = 2
    #: Options of other strategies.
    options: tuple[tuple[str, Any], ...] = ()

    def change(self, **changes: Any) -> BrokerCase:
        return replace(self, **changes)

    def describe_policy(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "boot": {"base": self.base, "per_booting": self.per_booting},
            "margin": self.margin,
            "interval": self.interval,
            "later_interval": self.later_interval,
            **dict(self.options),
        }
        if self.strategy in ("asap", "afap"):
            options |= {"published": self.published, "validation": self.validation}
        if self.limit is not None and not self.is_limit_of_cloud:
            options["instances"] = self.limit
        return {"name": self.strategy, "options": options}

    def make_scenario(self, policy: Any = None) -> Scenario:
        limits = {"instances": self.limit} if self.is_limit_of_cloud else {}
        cloud = {
            "name": "cloud",
            "types": [{"name": "small", "cores": 1}],
            "images": [{"name": "base", "boot": {"delay": self.boot}}],
            "billing": {"unit": self.unit, "price": self.price},
            "limits": limits,
        }
        hosts = make_host("host", len(self.tasks), ports=None)
        return Scenario(
            platform={"clusters": [{"name": "rack", "hosts": [hosts]}], "clouds": [cloud]},
            workload=self.make_workload(),
            policy=policy or self.describe_policy(),
        )

    def make_workload(self) -> Workload:
        count = len(self.tasks)
        parents = self.parents or ((),) * count
        tasks = pl.DataFrame(
            {
                "id": [f"t{i}" for i in range(count)],
                "submit": [float(submit) for submit, _, _ in self.tasks],
                "run_time": [float(time) for _, time, _ in self.tasks],
                "requested_time": [float(time) for _, _, time in self.tasks],
                "requested_cores": [1.0] * count,
                "parents": pl.Series(
                    [[f"t{p}" for p in each] for each in parents], dtype=pl.List(pl.String)
                ),
            }
        )
        if not self.boots:
            return Workload.from_trace(Trace(tasks=tasks))
        columns = np.array(self.boots, dtype=np.float64).T
        boots = pl.DataFrame(dict(zip(("provisioned", "boot_time", "lag"), columns, strict=True)))
        keys = ("boot_times", "provisioning_dates", "lags", "wall_times")
        return inject(Trace(tasks=tasks, boots=boots), keys)


@dataclass
class TwinNode:
    index: int
    decided: int
    request_at: float
    predicted_boot: float
    #: Begin of the present work, and its tasks: assigned since then.
    base: float = 0.0
    work: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    requested: float = NOT_YET
    ready: float = NOT_YET
    opens: float = NOT_YET
    released: float = NOT_YET
    running: int | None = None
    #: When it last got a task while it was idle.
    claimed: int | None = None

    @property
    def is_open(self) -> bool:
        return self.opens < NOT_YET and self.running is None and not self.queue


@dataclass(frozen=True)
class Outcome:
    """What both simulations must agree on; instances in the order of their requests."""

    #: Instance, start and end by task.
    placements: dict[str, tuple[int, float, float]]
    #: Request, end of boot and end.
    instances: list[tuple[float, float, float]]
    bill: float


class BrokerTwin:
    """The rules of specification and published simulator, second by second."""

    def __init__(self, case: BrokerCase) -> None:
        self.case = case
        self.parents = case.parents or ((),) * len(case.tasks)
        self.nodes: list[TwinNode] = []
        #: In the order of the requests.
        self.rented: list[TwinNode] = []
        self.decided = 0
        #: Given back in this scan.
        self.ending: list[TwinNode] = []
        self.booting = 0
        self.starts: dict[int, int] = {}
        self.node_of: dict[int, TwinNode] = {}
        self.assigned: set[int] = set()

    # --- rules
    def units(self, time: float) -> int:
        if self.case.published:
            return 1 + int((time - 1 if time > 1 else time) / self.case.unit)
        return max(1, ceil(time / self.case.unit))

    def left(self, uptime: float, work: float) -> float:
        end = uptime + self.case.margin + work
        return self.units(end) * self.case.unit - end

    def predict_boot(self) -> float:
        case = self.case
        if case.validation and self.booting == 0:
            return floor(case.base + 0.5)
        boot = case.base + case.per_booting * (self.booting + 1)
        return floor(boot + 0.5) if case.published else boot

    def predict_idle(self, node: TwinNode, now: int) -> float:
        if node.is_open:
            return now
        return self.end_of_work(node, now)

    def end_of_work(self, node: TwinNode, now: int) -> float:
        total = node.base
        for task in node.work:
            _, actual, predicted = self.case.tasks[task]
            total += actual if self.has_ended(task, now) else predicted
        return total

    def has_ended(self, task: int, now: int) -> bool:
        return task in self.starts and self.starts[task] + self.case.tasks[task][1] <= now

    def uptime_when_idle(self, node: TwinNode, now: int) -> float:
        if self.case.validation and self.case.boots and node.claimed == now:
            return now - node.requested
        idle = self.predict_idle(node, now)
        if node.requested < NOT_YET:
            return idle - node.requested
        return idle - node.decided - self.case.validation * node.predicted_boot

    def sort_nodes(self) -> list[TwinNode]:
        future = [each for each in self.nodes if each.requested == NOT_YET]
        others = [each for each in self.nodes if each.requested < NOT_YET]
        return sorted(future, key=lambda each: each.index) + sorted(
            others, key=lambda each: (each.requested, -each.index)
        )

    def choose(self, task: int, now: int) -> TwinNode | None:
        """Choose the node of a task; None: a new one, unless there are as many as allowed."""
        case = self.case
        work = case.tasks[task][2]
        nodes = self.sort_nodes()
        is_full = self.is_full()
        idle = {each.index: self.predict_idle(each, now) for each in nodes}
        uptime = {each.index: self.uptime_when_idle(each, now) for each in nodes}
        if case.strategy == "asap":
            if is_full:
                return min(nodes, key=lambda each: idle[each.index], default=None)
            candidates = [n for n in nodes if idle[n.index] < now + self.predict_boot()]
        elif not case.published:
            ends = {each.index: uptime[each.index] + case.margin for each in nodes}
            candidates = [
                n for n in nodes if self.units(ends[n.index] + work) == self.units(ends[n.index])
            ]
        else:
            candidates = []
            for each in nodes:
                after, before = (
                    self.left(uptime[each.index], work),
                    self.left(uptime[each.index], 0),
                )
                if after < before or (after == before and not case.validation):
                    candidates.append(each)
        if candidates:
            return min(candidates, key=lambda each: self.left(uptime[each.index], work))
        if is_full:
            return min(reversed(nodes), key=lambda each: idle[each.index], default=None)
        return None

    def is_full(self) -> bool:
        """Whether the limit is reached; a cloud counts an instance until it has ended."""
        count = len(self.nodes) + (self.case.is_limit_of_cloud and len(self.ending))
        return self.case.limit is not None and count >= self.case.limit

    def must_stop(self, node: TwinNode, now: int) -> bool:
        uptime = now - node.requested
        end = self.units(uptime) * self.case.unit
        if not self.case.published:
            return uptime >= end - self.case.margin or self.next_scan(now) > node.requested + end
        became_idle = self.end_of_work(node, now) - node.requested
        is_ending = self.units(uptime) < self.units(uptime + self.case.margin)
        return is_ending and end - became_idle > self.case.margin

    # --- time
    def run(self) -> Outcome:
        now = 0
        while len(self.starts) < len(self.case.tasks) or self.nodes:
            self.advance(now)
            if self.is_scan(now):
                self.scan(now)
            # The end of an instance is an event.
            if self.case.interval == 0 and self.ending:
                self.scan(now)
            now += 1
            assert now < 5_000
        number = {each.index: place for place, each in enumerate(self.rented, start=1)}
        rows = [(float(n.requested), float(n.ready), float(n.released)) for n in self.rented]
        return Outcome(
            {
                f"t{task}": (
                    number[self.node_of[task].index],
                    float(start),
                    float(start + self.case.tasks[task][1]),
                )
                for task, start in sorted(self.starts.items())
            },
            rows,
            sum(
                self.case.price * max(1, ceil((end - begin) / self.case.unit))
                for begin, _, end in rows
            ),
        )

    def is_scan(self, now: int) -> bool:
        case = self.case
        if case.interval == 0:
            return True
        last = max(submit for submit, _, _ in case.tasks)
        change = ceil(last / case.interval) * case.interval
        if now <= change:
            return now % case.interval == 0
        return (now - change) % (case.later_interval or case.interval) == 0

    def next_scan(self, now: int) -> int:
        return next(each for each in itertools.count(now + 1) if self.is_scan(each))

    def advance(self, now: int) -> None:
        """Process ends of tasks and boots, starts of tasks, and requests that are due."""
        for node in self.nodes:
            if node.running is not None and self.has_ended(node.running, now):
                node.running = None
            _, boot, lag = self.recorded(node)
            if node.requested + boot == now:
                node.ready = node.base = now
                self.booting = max(0, self.booting - 1)
            if node.ready + lag == now:
                node.opens = now
            self.start_next(node, now)
        for node in self.sort_nodes():
            if node.requested == NOT_YET and node.request_at <= now:
                self.request(node, now)

    def recorded(self, node: TwinNode) -> tuple[float, float, int]:
        boots = self.case.boots
        if node.index < len(boots):
            return boots[node.index]
        # Further instances take the median.
        return 0, median(boot for _, boot, _ in boots) if boots else self.case.boot, 0

    def request(self, node: TwinNode, now: int) -> None:
        node.requested = now
        self.rented.append(node)
        dates = [date for date, _, _ in self.case.boots]
        following = node.index + 1
        if (
            self.case.validation
            and following < len(dates)
            and dates[node.index] != dates[following]
        ):
            self.booting = 0

    def start_next(self, node: TwinNode, now: int) -> None:
        if node.opens <= now and node.running is None and node.queue:
            node.running = node.queue.pop(0)
            self.starts[node.running] = now

    def scan(self, now: int) -> None:
        self.ending = [n for n in self.nodes if n.is_open and self.must_stop(n, now)]
        for node in self.ending:
            node.released = now
            self.nodes.remove(node)
        for _, task in sorted((self.case.tasks[i][0], i) for i in self.list_ready(now)):
            self.assign(task, now)

    def list_ready(self, now: int) -> list[int]:
        return [
            i
            for i, (submit, _, _) in enumerate(self.case.tasks)
            if i not in self.assigned
            and submit <= now
            and all(self.has_ended(p, now) for p in self.parents[i])
        ]

    def assign(self, task: int, now: int) -> None:
        node = self.choose(task, now)
        if node is None and self.is_full():
            return
        if node is None:
            node = TwinNode(self.decided, now, now, self.predict_boot())
            self.decided += 1
            node.base = now + node.predicted_boot
            node.request_at = self.recorded(node)[0]
            self.booting += 1
            self.nodes.append(node)
            if node.request_at <= now:
                self.request(node, now)
        if node.is_open:
            node.base, node.work, node.claimed = now, [], now
        node.work.append(task)
        node.queue.append(task)
        self.assigned.add(task)
        self.node_of[task] = node
        self.start_next(node, now)


def run_native(case: BrokerCase, policy: Any = None) -> Outcome:
    """Run the case with the native broker, or with another policy."""
    return read_outcome(simulate(case.make_scenario(policy)))


def read_outcome(trace: Trace) -> Outcome:
    rows = trace.instances.select("instance", "requested", "ready", "end", "price").rows()
    number = {name: int(name.removeprefix("instance-")) for name, *_ in rows}
    rows.sort(key=lambda row: number[row[0]])
    return Outcome(
        {
            task: (number[machine], start, end)
            for task, machine, start, end in trace.placements.select(
                "task", "machine", "start", "end"
            ).rows()
        },
        [(requested, ready, end) for _, requested, ready, end, _ in rows],
        trace.instances["price"].sum(),
    )
