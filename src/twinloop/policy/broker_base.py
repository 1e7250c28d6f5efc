"""The base class of brokers written in Python: clients that assign tasks to instances for good."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, inf
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeVar

from pydantic import BeforeValidator

from twinloop.description import Description
from twinloop.description.errors import InputError
from twinloop.description.quantities import Count, Seconds, quote_value
from twinloop.policy.decisions import Decision, Kill, Place, Release, Rent, Reserve, Wake
from twinloop.policy.interface import Policy

if TYPE_CHECKING:
    from twinloop.platform.clouds import Cloud, Image, InstanceType
    from twinloop.policy.interface import View


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Part = TypeVar("_Part", bound=_Named)


class NewInstance(Enum):
    """The choice of an instance that does not exist yet."""

    RENT = "rent"


#: The least time between two requests for the same tasks (s).
_SHORTEST_PAUSE: Final = 1e-3
#: The answer of `Broker.choose` for a new instance.
RENT: Final = NewInstance.RENT


@dataclass(eq=False)
class BrokerNode:
    """An instance of a broker, from the decision to rent it to its release.

    >>> BrokerNode(index=0, cores=2.0, memory=0.0, requested=5.0, ready_at=35.0).is_idle
    False
    """

    #: Number of the decision to rent it, from 0.
    index: int
    cores: float
    #: Its memory (bytes); 0: it has as much as its host.
    memory: float
    #: Time of its request; of the decision, as long as it is not requested.
    requested: float
    #: Predicted end of its boot.
    ready_at: float
    #: Begin of its bill; predicted as its request until it is known.
    begin: float = 0.0
    #: `future`: decided, but not requested; `booting`; `ready`.
    state: Literal["future", "booting", "ready"] = "future"
    #: Its index in the view, from its request on.
    machine: int | None = None
    #: Its tasks that have not started, in the order of their starts, and those that run.
    queue: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    #: Requests so far, this one included, and the time of the next one.
    attempts: int = 1
    request_at: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it could start a task now, and has none."""
        return self.state == "ready" and not self.queue and not self.running


def _check_part(value: Any) -> Any:
    """Check the name or the position of a part of the platform, which is not known yet."""
    is_position = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not is_position and not (isinstance(value, str) and value):
        raise InputError(
            f"must be a name, or a position from 0 on, not {quote_value(value)}", kind="wrong-type"
        )
    return value


_PartReference = Annotated[int | str, BeforeValidator(_check_part)]


class BrokerOptions(Description):
    """The options of a broker in Python, with the rules of those of the built-in ones.

    >>> BrokerOptions(margin="1min").margin
    60.0
    """

    cloud: _PartReference = 0
    type: _PartReference = 0
    image: _PartReference = 0
    boot: Seconds | None = None
    per_booting: Seconds = 0.0
    margin: Seconds = 50.0
    instances: Count | None = None
    attempts: Count = 10
    retry: Seconds = 60.0


class Broker(Policy):
    """Base class of brokers: a subclass chooses the instance of each task.

    A task is assigned when it is ready, in the order of submission, and never moves. The class
    requests the instances, starts tasks when their cores are free, replaces instances that do not
    boot, and gives idle instances back before their next unit of billing. It decides at every
    event, with predicted times. Times can have units, such as "1min".

    Args:
        cloud: Name or position of the cloud.
        type: Name or position of the type of instances.
        image: Name or position of the image.
        boot: Predicted boot time; by default that of the image (s).
        per_booting: Additional boot time for each instance that boots, itself included (s).
        margin: Time before the end of a unit in which idle instances are given back (s).
        instances: Maximum number of instances; by default unlimited.
        attempts: Boots of one instance that may fail before its tasks are killed.
        retry: Time from a refusal to the next request of an instance (s).

    >>> from twinloop.policy import RENT, Broker
    >>> class Fastest(Broker):
    ...     def choose(self, task, nodes):
    ...         if self.can_rent:
    ...             return RENT
    ...         return min(nodes, key=lambda node: self.idle_at(node, task), default=None)
    >>> Fastest(instances=3).margin
    50.0
    """

    decide_when_idle = True

    @property
    def continues(self) -> bool:
        """Whether instances are to be given back after the last task."""
        return bool(self._nodes or self._ending)

    #: The view of the present decision, for `choose`.
    view: View

    def __init__(
        self,
        *,
        cloud: int | str = 0,
        type: int | str = 0,
        image: int | str = 0,
        boot: float | str | None = None,
        per_booting: float | str = 0.0,
        margin: float | str = 50.0,
        instances: int | None = None,
        attempts: int = 10,
        retry: float | str = 60.0,
    ) -> None:
        options = BrokerOptions(
            cloud=cloud,
            type=type,
            image=image,
            boot=boot,
            per_booting=per_booting,
            margin=margin,
            instances=instances,
            attempts=attempts,
            retry=retry,
        )
        self.cloud = options.cloud
        self.type = options.type
        self.image = options.image
        self.boot = options.boot
        self.per_booting = options.per_booting
        self.margin = options.margin
        self.instances = options.instances
        self.attempts = options.attempts
        self.retry = options.retry
        self._nodes: list[BrokerNode] = []
        self._decided = 0
        self._events: list[tuple[int, str]] = []
        #: Instances that are given back and not gone yet, and those of an earlier client.
        self._ending: set[int] = set()
        self._unused: set[int] = set()

    @abstractmethod
    def choose(
        self, task: int, nodes: Sequence[BrokerNode]
    ) -> BrokerNode | Literal[NewInstance.RENT] | None:
        """Choose the instance of a task.

        Args:
            task: The task, an index of `self.view`.
            nodes: The instances on which it fits: those without a request first, then by the
                times of the requests, of equal ones the last decision first.

        Returns:
            One of `nodes`; `RENT` for a new one; None, or `RENT` without `can_rent`, if the task
            has to wait for the next decision.
        """

    # --- for `choose` ----------------------------------------------------------------------------

    @property
    def can_rent(self) -> bool:
        """Whether the limits allow another instance."""
        count = len(self._nodes)
        limit = self._find_cloud().limits.instances
        return (self.instances is None or count < self.instances) and (
            limit is None or count + len(self._ending) < limit
        )

    @property
    def unit(self) -> float:
        """The unit of billing (s); infinite without billing."""
        billing = self._find_cloud().billing
        return inf if billing is None else billing.unit

    def units(self, uptime: float) -> int:
        """The units of billing that an instance begins in this time of its bill."""
        # Rounding of times must not begin another unit, as in the bill.
        return max(1, ceil(uptime / self.unit - 1e-9))

    def predict_boot(self) -> float:
        """The predicted boot time of an instance that is requested now (s)."""
        booting = sum(node.state != "ready" for node in self._nodes)
        base = self._predict_base() if self.boot is None else self.boot
        return base + self.per_booting * (booting + 1)

    def idle_at(self, node: BrokerNode, task: int | None = None) -> float:
        """The predicted time at which the cores of a task, or all, are idle on an instance.

        It may be in the past, if a boot or a task takes longer than predicted.
        """
        view = self.view
        if node.is_idle:
            return view.now
        begin = view.now if node.state == "ready" else node.ready_at
        ends = [begin] * max(1, int(node.cores))
        for each in [*node.running, *node.queue]:
            count = min(ceil(view.cores(each)), len(ends))
            is_running = each in node.running
            time = view.predicted_time(each)
            end = view.started(each) + time if is_running else ends[count - 1] + time
            ends = sorted([end] * count + ends[count:])
        wanted = len(ends) if task is None else ceil(view.cores(task))
        return ends[min(wanted, len(ends)) - 1]

    def left(self, node: BrokerNode, task: int) -> float:
        """The rest of the unit in which an instance would end a task and the margin (s)."""
        end = self.idle_at(node, task) - node.begin + self.margin
        end += self.view.predicted_time(task)
        return self.units(end) * self.unit - end

    # --- the interface of policies ---------------------------------------------------------------

    def instance_changed(self, instance: int, event: str) -> None:
        """Note a change of an instance for the next decision."""
        self._events.append((instance, event))

    def decide(self, view: View) -> Iterator[Decision]:
        """Give the orders that follow from the changes, and assign the tasks that are ready."""
        self.view = view
        failed = self._read_changes()
        yield from self._release_unused()
        for node in failed:
            yield from self._replace(node)
        for node in self._nodes:
            yield from self._start_tasks(node)
        for node in [each for each in self._nodes if each.state == "future"]:
            if node.request_at <= view.now:
                yield from self._request(node)
        # Without a unit an idle instance has nothing left, but it may get a task now.
        if self.unit < inf:
            yield from self._release_idle()
        yield from self._assign_tasks()
        if self.unit == inf:
            yield from self._release_idle()
        yield from self._wake()

    def failed(self, decision: Decision, reason: str) -> None:
        """Request an instance again later, if limits of cores or memory have refused it."""
        if not isinstance(decision, Rent):
            raise ValueError(f"the policy decided {decision}, but {reason}")

    # --- changes ---------------------------------------------------------------------------------

    def _read_changes(self) -> list[BrokerNode]:
        """Process events and ends of tasks; return the nodes that have not booted."""
        failed = []
        for machine, event in self._events:
            self._ending.discard(machine)
            node = next((each for each in self._nodes if each.machine == machine), None)
            if event == "found":
                self._unused.add(machine)
            elif node is None:
                self._unused.discard(machine)
            elif event == "ready":
                node.state, node.ready_at = "ready", self.view.now
            elif node.state == "booting":
                node.state, node.machine = "future", None
                pause = max(self.retry, _SHORTEST_PAUSE)
                node.request_at = self.view.now + (pause if event == "refused" else 0.0)
                failed.append(node)
            else:
                self._nodes.remove(node)
        self._events.clear()
        billing = self._find_cloud().billing
        if billing is not None and billing.counted_from == "start":
            self._find_hosts()
        running, waiting = set(self.view.running), set(self.view.waiting)
        for node in self._nodes:
            node.running = [task for task in node.running if task in running]
            node.queue = [task for task in node.queue if task in waiting]
        return failed

    def _find_hosts(self) -> None:
        """Let the bills and the boots of instances begin when they got their hosts."""
        for node in self._nodes:
            since = None if node.machine is None else self.view.hosted_since(node.machine)
            if since is not None and since != node.begin:
                if node.state == "booting":
                    node.ready_at += since - node.begin
                node.begin = since

    def _replace(self, node: BrokerNode) -> Iterator[Decision]:
        """Let another instance take the place of one that has not booted."""
        self._nodes.remove(node)
        if node.attempts >= self.attempts:
            yield from (Kill(task) for task in node.queue)
            return
        if not node.queue:
            return
        node.attempts += 1
        node.index = self._decided
        node.requested = node.begin = max(self.view.now, node.request_at)
        self._decided += 1
        node.ready_at = node.requested + self.predict_boot()
        self._nodes.append(node)

    def _release_unused(self) -> Iterator[Decision]:
        """Give back the instances of an earlier client that have no tasks."""
        for machine in sorted(self._unused):
            if self.view.task_counts[machine] == 0:
                self._unused.discard(machine)
                yield Release(machine)

    # --- orders ----------------------------------------------------------------------------------

    def _assign_tasks(self) -> Iterator[Decision]:
        view = self.view
        assigned = {task for node in self._nodes for task in [*node.running, *node.queue]}
        ready = [task for task in view.waiting if task not in assigned]
        for task in sorted(ready, key=lambda each: (view.submit(each), each)):
            if not self._fits(self._describe_node(task), task):
                yield Kill(task)
                continue
            order = sorted(self._nodes, key=_comparison_order)
            choice = self.choose(task, [each for each in order if self._fits(each, task)])
            if isinstance(choice, BrokerNode):
                yield from self._assign(task, choice)
            elif choice is RENT and self.can_rent:
                node = self._describe_node(task)
                self._decided += 1
                self._nodes.append(node)
                yield from self._assign(task, node)
            elif choice not in (RENT, None):
                raise TypeError(f"`choose` must return a node, RENT or None, not {choice!r}")

    def _assign(self, task: int, node: BrokerNode) -> Iterator[Decision]:
        start = max(self.idle_at(node, task), self.view.now)
        node.queue.append(task)
        if node.state == "future":
            yield from self._request(node)
        if node.machine is not None:
            yield Reserve(task, start, node.machine)
        yield from self._start_tasks(node)

    def _start_tasks(self, node: BrokerNode) -> Iterator[Decision]:
        view = self.view
        while node.state == "ready" and node.queue and node.machine is not None:
            task = node.queue[0]
            if view.state(node.machine) != "running":
                return
            if view.cores(task) > view.free(node.machine) + 1e-9:
                return
            node.running.append(node.queue.pop(0))
            yield Place(task, node.machine)

    def _request(self, node: BrokerNode) -> Iterator[Decision]:
        if node.request_at > self.view.now:
            return
        self._find_image()  # an unknown one would be refused as if the cloud were full
        size = {"cores": node.cores, "memory": node.memory} if self._find_type().fits else {}
        yield Rent(
            self.cloud,
            self.type,
            self.image,
            **size,
            user=self.view.user(node.queue[0]) if node.queue else None,
        )
        # The index of the instance is known at once, unless the request was refused.
        if not self._events or self._events[-1][1] != "requested":
            node.request_at = self.view.now + max(self.retry, _SHORTEST_PAUSE)
            return
        node.machine, _ = self._events.pop()
        node.state, node.requested, node.begin = "booting", self.view.now, self.view.now

    def _release_idle(self) -> Iterator[Decision]:
        for node in [each for each in self._nodes if each.is_idle]:
            if self.view.now >= self._stop_time(node) and node.machine is not None:
                self._ending.add(node.machine)
                self._nodes.remove(node)
                yield Release(node.machine)

    def _wake(self) -> Iterator[Decision]:
        times = [self._stop_time(node) for node in self._nodes if node.is_idle]
        times += [node.request_at for node in self._nodes if node.state == "future"]
        later = [time for time in times if self.view.now < time < inf]
        if later:
            yield Wake(min(later))

    # --- instances -------------------------------------------------------------------------------

    def _describe_node(self, task: int) -> BrokerNode:
        """Describe a new instance for a task."""
        now, kind = self.view.now, self._find_type()
        return BrokerNode(
            self._decided,
            kind.cores or self.view.cores(task),
            self.view.memory(task) if kind.fits else kind.memory or 0.0,
            requested=now,
            begin=now,
            ready_at=now + self.predict_boot(),
            request_at=now,
        )

    def _stop_time(self, node: BrokerNode) -> float:
        uptime = self.view.now - node.begin
        if self.unit == inf:
            return self.view.now
        return node.begin + self.units(uptime) * self.unit - self.margin

    def _fits(self, node: BrokerNode, task: int) -> bool:
        view = self.view
        has_memory = not node.memory or view.memory(task) <= node.memory * (1 + 1e-9)
        return has_memory and view.cores(task) <= node.cores * (1 + 1e-9)

    def _predict_base(self) -> float:
        boot = self._find_image().boot
        return boot.delay + boot.work / min(boot.limit, self._find_type().cores or inf)

    def _find_cloud(self) -> Cloud:
        return _find_part(self.view.clouds, self.cloud, "cloud")

    def _find_image(self) -> Image:
        return _find_part(self._find_cloud().images, self.image, "image")

    def _find_type(self) -> InstanceType:
        return _find_part(self._find_cloud().types, self.type, "type")


def _comparison_order(node: BrokerNode) -> tuple[bool, float, int]:
    if node.state == "future":
        return False, 0.0, node.index
    return True, node.requested, -node.index


def _find_part(parts: Sequence[_Part], given: int | str, what: str) -> _Part:
    """Find a part of a cloud by its name or position."""
    names = [each.name for each in parts]
    if isinstance(given, int) and given < len(parts):
        return parts[given]
    if given in names:
        return parts[names.index(str(given))]
    raise InputError(
        f"there is no {what} {given!r}",
        kind="unknown-reference",
        field=f"policy.options.{what}",
        remedy=f"one of {', '.join(names)}" if names else "describe `clouds` in the platform",
    )
