"""Random programs with queueing resources, for the same run with SimPy and with Twinloop."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from typing import Any

import simpy
from hypothesis import strategies as st

from twinloop import engine
from twinloop.engine import queueing

Body = Generator[Any, Any, Any]
Action = tuple[Any, ...]

#: Delays repeat, so that most events are simultaneous with others: ties are where orders differ.
DELAYS = st.sampled_from([0, 0, 1, 1, 2, 3])
PATIENCE = st.none() | DELAYS
PRIORITIES = st.integers(0, 2)
NUMBERS = st.integers(0, 4)
AMOUNTS = st.sampled_from([1, 1, 2, 3, 0.5])
SLOTS = st.sampled_from(["slots", "ranked", "taken"])
STORES = st.sampled_from(["items", "sorted", "chosen"])


class BrokenError(Exception):
    """The failure of a process or an event of a program."""


@dataclass(frozen=True)
class Kit:
    """One of the two libraries."""

    kernel: Any
    resources: Any

    def any_of(self, env: Any, events: list[Any]) -> Any:
        return env.any_of(events) if self.kernel is simpy else engine.any_of(events)

    def all_of(self, env: Any, events: list[Any]) -> Any:
        return env.all_of(events) if self.kernel is simpy else engine.all_of(events)


SIMPY = Kit(simpy, simpy)
TWINLOOP = Kit(engine, queueing)


def make_actions(inner: st.SearchStrategy[Action]) -> st.SearchStrategy[Action]:
    """Actions that contain others."""
    scripts = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.just("hold"), SLOTS, PRIORITIES, st.booleans(), PATIENCE, scripts),
        st.tuples(st.just("hold two"), PRIORITIES, scripts),
        st.tuples(st.just("guard"), scripts),
        st.tuples(st.just("spawn"), st.booleans(), scripts),
    )


SIMPLE = st.one_of(
    st.tuples(st.just("sleep"), DELAYS),
    st.tuples(st.just("request"), SLOTS, PRIORITIES, st.booleans(), st.booleans()),
    st.tuples(st.just("release"), NUMBERS, st.booleans()),
    st.tuples(st.just("put"), STORES, NUMBERS, PATIENCE),
    st.tuples(st.just("get"), STORES, NUMBERS, PATIENCE),
    st.tuples(st.just("offer"), STORES, NUMBERS),
    st.tuples(st.just("fill"), AMOUNTS, PATIENCE),
    st.tuples(st.just("drain"), AMOUNTS, PATIENCE),
    st.tuples(st.just("interrupt"), NUMBERS),
    st.tuples(st.just("await"), NUMBERS),
    st.tuples(st.just("signal"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("expect"), st.integers(0, 1), PATIENCE),
    st.tuples(st.just("raise")),
)
ACTIONS = st.recursive(SIMPLE, make_actions, max_leaves=4)
LIMITS = st.fixed_dictionaries(
    {
        "slots": st.integers(1, 2),
        "ranked": st.integers(1, 2),
        "taken": st.integers(1, 2),
        "items": st.sampled_from([1, 2, float("inf")]),
        "sorted": st.sampled_from([1, 3, float("inf")]),
        "chosen": st.sampled_from([1, 2, float("inf")]),
        "amount": st.sampled_from([1, 3, 4.5, float("inf")]),
    }
)
PLANS = st.tuples(
    LIMITS, st.lists(st.lists(ACTIONS, max_size=6), min_size=1, max_size=6), st.none() | DELAYS
)


def make_dense_plan(random: Random) -> Any:
    """A plan with many processes on few resources, most of which hold, wait or interrupt."""
    slots = random.choices(["slots", "ranked", "taken"], k=2)
    store = random.choice(["items", "sorted", "chosen"])
    weights = {"hold": 9.0, "request": 2.0, "release": 2.0, "hold two": 1.0}
    weights |= {"put": 3.0, "get": 3.0, "offer": 1.0, "fill": 2.0, "drain": 2.0}
    weights |= {"sleep": 5.0, "interrupt": 3.0, "guard": 1.0, "spawn": 0.5, "await": 0.5}
    weights |= {"signal": 0.5, "expect": 0.5, "raise": 0.1}
    # Most plans have one kind of resources in the centre.
    focus = random.choice([(), ("hold", "release"), ("put", "get"), ("fill", "drain")])
    weights |= {kind: 4 * weights[kind] for kind in focus}

    def patience() -> float | None:
        return random.choice([None, None, 0, 1, 2])

    def script(depth: int) -> list[Action]:
        return [action(depth) for _ in range(random.randint(1, 3))]

    def action(depth: int) -> Action:
        kind = random.choices(list(weights), list(weights.values()))[0]
        number, where, flag = random.randint(0, 6), random.choice(slots), random.random() < 0.7
        inner = script(depth - 1) if depth > 0 else [("sleep", random.randint(0, 2))]
        return {
            "hold": (kind, where, number % 4, flag, patience(), inner),
            "sleep": (kind, random.randint(0, 2)),
            "put": (kind, store, number, patience()),
            "get": (kind, store, number % 4, patience()),
            "fill": (kind, random.choice([1, 1, 4]), patience()),
            "drain": (kind, random.choice([1, 1, 4]), patience()),
            "interrupt": (kind, number),
            "request": (kind, where, number % 4, flag, random.random() < 0.5),
            "release": (kind, number, random.random() < 0.5),
            "hold two": (kind, number % 4, inner),
            "guard": (kind, inner),
            "spawn": (kind, flag, inner),
            "await": (kind, number),
            "offer": (kind, store, number),
            "signal": (kind, number % 2, flag),
            "expect": (kind, number % 2, patience()),
            "raise": (kind,),
        }[kind]

    limits = {name: random.choice([1, 2, 3]) for name in ("slots", "ranked", "taken", "items")}
    limits |= {name: random.choice([2, 5, float("inf")]) for name in ("sorted", "chosen", "amount")}
    scripts = [
        [action(2) for _ in range(random.randint(3, 8))] for _ in range(random.randint(3, 8))
    ]
    return limits, scripts, random.choice([None, 3])


class Program:
    """One run of a plan, with a log of all that its processes can see."""

    def __init__(self, kit: Kit, limits: dict[str, float]) -> None:
        self.kit = kit
        self.env = kit.kernel.Environment()
        make = {
            "slots": kit.resources.Resource,
            "ranked": kit.resources.PriorityResource,
            "taken": kit.resources.PreemptiveResource,
            "items": kit.resources.Store,
            "sorted": kit.resources.PriorityStore,
            "chosen": kit.resources.FilterStore,
            "amount": kit.resources.Container,
        }
        self.resources = {
            name: kind(self.env, limits[name], *([1] if name == "amount" else []))
            for name, kind in make.items()
        }
        self.events = [self.env.event() for _ in range(2)]
        self.processes: list[Any] = []
        self.log: list[Any] = []

    def start(self, script: list[Action]) -> Any:
        name = len(self.processes)
        process = self.env.process(self.body(name, script))
        self.processes.append(process)
        return process

    def body(self, name: int, script: list[Action]) -> Body:
        held: list[tuple[Any, Any]] = []  # requests without a `with` block, and their resources
        try:
            yield from self.guard(name, held, script)
        finally:
            for resource, request in held:
                request.cancel()
                resource.release(request)
        return name

    def guard(self, name: int, held: list[tuple[Any, Any]], script: list[Action]) -> Body:
        """Goes on with the next action after an interrupt."""
        for action in script:
            try:
                yield from self.act(name, held, action)
            except self.kit.kernel.Interrupt as interrupt:
                self.note(name, "interrupted", self.show_cause(interrupt.cause))
            except BrokenError as error:
                if action[0] == "raise":
                    raise
                self.note(name, "failed", str(error))

    def script(self, name: int, held: list[tuple[Any, Any]], script: list[Action]) -> Body:
        for action in script:
            yield from self.act(name, held, action)

    def act(self, name: int, held: list[tuple[Any, Any]], action: Action) -> Body:
        kind, *values = action
        self.note(name, "begins", kind)
        method = getattr(self, "do_" + kind.replace(" ", "_"))
        result = yield from method(name, held, *values)
        self.note(name, "ends", kind, result)

    def wait(self, event: Any, patience: float | None) -> Body:
        """Whether the event happened before patience ended."""
        if patience is None:
            yield event
            return True
        happened = yield event | self.env.timeout(patience, "late")
        return [event in happened, [str(value) for value in happened.values()]]

    # Actions

    def do_sleep(self, name: int, held: Any, delay: float) -> Body:
        return (yield self.env.timeout(delay, "slept"))

    def do_hold(
        self,
        name: int,
        held: Any,
        where: str,
        priority: int,
        preempt: bool,
        patience: float | None,
        script: list[Action],
    ) -> Body:
        if self.holds(where):
            return "refused"
        with self.request(where, priority, preempt) as turn:
            came = yield from self.wait(turn, patience)
            self.note(name, "holds" if turn.triggered else "leaves", where, turn.usage_since)
            if turn.triggered:
                yield from self.script(name, held, script)
            return came

    def do_hold_two(self, name: int, held: Any, priority: int, script: list[Action]) -> Body:
        with self.request("slots", 0, True) as one, self.request("ranked", priority, True) as two:
            happened = yield self.kit.all_of(self.env, [one, two])
            self.note(name, "holds", len(list(happened.keys())))
            yield from self.script(name, held, script)

    def do_guard(self, name: int, held: Any, script: list[Action]) -> Body:
        yield from self.guard(name, held, script)

    def do_spawn(self, name: int, held: Any, join: bool, script: list[Action]) -> Body:
        if len(self.processes) > 12:
            return "refused"
        child = self.start(script)
        return (yield child) if join else None

    def do_request(
        self, name: int, held: Any, where: str, priority: int, preempt: bool, wait: bool
    ) -> Body:
        if self.holds(where):
            return "refused"
        request = self.request(where, priority, preempt)
        held.append((self.resources[where], request))
        if wait:
            yield request
        return [request.triggered, request.processed]

    def do_release(self, name: int, held: Any, index: int, wait: bool) -> Body:
        if not held:
            return None
        resource, request = held.pop(index % len(held))
        request.cancel()
        done = resource.release(request)
        if wait:
            yield done
        return [request.triggered, done.triggered, done.processed]

    def do_put(self, name: int, held: Any, where: str, item: int, patience: float | None) -> Body:
        with self.resources[where].put(self.wrap(where, name, item)) as put:
            return (yield from self.wait(put, patience))

    def do_get(self, name: int, held: Any, where: str, least: int, patience: float | None) -> Body:
        with self.take(where, least) as get:
            came = yield from self.wait(get, patience)
            return [came, get.value if get.triggered else None]

    def do_offer(self, name: int, held: Any, where: str, item: int) -> Body:
        self.resources[where].put(self.wrap(where, name, item))
        return None
        yield

    def do_fill(self, name: int, held: Any, amount: float, patience: float | None) -> Body:
        with self.resources["amount"].put(amount) as put:
            return (yield from self.wait(put, patience))

    def do_drain(self, name: int, held: Any, amount: float, patience: float | None) -> Body:
        with self.resources["amount"].get(amount) as get:
            return (yield from self.wait(get, patience))

    def do_interrupt(self, name: int, held: Any, index: int) -> Body:
        victim = self.processes[index % len(self.processes)]
        if victim.is_alive and victim is not self.env.active_process:
            victim.interrupt(f"by {name}")
        return None
        yield

    def do_await(self, name: int, held: Any, index: int) -> Body:
        other = self.processes[index % len(self.processes)]
        if other is self.env.active_process:
            return "refused"
        return (yield other)

    def do_signal(self, name: int, held: Any, index: int, ok: bool) -> Body:
        event = self.events[index]
        if event.triggered:
            self.events[index] = self.env.event()
        elif ok:
            event.succeed(name)
        else:
            event.fail(BrokenError("event"))
        return None
        yield

    def do_expect(self, name: int, held: Any, index: int, patience: float | None) -> Body:
        return (yield from self.wait(self.events[index], patience))

    def do_raise(self, name: int, held: Any) -> Body:
        raise BrokenError(f"process {name}")
        yield

    # Resources

    def request(self, where: str, priority: int, preempt: bool) -> Any:
        resource = self.resources[where]
        return resource.request() if where == "slots" else resource.request(priority, preempt)

    def holds(self, where: str) -> bool:
        """Whether the process would have to interrupt itself."""
        return where == "taken" and any(
            user.proc is self.env.active_process for user in self.resources[where].users
        )

    def wrap(self, where: str, name: int, item: int) -> Any:
        return self.kit.resources.PriorityItem(item, name) if where == "sorted" else (item, name)

    def take(self, where: str, least: int) -> Any:
        if where != "chosen":
            return self.resources[where].get()
        return self.resources[where].get(lambda item: item[0] >= least)

    # Log

    def note(self, name: Any, *what: Any) -> None:
        self.log.append((self.env.now, name, what, self.show_state()))

    def find(self, process: Any) -> int | None:
        return None if process is None else self.processes.index(process)

    def show_cause(self, cause: Any) -> Any:
        if isinstance(cause, str):
            return cause
        taken = cause.resource is self.resources["taken"]
        return ("preempted", self.find(cause.by), cause.usage_since, taken)

    def show_state(self) -> list[Any]:
        state: list[Any] = []
        for name, resource in self.resources.items():
            for queue in (resource.put_queue, resource.get_queue):
                state.append([self.find(operation.proc) for operation in queue])
            if name in ("slots", "ranked", "taken"):
                users = [(self.find(user.proc), user.usage_since) for user in resource.users]
                state += [users, resource.count]
            elif name == "amount":
                state += [resource.level, type(resource.level).__name__]
            else:
                state.append([tuple(item) for item in resource.items])
        return state


def enact(kit: Kit, plan: Any) -> list[Any]:
    """Run a plan to its end, past all failures; return its log."""
    limits, scripts, pause = plan
    program = Program(kit, limits)
    for script in scripts:
        program.start(script)
    # Step by step at first, since `run` of SimPy does not survive a failure with `until`.
    while pause is not None and program.env.peek() <= pause:
        try:
            program.env.step()
        except BrokenError as error:
            program.note("step", str(error))
    while True:
        try:
            program.env.run()
            break
        except BrokenError as error:
            program.note("run", str(error))
    program.note("end", [process.is_alive for process in program.processes])
    return program.log
