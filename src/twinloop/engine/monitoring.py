"""Monitoring of a running simulation: polling at intervals, and notices of changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from twinloop.description.errors import InputError
from twinloop.engine.arguments import require_positive
from twinloop.engine.rental_tables import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario

#: The kinds of notices; all but the last one have a native code.
NoticeKind: TypeAlias = Literal["instance", "machine", "queue", "capacity", "host"]
KINDS: Final[tuple[NoticeKind, ...]] = ("instance", "machine", "queue", "capacity", "host")


class Notice(NamedTuple):
    """A change in a running simulation."""

    #: instance and machine: a new state; queue: instances that wait for a host; capacity: free
    #: cores of a cloud; host: free cores of a host of a cloud.
    kind: NoticeKind
    #: The name of the instance, the machine, the cloud or the host.
    subject: str
    #: The time of the change (s).
    time: float
    #: The new state, or the new number.
    value: str | float


# The module that users import it from, shown in representations.
Notice.__module__ = "twinloop.engine"


class Monitor:
    """The pollers and observers of one simulation, which it calls while it advances."""

    def __init__(self, compiled: CompiledScenario, run: ClusterRun) -> None:
        self.compiled = compiled
        self._run = run
        self._pollers: list[_Poller] = []
        self._observers: list[tuple[frozenset[str], Callable[[Notice], object]]] = []
        # The calls of observers that are due: an observer that raises an error delays the others.
        self._calls: deque[Callable[[], object]] = deque()
        self._free_cores: dict[str, float] | None = None

    def poll(self, interval: float, function: Callable[[float], object]) -> None:
        """Call a function with the time, after each interval from now on."""
        interval = require_positive(interval, "interval")
        self._pollers.append(_Poller(self._run.now, interval, function))

    def notify(self, function: Callable[[Notice], object], kinds: Iterable[str]) -> None:
        """Call a function with each change of these kinds."""
        chosen = frozenset(kinds)
        for unknown in sorted(chosen - set(KINDS)):
            raise InputError(
                f"there is no kind of notice {unknown!r}",
                kind="unknown-name",
                field="kinds",
                remedy=f"one of: {', '.join(KINDS)}",
            )
        if self._observers:
            self._collect()  # the changes until now are for the other observers
        else:
            self._run.watch(True)
        if "host" in chosen and self._free_cores is None:
            self._free_cores = self._find_free_cores()
        self._observers.append((chosen, function))

    # --- time ------------------------------------------------------------------------------------

    def run_until(self, time: float) -> None:
        """Run up to this time, and call pollers and observers on the way."""
        while True:
            target = min(time, self._next_poll())
            self._run_to(target)
            if target >= self._next_poll():
                self._call_pollers(target)
            elif target >= time:
                return

    def step(self) -> bool:
        """Process the next instant or the next poll; return False if nothing is left."""
        self._call_observers()
        following = self._run.next_time()
        poll = self._next_poll()
        if following < float("inf") and poll < following:
            self._run_to(poll)
            self._call_pollers(poll)
            return True
        more = self.compiled.advance(self._run, self._run.step)
        self._collect()
        self._call_observers()
        if more and self._run.now >= poll:
            self._call_pollers(poll)
        return more

    def run(self) -> None:
        """Run to the end."""
        while self.step():
            pass

    def _run_to(self, time: float) -> None:
        if self._observers:
            self._call_observers()
            while self.compiled.advance(self._run, lambda: self._run.run_until_notice(time)):
                self._collect()
                self._call_observers()
        self.compiled.advance(self._run, lambda: self._run.run_until(time))

    def _next_poll(self) -> float:
        return min((each.next for each in self._pollers), default=float("inf"))

    def _call_pollers(self, time: float) -> None:
        for each in self._pollers:
            if each.next <= time:
                each.call()

    def _collect(self) -> None:
        """Note the calls of observers for the changes since the last time."""
        notices = [self._name(*each) for each in self._run.take_notices()]
        if self._free_cores is not None:
            before, self._free_cores = self._free_cores, self._find_free_cores()
            notices += [
                Notice("host", name, self._run.now, free)
                for name, free in self._free_cores.items()
                if before.get(name) != free
            ]
        for notice in notices:
            for kinds, function in self._observers:
                if notice.kind in kinds:
                    self._calls.append(partial(function, notice))

    def _call_observers(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _find_free_cores(self) -> dict[str, float]:
        """Find the free cores of the hosts of all clouds; 0 while a host does not run."""
        names = self.compiled.names.machines
        found: dict[str, float] = {}
        for number in range(len(self.compiled.machines.platform.clouds)):
            now = self._run.cloud_hosts(number)
            free = now["free_cores"] * (now["running"] != 0)
            for host, cores in zip(now["machine"], free, strict=True):
                found[names[host]] = float(cores)
        return found

    def _name(self, kind: int, subject: int, time: float, value: float) -> Notice:
        name: NoticeKind = KINDS[kind]
        if name == "instance":
            return Notice(name, f"instance-{subject + 1}", time, STATES[int(value)])
        if name == "machine":
            states: Sequence[str] = self._run.state_names
            state = "down" if value < 0 else states[int(value)]
            return Notice(name, self.compiled.names.machines[subject], time, state)
        return Notice(name, self.compiled.machines.platform.clouds[subject].name, time, value)


class _Poller:
    def __init__(self, begin: float, interval: float, function: Callable[[float], object]) -> None:
        self._begin = begin
        self._interval = interval
        self._function = function
        self._calls = 0

    @property
    def next(self) -> float:
        # A product, so that errors of rounding do not add up.
        return self._begin + (self._calls + 1) * self._interval

    def call(self) -> None:
        time = self.next
        self._calls += 1
        self._function(time)
