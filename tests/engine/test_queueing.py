"""Queueing resources: logs of random programs as in SimPy; nothing leaks; errors; garbage."""

import gc
import heapq
import weakref
from collections.abc import Callable, Generator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.queueing_programs import PLANS, SIMPY, TWINLOOP, enact, make_dense_plan
from tests.examples import examples
from twinloop.engine import Environment, Interrupt
from twinloop.engine import Resource as SharedResource
from twinloop.engine.queueing import (
    Container,
    FilterStore,
    Preempted,
    PreemptiveResource,
    PriorityItem,
    PriorityResource,
    PriorityStore,
    Release,
    Request,
    Resource,
    Store,
)

Body = Generator[Any, Any, Any]

# SimPy as the oracle


@examples(30)
@given(PLANS)
def test_random_programs_have_the_log_of_simpy(plan: Any) -> None:
    assert enact(TWINLOOP, plan) == enact(SIMPY, plan)


@examples(30)
@given(st.integers(0, 2**32))
def test_programs_with_many_ties_have_the_log_of_simpy(seed: int) -> None:
    plan = make_dense_plan(Random(seed))
    assert enact(TWINLOOP, plan) == enact(SIMPY, plan)


# Nothing leaks

#: Whole numbers, so that interrupts often fall on the very instant of a grant or a release.
TIMES = st.integers(0, 12)
JOBS = st.lists(st.tuples(TIMES, st.integers(1, 4), TIMES | st.none()), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", [Resource, PriorityResource, PreemptiveResource])
@given(count=st.integers(1, 3), jobs=JOBS)
def test_no_slot_is_lost_and_none_is_held_twice(
    kind: type[Resource], count: int, jobs: list[tuple[int, int, int | None]]
) -> None:
    env = Environment()
    slots = kind(env, count)
    inside: set[int] = set()

    def job(number: int, arrival: int, service: int) -> Body:
        try:
            yield env.timeout(arrival)
            arguments = () if kind is Resource else (number % 3,)
            with slots.request(*arguments) as turn:
                yield turn
                inside.add(number)
                assert len(inside) <= count
                try:
                    yield env.timeout(service)
                finally:
                    inside.remove(number)
        except Interrupt:
            pass

    for number, (arrival, service, stop) in enumerate(jobs):
        process = env.process(job(number, arrival, service))
        if stop is not None:
            env.call_at(stop, lambda p=process: p.interrupt("stop") if p.is_alive else None)
    env.run()
    assert slots.count == len(slots.queue) == len(slots.put_queue) == len(slots.get_queue) == 0


@pytest.mark.parametrize("when", [1, 2, 5], ids=["waiting", "as its turn comes", "holding"])
def test_an_interrupted_job_leaves_its_slot_to_the_next(when: int) -> None:
    env = Environment()
    slots = Resource(env, 1)
    done = []

    def job(name: str, service: int) -> Body:
        try:
            with slots.request() as turn:
                yield turn
                yield env.timeout(service)
                done.append((name, env.now))
        except Interrupt:
            pass

    processes = [env.process(job(*each)) for each in (("a", 2), ("b", 4), ("c", 1))]
    env.call_at(when, processes[1].interrupt)
    env.run()
    assert done == [("a", 2.0), ("c", max(when, 2) + 1.0)]
    assert slots.count == 0


@given(
    puts=st.lists(st.tuples(TIMES, TIMES | st.none()), max_size=10),
    gets=st.lists(st.tuples(TIMES, TIMES | st.none()), max_size=10),
    kind=st.sampled_from([Store, PriorityStore, FilterStore]),
)
def test_each_item_is_delivered_once_or_still_there(
    puts: list[tuple[int, int | None]], gets: list[tuple[int, int | None]], kind: type[Store]
) -> None:
    env = Environment()
    store = kind(env, 2)
    entered: list[int] = []
    left: list[int] = []

    def perform(start: int, begin: Callable[[], Any], note: Callable[[Any], None]) -> Body:
        try:
            yield env.timeout(start)
            with begin() as operation:
                try:
                    yield operation
                finally:
                    if operation.triggered:
                        note(operation)
        except Interrupt:
            pass

    operations = [
        (perform(start, lambda i=i: store.put(i), lambda put: entered.append(put.item)), stop)
        for i, (start, stop) in enumerate(puts)
    ]
    operations += [
        (perform(start, store.get, lambda get: left.append(get.value)), stop)
        for start, stop in gets
    ]
    for body, stop in operations:
        process = env.process(body)
        if stop is not None:
            env.call_at(stop, lambda p=process: p.interrupt() if p.is_alive else None)
    env.run()
    assert sorted([*left, *store.items]) == sorted(entered)


# Semantics


def test_priority_items_of_equal_priority_leave_as_by_heapq() -> None:
    env = Environment()
    store = PriorityStore(env)
    random = Random(4)
    heap: list[Any] = []
    for step in range(300):
        if heap and random.random() < 0.4:
            assert store.get().value is heapq.heappop(heap)
        else:
            item = PriorityItem(random.randint(0, 5), step)
            heapq.heappush(heap, item)
            store.put(item)
        assert store.items == heap


def test_a_preempted_process_learns_by_whom_and_since_when() -> None:
    env = Environment()
    machine = PreemptiveResource(env)
    causes: list[Any] = []

    def use(priority: int, start: int) -> Body:
        yield env.timeout(start)
        with machine.request(priority) as turn:
            yield turn
            try:
                yield env.timeout(10)
            except Interrupt as interrupt:
                causes.append(interrupt.cause)

    env.process(use(5, 1))
    urgent = env.process(use(1, 4))
    env.run()
    (cause,) = causes
    assert isinstance(cause, Preempted)
    assert (cause.by, cause.usage_since, cause.resource) == (urgent, 1.0, machine)


def test_without_preemption_an_urgent_request_waits_at_the_head_of_the_queue() -> None:
    env = Environment()
    machine = PreemptiveResource(env)
    order = []

    def use(name: str, start: int, priority: int, preempt: bool) -> Body:
        yield env.timeout(start)
        with machine.request(priority=priority, preempt=preempt) as turn:
            yield turn
            order.append((name, env.now))
            yield env.timeout(5)

    env.process(use("first", 0, 3, True))
    env.process(use("second", 1, 2, False))
    env.process(use("third", 2, 1, False))
    env.run()
    assert order == [("first", 0.0), ("third", 5.0), ("second", 10.0)]


def test_attributes_of_operations() -> None:
    env = Environment()
    slots, ranked = Resource(env, capacity=1), PriorityResource(env)
    seen: list[Any] = []

    def user() -> Body:
        request = slots.request()
        seen.append(request)
        assert isinstance(request, Request)
        assert request.proc is env.active_process
        assert (request.resource, request.usage_since) == (slots, 0.0)
        assert (slots.users, slots.queue, slots.count) == ([request], [], 1)
        second = slots.request()
        assert (second.usage_since, second.triggered, slots.queue) == (None, False, [second])
        release = slots.release(request)
        assert isinstance(release, Release)
        assert release.request is request
        assert (release.triggered, release.processed) == (True, False)
        yield release
        assert second.triggered

    env.run(until=env.process(user()))
    assert env.active_process is None
    outside = ranked.request(priority=2.5, preempt=False)
    assert (outside.proc, outside.priority, outside.preempt, outside.time) == (None, 2.5, False, 0)
    assert ranked.request().priority == 0
    container = Container(env, capacity=10, init=3)
    assert (container.put(4).amount, container.level) == (4, 7)
    assert (container.get(0.5).amount, container.level) == (0.5, 6.5)
    chosen = FilterStore(env)
    assert chosen.put("item").item == "item"
    accept = str.isupper
    assert chosen.get(filter=accept).filter is accept
    assert chosen.get().filter is None
    assert (chosen.capacity, slots.capacity) == (float("inf"), 1)


def test_views_are_sequences_that_follow_the_resource() -> None:
    env = Environment()
    store = Store(env)
    items = store.items
    for item in ("a", "b", "a"):
        store.put(item)
    assert items == ["a", "b", "a"] == list(items)
    assert (len(items), items[1], items[-1], items[:2]) == (3, "b", "a", ["a", "b"])
    assert ("b" in items, "c" in items, items.index("b"), items.count("a")) == (True, False, 1, 2)
    assert items == store.items
    assert items != ["a"]
    assert repr(items) == "['a', 'b', 'a']"
    store.get()
    assert items == ["b", "a"]
    with pytest.raises(IndexError):
        items[2]
    with pytest.raises(ValueError, match="c"):
        items.index("c")
    with pytest.raises(AttributeError):
        items.append("c")  # type: ignore[attr-defined]


def test_a_subclass_can_replace_request_and_release() -> None:
    calls: list[str] = []

    class Monitored(Resource):
        def request(self) -> Request:
            calls.append("request")
            return super().request()

        def release(self, request: Request) -> Release:
            calls.append("release")
            return super().release(request)

    env = Environment()
    slots = Monitored(env)

    def user() -> Body:
        with slots.request() as turn:
            yield turn

    env.process(user())
    env.run()
    assert calls == ["request", "release"]
    assert slots.count == 0


def test_the_two_kinds_of_resources_are_different_classes() -> None:
    assert Resource is not SharedResource
    assert (Resource.__module__, Resource.__name__) == ("twinloop.engine.queueing", "Resource")


# Errors


def hold_twice(env: Environment) -> None:
    """A process that would have to interrupt itself."""
    machine = PreemptiveResource(env)

    def job() -> Body:
        yield machine.request(2)
        before = (machine.users[:], machine.queue[:])
        try:
            machine.request(1)
        finally:
            assert (machine.users, machine.queue) == before

    env.process(job())
    env.run()


def preempt_no_process(env: Environment) -> None:
    machine = PreemptiveResource(env)
    machine.request(2)
    machine.request(1)


def preempt_ended_process(env: Environment) -> None:
    machine = PreemptiveResource(env)

    def forgetful() -> Body:
        yield machine.request(2)

    env.run(until=env.process(forgetful()))
    machine.request(1)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda env: Resource(env, 0), ValueError, "capacity must be positive, got 0"),
        (lambda env: Store(env, -1), ValueError, "capacity must be positive"),
        (lambda env: Container(env, float("nan")), ValueError, "capacity must be positive"),
        (
            lambda env: Container(env, 5, 6),
            ValueError,
            "init must be between 0 and the capacity, 5",
        ),
        (lambda env: Container(env, init=-1), ValueError, "init must be between 0"),
        (lambda env: Container(env).put(0), ValueError, "amount must be positive, got 0"),
        (lambda env: Container(env).get(-2), ValueError, "amount must be positive"),
        (lambda env: Container(env).get("much"), TypeError, "real number"),
        (lambda env: Container(env).get(), TypeError, "takes an amount"),
        (lambda env: Resource(simpy.Environment()), TypeError, "expected an Environment"),
        (lambda env: Resource(env, "2"), TypeError, "real number"),
        (lambda env: Resource(env).request(1), TypeError, "argument"),
        (lambda env: Resource(env).release(3), TypeError, "takes a request, got 3"),
        (
            lambda env: Resource(env).release(Resource(env).request()),
            ValueError,
            "belongs to another resource",
        ),
        (lambda env: PriorityResource(env).request("high"), TypeError, "real number"),
        (lambda env: PriorityResource(env).request(float("nan")), ValueError, "priority"),
        (lambda env: PriorityResource(env).request(urgent=1), TypeError, "takes a priority"),
        (lambda env: FilterStore(env).get(3), TypeError, "takes a filter"),
        (lambda env: Store(env).put(), TypeError, "takes an item"),
        (hold_twice, RuntimeError, "cannot interrupt itself"),
        (preempt_no_process, RuntimeError, "not made in a process"),
        (preempt_ended_process, RuntimeError, "ended"),
    ],
)
def test_misuse_is_refused(
    act: Callable[[Environment], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        act(Environment())


def test_items_that_cannot_be_compared_leave_the_store_as_it_was() -> None:
    store = PriorityStore(Environment())
    store.put(3)
    store.put(1)
    with pytest.raises(TypeError, match="not supported"):
        store.put("text")
    assert (store.items, store.put_queue) == ([1, 3], [])


def test_a_filter_that_fails_or_uses_the_store_leaves_it_as_it_was() -> None:
    store = FilterStore(Environment())
    store.put("item")
    with pytest.raises(ZeroDivisionError):
        store.get(lambda item: 1 / 0)
    with pytest.raises(RuntimeError, match="cannot use the store"):
        store.get(lambda item: store.put("other"))
    assert (store.items, store.get_queue, store.put_queue) == (["item"], [], [])
    assert store.get().value == "item"


def test_an_error_of_a_filter_reaches_the_caller_of_run_and_the_rest_still_happens() -> None:
    env = Environment()
    store = FilterStore(env)
    broken = store.get(lambda item: 1 / 0)
    done = []

    def put() -> Body:
        yield store.put("item")
        done.append(env.now)

    env.process(put())
    with pytest.raises(ZeroDivisionError):
        env.run()
    assert done == []
    broken.cancel()
    env.run()
    assert done == [0.0]


def test_cancelling_twice_is_no_error() -> None:
    env = Environment()
    slots = Resource(env)
    slots.request()
    with slots.request() as turn:
        turn.cancel()
        turn.cancel()
    assert (slots.count, slots.queue) == (1, [])


# Garbage


class Witness:
    """Something that weak references can watch."""


def use_everything(env: Environment, witness: object) -> None:
    """Operations of all kinds: done, waiting, cancelled, held and preempted."""
    stores = [Store(env, 1), FilterStore(env, 1), PriorityStore(env, 1)]
    tank = Container(env, 2)
    slots = [Resource(env), PriorityResource(env), PreemptiveResource(env)]

    def worker(priority: int) -> Body:
        for store in stores:
            store.put((priority, witness))
        stores[1].get(lambda item: item is witness)
        for resource in slots:
            arguments = () if resource is slots[0] else (priority,)
            with suppress(Interrupt), resource.request(*arguments) as turn:
                yield turn | env.timeout(priority)
                yield env.timeout(4)
        yield tank.get(1)
        return witness

    for priority in range(5):
        env.process(worker(4 - priority))


def test_an_abandoned_simulation_is_collected_with_its_queues() -> None:
    def abandon(until: float | None) -> "weakref.ref[Witness]":
        witness, env = Witness(), Environment()
        use_everything(env, witness)
        env.run(until)
        return weakref.ref(witness)

    for until in (2.0, 7.5, None):
        reference = abandon(until)
        gc.collect()
        assert reference() is None


def test_completed_operations_leave_no_reference_cycles() -> None:
    """Without the collector: all is freed by reference counts."""
    env = Environment()
    slots, store, tank = PreemptiveResource(env), Store(env, 1), Container(env, 5, init=5)

    def worker(witness: Witness, priority: int) -> Body:
        with suppress(Interrupt), slots.request(priority) as turn:
            yield turn
            yield env.timeout(2)
        with store.put(witness) as put:
            yield put
        with store.get() as get:
            received = yield get
            assert isinstance(received, Witness)
        with tank.get(1) as get:
            yield get | env.timeout(1)

    def start(count: int) -> "list[weakref.ref[Witness]]":
        witnesses = [Witness() for _ in range(count)]
        for index, witness in enumerate(witnesses):
            env.process(worker(witness, -index))
        return [weakref.ref(witness) for witness in witnesses]

    gc.collect()
    gc.disable()
    try:
        references = start(5)
        env.run()
        assert [reference() for reference in references] == [None] * 5
    finally:
        gc.enable()
