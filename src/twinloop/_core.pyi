"""The native engine of Twinloop. Use it through `twinloop.engine`."""

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence
)
from typing import Annotated, Any, Literal, Self, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


class Interrupt(Exception):
    """Raised in a process that is interrupted; `cause` is the reason."""

    @property
    def cause(self) -> object:
        """The argument of `interrupt`."""

class Cancelled(Exception):
    """Raised in a process whose activity is cancelled."""

class StalledError(RuntimeError):
    """
    Raised when activities remain that can never end; the message lists them.
    """

class Event:
    """
    An event that happens once, and that processes can wait for.

    Created by `Environment.event` and triggered by `succeed` or `fail`:

    >>> from twinloop.engine import Environment
    >>> env = Environment()
    >>> ready = env.event()
    >>> def worker():
    ...     value = yield ready
    ...     print(f"{env.now:g}: received {value}")
    >>> process = env.process(worker())
    >>> timer = env.call_later(3, ready.succeed, "data")
    >>> env.run()
    3: received data
    """

    def succeed(self, value: object = None) -> None:
        """Trigger the event with a value for the waiting processes."""

    def fail(self, exception: BaseException) -> None:
        """
        Trigger the event with an exception, which is raised in the waiting processes, or by `run` if no process waits.
        """

    def add_callback(self, function: Callable[[Event], object]) -> None:
        """
        Call `function(event)` when the event happens; immediately if it already has.
        """

    @property
    def triggered(self) -> bool:
        """Whether the event has a value or an exception."""

    @property
    def processed(self) -> bool:
        """Whether the callbacks and waiting processes have run."""

    @property
    def ok(self) -> bool:
        """Whether the event succeeded."""

    @property
    def value(self) -> Any:
        """The value, or the exception of a failed event; None while pending."""

    def __and__(self, other: Event) -> Condition:
        """Condition on both events, as by `all_of`."""

    def __or__(self, other: Event) -> Condition:
        """Condition on either event, as by `any_of`."""

    def __repr__(self) -> str: ...

class Timeout(Event):
    """An event that happens after a delay; see `Environment.timeout`."""

class Process(Event):
    """
    A process: a generator that runs in an environment; see `Environment.process`.

    A process is an event that happens when the generator returns, with the returned value.
    """

    def interrupt(self, cause: object = None) -> None:
        """
        Raise `Interrupt` in the process, at the current time.

        The event that it waited for is not cancelled.

        >>> from twinloop.engine import Environment, Interrupt
        >>> env = Environment()
        >>> def sleeper():
        ...     try:
        ...         yield env.timeout(100)
        ...     except Interrupt as interrupt:
        ...         print(f"{env.now:g}: interrupted by {interrupt.cause}")
        >>> process = env.process(sleeper())
        >>> timer = env.call_later(2, process.interrupt, "timer")
        >>> env.run(until=10)
        2: interrupted by timer
        """

    @property
    def is_alive(self) -> bool:
        """Whether the generator has not returned yet."""

    @property
    def target(self) -> Event | None:
        """The event that the process waits for."""

class Condition(Event):
    """An event that depends on other events; see `all_of` and `any_of`."""

class Timer:
    """
    A scheduled call; see `Environment.call_later` and `Environment.every`.
    """

    def cancel(self) -> bool:
        """Cancel the scheduled calls; False if none was pending."""

    @property
    def pending(self) -> bool:
        """Whether a call is scheduled."""

    @property
    def time(self) -> float | None:
        """The time of the next call; None if none is scheduled."""

def all_of(events: Iterable[Event]) -> Condition:
    """
    Return an event that happens when all `events` have happened; its value maps each to its value.

    >>> from twinloop.engine import Environment, all_of
    >>> env = Environment()
    >>> def both():
    ...     one, two = env.timeout(1, "a"), env.timeout(2, "b")
    ...     values = yield all_of([one, two])
    ...     print(f"{env.now:g}: {values[one]} {values[two]}")
    >>> process = env.process(both())
    >>> env.run()
    2: a b
    """

def any_of(events: Iterable[Event]) -> Condition:
    """
    Return an event that happens when the first of `events` happens; its value maps the events that have
    happened to their values.

    >>> from twinloop.engine import Environment, any_of
    >>> env = Environment()
    >>> def job(host):
    ...     work, deadline = host.execute(5), env.timeout(3)
    ...     happened = yield any_of([work, deadline])
    ...     print(f"{env.now:g}: {'done' if work in happened else 'too late'}")
    >>> process = env.process(job(env.resource(1)))
    >>> env.run()
    3: too late
    """

class Resource:
    """
    A capacity that activities share: cores, bandwidth, a disk. Created by `Environment.resource`.

    Sharing is max-min fair: each running activity gets min(limit, weight x level), where the level is
    such that the rates add up to the capacity.

    >>> from twinloop.engine import Environment
    >>> env = Environment()
    >>> host = env.resource(capacity=4, name="host")
    >>> narrow = host.execute(10, limit=1)
    >>> wide = host.execute(30)
    >>> narrow.rate, wide.rate, host.level
    (1.0, 3.0, 3.0)
    >>> env.run()
    >>> env.now, host.consumed
    (10.0, 40.0)
    """

    def execute(self, work: float, *, limit: float | None = None, weight: float = 1.0, kind: int = 0, priority: int = 0, latency: float = 0.0, at: float | None = None, name: str | None = None) -> Activity:
        """
        Start an activity of so much `work` on the resource; `Environment.start` describes the options.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(2)
        >>> def job():
        ...     yield host.execute(6)
        ...     return env.now
        >>> env.run(until=env.process(job()))
        3.0
        """

    def set_capacity(self, capacity: float) -> None:
        """Set the capacity from now on; 0 stops all activities on the resource."""

    def set_profile(self, times: Sequence[float], capacities: Sequence[float], period: float | None = None) -> None:
        """
        Set the capacity over time: at each of `times` it changes to the corresponding value of `capacities`.

        With a period the steps repeat. An earlier profile is replaced.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(1)
        >>> host.set_profile([10, 20], [0, 1])
        >>> job = host.execute(15)
        >>> env.run()
        >>> job.finished
        25.0
        """

    def set_cost(self, idle: float, full: float) -> None:
        """
        Set the cost per second, such as the power, from now on: `idle` when unused, `full` when all of the
        capacity is in use, linear in between.

        While activities use the resource, its cost is charged to them in proportion to their rates; the cost
        of an unused resource is charged to none.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(4, name="host")
        >>> host.set_cost(idle=100, full=300)
        >>> jobs = [host.execute(30, limit=1), host.execute(30, limit=3)]
        >>> env.run(until=10)
        >>> host.cost, [job.cost for job in jobs]
        (3000.0, [750.0, 2250.0])
        """

    def remove_cost(self) -> None:
        """End the cost of the resource, as when a machine is switched off."""

    @property
    def cost(self) -> float:
        """The cost so far: the integral of the cost per second."""

    @property
    def capacity(self) -> float:
        """The current capacity."""

    @property
    def level(self) -> float:
        """
        The rate per unit of weight of the activities below their limit; infinite if there are none.
        """

    @property
    def rate(self) -> float:
        """The capacity in use now."""

    @property
    def consumed(self) -> float:
        """The capacity consumed so far: the integral of `rate`."""

    @property
    def done(self) -> float:
        """The work done so far: consumption times efficiency."""

    @property
    def running(self) -> int:
        """The number of activities that use the resource now."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def index(self) -> int:
        """The index among the resources of the environment, from 0."""

    @property
    def env(self) -> Environment:
        """The environment."""

    def __repr__(self) -> str: ...

    def lease(self, size: float, *, weight: float | None = None, name: str | None = None) -> Resource:
        """
        Create a lease on this resource, its host: a resource of its own, such as a virtual machine.

        The lease gets at most its `size`, at most what its activities can use, and else its fair share of the
        host by `weight` (default: its size); its activities share what it gets. What it leaves is shared by
        the others on the host. The sizes of the leases may add up to more than the capacity of the host.

        A resource with leases, and a lease, can only be used alone: activities that use several resources at
        once, and leases of leases, are refused.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(3, name="host")
        >>> large, small = host.lease(4, name="large"), host.lease(2, name="small")
        >>> narrow, wide = large.execute(10, limit=0.5), large.execute(10)
        >>> other = small.execute(10)
        >>> large.rate, small.rate, narrow.rate, wide.rate
        (2.0, 1.0, 0.5, 1.5)
        """

    def resize(self, size: float) -> None:
        """
        Set the size of a lease, and its weight, if that is its size. The same as `set_capacity`; 0 stops its activities.
        """

    def set_weight(self, weight: float) -> None:
        """Set the weight of a lease on its host."""

    def suspend(self) -> None:
        """
        Pause all activities of a lease; the work done is kept, and the host is free for others.
        """

    def resume(self) -> None:
        """Continue a lease after `suspend`."""

    def move(self, host: Resource) -> None:
        """
        Move a lease with its activities to another host; the work done is kept.
        """

    def release(self) -> None:
        """
        End a lease: its activities are cancelled, and it cannot be used any more.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(2)
        >>> lease = host.lease(1)
        >>> job = lease.execute(10)
        >>> env.run(until=4)
        >>> lease.release()
        >>> job.state, job.done, lease.consumed, host.running
        ('cancelled', 4.0, 4.0, 0)
        """

    @property
    def host(self) -> Resource | None:
        """The host of a lease; None for other resources."""

    @property
    def leases(self) -> list[Resource]:
        """The leases on this resource."""

    @property
    def weight(self) -> float | None:
        """The weight of a lease on its host; None for other resources."""

    @property
    def suspended(self) -> bool:
        """Whether it is a lease that is suspended."""

class Activity(Event):
    """
    Work in progress on one or more resources; see `Environment.start`.

    An activity is an event that happens when the work is done. If it is cancelled, `Cancelled` is raised
    in the waiting processes.

    >>> from twinloop.engine import Environment
    >>> env = Environment()
    >>> host = env.resource(1)
    >>> job = host.execute(10, name="job")
    >>> env.run(until=4)
    >>> job.done, job.remaining
    (4.0, 6.0)
    >>> job.suspend(); env.run(until=10); job.resume()
    >>> env.run()
    >>> job.finished
    16.0
    """

    def suspend(self) -> None:
        """Pause the activity; the work done is kept."""

    def resume(self) -> None:
        """Continue after `suspend`."""

    def cancel(self) -> None:
        """End the activity now, unfinished."""

    def set_limit(self, limit: float | None) -> None:
        """Set the maximum rate; None removes it, 0 stops the activity."""

    def set_weight(self, weight: float) -> None:
        """Set the weight."""

    def set_remaining(self, work: float) -> None:
        """Set the remaining work."""

    def move(self, to: Resource | Iterable[Resource]) -> None:
        """Use other resources from now on; the work done is kept."""

    @property
    def remaining(self) -> float:
        """The remaining work."""

    @property
    def done(self) -> float:
        """The work done."""

    @property
    def consumed(self) -> float:
        """
        The capacity consumed: more than the work done where the efficiency is below 1.
        """

    @property
    def cost(self) -> float:
        """
        The cost charged to the activity by its resources; see `Resource.set_cost`.
        """

    @property
    def rate(self) -> float:
        """The capacity in use now, per second."""

    @property
    def limit(self) -> float | None:
        """The maximum rate; None if unlimited."""

    @property
    def weight(self) -> float:
        """The weight."""

    @property
    def kind(self) -> int:
        """The kind."""

    @property
    def priority(self) -> int:
        """The priority."""

    @property
    def state(self) -> Literal['waiting', 'running', 'suspended', 'finished', 'cancelled']:
        """The state of the activity."""

    @property
    def started(self) -> float | None:
        """The start time; None before the start."""

    @property
    def finished(self) -> float | None:
        """The end time; None before the end."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources in use."""

    @property
    def name(self) -> str:
        """The name."""

    def __repr__(self) -> str: ...

class Observer:
    """Callbacks on activities and rates; see `Environment.observe`."""

    def stop(self) -> None:
        """Remove the callbacks."""

class Recording:
    """The rates of all resources over time; see `Environment.record`."""

    def rates(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """
        Return the columns `t`, `resource` (index) and `rate`: a row per change, valid until the next row of the same resource.
        """

    def stop(self) -> None:
        """Stop recording; the recorded rates are kept."""

class Environment:
    """
    A discrete-event simulation: a clock, an event queue, and resources that activities share.

    Processes are generators that yield the events they wait for:

    >>> from twinloop.engine import Environment
    >>> env = Environment()
    >>> host = env.resource(capacity=1, name="host")
    >>> def job(name, work):
    ...     yield host.execute(work)
    ...     print(f"{env.now:g}: {name} done")
    >>> for name, work in [("short", 2), ("long", 4)]:
    ...     process = env.process(job(name, work))
    >>> env.run()
    4: short done
    6: long done

    `start` is the initial time of the clock. `sharing` is the rule by which activities share a resource:
    "max-min" (each gets min(limit, weight x level)) or "strict-priority" (higher priorities are served
    first; equal priorities share max-min).
    """

    def __init__(self, *, start: float = 0.0, sharing: Literal['max-min', 'strict-priority'] = 'max-min') -> None: ...

    @property
    def now(self) -> float:
        """The current time in seconds."""

    @property
    def active_process(self) -> Process | None:
        """The process that runs now; None outside of processes."""

    @property
    def events(self) -> int:
        """
        The number of events so far: starts and ends of activities, timers, steps of profiles.
        """

    def event(self) -> Event:
        """Create an event, which is triggered by `succeed` or `fail`."""

    def process(self, generator: Generator[Event, Any, object]) -> Process:
        """
        Start a process: the generator runs from event to event, beginning now.
        """

    def every(self, period: float, function: Callable[..., object], *args: object, start: float | None = None, count: int | None = None) -> Timer:
        """
        Call `function(*args)` periodically: first at `start` (by default one period from now), `count` times
        or until cancelled.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> timer = env.every(10, lambda: print(f"tick at {env.now:g}"), count=3)
        >>> env.run()
        tick at 10
        tick at 20
        tick at 30
        """

    def run(self, until: float | Event | None = None) -> Any:
        """
        Run to the end, until a time, or until an event has happened; return the value of that event.

        Events at the time `until` itself are left for the next run. A run to the end raises `StalledError`
        if activities remain that can never end:

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(0, name="host")
        >>> job = host.execute(1, name="job")
        >>> env.run()
        Traceback (most recent call last):
            ...
        twinloop.engine.StalledError: 1 activity can never end:
          job: the capacity of host is 0 and nothing is left to change it
        """

    def step(self) -> bool:
        """
        Process the next event (simultaneous ends on one resource count as one); return False if there is none.
        """

    def peek(self) -> float:
        """Return the time of the next event; infinity if there is none."""

    def jump(self, to: float) -> None:
        """Advance the clock without events; an event before `to` is an error."""

    def skip(self, to: float) -> int:
        """
        Advance the clock and drop the timers before `to`; return the number of dropped calls.

        Recurring timers continue with their first time at or after `to`. Activities are not dropped: they
        continue and end at their usual times.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> timer = env.every(10, lambda: print(f"tick at {env.now:g}"))
        >>> env.skip(95)
        9
        >>> env.run(until=101)
        tick at 100
        """

    def resource(self, capacity: float, name: str | None = None, *, efficiency: Mapping[int, Sequence[float]] | Callable[[dict[int, int]], Mapping[int, float]] | None = None) -> Resource:
        """
        Create a resource.

        `efficiency` is the share of its consumption that an activity turns into work, depending on the other
        activities there: a mapping of kind to the values for one, two, ... activities (the last value also
        applies to more), or a function from counts by kind to efficiencies by kind, which must not use the
        environment.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(2, efficiency={0: [1.0, 0.8]})
        >>> jobs = [host.execute(8, limit=1) for _ in range(2)]
        >>> env.run()
        >>> env.now, jobs[0].consumed, jobs[0].done
        (10.0, 10.0, 8.0)
        """

    def start(self, work: float, resources: Resource | Iterable[Resource], *, limit: float | None = None, weight: float = 1.0, kind: int = 0, priority: int = 0, latency: float = 0.0, at: float | None = None, name: str | None = None) -> Activity:
        """
        Start an activity that uses one or more resources, at the same rate on all of them.

        `limit` is its maximum rate, `weight` its weight in the sharing, `kind` the index of its efficiency,
        `priority` its rank under strict priority. It starts after `latency` seconds, or at the time `at`.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> up, down = env.resource(100, "up"), env.resource(40, "down")
        >>> transfer = env.start(800, [up, down])
        >>> env.run()
        >>> transfer.finished
        20.0
        """

    @property
    def activities(self) -> list[Activity]:
        """The activities that have not ended, in the order of their start."""

    @property
    def resources(self) -> list[Resource]:
        """All resources, without leases that were released, by their index."""

    def influence_group(self, resource: Resource) -> list[Resource]:
        """
        Return the resources that activities couple to this one, directly or indirectly, including itself.
        """

    @property
    def network(self) -> Network | None:
        """The network of the environment, if `Network(env)` has made one."""

    def observe(self, *, started: Callable[[Activity], object] | None = None, ended: Callable[[Activity], object] | None = None, rate: Callable[[Resource], object] | None = None) -> Observer:
        """
        Register callbacks for the start and the end of activities and for changes of the rate of resources.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(2, "host")
        >>> observer = env.observe(rate=lambda r: print(f"{env.now:g}: {r.name} at {r.rate:g}"))
        >>> job = host.execute(5, limit=1)
        >>> env.run()
        0: host at 1
        5: host at 0
        """

    def record(self) -> Recording:
        """
        Record the rates of all resources from now on, without calls into Python.
        """

    def copy(self) -> Environment:
        """
        Return an independent copy of the simulation, which gives the same results.

        Python code cannot be copied: an environment with running processes, pending timers or activities
        that a process waits for raises an error. Observers are not copied; efficiency functions are shared.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(1)
        >>> job = host.execute(10)
        >>> env.run(until=3)
        >>> what_if = env.copy()
        >>> what_if.counterpart(host).set_capacity(7)
        >>> what_if.run(); env.run()
        >>> what_if.now, env.now
        (4.0, 10.0)
        """

    @overload
    def counterpart(self, original: Resource) -> Resource:
        """
        Return the resource or activity of this copy that corresponds to one of the original.
        """

    @overload
    def counterpart(self, original: Activity) -> Activity: ...

    def __repr__(self) -> str: ...

    def timeout(self, delay: float, value: object = None) -> Timeout:
        """
        Create an event that happens after `delay` seconds, for a process to yield.
        """

    def call_at(self, time: float, function: Callable[..., object], *args: object) -> Timer:
        """Call `function(*args)` at an absolute time."""

    def call_later(self, delay: float, function: Callable[..., object], *args: object) -> Timer:
        """
        Call `function(*args)` after `delay` seconds.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> timer = env.call_later(5, print, "five")
        >>> other = env.call_later(9, print, "nine")
        >>> other.cancel()
        True
        >>> env.run()
        five
        """

class Network:
    """
    The network of an environment: nodes with full-duplex ports, links, routes and data stores.

    Without links, all nodes are connected to one switch, and only their ports bound a transfer. With
    links, a transfer takes the declared route between its ends, else the path of the least latency (among
    equals, of the fewest links). Bandwidths are in bytes per second; None is unlimited. `latency` is that
    of every route, in addition to the latencies of its links. An environment has one network at most.

    >>> from twinloop.engine import Environment, Network
    >>> env = Environment()
    >>> network = Network(env, latency=0.5)
    >>> for name in ("a", "b", "c"):
    ...     network.node(name, send=10.0, receive=10.0)
    >>> first, second = network.transfer("a", "b", 45.0), network.transfer("a", "c", 20.0)
    >>> env.run()
    >>> second.finished, first.finished
    (4.5, 7.0)
    """

    def __init__(self, env: Environment, latency: float = 0.0) -> None: ...

    def node(self, name: str, *, send: float | None = None, receive: float | None = None) -> None:
        """
        Add a node: a host or a switch, with the bandwidths of its port in both directions.
        """

    def link(self, a: str, b: str, bandwidth: float | None = None, *, latency: float = 0.0, duplex: bool = True, name: str | None = None) -> None:
        """
        Add a link between two nodes; a link that is not `duplex` shares its bandwidth between both directions.
        """

    def route(self, source: str, target: str, links: Sequence[str], *, latency: float | None = None) -> None:
        """
        Declare the links of the transfers from one node to another, by name; a `latency` replaces that of the network and of the links.
        """

    def store(self, name: str, *, node: str | None = None, capacity: float | None = None, read: float | None = None, write: float | None = None, streams: int | None = None) -> DataStore:
        """
        Add a store at a node; without one, at a node of its own with the same name. At most `streams` transfers are served at once, first come, first served.
        """

    def transfer(self, source: str | DataStore, target: str | DataStore, size: float | None = None, *, file: str | None = None, limit: float | None = None, weight: float = 1.0, name: str | None = None) -> Activity:
        """
        Start a transfer from a node or a store to another, and return its activity.

        It waits for a stream of its stores, then for the latency of its route, as it is now, and then moves
        at the rate that the ports, links and stores on its way leave it. A store that is written promises the
        capacity at once; without space the transfer is refused. `file` is the name of the file that is read
        from a store, whose size it has, or that is written to one. Cancelling gives everything back.

        >>> from twinloop.engine import Environment, Network
        >>> env = Environment()
        >>> network = Network(env)
        >>> disk = network.store("disk", capacity=100.0, write=10.0, streams=1)
        >>> network.node("host")
        >>> one = network.transfer("host", disk, 50.0, file="one")
        >>> two = network.transfer("host", disk, 30.0, file="two")
        >>> disk.promised, disk.waiting
        (80.0, 1)
        >>> env.run(until=6.0)
        >>> two.cancel(); disk.files, disk.free
        ({'one': 50.0}, 50.0)
        """

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""

    @property
    def stores(self) -> dict[str, DataStore]:
        """The stores by name."""

    @property
    def transfers(self) -> int:
        """The number of transfers that have not ended."""

    def __repr__(self) -> str: ...

class DataStore:
    """
    A store of files at a node of a network. Created by `Network.store`.

    >>> from twinloop.engine import Environment, Network
    >>> env = Environment()
    >>> network = Network(env)
    >>> disk = network.store("disk", capacity=100.0, read=10.0)
    >>> disk.put("input", 40.0)
    >>> network.node("host")
    >>> copy = network.transfer(disk, "host", file="input")
    >>> env.run()
    >>> env.now, disk.used
    (4.0, 40.0)
    """

    def put(self, item: object) -> StorePut:
        """
        Store a file at once, without a transfer; a file of that name is replaced.
        """

    def delete(self, file: str) -> None:
        """Delete a file; transfers that read it continue."""

    @property
    def files(self) -> dict[str, float]:
        """
        The files and their sizes (bytes). The call visits the file names of the network.
        """

    @property
    def used(self) -> float:
        """The bytes of the files."""

    @property
    def promised(self) -> float:
        """The bytes that transfers in progress will write."""

    @property
    def free(self) -> float:
        """The bytes that are neither used nor promised."""

    @property
    def capacity(self) -> float:
        """The capacity (bytes); infinite if unlimited."""

    @property
    def streams(self) -> int:
        """The number of transfers that the store serves now."""

    @property
    def waiting(self) -> int:
        """The number of transfers that wait for a stream."""

    @property
    def name(self) -> str:
        """The name."""

    def __repr__(self) -> str: ...

class SequenceView:
    """
    A read-only view of the queue, the users or the items of a resource, always up to date.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int | slice) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __contains__(self, item: object) -> bool: ...

    def __eq__(self, other: object) -> bool: ...

    def index(self, item: object) -> int:
        """Return the position of an item; `ValueError` if there is none."""

    def count(self, item: object) -> int:
        """Return how often an item occurs."""

    def __repr__(self) -> str: ...

class Put(Event):
    """
    A request, or a put into a store or a container: an event that can be cancelled, also by the end of a `with` block.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def cancel(self) -> None:
        """Leave the queue; an operation that has been carried out is not undone."""

    @property
    def resource(self) -> BaseResource:
        """The resource."""

    @property
    def proc(self) -> Process | None:
        """The process that made the operation; None outside of processes."""

class Get(Event):
    """
    A release, or a get from a store or a container: an event that can be cancelled, also by the end of a `with` block.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def cancel(self) -> None:
        """Leave the queue; an operation that has been carried out is not undone."""

    @property
    def resource(self) -> BaseResource:
        """The resource."""

    @property
    def proc(self) -> Process | None:
        """The process that made the operation; None outside of processes."""

class BaseResource:
    """
    What all resources with queues have: a capacity, and operations that wait.
    """

    @property
    def capacity(self) -> float:
        """The capacity."""

    @property
    def put_queue(self) -> SequenceView:
        """The puts or requests that wait, in the order of service."""

    @property
    def get_queue(self) -> SequenceView:
        """The gets that wait, in the order of service."""

class Request(Put):
    """
    A request for a slot; the end of its `with` block frees the slot or leaves the queue.
    """

    def __exit__(self, *_: object) -> None: ...

    @property
    def usage_since(self) -> float | None:
        """The time at which the slot was granted; None before."""

class PriorityRequest(Request):
    """A request with a priority."""

    @property
    def priority(self) -> float:
        """The priority; the least is served first."""

    @property
    def preempt(self) -> bool:
        """Whether the request may take the slot of a less urgent user."""

    @property
    def time(self) -> float:
        """The time of the request."""

class Release(Get):
    """The release of a slot, which happens at once."""

    @property
    def request(self) -> Request:
        """The request whose slot is released."""

class Preempted:
    """
    The cause of the `Interrupt` of a process whose slot was taken; see `PreemptiveResource`.
    """

    @property
    def by(self) -> Process | None:
        """The process that has taken the slot."""

    @property
    def usage_since(self) -> float:
        """The time from which the process had the slot."""

    @property
    def resource(self) -> PreemptiveResource:
        """The resource."""

class StorePut(Put):
    """An item on its way into a store."""

    @property
    def item(self) -> Any:
        """The item."""

class StoreGet(Get):
    """A wait for an item of a store, which is its value."""

class FilterStoreGet(StoreGet):
    """A wait for an item that a filter accepts, which is its value."""

    @property
    def filter(self) -> Callable[[Any], object] | None:
        """The filter; None accepts every item."""

class ContainerPut(Put):
    """An amount on its way into a container."""

    @property
    def amount(self) -> float:
        """The amount."""

class ContainerGet(Get):
    """A wait for an amount of a container."""

    @property
    def amount(self) -> float:
        """The amount."""

class QueueingResource(BaseResource):
    """
    Slots that processes request, hold and release: `capacity` of them, first come, first served.

    `twinloop.engine.queueing.Resource`. The `with` block frees the slot, or leaves the queue, however it
    ends:

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import Resource
    >>> env = Environment()
    >>> counter = Resource(env, capacity=1)
    >>> def customer(name, service):
    ...     with counter.request() as turn:
    ...         yield turn
    ...         yield env.timeout(service)
    ...     print(f"{env.now:g}: {name} leaves, {len(counter.queue)} waiting")
    >>> for name, service in [("first", 6), ("second", 1), ("third", 2)]:
    ...     process = env.process(customer(name, service))
    >>> env.run()
    6: first leaves, 2 waiting
    7: second leaves, 1 waiting
    9: third leaves, 0 waiting
    """

    def __init__(self, env: Environment, capacity: float = 1) -> None: ...

    def request(self) -> Request:
        """Request a slot; the event happens when it is granted."""

    def release(self, request: Request) -> Release:
        """
        Free the slot of a request; the next one is served when the returned event happens.

        The end of `with resource.request()` does the same. A request that holds no slot is left alone.
        """

    @property
    def count(self) -> int:
        """The number of slots in use."""

    @property
    def users(self) -> SequenceView:
        """The requests that hold a slot, in the order in which they got it."""

    @property
    def queue(self) -> SequenceView:
        """The requests that wait, in the order of service."""

class PriorityResource(QueueingResource):
    """
    Slots for which requests wait in the order of their priorities; the least is served first.

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import PriorityResource
    >>> env = Environment()
    >>> doctor = PriorityResource(env, capacity=1)
    >>> def patient(name, priority):
    ...     with doctor.request(priority=priority) as turn:
    ...         yield turn
    ...         print(f"{env.now:g}: {name}")
    ...         yield env.timeout(10)
    >>> for name, priority in [("cold", 3), ("check-up", 5), ("fracture", 1)]:
    ...     process = env.process(patient(name, priority))
    >>> env.run()
    0: cold
    10: fracture
    20: check-up
    """

    def __init__(self, env: Environment, capacity: float = 1) -> None: ...

    def request(self, priority: float = 0, preempt: bool = True) -> PriorityRequest:
        """
        Request a slot; of the waiting requests, the one with the least `priority` is served first.

        With a `PreemptiveResource`, `preempt` lets the request take the slot of a less urgent user.
        """

class PreemptiveResource(PriorityResource):
    """
    Slots that an urgent request takes from the least urgent user, which is interrupted.

    The `cause` of the `Interrupt` is a `Preempted`. With `preempt=False`, a request waits.

    >>> from twinloop.engine import Environment, Interrupt
    >>> from twinloop.engine.queueing import PreemptiveResource
    >>> env = Environment()
    >>> machine = PreemptiveResource(env)
    >>> def use(name, priority, start, duration):
    ...     yield env.timeout(start)
    ...     with machine.request(priority) as turn:
    ...         yield turn
    ...         try:
    ...             yield env.timeout(duration)
    ...             print(f"{env.now:g}: {name} is done")
    ...         except Interrupt as interrupt:
    ...             used = env.now - interrupt.cause.usage_since
    ...             print(f"{env.now:g}: {name} loses the machine after {used:g} s")
    >>> jobs = [env.process(use("long", 2, 0, 10)), env.process(use("urgent", 1, 4, 3))]
    >>> env.run()
    4: long loses the machine after 4 s
    7: urgent is done
    """

    def __init__(self, env: Environment, capacity: float = 1) -> None: ...

class Store(BaseResource):
    """
    Up to `capacity` items, any objects: the first that was put is the first that a get returns.

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import Store
    >>> env = Environment()
    >>> belt = Store(env, capacity=2)
    >>> def produce():
    ...     for item in ["a", "b", "c"]:
    ...         yield belt.put(item)
    ...         print(f"{env.now:g}: {item} on the belt")
    >>> def consume():
    ...     while True:
    ...         yield env.timeout(5)
    ...         item = yield belt.get()
    ...         print(f"{env.now:g}: {item} taken")
    >>> processes = [env.process(produce()), env.process(consume())]
    >>> env.run(until=11)
    0: a on the belt
    0: b on the belt
    5: a taken
    5: c on the belt
    10: b taken
    >>> belt.items
    ['c']
    """

    def __init__(self, env: Environment, capacity: float = float('inf')) -> None: ...

    def put(self, item: object) -> StorePut:
        """Put an item; the event happens when there is space."""

    def get(self) -> StoreGet:
        """Get an item, the value of the event."""

    @property
    def items(self) -> SequenceView:
        """The items in the store."""

class PriorityStore(Store):
    """
    Items of which a get returns the least, by `<`; `PriorityItem` gives any object a priority.

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import PriorityItem, PriorityStore
    >>> env = Environment()
    >>> inbox = PriorityStore(env)
    >>> def work():
    ...     yield inbox.put(PriorityItem(3, "invoice"))
    ...     yield inbox.put(PriorityItem(1, "alarm"))
    ...     first = yield inbox.get()
    ...     print(first.item)
    >>> process = env.process(work())
    >>> env.run()
    alarm
    """

    def __init__(self, env: Environment, capacity: float = float('inf')) -> None: ...

class FilterStore(Store):
    """
    Items of which a get returns the first that its filter accepts; other gets do not wait for it.

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import FilterStore
    >>> env = Environment()
    >>> pool = FilterStore(env)
    >>> def work():
    ...     for size in [2, 8, 4]:
    ...         yield pool.put(size)
    ...     found = yield pool.get(lambda size: size >= 4)
    ...     print(found, pool.items)
    >>> process = env.process(work())
    >>> env.run()
    8 [2, 4]
    """

    def __init__(self, env: Environment, capacity: float = float('inf')) -> None: ...

    def get(self) -> StoreGet:
        """
        Get the first item for which `filter(item)` is true, the value of the event.
        """

class Container(BaseResource):
    """
    An amount between 0 and `capacity` that processes add to and take from, initially `init`.

    >>> from twinloop.engine import Environment
    >>> from twinloop.engine.queueing import Container
    >>> env = Environment()
    >>> tank = Container(env, capacity=100, init=20)
    >>> def car():
    ...     yield tank.get(50)
    ...     print(f"{env.now:g}: refuelled, {tank.level} left")
    >>> def tanker():
    ...     yield env.timeout(8)
    ...     yield tank.put(60)
    >>> processes = [env.process(car()), env.process(tanker())]
    >>> env.run()
    8: refuelled, 30 left
    """

    def __init__(self, env: Environment, capacity: float = float('inf'), init: float = 0) -> None: ...

    def put(self, amount: float) -> ContainerPut:
        """Add an amount; the event happens when there is space for all of it."""

    def get(self, amount: float) -> ContainerGet:
        """Take an amount; the event happens when all of it is there."""

    @property
    def level(self) -> float:
        """The amount now; an integer if only integers were added and taken."""

class ColumnRun:
    """The result of `run_columns`."""

    @property
    def finish(self) -> numpy.typing.NDArray[numpy.float64]:
        """The finish time of each row."""

    @property
    def events(self) -> int:
        """The number of starts and ends."""

    @property
    def rates(self) -> dict[str, numpy.typing.NDArray[Any]] | None:
        """
        With `record`: the rates over time, in the columns of `Recording.rates`.
        """

def run_columns_native(start: numpy.typing.NDArray[numpy.float64], work: numpy.typing.NDArray[numpy.float64], *, capacity: numpy.typing.NDArray[numpy.float64] | None, resource: numpy.typing.NDArray[numpy.int64] | None, limit: numpy.typing.NDArray[numpy.float64] | None, weight: numpy.typing.NDArray[numpy.float64] | None, kind: numpy.typing.NDArray[numpy.int64] | None, efficiency: Mapping[int, Sequence[float]] | None, lease_host: numpy.typing.NDArray[numpy.int64] | None, lease_size: numpy.typing.NDArray[numpy.float64] | None, lease_weight: numpy.typing.NDArray[numpy.float64] | None, record: bool) -> ColumnRun:
    """
    Native part of `twinloop.engine.run_columns`, which converts its arguments to columns.
    """

class ParsedTable:
    """Columns exported through the Arrow C stream interface without a copy."""

    def __len__(self) -> int: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class LineProblem:
    """
    A kind of problem with a field: number of occurrences and first examples.
    """

    @property
    def kind(self) -> str: ...

    @property
    def field(self) -> int:
        """Index of the field from 0; -1 for the whole line."""

    @property
    def count(self) -> int: ...

    @property
    def places(self) -> list[tuple[int, int, bytes]]:
        """
        Line number, number of fields, and beginning of the text of the first examples.
        """

class SwfParser:
    """Parser of the Standard Workload Format, fed in pieces of any size."""

    def __init__(self) -> None: ...

    def feed(self, data: bytes) -> None:
        """Parse the next bytes."""

    def finish(self) -> ParsedTable:
        """Finish parsing and return the table."""

    @property
    def problems(self) -> list[LineProblem]:
        """The problems found so far."""

    @property
    def header(self) -> list[bytes]:
        """The comment lines before the first record, without the semicolon."""

class JsonLinesParser:
    """Parser of flat JSON objects, one per line, fed in pieces of any size."""

    def __init__(self, columns: Sequence[tuple[str, str]], integer_limit: int = 9223372036854775807) -> None:
        """Columns are pairs of a name and `int64`, `float64` or `string`."""

    def feed(self, data: bytes) -> None:
        """Parse the next bytes."""

    def finish(self) -> ParsedTable:
        """Finish parsing and return the table."""

    @property
    def problems(self) -> list[LineProblem]:
        """The problems found so far."""

    @property
    def others(self) -> dict[str, int]:
        """
        Number of occurrences of each field that is no column; '' counts those beyond the first 256.
        """

def plan_static_list(method: str, costs: list[list[float]], edges: list[tuple[int, int, float]], slots: list[int], widths: list[int]) -> list[tuple[int, float, float]]:
    """
    Plan tasks with the method `heft` or `cpop`, from their cost on each machine: the machine, the start and the end of each.
    """

class NativePolicy:
    """
    A built-in policy, created from the options of `native()` of its description.
    """

    def __init__(self, options: dict[str, object]) -> None: ...

class View:
    """
    The state that a policy may read: waiting and running tasks, free capacity. Tasks and machines are indices from 0.
    """

    @property
    def now(self) -> float:
        """The current time (s)."""

    @property
    def waiting(self) -> list[int]:
        """The waiting tasks, in the order in which they became ready."""

    @property
    def first_waiting(self) -> int | None:
        """The task that has waited longest; None if no task waits."""

    @property
    def running(self) -> list[int]:
        """The running tasks, in no order."""

    @property
    def machines(self) -> int:
        """The number of machines."""

    @property
    def free_cores(self) -> numpy.typing.NDArray[numpy.float64]:
        """The free cores of each machine; 0 if it is down."""

    @property
    def free_memory(self) -> numpy.typing.NDArray[numpy.float64]:
        """The free memory of each machine (bytes); infinite if not specified."""

    def free(self, machine: int) -> float:
        """The free cores of one machine."""

    @property
    def capacity(self) -> numpy.typing.NDArray[numpy.float64]:
        """The cores of each machine."""

    @property
    def task_counts(self) -> numpy.typing.NDArray[numpy.float64]:
        """The number of tasks on each machine."""

    def cores(self, task: int) -> float:
        """The requested cores of a task."""

    def memory(self, task: int) -> float:
        """The requested memory of a task (bytes)."""

    def nodes(self, task: int) -> int:
        """The requested nodes of a task; 0 if its cores may be on any nodes."""

    def requested_time(self, task: int) -> float:
        """The planned run time of a task (s)."""

    def predicted_time(self, task: int) -> float:
        """The run time that the user predicts (s)."""

    def submit(self, task: int) -> float:
        """
        The submission time of a task in this run (s); NaN before the submission.
        """

    def submit_recorded(self, task: int) -> float:
        """
        The submission time of a task in the recorded run (s). Users with sessions submit earlier or later in this run.
        """

    def priority(self, task: int) -> float:
        """The priority of the queue of a task."""

    def user(self, task: int) -> str | None:
        """The user of a task."""

    def queue(self, task: int) -> str | None:
        """The queue of a task."""

    def id(self, task: int) -> str | None:
        """The name of a task."""

    def machine_name(self, machine: int) -> str | None:
        """The name of a machine."""

    def state(self, machine: int) -> str:
        """
        The state of a machine: "running", "off", "down", or another of its states.
        """

    def hosted_since(self, machine: int) -> float | None:
        """
        The time at which an instance that the client has rented got its first host.

        None for other machines, and before it has one.
        """

    def host(self, machine: int) -> int | None:
        """The host of an instance; None of other machines."""

    @property
    def states(self) -> list[str]:
        """The state of each machine."""

    def transition_end(self, machine: int) -> float | None:
        """
        The time at which the current transition of a machine ends (s); None if it is in no transition.
        """

    def planned_end(self, task: int) -> float:
        """The planned end of a running task (s)."""

    def started(self, task: int) -> float:
        """The start time of a running task (s)."""

    def placement(self, task: int) -> list[tuple[int, float]]:
        """The machines of a running task and its cores on each."""

    def min_cores(self, task: int) -> float:
        """
        The fewest cores of a task on one machine: without a speed-up law, those it requests.
        """

    def max_cores(self, task: int) -> float:
        """
        The most cores of a task on one machine: without a speed-up law, those it requests.
        """

    def speedup(self, task: int, cores: float) -> float | None:
        """
        The speed of a task on so many cores of one machine, as a multiple of that on one core; None if it has no speed-up law.
        """

    def efficiency(self, task: int, cores: float) -> float | None:
        """
        The speed-up of a task divided by the cores; None if it has no speed-up law.
        """

    @property
    def clouds(self) -> tuple[Any, ...]:
        """The descriptions of the clouds, for their client."""

    @property
    def rented(self) -> list[int]:
        """
        The machines that are rented instances, also those that have not started yet.
        """

    @property
    def spot_prices(self) -> tuple[float | None, ...]:
        """
        The present spot price of each cloud, for its client; None if it has none.
        """

    def is_starting(self, task: int) -> bool:
        """Of a cloud: whether an instance has not reached the end of its boot."""

    def is_migrating(self, task: int) -> bool:
        """Of a cloud: whether an instance moves to another host."""

    def used_cores(self, task: int) -> float:
        """Of a cloud: the cores of an instance that its tasks use."""

KPI_NAMES: tuple[str, ...]

def run_many(scenario: NativeScenario, policy: object, matrix: numpy.typing.NDArray[numpy.float64], value_columns: ValueColumns | None = None, *, threads: int, figures: bool, columns: list[str]) -> tuple[numpy.typing.NDArray[numpy.float64], list[numpy.typing.NDArray[numpy.float64]], numpy.typing.NDArray[numpy.float64]]: ...

class LoadProfile:
    """The load of the machines in each window of a run."""

    @property
    def windows(self) -> int: ...

    def watts(self, scenario: NativeScenario, matrix: numpy.typing.NDArray[numpy.float64], columns: ValueColumns | None = None, *, threads: int) -> numpy.typing.NDArray[numpy.float64]: ...

PARAMETER_NAMES: tuple[str, ...]

class ValueColumns:
    """The parameter, index and item of each column of rows of values."""

    def __init__(self, columns: list[tuple[str, int, int]]) -> None: ...

    def __len__(self) -> int: ...

class NativeScenario:
    """A scenario as native columns; see `twinloop.engine.CompiledScenario`."""

    def __init__(self, machines: dict[str, Any], tasks: dict[str, Any], options: dict[str, Any], names: object) -> None: ...

    def set_sessions(self, sessions: dict[str, Any]) -> None: ...

    def set_network(self, network: dict[str, Any]) -> None: ...

    def set_clouds(self, clouds: list[dict[str, Any]]) -> None: ...

    def set_outages(self, machine: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], until: float) -> None: ...

    def set_rejected(self, mask: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def find_impossible(self, policy: object, capacity: float = 1.0) -> numpy.typing.NDArray[numpy.uint8]: ...

class ClusterRun:
    """One run of a compiled scenario; see `twinloop.engine.Simulation`."""

    def __init__(self, scenario: NativeScenario, policy: object, values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: ValueColumns | None = None, *, placements: bool = False, use: bool = False, decisions: bool = False, usage_step: float = float('inf'), usage_rows: float = float('inf'), seed: int = 0, source: object | None = None) -> None: ...

    @property
    def now(self) -> float: ...

    @property
    def start_time(self) -> float: ...

    @property
    def events(self) -> int: ...

    @property
    def acting_controller(self) -> int: ...

    @property
    def acting_cloud(self) -> tuple[int, int] | None:
        """
        The cloud whose controllers were called last and have failed, and the index of the controller; otherwise None.
        """

    @property
    def has_python_policy(self) -> bool: ...

    @property
    def shared(self) -> bool: ...

    def next_time(self) -> float: ...

    def step(self) -> bool: ...

    def run_until(self, time: float) -> None: ...

    def run_slice(self) -> bool: ...

    @property
    def is_usage_full(self) -> bool: ...

    @property
    def needs_failures(self) -> bool: ...

    def extend_failures(self, scenario: NativeScenario) -> None: ...

    def copy(self, policy: object = None, *, seed: int = 0, resumes: bool = False, history: bool = True) -> ClusterRun: ...

    @property
    def has_history(self) -> bool: ...

    def forgotten(self) -> numpy.typing.NDArray[numpy.uint8]:
        """By task: whether it ended before a copy without the history."""

    def view(self) -> View: ...

    def outcomes(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def placements(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def use(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def decisions(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def transfers(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def stored_bytes(self) -> numpy.typing.NDArray[numpy.float64]: ...

    def store_use(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    @property
    def live_transfers(self) -> int: ...

    def states(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def instances(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """The periods of instances, each on one host and with one size."""

    def usage(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def kpis(self) -> dict[str, float]: ...

    def energy(self) -> numpy.typing.NDArray[numpy.float64]: ...

    def power(self, step: float, machines: bool) -> numpy.typing.NDArray[numpy.float64]: ...

    def windows(self, step: float) -> int: ...

    def loads(self, step: float, by_group: bool = False) -> LoadProfile: ...

    def progress(self, task: int) -> float: ...

    def is_down(self, machine: int) -> bool: ...

    def fail(self, machine: int) -> None: ...

    def restore(self, machine: int) -> None: ...

    def set_cores(self, machine: int, cores: float) -> None: ...

    def set_state(self, machine: int, state: str) -> None:
        """
        Order a state of a machine; ValueError with the reason if that is not possible.
        """

    def is_removed(self, machine: int) -> bool: ...

    def machine_states(self) -> list[str]:
        """The state of each machine by name: also "down" and "removed"."""

    def set_names(self, names: object) -> None:
        """Set the names of tasks and machines that views show."""

    @property
    def state_names(self) -> list[str]:
        """The names of the states of machines, by their number."""

    def add_machine(self, cores: float, memory: float = ..., speed: float = 1.0, mhz: float = 0.0, amounts: Sequence[float] = (), like: int | None = None) -> int:
        """
        Add a machine, with the power model, the states, the ports, the links and the store of the machine `like`; return its index.
        """

    def share_machines(self) -> None:
        """Share the machines by activities from now on, as instances need it."""

    def add_instance(self, host: int, cores: float, memory: float = float('inf'), overcommit: bool = False) -> int:
        """
        Add an instance on a host and return its index; ValueError with the reason if that is not possible.
        """

    def move_instance(self, instance: int, host: int, overcommit: bool = False) -> None:
        """Move an instance with its tasks to another host."""

    def resize_instance(self, instance: int, cores: float, overcommit: bool = False) -> None:
        """Set the number of cores of an instance; its running tasks continue."""

    def hosts(self) -> numpy.typing.NDArray[numpy.int64]:
        """By machine: the host of an instance; -1 of other machines."""

    def remove_machine(self, machine: int) -> None:
        """Remove a machine; its tasks are interrupted as by a failure."""

    def submit(self, row: object) -> int:
        """
        Submit a task that is not in the scenario: a row of `twinloop.engine.new_rows`.
        """

    def added_tasks(self) -> dict[str, Any]:
        """The tasks that were added during the run, in their order."""

    @property
    def added_count(self) -> int: ...

    @property
    def added_by_source(self) -> int: ...

    def set_start_time(self, time: float) -> None: ...

    def restore_task(self, task: int, known: dict[str, Any]) -> None: ...

    def restore_execution(self, task: int, parts: Sequence[tuple[int, float]], saved: dict[str, Any]) -> None: ...

    def restore_added(self, row: object, rejected: bool, pending: bool) -> None: ...

    def set_restored_at(self, machine: int, time: float) -> None: ...

    def restore_instance(self, host: int | None, cores: float, memory: float) -> int: ...

    def restore_host(self, instance: int, host: int) -> None: ...

    def restore_machine(self, machine: int, known: dict[str, Any]) -> None: ...

    def restore_stores(self, files: Sequence[tuple[int, Sequence[int]]]) -> None: ...

    def restore_submissions(self, added: int, memory: Sequence[float], python: dict[str, Any] | None) -> None: ...

    def restore_decisions(self, known: dict[str, Any]) -> None: ...

    def saved_state(self) -> dict[str, Any]:
        """
        What a run needs to go on beside its outcomes: tasks, executions, machines, stores, added tasks, submissions, decisions.
        """

    def restore_waiting_task(self, task: int, done: float) -> None: ...

    def restore_held_task(self, task: int) -> None: ...

    def restore_running_task(self, task: int, parts: Sequence[tuple[int, float]], done: float) -> None: ...

    def rentals(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def migrations(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def messages(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def describe_instance(self, cloud: int, rental: int) -> None:
        """
        Ask the controller of a cloud for the state of an instance, by the number of its rental.
        """

    def descriptions(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """The answers that the client has received."""

    def rental_states(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def present_instances(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """The instances that are rented now."""

    def cloud_hosts(self, cloud: int) -> dict[str, Any]:
        """The hosts of a cloud, and the number of instances in its queue."""

    def rent(self, cloud: int, type: int, image: int, cores: float, memory: float, user: int = -1, validity: float = float('nan'), bid: float = float('nan')) -> tuple[int, int]:
        """
        Rent an instance and return its machine and its rental; with a validity (s), only an allocation that expires unless it is used.
        """

    def use_allocation(self, instance: int) -> None: ...

    def suspend(self, instance: int) -> None: ...

    def resume(self, instance: int) -> None: ...

    def reboot(self, instance: int) -> None: ...

    def shut_down(self, instance: int) -> None: ...

    def terminate(self, instance: int, violent: bool = False) -> None: ...

    def migrate(self, instance: int, host: int) -> None: ...

    def resize(self, instance: int, cores: float) -> None: ...

    def leave_cloud(self, instance: int, cloud: int, type: int, image: int) -> None: ...

    def rent_together(self, count: int, cloud: int, type: int, image: int, cores: float, memory: float, user: int = -1, bid: float = float('nan')) -> int:
        """
        Rent equal instances that start together and return the first of their rentals, which are consecutive.
        """

    def register_host(self, host: int, cloud: int) -> None: ...

    def deregister_host(self, host: int, violent: bool = False) -> None: ...

    def watch(self, watched: bool) -> None:
        """Set whether changes of instances, machines and clouds are noted."""

    def take_notices(self) -> list[tuple[int, int, float, float]]:
        """The changes since the last call: kind, subject, time, value."""

    def run_until_notice(self, time: float) -> bool: ...

    @property
    def has_network(self) -> bool:
        """
        Whether its network is open; `open_network` opens that of a run that has no files.
        """

    def open_network(self, network: dict[str, Any], names: Sequence[str], like: Sequence[int]) -> None: ...

    @property
    def has_store_changes(self) -> bool:
        """Whether files, stores or transfers were requested from outside."""

    @property
    def store_count(self) -> int: ...

    def named_stores(self) -> list[tuple[int, str]]:
        """The stores whose names were given in the run."""

    def store_figures(self, store: int) -> dict[str, Any]: ...

    def store_files(self, store: int) -> tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.float64]]:
        """The numbers and the sizes of its files."""

    def has_file(self, store: int, file: int) -> bool: ...

    @property
    def planned_files(self) -> int:
        """The number of the files of the scenario; the others follow them."""

    def new_files(self) -> list[str]:
        """The names of the files that the scenario does not have."""

    def find_new_file(self, name: str) -> int:
        """The number of such a file, or -1."""

    def name_file(self, name: str) -> int: ...

    def file_size(self, file: int) -> float | None:
        """The size of a file; None if it is nowhere."""

    def register_file(self, store: int, file: int, bytes: float) -> None: ...

    def remove_file(self, store: int, file: int, reading: bool) -> None:
        """Remove a file; `reading`: also if transfers read it."""

    def begin_request(self, kind: int, file: int, source: int, target: int, machine: int, bytes: float) -> int: ...

    def cancel_request(self, number: int) -> None: ...

    def request_figures(self, number: int) -> dict[str, Any]: ...

    def open_requests(self) -> list[int]:
        """The numbers of the requests in progress."""

    def ended_requests(self) -> dict[str, Any]: ...

    def register_store(self, store: dict[str, Any]) -> int: ...

    def find_store_use(self, store: int) -> str | None:
        """Why the store cannot be deregistered without loss, or None."""

    def deregister_store(self, store: int) -> None: ...

    def node_use(self) -> dict[str, Any]: ...

class SourceError(RuntimeError):
    pass

class NativeSource:
    """
    The submissions of a compiled scenario without a simulation, by its source: rigid submission times, users with sessions, or Python.
    """

    def __init__(self, scenario: NativeScenario, source: object | None = None) -> None: ...

    @property
    def next_time(self) -> float:
        """
        The time of the next submission (s); infinite if it depends on a task that runs.
        """

    @property
    def continues(self) -> bool:
        """Whether it is to be asked again even if no task is left."""

    def pop_due(self, now: float) -> list[int | dict[str, Any]]:
        """
        Return the tasks submitted up to `now`, in their order: rows of the workload by index, new tasks by the values of their rows, with the rows of their parents.
        """

    def record_end(self, task: int, now: float, status: int = 1) -> None:
        """Record the end of a task; `status`: as in `outcomes` of a run."""

class Dispatcher:
    """
    A policy and its scheduler state without a simulation, for real executions: the caller reports events, `decide` returns decisions.
    """

    def __init__(self, scenario: NativeScenario, policy: object, seed: int = 0) -> None: ...

    @property
    def view(self) -> View:
        """The view of the policy."""

    def add(self, row: object) -> bool:
        """
        Add a task that is not in the scenario, a row of `twinloop.engine.new_rows`; return whether it can ever be placed. Its number is the next one.
        """

    def submit(self, task: int, now: float, submitted: float | None = None) -> None:
        """
        Add a task to the queue; `submitted` is its submission time if earlier than `now`.
        """

    def end(self, task: int, now: float) -> None:
        """Record the end of a task, which releases its machines."""

    def reject_placement(self, task: int, now: float, why: str = '') -> None:
        """
        Return a placed task to the queue because it could not be started; the policy receives the reason.
        """

    def withdraw(self, task: int, now: float) -> None:
        """Remove a waiting task from the queue."""

    def set_open(self, machine: int, open: bool, now: float) -> None:
        """Set whether tasks may be placed on the machine."""

    @property
    def wake_time(self) -> float:
        """
        The time of the next requested decision (s); infinite if none is requested.
        """

    def decide(self, now: float) -> list[tuple[str, int | None, list[tuple[int, float]]]]:
        """
        Return the decisions of the policy: (kind, task, machines and cores) for each.
        """

def spawn(program: str | bytes, argv: list[str | bytes], environment: list[str | bytes], folder: str | bytes, *, stdin: int, stdout: int, stderr: int, join: list[int], cpus: list[int], files: int = 0) -> tuple[int, int]:
    """
    Start a program; return its process ID and a file descriptor that becomes readable when it ends. The process joins its control groups and CPUs before its first instruction, leads a new session, and is killed when the thread that started it ends.
    """

def set_subreaper(on: bool) -> bool:
    """
    Set whether orphaned descendants become children of this process; return the previous setting.
    """

def open_counters(pid: int) -> list[tuple[str, int]]:
    """
    Open the performance counters of a process and of its future children: (name, file descriptor) of each counter that the kernel allows.
    """

def read_counter(file: int) -> int | None:
    """Read the value of a counter; None if it could not count."""
