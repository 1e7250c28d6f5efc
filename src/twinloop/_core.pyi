"""The native engine of Twinloop. Use it through `twinloop.engine`."""

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence
)
from typing import Annotated, Any, Literal, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


class Interrupt(Exception):
    """Thrown into a process that is interrupted; `cause` says why."""

    @property
    def cause(self) -> object:
        """What `interrupt` was given."""

class Cancelled(Exception):
    """Thrown into a process whose activity is cancelled."""

class StalledError(RuntimeError):
    """
    Activities are left that can never end; the message says which and why.
    """

class Event:
    """
    Something that happens once, and that processes can wait for.

    Made by `Environment.event`, and decided by `succeed` or `fail`:

    >>> from twinloop.engine import Environment
    >>> env = Environment()
    >>> door = env.event()
    >>> def visitor():
    ...     who = yield door
    ...     print(f"{env.now:g}: let in by {who}")
    >>> process = env.process(visitor())
    >>> timer = env.call_later(3, door.succeed, "Ada")
    >>> env.run()
    3: let in by Ada
    """

    def succeed(self, value: object = None) -> None:
        """Let it happen, with a value for those who wait."""

    def fail(self, exception: BaseException) -> None:
        """
        Let it fail: the exception is thrown into those who wait, or out of `run` if nobody does.
        """

    def add_callback(self, function: Callable[[Event], object]) -> None:
        """
        Call `function(event)` when it happens; at once if it has happened already.
        """

    @property
    def triggered(self) -> bool:
        """Whether its outcome is decided."""

    @property
    def processed(self) -> bool:
        """Whether those who wait have been told."""

    @property
    def ok(self) -> bool:
        """Whether it has succeeded."""

    @property
    def value(self) -> Any:
        """
        Its value, or the exception with which it failed; None while it is pending.
        """

    def __and__(self, other: Event) -> Condition:
        """Both: see `all_of`."""

    def __or__(self, other: Event) -> Condition:
        """Either: see `any_of`."""

    def __repr__(self) -> str: ...

class Timeout(Event):
    """Happens after a delay: see `Environment.timeout`."""

class Process(Event):
    """
    A generator that lives in an environment: see `Environment.process`.

    It is an event itself: it happens when the generator returns, and its value is what was returned.
    """

    def interrupt(self, cause: object = None) -> None:
        """
        Throw `Interrupt` into the process, at the present time.

        What it was waiting for goes on without it.

        >>> from twinloop.engine import Environment, Interrupt
        >>> env = Environment()
        >>> def sleeper():
        ...     try:
        ...         yield env.timeout(100)
        ...     except Interrupt as interrupt:
        ...         print(f"{env.now:g}: woken by {interrupt.cause}")
        >>> process = env.process(sleeper())
        >>> timer = env.call_later(2, process.interrupt, "the cat")
        >>> env.run(until=10)
        2: woken by the cat
        """

    @property
    def is_alive(self) -> bool:
        """Whether the generator has not returned yet."""

    @property
    def target(self) -> Event | None:
        """The event it waits for."""

class Condition(Event):
    """Happens when others have: see `all_of` and `any_of`."""

class Timer:
    """
    A call that is to come: see `Environment.call_later` and `Environment.every`.
    """

    def cancel(self) -> bool:
        """Withdraw it; False if there was nothing left to withdraw."""

    @property
    def pending(self) -> bool:
        """Whether a call is still to come."""

    @property
    def time(self) -> float | None:
        """The time of the next call; None if none is to come."""

def all_of(events: Iterable[Event]) -> Condition:
    """
    An event that happens when all of `events` have. Its value maps each of them to its value.

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
    An event that happens when the first of `events` does. Its value maps what has happened to its value.

    >>> from twinloop.engine import Environment, any_of
    >>> env = Environment()
    >>> def patient(host):
    ...     work, patience = host.execute(5), env.timeout(3)
    ...     happened = yield any_of([work, patience])
    ...     print(f"{env.now:g}: {'done' if work in happened else 'too late'}")
    >>> process = env.process(patient(env.resource(1)))
    >>> env.run()
    3: too late
    """

class Resource:
    """
    A capacity that activities share: cores, bandwidth, a disk. Made by `Environment.resource`.

    Sharing is max-min fair: each running activity gets min(limit, weight x level), with the one level
    at which the capacity is used up.

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
        Start an activity that does `work` here: see `Environment.start` for the options.

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
        """Change the capacity from now on; 0 halts everything here."""

    def set_profile(self, times: Sequence[float], capacities: Sequence[float], period: float | None = None) -> None:
        """
        Give the capacity over time: at each of `times` it becomes the one of `capacities`.

        With a period the steps repeat for ever. An earlier profile is replaced.

        >>> from twinloop.engine import Environment
        >>> env = Environment()
        >>> host = env.resource(1)
        >>> host.set_profile([10, 20], [0, 1])
        >>> job = host.execute(15)
        >>> env.run()
        >>> job.finished
        25.0
        """

    @property
    def capacity(self) -> float:
        """The capacity now."""

    @property
    def level(self) -> float:
        """
        The rate per unit of weight of those whom their limit does not hold; infinite if there are none.
        """

    @property
    def rate(self) -> float:
        """The capacity drawn now."""

    @property
    def consumed(self) -> float:
        """The capacity drawn so far: the integral of `rate`."""

    @property
    def done(self) -> float:
        """The work done here so far: consumption times efficiency."""

    @property
    def running(self) -> int:
        """The number of activities that draw on it now."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def index(self) -> int:
        """Its place among the resources of its environment, from 0."""

    @property
    def env(self) -> Environment:
        """Its environment."""

    def __repr__(self) -> str: ...

class Activity(Event):
    """
    Work in progress on one resource or several: see `Environment.start`.

    It is an event: it happens when the work is done. If it is cancelled, `Cancelled` is thrown into
    those who wait.

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
        """Stop drawing; what is done is kept."""

    def resume(self) -> None:
        """Go on after `suspend`."""

    def cancel(self) -> None:
        """End it now, unfinished."""

    def set_limit(self, limit: float | None) -> None:
        """Change its highest rate; None lifts it, 0 halts the activity."""

    def set_weight(self, weight: float) -> None:
        """Change its weight."""

    def set_remaining(self, work: float) -> None:
        """Change the work that is left."""

    def move(self, to: Resource | Iterable[Resource]) -> None:
        """Draw on other resources from now on; what is done is kept."""

    @property
    def remaining(self) -> float:
        """The work left."""

    @property
    def done(self) -> float:
        """The work done."""

    @property
    def consumed(self) -> float:
        """
        The capacity drawn: more than the work done where the efficiency is below 1.
        """

    @property
    def rate(self) -> float:
        """The capacity it draws now, per second."""

    @property
    def limit(self) -> float | None:
        """Its highest rate; None if it has none."""

    @property
    def weight(self) -> float:
        """Its weight."""

    @property
    def kind(self) -> int:
        """Its kind."""

    @property
    def priority(self) -> int:
        """Its priority."""

    @property
    def state(self) -> Literal['waiting', 'running', 'suspended', 'finished', 'cancelled']:
        """What it is doing."""

    @property
    def started(self) -> float | None:
        """When it began to draw; None if it has not."""

    @property
    def finished(self) -> float | None:
        """When it ended; None while it lives."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What it draws on."""

    @property
    def name(self) -> str:
        """Its name."""

    def __repr__(self) -> str: ...

class Observer:
    """Functions that are told what happens: see `Environment.observe`."""

    def stop(self) -> None:
        """Be told no more."""

class Recording:
    """The rates of all resources over time: see `Environment.record`."""

    def rates(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """
        Columns `t`, `resource` (its index) and `rate`: one row per change, each valid until the next row of the same resource.
        """

    def stop(self) -> None:
        """Record no more; what is recorded stays."""

class Environment:
    """
    A simulated world: a clock, a queue of events, and resources that activities share.

    Processes are generators that yield what they wait for:

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

    `start` is the time at which the clock starts. `sharing` is the rule by which activities share:
    "max-min" (each gets min(limit, weight x level)) or "strict-priority" (a higher priority takes all
    that it can use first; equals share max-min).
    """

    def __init__(self, *, start: float = 0.0, sharing: Literal['max-min', 'strict-priority'] = 'max-min') -> None: ...

    @property
    def now(self) -> float:
        """The time, in seconds."""

    @property
    def events(self) -> int:
        """
        How much has happened: starts and ends of activities, timers, steps of profiles.
        """

    def event(self) -> Event:
        """An event that somebody lets happen with `succeed` or `fail`."""

    def process(self, generator: Generator[Event, Any, object]) -> Process:
        """
        Let a generator live here: it starts at the present time and runs from event to event.
        """

    def every(self, period: float, function: Callable[..., object], *args: object, start: float | None = None, count: int | None = None) -> Timer:
        """
        Call `function(*args)` again and again: first at `start` (one period from now), `count` times or
        until it is cancelled.

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
        Run to the end, until a time, or until an event has happened (and return its value).

        Events at the time `until` itself are left for the next run. Run to the end raises `StalledError`
        if activities are left that can never end:

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
        Let the next event happen (all ends of one instant on one resource together); False if there is none.
        """

    def peek(self) -> float:
        """The time of the next event, or infinity."""

    def jump(self, to: float) -> None:
        """Move the clock over empty time; an event on the way is an error."""

    def skip(self, to: float) -> int:
        """
        Move the clock on and drop the timers on the way; returns how many calls were dropped.

        Recurring timers go on with their first time at or after `to`. Activities are not events to be
        dropped: they go on and end as they would.

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
        A new resource.

        `efficiency` says how much of what an activity draws becomes progress, given who else runs there:
        a mapping of kind to the values for one, two, ... activities present (the last holds beyond), or a
        function from counts by kind to efficiencies by kind, which must not touch the environment.

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
        Start an activity that draws on one resource or on several at once, at one rate on all of them.

        `limit` is its highest rate, `weight` its share of the level, `kind` what efficiencies go by,
        `priority` what the strict-priority rule goes by. It begins to draw after `latency` seconds, or at
        the time `at`.

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
        """All that live, in the order in which they were started."""

    @property
    def resources(self) -> list[Resource]:
        """All resources, in the order in which they were made."""

    def influence_group(self, resource: Resource) -> list[Resource]:
        """
        The resources that activities couple to this one, directly or through others, itself included.
        """

    def observe(self, *, started: Callable[[Activity], object] | None = None, ended: Callable[[Activity], object] | None = None, rate: Callable[[Resource], object] | None = None) -> Observer:
        """
        Be told when an activity starts to draw, when one has ended, and when the rate of a resource changes.

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
        """Record the rates of all resources from now on, natively."""

    def copy(self) -> Environment:
        """
        The same world once more: both go on independently, and give the same results if left alone.

        Python code cannot be copied, so that an environment with live processes, pending timers or
        activities that somebody waits for refuses. Observers stay behind; efficiency functions are shared.

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
        In a copy: the resource or activity that corresponds to one of the original.
        """

    @overload
    def counterpart(self, original: Activity) -> Activity: ...

    def __repr__(self) -> str: ...

    def timeout(self, delay: float, value: object = None) -> Timeout:
        """An event that happens after `delay` seconds, for a process to yield."""

    def call_at(self, time: float, function: Callable[..., object], *args: object) -> Timer:
        """Call `function(*args)` at a time."""

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

class ColumnRun:
    """What `run_columns` gives back."""

    @property
    def finish(self) -> numpy.typing.NDArray[numpy.float64]:
        """When each row finished."""

    @property
    def events(self) -> int:
        """How much happened: starts and ends."""

    @property
    def rates(self) -> dict[str, numpy.typing.NDArray[Any]] | None:
        """With `record`: the rates over time, as `Recording.rates` gives them."""

def run_columns_native(start: numpy.typing.NDArray[numpy.float64], work: numpy.typing.NDArray[numpy.float64], *, capacity: numpy.typing.NDArray[numpy.float64] | None, resource: numpy.typing.NDArray[numpy.int64] | None, limit: numpy.typing.NDArray[numpy.float64] | None, weight: numpy.typing.NDArray[numpy.float64] | None, kind: numpy.typing.NDArray[numpy.int64] | None, efficiency: Mapping[int, Sequence[float]] | None, record: bool) -> ColumnRun:
    """
    See `twinloop.engine.run_columns`, which turns what it is given into columns.
    """

class ParsedTable:
    """Columns that leave through Arrow's interface, without a copy."""

    def __len__(self) -> int: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class LineProblem:
    """One kind of problem with one field: how often, and the first places."""

    @property
    def kind(self) -> str: ...

    @property
    def field(self) -> int:
        """Number of the field from 0; -1: the whole line."""

    @property
    def count(self) -> int: ...

    @property
    def places(self) -> list[tuple[int, int, bytes]]:
        """Line, number of fields found there, beginning of what stood there."""

class SwfParser:
    """Reads the Standard Workload Format from pieces of any size."""

    def __init__(self) -> None: ...

    def feed(self, data: bytes) -> None:
        """The next bytes of the text."""

    def finish(self) -> ParsedTable:
        """The text has ended: the table of what could be read."""

    @property
    def problems(self) -> list[LineProblem]:
        """What could not be taken as it stood, so far."""

    @property
    def header(self) -> list[bytes]:
        """The comments before the first record, without their semicolon."""

class JsonLinesParser:
    """Reads flat JSON objects, one per line, from pieces of any size."""

    def __init__(self, columns: Sequence[tuple[str, str]], integer_limit: int = 9223372036854775807) -> None:
        """Columns are pairs of a name and `int64`, `float64` or `string`."""

    def feed(self, data: bytes) -> None:
        """The next bytes of the text."""

    def finish(self) -> ParsedTable:
        """The text has ended: the table of what could be read."""

    @property
    def problems(self) -> list[LineProblem]:
        """What could not be taken as it stood, so far."""

    @property
    def others(self) -> dict[str, int]:
        """
        How often each field stood there that is no column; '': those beyond the first 256.
        """

class NativePolicy:
    """A built-in policy; made of what a description's `native()` gives."""

    def __init__(self, options: dict[str, object]) -> None: ...

class View:
    """
    What a policy may look at: who waits, what is free, what runs. Tasks and machines are numbers, from 0.
    """

    @property
    def now(self) -> float:
        """The present time (s)."""

    @property
    def waiting(self) -> list[int]:
        """The tasks that wait, in the order in which they became ready."""

    @property
    def first_waiting(self) -> int | None:
        """The task that has waited for longest, or None."""

    @property
    def running(self) -> list[int]:
        """The tasks that have machines, in no order."""

    @property
    def machines(self) -> int:
        """How many machines there are."""

    @property
    def free_cores(self) -> numpy.typing.NDArray[numpy.float64]:
        """The free cores of each machine; none where it is down."""

    @property
    def free_memory(self) -> numpy.typing.NDArray[numpy.float64]:
        """The free memory of each machine (bytes); infinite where nobody said."""

    def free(self, machine: int) -> float:
        """The free cores of one machine."""

    @property
    def capacity(self) -> numpy.typing.NDArray[numpy.float64]:
        """The cores that each machine has."""

    @property
    def task_counts(self) -> numpy.typing.NDArray[numpy.float64]:
        """How many tasks each machine has."""

    def cores(self, task: int) -> float:
        """The cores that a task asks for."""

    def memory(self, task: int) -> float:
        """The memory that a task asks for (bytes)."""

    def nodes(self, task: int) -> int:
        """The nodes that a task asks for; 0: its cores may be anywhere."""

    def requested_time(self, task: int) -> float:
        """How long a task is planned to take (s)."""

    def submit(self, task: int) -> float:
        """When a task was submitted in this run (s); NaN: not yet."""

    def submit_recorded(self, task: int) -> float:
        """
        When a task was submitted in the record that this run replays (s). Users who wait for results submit earlier or later here.
        """

    def priority(self, task: int) -> float:
        """The priority of a task's queue."""

    def user(self, task: int) -> str | None:
        """Who submitted a task."""

    def queue(self, task: int) -> str | None:
        """The queue of a task."""

    def id(self, task: int) -> str | None:
        """The name of a task."""

    def machine_name(self, machine: int) -> str | None:
        """The name of a machine."""

    def planned_end(self, task: int) -> float:
        """When a running task is planned to end (s)."""

    def started(self, task: int) -> float:
        """When a running task was given its machines (s)."""

    def placement(self, task: int) -> list[tuple[int, float]]:
        """The machines of a running task and its cores there."""

KPI_NAMES: tuple[str, ...]

def run_many(scenario: NativeScenario, policy: object, matrix: numpy.typing.NDArray[numpy.float64], *, threads: int, figures: bool, columns: list[str]) -> tuple[numpy.typing.NDArray[numpy.float64], list[numpy.typing.NDArray[numpy.float64]], numpy.typing.NDArray[numpy.float64]]: ...

class LoadProfile:
    """How much machines were used in each window of a run."""

    @property
    def windows(self) -> int: ...

    def watts(self, scenario: NativeScenario, matrix: numpy.typing.NDArray[numpy.float64], *, threads: int) -> numpy.typing.NDArray[numpy.float64]: ...

class NativeScenario:
    """A compiled scenario; see `twinloop.engine.compiled_scenario`."""

    def __init__(self, machines: dict[str, Any], tasks: dict[str, Any], options: dict[str, Any], names: object) -> None: ...

    def set_sessions(self, sessions: dict[str, Any]) -> None: ...

    def set_outages(self, machine: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], until: float) -> None: ...

    def set_rejected(self, mask: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def find_impossible(self, policy: object, capacity: float = 1.0) -> numpy.typing.NDArray[numpy.uint8]: ...

class ClusterRun:
    """One run of a compiled scenario; see `twinloop.engine.Simulation`."""

    def __init__(self, scenario: NativeScenario, policy: object, values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, placements: bool = False, use: bool = False, decisions: bool = False, usage_step: float = float('inf'), usage_rows: float = float('inf'), seed: int = 0) -> None: ...

    @property
    def now(self) -> float: ...

    @property
    def start_time(self) -> float: ...

    @property
    def events(self) -> int: ...

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

    def copy(self) -> ClusterRun: ...

    def view(self) -> View: ...

    def outcomes(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def placements(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def use(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def decisions(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def states(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def usage(self) -> dict[str, numpy.typing.NDArray[Any]]: ...

    def kpis(self) -> dict[str, float]: ...

    def energy(self) -> numpy.typing.NDArray[numpy.float64]: ...

    def power(self, step: float, machines: bool) -> numpy.typing.NDArray[numpy.float64]: ...

    def windows(self, step: float) -> int: ...

    def loads(self, step: float) -> LoadProfile: ...

    def progress(self, task: int) -> float: ...

    def is_down(self, machine: int) -> bool: ...

    def fail(self, machine: int) -> None: ...

    def restore(self, machine: int) -> None: ...

    def set_cores(self, machine: int, cores: float) -> None: ...

    def submit(self, submit: float, cores: float, memory: float, time: float, work: float, limit: float, nodes: int, user: int, group: int, queue: int, priority: float, kind: int, amounts: Sequence[float]) -> int: ...

    def set_start_time(self, time: float) -> None: ...

    def restore_task(self, task: int, status: int, submit: float, ready: float, start: float, last_start: float, end: float, attempts: int) -> None: ...

    def restore_waiting_task(self, task: int, done: float) -> None: ...

    def restore_held_task(self, task: int) -> None: ...

    def restore_running_task(self, task: int, parts: Sequence[tuple[int, float]], done: float) -> None: ...

class Dispatcher:
    """
    A policy at a desk: told what happens, it says what to do. Nothing is simulated.
    """

    def __init__(self, scenario: NativeScenario, policy: object, seed: int = 0) -> None: ...

    @property
    def view(self) -> View:
        """What the policy sees."""

    def submit(self, task: int, now: float, submitted: float | None = None) -> None:
        """
        The task may start from now on; `submitted`: when it was submitted, if that was before.
        """

    def end(self, task: int, now: float) -> None:
        """The task is over; its machines are free."""

    def reject_placement(self, task: int, now: float, why: str = '') -> None:
        """
        The task could not be run where it was placed: it waits again, and the policy is told why.
        """

    def withdraw(self, task: int, now: float) -> None:
        """A task that waits will never run."""

    def set_open(self, machine: int, open: bool, now: float) -> None:
        """Whether tasks may be placed on the machine."""

    @property
    def wake_time(self) -> float:
        """
        When the policy wants to be asked again at the latest (s); infinite: not at all.
        """

    def decide(self, now: float) -> list[tuple[str, int | None, list[tuple[int, float]]]]:
        """Ask the policy: (kind, task, machines and cores) for each decision."""

class NativeSource:
    """
    Who submits the tasks of a compiled scenario: a clock, or users who wait. Told what has ended, it says what is submitted next.
    """

    def __init__(self, scenario: NativeScenario) -> None: ...

    @property
    def next_time(self) -> float:
        """
        When the next task is submitted (s); infinite: not before another one has ended.
        """

    def pop_due(self, now: float) -> list[int]:
        """The tasks that are submitted up to now, in the order of the log."""

    def record_end(self, task: int, now: float) -> None:
        """The task is over, whatever became of it."""

def spawn(program: str | bytes, argv: list[str | bytes], environment: list[str | bytes], folder: str | bytes, *, stdin: int, stdout: int, stderr: int, join: list[int], cpus: list[int], files: int = 0) -> tuple[int, int]:
    """
    Start a program: the number of its process, and a file that can be read from when it has ended. It joins control groups and CPUs before its first instruction, leads a session of its own, and dies with the thread that started it.
    """

def set_subreaper(on: bool) -> bool:
    """
    Whether orphans among its descendants become children of this process; returns what was before.
    """

def open_counters(pid: int) -> list[tuple[str, int]]:
    """
    Performance counters of a process and of what it starts from now on: (name, file) of each that the kernel allows.
    """

def read_counter(file: int) -> int | None:
    """What a counter has counted so far; None: it could not count."""
