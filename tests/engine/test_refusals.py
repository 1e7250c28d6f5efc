"""Invalid numbers, foreign resources and ended activities are rejected with their name."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from twinloop.engine import Activity, Environment, StalledError

NOT_AN_AMOUNT = [nan, inf, -inf, -1.0]
NOT_A_LIMIT = [nan, -inf, -1.0]
NOT_A_WEIGHT = [nan, inf, -1.0, 0.0]


def snapshot(env: Environment, activity: Activity) -> tuple[Any, ...]:
    return env.now, env.peek(), activity.remaining, activity.rate, activity.state


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("work", v) for v in NOT_AN_AMOUNT],
        *[("limit", v) for v in NOT_A_LIMIT],
        *[("weight", v) for v in NOT_A_WEIGHT],
        *[("latency", v) for v in NOT_AN_AMOUNT],
        *[("at", v) for v in NOT_AN_AMOUNT],
    ],
)
def test_an_invalid_start_names_the_field_and_starts_no_activity(field: str, value: float) -> None:
    env = Environment()
    host = env.resource(1.0)
    options = {"work": 1.0, field: value}
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        host.execute(options.pop("work"), **options)
    assert (env.activities, env.peek(), host.rate) == ([], inf, 0.0)


@pytest.mark.parametrize(
    ("change", "value", "field"),
    [
        *[("set_remaining", v, "work") for v in NOT_AN_AMOUNT],
        *[("set_limit", v, "limit") for v in NOT_A_LIMIT],
        *[("set_weight", v, "weight") for v in NOT_A_WEIGHT],
    ],
)
def test_an_invalid_change_names_the_field_and_has_no_effect(
    change: str, value: float, field: str
) -> None:
    env = Environment()
    activity = env.resource(1.0).execute(3.0)
    before = snapshot(env, activity)
    with pytest.raises(ValueError, match=rf"\b({field}|remaining)\b"):
        getattr(activity, change)(value)
    assert snapshot(env, activity) == before


@pytest.mark.parametrize("value", NOT_AN_AMOUNT)
def test_a_bad_capacity_is_named(value: float) -> None:
    env = Environment()
    host = env.resource(1.0)
    with pytest.raises(ValueError, match="capacity"):
        env.resource(value)
    with pytest.raises(ValueError, match="capacity"):
        host.set_capacity(value)
    assert host.capacity == 1.0


@pytest.mark.parametrize("table", [{0: []}, {0: [nan]}, {0: [1.0, -0.5]}, {0: [inf]}])
def test_a_bad_efficiency_is_named(table: dict[int, list[float]]) -> None:
    with pytest.raises(ValueError, match="efficienc"):
        Environment().resource(1.0, efficiency=table)


def test_a_resource_of_another_simulation_is_refused() -> None:
    env, other = Environment(), Environment()
    here, there = env.resource(1.0, name="here"), other.resource(1.0, name="there")
    activity = here.execute(1.0)
    with pytest.raises(ValueError, match="there"):
        env.start(1.0, [here, there])
    with pytest.raises(ValueError, match="there"):
        activity.move(there)
    with pytest.raises(ValueError, match="there"):
        env.influence_group(there)
    env.run()
    assert (activity.finished, there.consumed) == (1.0, 0.0)


def test_an_activity_draws_on_each_of_its_resources_once_and_on_one_at_least() -> None:
    env = Environment()
    host = env.resource(1.0, name="host")
    with pytest.raises(ValueError, match="host"):
        env.start(1.0, [host, host])
    with pytest.raises(ValueError, match="resource"):
        env.start(1.0, [])
    with pytest.raises(ValueError, match="resource"):
        host.execute(1.0).move([])


CHANGES: list[Callable[[Activity], object]] = [
    lambda a: a.suspend(),
    lambda a: a.resume(),
    lambda a: a.cancel(),
    lambda a: a.set_limit(2.0),
    lambda a: a.set_weight(2.0),
    lambda a: a.set_remaining(2.0),
    lambda a: a.move(a.resources),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("end", ["finished", "cancelled"])
def test_an_activity_that_has_ended_stays_as_it_is(
    end: str, change: Callable[[Activity], object]
) -> None:
    env = Environment()
    activity = env.resource(1.0).execute(2.0, name="gone")
    env.run(until=1.0)
    if end == "cancelled":
        activity.cancel()
    env.run()
    before = snapshot(env, activity)
    assert before[-1] == end
    with pytest.raises(RuntimeError, match="gone"):
        change(activity)
    env.run()
    assert snapshot(env, activity) == before


def test_an_efficiency_of_zero_raises_a_stalled_error() -> None:
    env = Environment()
    env.resource(1.0, efficiency={0: [0.0]}).execute(1.0, name="spinning")
    with pytest.raises(StalledError, match=r"spinning.*efficiency"):
        env.run()


def test_a_cancelled_wait_never_started() -> None:
    env = Environment()
    activity = env.resource(1.0).execute(1.0, latency=1.0)
    activity.cancel()
    assert (activity.state, activity.started, activity.done) == ("cancelled", None, 0.0)


def test_no_work_is_done_where_no_time_has_passed() -> None:
    env = Environment()
    host = env.resource(0.0)
    env.run(until=0.375)
    activity = host.execute(5.0, limit=7.0)
    activity.cancel()
    assert (activity.remaining, activity.done, activity.consumed) == (5.0, 0.0, 0.0)
