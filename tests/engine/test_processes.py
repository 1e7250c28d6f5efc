"""Processes: behaviour as in SimPy, errors and garbage collection."""

import gc
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import Cancelled, Environment, Event, Interrupt, all_of, any_of

Log = list[tuple[float, str, Any]]
Body = Generator[Any, Any, Any]

# SimPy as the oracle

# A script is what one process does, in turn. Delays repeat: ties are where orders differ.
delays = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.0])
actions = st.one_of(
    st.tuples(st.just("sleep"), delays),
    st.tuples(st.just("call"), st.lists(delays, max_size=3)),
    st.tuples(st.just("all"), st.lists(delays, min_size=1, max_size=3)),
    st.tuples(st.just("any"), st.lists(delays, min_size=1, max_size=3)),
    st.tuples(st.just("signal"), st.integers(0, 2)),
    st.tuples(st.just("await"), st.integers(0, 2)),
    st.tuples(st.just("interrupt"), st.integers(0, 4)),
)
scripts = st.lists(st.lists(actions, max_size=5), min_size=1, max_size=5)


def enact(env: Any, interrupt: type[Exception], all_: Any, any_: Any, plan: Any) -> Log:
    log: Log = []
    events = [env.event() for _ in range(3)]
    processes: list[Any] = []

    def child(naps: list[float]) -> Body:
        for nap in naps:
            yield env.timeout(nap)
        return sum(naps)

    def act(name: str, action: tuple[str, Any]) -> Body:
        kind, what = action
        if kind == "sleep":
            value = yield env.timeout(what, what)
        elif kind == "call":
            value = yield env.process(child(what))
        elif kind in ("all", "any"):
            timeouts = [env.timeout(nap, nap) for nap in what]
            happened = yield (all_ if kind == "all" else any_)(timeouts)
            value = [happened[timeout] for timeout in timeouts if timeout in happened]
        elif kind == "signal":
            if not events[what].triggered:
                events[what].succeed(name)
            value = what
        elif kind == "await":
            value = (yield events[what]) if events[what].triggered else None
        else:
            victim = processes[what % len(processes)]
            if victim.is_alive and victim is not processes[int(name)]:
                victim.interrupt(name)
            value = what
        log.append((env.now, name, (kind, value)))

    def body(name: str, script: list[tuple[str, Any]]) -> Body:
        for action in script:
            try:
                yield from act(name, action)
            except interrupt as caught:
                log.append((env.now, name, ("interrupted", caught.cause)))
        return name

    processes += [env.process(body(str(i), script)) for i, script in enumerate(plan)]
    env.run()
    log.append((env.now, "end", [process.value for process in processes]))
    return log


@given(scripts)
def test_event_times_equal_those_of_simpy(plan: Any) -> None:
    theirs = simpy.Environment()
    expected = enact(theirs, simpy.Interrupt, theirs.all_of, theirs.any_of, plan)
    assert enact(Environment(), Interrupt, all_of, any_of, plan) == expected


# Activities


def test_a_process_resumes_when_its_activity_ends() -> None:
    env = Environment()
    host = env.resource(2)

    def job() -> Body:
        yield host.execute(6, limit=1)
        return env.now

    assert env.run(until=env.process(job())) == 6.0


def test_a_cancelled_activity_is_thrown_into_the_process_that_waits() -> None:
    env = Environment()
    work = env.resource(1).execute(10, name="work")

    def job() -> Body:
        with pytest.raises(Cancelled, match="work"):
            yield work
        return env.now

    process = env.process(job())
    env.call_later(4, work.cancel)
    assert env.run(until=process) == 4.0


def test_cancelling_an_activity_without_waiters_is_no_error() -> None:
    env = Environment()
    work = env.resource(1).execute(10)
    env.call_later(1, work.cancel)
    env.run()
    assert work.state == "cancelled"
    assert work.done == 1.0


def test_an_interrupted_process_leaves_its_activity_running() -> None:
    env = Environment()
    work = env.resource(1).execute(10)

    def job() -> Body:
        try:
            yield work
        except Interrupt:
            return env.now

    process = env.process(job())
    env.call_later(3, process.interrupt)
    env.run()
    assert process.value == 3.0
    assert work.finished == 10.0


def test_operators_are_all_of_and_any_of() -> None:
    env = Environment()
    host = env.resource(1)
    short, long = host.execute(1), host.execute(3)
    either, both = short | long, short & long
    times: dict[str, float] = {}
    either.add_callback(lambda _: times.update(either=env.now))
    both.add_callback(lambda _: times.update(both=env.now))
    env.run()
    assert times == {"either": 2.0, "both": 4.0}
    assert list(either.value) == [short]


def test_the_value_of_nested_conditions_has_the_events_of_all() -> None:
    env = Environment()
    a, b, c, d = (env.timeout(delay, delay) for delay in (1, 2, 3, 9))
    assert env.run(until=((a & b) | d) & c) == {a: 1, b: 2, c: 3}


def test_the_error_of_a_process_goes_to_who_begins_to_wait_in_the_same_instant() -> None:
    env = Environment()
    times = []

    def fails() -> Body:
        yield env.timeout(1)
        raise KeyError("boom")

    def copes() -> Body:
        yield env.timeout(1)
        assert failing.triggered
        assert not failing.processed
        with pytest.raises(KeyError, match="boom"):
            yield failing
        times.append(env.now)

    failing = env.process(fails())
    env.process(copes())
    env.run()
    assert times == [1.0]


def test_a_condition_that_has_happened_does_not_receive_a_failure() -> None:
    env = Environment()
    first, second = env.event(), env.event()
    either = first | second
    first.succeed()
    second.fail(KeyError("boom"))
    with pytest.raises(KeyError, match="boom"):
        env.run()
    env.run()
    assert either.ok


def test_waiting_repeatedly_on_a_pending_event_leaves_no_waiters() -> None:
    env = Environment()
    closing = env.event()

    def patient() -> Body:
        for _ in range(1000):
            yield any_of([env.timeout(1), closing])

    env.run(until=env.process(patient()))
    closing.succeed()
    before = env.events
    env.run()
    assert env.events == before + 1  # the event itself, and no forgotten condition


# Errors


def raise_it(error: Exception) -> None:
    raise error


def test_an_error_in_a_callback_reaches_the_caller_and_the_rest_still_happens() -> None:
    env = Environment()
    host = env.resource(1)
    first, second = host.execute(1, name="first"), host.execute(2, name="second")
    calls: list[float] = []
    first.add_callback(lambda _: raise_it(KeyError("boom")))
    first.add_callback(lambda _: calls.append(env.now))
    env.call_at(2.0, calls.append, -1.0)
    with pytest.raises(KeyError, match="boom") as caught:
        env.run()
    assert any(entry.name == "raise_it" for entry in caught.traceback)
    assert env.now == 2.0
    assert first.state == "finished"
    env.run()
    assert calls == [2.0, -1.0]
    assert second.finished == 3.0


@pytest.mark.parametrize("where", ["started", "ended", "rate"])
def test_an_error_in_an_observer_reaches_the_caller(where: str) -> None:
    env = Environment()
    host = env.resource(1)
    observer = env.observe(**{where: lambda _: raise_it(KeyError("boom"))})

    def work() -> None:
        host.execute(1)
        env.run()

    with pytest.raises(KeyError):
        work()
    observer.stop()
    env.run()
    assert env.now == 1.0


def test_an_error_in_an_efficiency_function_can_be_mended() -> None:
    mood = {"bad": True}

    def efficiency(counts: dict[int, int]) -> dict[int, float]:
        if mood["bad"]:
            raise KeyError("boom")
        return dict.fromkeys(counts, 0.5)

    env = Environment()
    job = env.resource(1, efficiency=efficiency).execute(1)
    with pytest.raises(KeyError):
        env.run()
    mood["bad"] = False
    env.run()
    assert job.finished == 2.0


def test_an_efficiency_function_must_not_use_the_environment() -> None:
    env = Environment()
    host = env.resource(1, efficiency=lambda counts: dict.fromkeys(counts, host.level))
    host.execute(1)
    with pytest.raises(RuntimeError, match="efficiency function"):
        env.run()


def test_an_error_in_a_process_goes_to_who_waits_for_it_or_to_the_caller() -> None:
    env = Environment()

    def fails() -> Body:
        yield env.timeout(1)
        raise KeyError("boom")

    def copes(process: Event) -> Body:
        try:
            yield process
        except KeyError:
            return "coped"

    coping = env.process(copes(env.process(fails())))
    assert env.run(until=coping) == "coped"
    env.process(fails())
    with pytest.raises(KeyError, match="boom"):
        env.run()


def test_a_failed_event_without_waiters_raises_in_the_caller() -> None:
    env = Environment()
    env.event().fail(KeyError("boom"))
    with pytest.raises(KeyError, match="boom"):
        env.run()


def test_what_is_not_an_event_cannot_be_waited_for() -> None:
    env = Environment()

    def wrong(yielded: object) -> Body:
        yield yielded

    for yielded, error in ((3, TypeError), (Environment().timeout(1), ValueError)):
        env.process(wrong(yielded))
        with pytest.raises(error):
            env.run()


def no_generator() -> None: ...


@pytest.mark.parametrize(
    "act",
    [
        lambda env: env.process(no_generator),
        lambda env: env.process(no_generator()),
        lambda env: env.timeout(-1),
        lambda env: env.timeout(float("nan")),
        lambda env: env.timeout(),
        lambda env: env.timeout(1, 2, 3),
        lambda env: env.timeout(1, wrong=2),
        lambda env: env.timeout("1"),
        lambda env: env.call_later(1, 2),
        lambda env: env.call_later(1),
        lambda env: env.event().add_callback(3),
        lambda env: env.event().fail("no exception"),
        lambda env: all_of([]),
        lambda env: all_of([env.timeout(1), Environment().timeout(1)]),
        lambda env: all_of([3]),
        lambda env: env.observe(ended=3),
    ],
)
def test_misuse_is_refused(act: Callable[[Environment], object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        act(Environment())


def test_an_environment_cannot_be_run_from_inside() -> None:
    env = Environment()
    env.call_later(1, env.run)
    with pytest.raises(RuntimeError, match="running already"):
        env.run()


def test_an_event_happens_once() -> None:
    event = Environment().event()
    event.succeed()
    with pytest.raises(RuntimeError, match="already"):
        event.succeed()


def test_python_code_cannot_be_copied() -> None:
    def sleeper(env: Environment) -> Body:
        yield env.timeout(1)

    env = Environment()
    env.process(sleeper(env))
    with pytest.raises(RuntimeError, match="1 processes"):
        env.copy()
    env = Environment()
    env.call_later(1, print)
    with pytest.raises(RuntimeError, match="1 timers"):
        env.copy()


# Observers


def test_observers_see_starts_ends_and_rates_until_they_stop() -> None:
    env = Environment()
    host = env.resource(2, "host")
    seen: list[tuple[str, float, Any]] = []
    observer = env.observe(
        started=lambda a: seen.append(("started", env.now, a.name)),
        ended=lambda a: seen.append((a.state, env.now, a.done)),
        rate=lambda r: seen.append(("rate", env.now, r.rate)),
    )
    host.execute(2, limit=1, name="a", at=1)
    env.run()
    expected = [("started", 1.0, "a"), ("rate", 1.0, 1.0), ("finished", 3.0, 2.0), ("rate", 3.0, 0)]
    assert seen == expected
    observer.stop()
    host.execute(1)
    env.run()
    assert seen == expected


# Garbage


def test_an_abandoned_simulation_is_collected_with_all_that_was_going_on() -> None:
    class Witness:
        pass

    def abandon() -> "weakref.ref[Witness]":
        witness = Witness()
        env = Environment()
        host = env.resource(1, efficiency=lambda counts: dict.fromkeys(counts, 1.0))

        def waits(event: Event) -> Body:
            yield event
            return witness

        env.process(waits(env.timeout(10)))
        env.process(waits(env.event()))
        env.process(waits(host.execute(10)))
        env.process(waits(all_of([env.timeout(3), host.execute(4)])))
        env.call_later(5, lambda: (witness, env))
        env.every(5, lambda: (witness, env))
        env.observe(ended=lambda _: (witness, env))
        env.record()
        host.execute(3).add_callback(lambda _: witness)
        env.run(until=1)
        return weakref.ref(witness)

    reference = abandon()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("when", [3.0, 10.0, 11.0])
def test_work_that_is_given_up_in_a_finally_frees_its_resource(when: float) -> None:
    """Also in the instant in which the work ends, whichever of both comes first."""
    env = Environment()
    host = env.resource(1)

    def job() -> Generator[Any, Any, None]:
        activity = host.execute(10)
        try:
            yield activity
            yield env.timeout(5)
        except Interrupt:
            pass
        finally:
            if not activity.triggered:
                activity.cancel()

    process = env.process(job())
    env.call_at(when, process.interrupt)
    env.run(until=process)
    assert host.rate == 0
    after = host.execute(2)
    env.run()
    assert after.finished == when + 2
