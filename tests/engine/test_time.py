"""The clock: timers, ways to advance, and the order of simultaneous events."""

from __future__ import annotations

import subprocess
import sys
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import Environment, StalledError

from .programs import instants


class Log(list[Any]):
    """Notes the time of each call together with what was passed."""

    def __init__(self, env: Environment) -> None:
        super().__init__()
        self.env = env

    def note(self, *what: Any) -> None:
        self.append((self.env.now, *what))


@pytest.fixture
def env() -> Environment:
    return Environment()


@pytest.fixture
def log(env: Environment) -> Log:
    return Log(env)


# Timers


def test_a_timer_calls_once_with_its_arguments(env: Environment, log: Log) -> None:
    env.call_at(2.0, log.note, "at", 1)
    env.call_later(1.0, log.note, "later")
    env.run()
    assert log == [(1.0, "later"), (2.0, "at", 1)]
    assert env.now == 2.0


def test_later_is_counted_from_now(log: Log) -> None:
    log.env = Environment(start=100.0)
    log.env.call_later(1.5, log.note, "x")
    log.env.run()
    assert log == [(101.5, "x")]


def test_a_cancelled_timer_does_not_call(env: Environment, log: Log) -> None:
    timer = env.call_at(1.0, log.note, "no")
    env.call_at(2.0, log.note, "yes")
    timer.cancel()
    env.run()
    assert log == [(2.0, "yes")]


def test_a_timer_may_be_cancelled_at_its_own_instant(env: Environment, log: Log) -> None:
    env.call_at(1.0, lambda: second.cancel())
    second = env.call_at(1.0, log.note, "no")
    env.run()
    assert log == []


def test_cancelling_twice_or_after_the_call_is_harmless(env: Environment, log: Log) -> None:
    timer = env.call_at(1.0, log.note, "once")
    env.run()
    timer.cancel()
    timer.cancel()
    env.call_at(2.0, log.note, "next")
    env.run()
    assert log == [(1.0, "once"), (2.0, "next")]


def test_a_recurring_timer_first_calls_after_one_period(env: Environment, log: Log) -> None:
    env.every(2.0, log.note, "tick")
    env.run(until=7.0)
    assert log == [(2.0, "tick"), (4.0, "tick"), (6.0, "tick")]


def test_a_recurring_timer_with_a_start_and_a_count(env: Environment, log: Log) -> None:
    env.every(2.0, log.note, "tick", start=1.0, count=3)
    env.run()
    assert log == [(1.0, "tick"), (3.0, "tick"), (5.0, "tick")]


def test_a_recurring_timer_stops_when_cancelled(env: Environment, log: Log) -> None:
    timer = env.every(1.0, log.note, "tick")
    env.call_at(2.5, timer.cancel)
    env.run()
    assert log == [(1.0, "tick"), (2.0, "tick")]


def test_a_recurring_timer_can_cancel_itself(env: Environment) -> None:
    calls = []

    def tick() -> None:
        calls.append(env.now)
        if len(calls) == 3:
            timer.cancel()

    timer = env.every(1.0, tick)
    env.run()
    assert calls == [1.0, 2.0, 3.0]


def test_the_calls_of_a_recurring_timer_do_not_drift(env: Environment, log: Log) -> None:
    env.every(0.1, log.note, count=1000)
    env.run()
    assert [t for (t,) in log] == pytest.approx([0.1 * (i + 1) for i in range(1000)], rel=1e-12)


@given(st.lists(st.tuples(instants(0, 40), st.booleans()), max_size=40))
def test_timers_call_in_the_order_of_time_then_of_creation(
    timers: list[tuple[float, bool]],
) -> None:
    env = Environment()
    log = Log(env)
    made = [env.call_at(time, log.note, i) for i, (time, _) in enumerate(timers)]
    for timer, (_, cancelled) in zip(made, timers, strict=True):
        if cancelled:
            timer.cancel()
    env.run()
    assert log == sorted((time, i) for i, (time, cancelled) in enumerate(timers) if not cancelled)


# Run, until, step, peek


def test_a_run_until_a_time_leaves_the_events_of_that_time(env: Environment, log: Log) -> None:
    task = env.resource(1.0).execute(5.0)
    env.call_at(5.0, log.note, "timer")
    env.run(until=5.0)
    assert (env.now, task.state, task.remaining, log) == (5.0, "running", 0.0, [])
    env.run()
    assert (env.now, task.state, task.finished, log) == (5.0, "finished", 5.0, [(5.0, "timer")])


def test_a_run_until_a_time_ends_there_also_without_events(env: Environment) -> None:
    env.run(until=3.0)
    assert env.now == 3.0
    env.run()
    assert env.now == 3.0


def test_a_run_until_an_event_returns_its_value(env: Environment) -> None:
    assert env.run(until=env.timeout(2.0, value="v")) == "v"
    assert env.now == 2.0


def test_a_run_until_the_end_of_an_activity(env: Environment, log: Log) -> None:
    host = env.resource(2.0)
    first, second = host.execute(2.0), host.execute(4.0)
    env.run(until=first)
    assert (env.now, first.finished, second.remaining) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("until", [nan, -1.0, 1.0])
def test_a_run_cannot_go_back(until: float) -> None:
    env = Environment(start=2.0)
    with pytest.raises(ValueError, match="until"):
        env.run(until=until)
    assert env.now == 2.0


def test_steps_are_the_events_of_a_run(env: Environment) -> None:
    host = env.resource(1.0)
    tasks = [host.execute(w) for w in (1.0, 2.0, 3.0)]
    env.call_at(10.0, lambda: None)
    times = []
    while env.step():
        times.append(env.now)
    assert times == [3.0, 5.0, 6.0, 10.0]
    assert [t.finished for t in tasks] == [3.0, 5.0, 6.0]
    assert not env.step()
    assert env.now == 10.0


def test_ends_on_one_instant_of_one_resource_are_one_step(env: Environment) -> None:
    host = env.resource(1.0)
    tasks = [host.execute(1.0) for _ in range(3)]
    assert env.step()
    assert [t.finished for t in tasks] == [3.0] * 3
    assert not env.step()


def test_peek_is_the_time_of_the_next_event(env: Environment) -> None:
    assert env.peek() == inf
    env.call_at(7.0, lambda: None)
    assert env.peek() == 7.0
    task = env.resource(1.0).execute(5.0)
    assert env.peek() == 5.0
    task.set_limit(0.5)
    assert env.peek() == 7.0
    task.cancel()
    env.step()
    assert (env.now, env.peek()) == (7.0, inf)


def test_peek_sees_delayed_starts_and_capacity_changes(env: Environment) -> None:
    host = env.resource(0.0)
    host.execute(1.0, at=3.0)
    assert env.peek() == 3.0
    host.set_profile([2.0, 4.0], [1.0, 2.0])
    assert env.peek() == 2.0


def test_a_cancelled_timer_is_not_the_next_event(env: Environment) -> None:
    env.call_at(1.0, lambda: None).cancel()
    assert env.peek() == inf
    assert not env.step()
    assert env.now == 0.0


@given(st.lists(st.tuples(instants(0, 40), instants(0, 80)), min_size=1, max_size=20))
def test_stepping_gives_the_bits_of_running(tasks: list[tuple[float, float]]) -> None:
    def load() -> tuple[Environment, list[Any]]:
        env = Environment()
        hosts = [env.resource(c) for c in (1.0, 3.0)]
        return env, [hosts[i % 2].execute(w, at=t) for i, (t, w) in enumerate(tasks)]

    run, at_once = load()
    run.run()
    stepped, one_by_one = load()
    last = stepped.now
    while True:
        expected = stepped.peek()
        if not stepped.step():
            break
        assert stepped.now == expected >= last
        last = stepped.now
    assert [a.finished for a in at_once] == [a.finished for a in one_by_one]
    assert (run.now, run.events) == (stepped.now, stepped.events)


# Jump and skip


def test_a_jump_goes_over_empty_time(env: Environment, log: Log) -> None:
    env.call_at(5.0, log.note, "timer")
    env.jump(4.0)
    assert (env.now, log) == (4.0, [])
    env.run()
    assert log == [(5.0, "timer")]


def test_a_jump_to_the_time_of_an_event_leaves_it(env: Environment, log: Log) -> None:
    env.call_at(5.0, log.note, "timer")
    env.jump(5.0)
    assert (env.now, log) == (5.0, [])


def test_a_jump_lets_activities_go_on(env: Environment) -> None:
    task = env.resource(1.0).execute(5.0)
    env.jump(3.0)
    assert (task.remaining, task.done) == (2.0, 3.0)
    env.run()
    assert task.finished == 5.0


@pytest.mark.parametrize("to", [6.0, 0.5, nan, inf])
def test_a_jump_refuses_to_lose_an_event_or_to_go_back(to: float) -> None:
    env = Environment(start=1.0)
    log = Log(env)
    env.call_at(5.0, log.note, "timer")
    with pytest.raises(ValueError, match=r"\bjump\b|\bto\b"):
        env.jump(to)
    assert env.now == 1.0
    env.run()
    assert log == [(5.0, "timer")]


def test_a_jump_refuses_to_pass_the_end_of_an_activity(env: Environment) -> None:
    task = env.resource(1.0).execute(5.0)
    with pytest.raises(ValueError, match=r"\bjump\b|\bto\b"):
        env.jump(6.0)
    env.run()
    assert task.finished == 5.0


def test_a_skip_drops_and_counts_timers(env: Environment, log: Log) -> None:
    for time in (1.0, 2.0, 3.0, 8.0):
        env.call_at(time, log.note)
    assert env.skip(5.0) == 3
    assert (env.now, log) == (5.0, [])
    env.run()
    assert log == [(8.0,)]


def test_a_recurring_timer_goes_on_after_a_skip(env: Environment, log: Log) -> None:
    env.every(1.0, log.note)
    assert env.skip(3.5) == 3
    env.run(until=5.5)
    assert log == [(4.0,), (5.0,)]


def test_activities_go_on_through_a_skip(env: Environment, log: Log) -> None:
    host = env.resource(1.0)
    short, long, late = host.execute(2.0), host.execute(6.0), host.execute(1.0, at=6.0)
    host.set_profile([8.0], [2.0])
    env.call_at(1.0, log.note)
    assert env.skip(9.0) == 1
    assert log == []
    # 2 + 2 by t = 4, alone to 6, both to 8 (1 each, the late one ends), then alone at rate 2.
    assert (short.finished, late.finished, long.finished) == (4.0, 8.0, 8.5)


def test_a_skip_cannot_go_back() -> None:
    env = Environment(start=2.0)
    with pytest.raises(ValueError, match=r"\bskip\b|\bto\b"):
        env.skip(1.0)


# The order of what falls on one instant: ends, capacity changes, starts, timers; then sequence


def test_a_timer_sees_the_ends_changes_and_starts_of_its_instant(env: Environment) -> None:
    seen: list[Any] = []
    host = env.resource(1.0)

    def look() -> None:
        seen.append((old.state, host.capacity, new.state, new.rate))

    env.call_at(10.0, look)  # created first, called last
    new = host.execute(10.0, at=10.0)
    host.set_profile([10.0], [4.0])
    old = host.execute(10.0)
    env.run()
    assert seen == [("finished", 4.0, "running", 4.0)]


def test_ends_then_capacity_changes_then_starts(env: Environment, log: Log) -> None:
    host = env.resource(1.0)
    env.observe(
        started=lambda a: log.note("start", a.name, host.capacity),
        ended=lambda a: log.note("end", a.name, host.capacity),
    )
    env.call_at(10.0, log.note, "timer")
    host.execute(10.0, at=10.0, name="new")
    host.set_profile([10.0], [4.0])
    host.execute(10.0, name="old")
    env.run(until=11.0)
    assert log[1:] == [
        (10.0, "end", "old", 1.0),
        (10.0, "start", "new", 4.0),
        (10.0, "timer"),
    ]


def test_equal_starts_and_ends_in_the_order_of_creation(env: Environment, log: Log) -> None:
    host = env.resource(4.0)
    env.observe(
        started=lambda a: log.note("start", a.name), ended=lambda a: log.note("end", a.name)
    )
    for name in "abcd":
        host.execute(1.0, at=1.0, name=name)
    env.run()
    assert log == [
        *[(1.0, "start", name) for name in "abcd"],
        *[(2.0, "end", name) for name in "abcd"],
    ]


def test_a_task_and_a_timer_made_at_one_instant_for_that_instant(
    env: Environment, log: Log
) -> None:
    host = env.resource(1.0)

    def first() -> None:
        env.call_later(0.0, log.note, "second")
        host.execute(0.0, name="empty").add_callback(lambda _: log.note("end of no work"))

    env.call_at(1.0, first)
    env.call_at(1.0, log.note, "first")
    env.run()
    assert {time for time, _ in log} == {1.0}
    assert [what for _, what in log if what != "end of no work"] == ["first", "second"]
    assert (1.0, "end of no work") in log


def test_no_work_ends_at_once(env: Environment) -> None:
    idle, busy = env.resource(0.0), env.resource(1.0)
    tasks = [idle.execute(0.0), busy.execute(0.0), env.start(0.0, [idle, busy])]
    delayed = idle.execute(0.0, latency=2.0)
    env.run()
    assert [t.finished for t in tasks] == [0.0] * 3
    assert delayed.finished == 2.0


# Times that are no times


@pytest.mark.parametrize("time", [nan, inf, -inf, 1.0])
def test_a_time_in_the_past_or_no_time_is_refused_by_name(time: float) -> None:
    env = Environment(start=2.0)
    host = env.resource(1.0)
    with pytest.raises(ValueError, match="time"):
        env.call_at(time, lambda: None)
    with pytest.raises(ValueError, match="at"):
        host.execute(1.0, at=time)
    assert env.peek() == inf


@pytest.mark.parametrize("delay", [nan, inf, -1.0])
def test_a_delay_that_is_none_is_refused_by_name(env: Environment, delay: float) -> None:
    with pytest.raises(ValueError, match="delay"):
        env.call_later(delay, lambda: None)
    with pytest.raises(ValueError, match="delay"):
        env.timeout(delay)
    with pytest.raises(ValueError, match="period"):
        env.every(delay, lambda: None)
    with pytest.raises(ValueError, match="latency"):
        env.resource(1.0).execute(1.0, latency=delay)
    assert env.peek() == inf


def test_a_period_of_zero_is_refused(env: Environment) -> None:
    with pytest.raises(ValueError, match="period"):
        env.every(0.0, lambda: None)


@pytest.mark.parametrize(
    ("times", "capacities"),
    [([1.0], [1.0, 2.0]), ([2.0, 1.0], [1.0, 2.0]), ([nan], [1.0]), ([1.0], [-1.0])],
)
def test_a_bad_profile_is_refused(
    env: Environment, times: list[float], capacities: list[float]
) -> None:
    host = env.resource(1.0)
    with pytest.raises(ValueError, match=r"time|capacit"):
        host.set_profile(times, capacities)
    assert (host.capacity, env.peek()) == (1.0, inf)


# What can never end


def test_a_run_that_stalls_names_the_activities_and_can_go_on(env: Environment) -> None:
    idle, busy = env.resource(0.0), env.resource(1.0)
    starved = idle.execute(1.0, name="starved")
    paused = busy.execute(1.0, name="paused", limit=0.0)
    fine = busy.execute(1.0, name="fine")
    with pytest.raises(StalledError) as caught:
        env.run()
    assert "starved" in str(caught.value)
    assert "paused" in str(caught.value)
    assert "fine" not in str(caught.value)
    assert (env.now, fine.finished) == (1.0, 1.0)
    idle.set_capacity(0.5)
    paused.set_limit(None)
    env.run()
    assert (starved.finished, paused.finished) == (3.0, 2.0)


def test_a_suspended_activity_can_never_end_by_itself(env: Environment) -> None:
    task = env.resource(1.0).execute(4.0, name="asleep")
    env.run(until=1.0)
    task.suspend()
    with pytest.raises(StalledError, match="asleep"):
        env.run()
    env.run(until=10.0)
    assert task.remaining == 3.0
    task.resume()
    env.run()
    assert task.finished == 13.0


REPEATING = """
from twinloop.engine import Environment, StalledError
env = Environment()
host = env.resource(1.0)
host.set_profile([1.0, 2.0], [0.0, 1.0], period=2.0)
"""


@pytest.mark.parametrize(
    "program",
    [
        "env.run()",
        "task = host.execute(3.0); env.run(); assert task.finished == 5.0",
        """
host.execute(3.0, name="asleep").suspend()
try:
    env.run()
except StalledError as error:
    assert "asleep" in str(error)
else:
    raise AssertionError("it did not stall")
""",
    ],
    ids=["idle", "all ends", "stalled"],
)
def test_a_profile_that_repeats_does_not_keep_a_run_from_its_end(program: str) -> None:
    # In a process of its own: a run without end would take the tests with it.
    subprocess.run([sys.executable, "-c", REPEATING + program], check=True, timeout=60)
