"""The native brokers: cases whose decisions are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clouds.broker_twin import BrokerCase, Outcome, run_native
from tests.clouds.cases import finish, list_rentals, list_times, make_host, make_task, start
from twinloop.engine import Simulation

#: Boots of 10 s as predicted, units of 60 s.
ASAP = BrokerCase("asap", ())
AFAP = BrokerCase("afap", ())


def run(case: BrokerCase, *tasks: tuple[int, int, int], **changes: Any) -> Outcome:
    """Run the broker with tasks as submission, run time, and predicted run time."""
    return run_native(case.change(tasks=tasks, **changes))


def list_instances(outcome: Outcome) -> list[int]:
    """List the instance of each task, in the order of the tasks."""
    return [outcome.placements[name][0] for name in sorted(outcome.placements)]


def list_requests(outcome: Outcome) -> list[float]:
    return [requested for requested, _, _ in outcome.instances]


# --- as soon as possible -------------------------------------------------------------------------


def test_asap_takes_the_idle_instance_that_is_filled_most() -> None:
    """At 35 s, work and margin leave 60 - 45 = 15 s of the first instance, 25 s of the other."""
    outcome = run(ASAP, (0, 5, 5), (10, 5, 5), (35, 5, 5), boot=10, base=4.0)
    assert list_requests(outcome) == [0, 10]
    assert list_instances(outcome) == [1, 2, 1]


def test_asap_waits_for_an_instance_that_is_idle_before_a_boot_would_end() -> None:
    """Idle at 10 + 30 = 40 s: a boot of 10 s that begins at 30 s ends then, at 31 s later."""
    assert list_instances(run(ASAP, (0, 30, 30), (30, 5, 5))) == [1, 2]
    assert list_instances(run(ASAP, (0, 30, 30), (31, 5, 5))) == [1, 1]


def test_asap_at_the_limit_takes_the_instance_that_is_idle_first() -> None:
    """The first instance is idle at 10 + 40 s, the second one at 10 + 20 s."""
    outcome = run(ASAP, (0, 40, 40), (0, 20, 20), (1, 5, 5), limit=2)
    assert list_instances(outcome) == [1, 2, 2]


def test_asap_counts_the_instances_that_boot() -> None:
    """Predicted boots are 5 + 5 x 1 = 10 s, 15 s and 20 s: the third task can wait for the first.

    It is predicted to be idle at 10 + 9 = 19 s, before a third instance had booted, at 20 s; the
    second one at 15 + 30 s.
    """
    outcome = run(ASAP, (0, 9, 9), (0, 30, 30), (0, 5, 5), base=5.0, per_booting=5.0)
    assert list_instances(outcome) == [1, 2, 1]
    outcome = run(ASAP, (0, 9, 9), (0, 30, 30), (0, 5, 5), base=5.0)
    assert list_instances(outcome) == [1, 2, 3]


def test_validation_forgets_the_linear_part_of_a_single_boot() -> None:
    """The first boot is predicted with 5 s, not 5 + 15 s: idle at 24 s, not at 39 s.

    The prediction of a second one is 5 + 15 x 2 = 35 s in both cases.
    """
    settings: dict[str, Any] = {"published": True, "base": 5.0, "per_booting": 15.0, "interval": 1}
    tasks = ((0, 19, 19), (0, 5, 5))
    assert list_instances(run(ASAP, *tasks, **settings)) == [1, 2]
    assert list_instances(run(ASAP, *tasks, **settings, validation=True)) == [1, 1]


# --- as full as possible -------------------------------------------------------------------------


def test_afap_opens_a_unit_only_when_it_must() -> None:
    """10 s of boot, 20 s of work and 5 s of margin leave 25 s of the unit."""
    assert list_instances(run(AFAP, (0, 20, 20), (0, 25, 25))) == [1, 1]
    assert list_instances(run(AFAP, (0, 20, 20), (0, 26, 26))) == [1, 2]


def test_afap_fills_the_instance_with_the_least_time_left() -> None:
    """With boot and margin, 25 + 44 s are more than a unit, and 25 + 30 s are not.

    The last task of 1 s fits on both instances, which have 5 s and 1 s left.
    """
    outcome = run(AFAP, (0, 10, 10), (0, 44, 44), (0, 30, 30), (0, 1, 1))
    assert list_instances(outcome) == [1, 2, 1, 2]


def test_afap_at_the_limit_takes_the_instance_that_is_idle_first() -> None:
    outcome = run(AFAP, (0, 40, 40), (0, 30, 30), (0, 45, 45), limit=2)
    assert list_instances(outcome) == [1, 2, 2]


def test_afap_with_a_task_longer_than_a_unit() -> None:
    """A task of 70 s needs another unit wherever it runs: by the text, a new instance.

    The published rule compares what is left of a unit: 60 - 35 = 25 s without the task, and 120 -
    105 = 15 s with it.
    """
    tasks = ((0, 20, 20), (0, 70, 70))
    assert list_instances(run(AFAP, *tasks)) == [1, 2]
    assert list_instances(run(AFAP, *tasks, published=True, interval=1)) == [1, 1]
    # With 50 s, 120 - 85 = 35 s are left, more than 25 s: a new instance by both rules.
    tasks = ((0, 20, 20), (0, 50, 50))
    assert list_instances(run(AFAP, *tasks)) == [1, 2]
    assert list_instances(run(AFAP, *tasks, published=True, interval=1)) == [1, 2]


def test_afap_with_a_task_as_long_as_a_unit() -> None:
    """What is left does not change: enough for the published rule, not with `validation`."""
    tasks = ((0, 20, 20), (0, 60, 60))
    published = AFAP.change(published=True, interval=1)
    assert list_instances(run(published, *tasks)) == [1, 1]
    assert list_instances(run(published, *tasks, validation=True)) == [1, 2]


# --- order of comparison -------------------------------------------------------------------------


def test_of_instances_with_equal_dates_the_last_decision_is_first() -> None:
    """Two equal instances are idle from 15 s on; the third task finds both equally full."""
    assert list_instances(run(ASAP, (0, 5, 5), (0, 5, 5), (20, 5, 5))) == [1, 2, 2]


def test_of_instances_with_different_dates_the_first_request_is_first() -> None:
    """At the limit both are predicted to be idle at 31 s."""
    assert list_instances(run(ASAP, (0, 21, 21), (1, 20, 20), (2, 5, 5), limit=2)) == [1, 2, 1]


def test_instances_without_a_request_come_first_in_the_order_of_decisions() -> None:
    """The requests of the second and third instance are dated 5 s: before that they are first.

    All three are predicted to be idle at 30 s.
    """
    boots = ((0, 10, 0), (5, 10, 0), (5, 10, 0))
    settings: dict[str, Any] = {"boots": boots, "published": True, "interval": 1, "limit": 3}
    equal = ((0, 20, 20), (0, 20, 20), (0, 20, 20))
    assert list_instances(run(ASAP, *equal, (4, 5, 5), **settings))[3] == 2
    # Once all are requested, the one with the earliest date is first.
    assert list_instances(run(ASAP, *equal, (6, 5, 5), **settings))[3] == 1


# --- stops ---------------------------------------------------------------------------------------


def test_an_idle_instance_stops_at_the_end_of_its_unit() -> None:
    """Idle from 30 s on, it is given back 5 s before the end of the unit, at 55 s."""
    assert run(ASAP, (0, 20, 20)).instances == [(0, 10, 55)]
    # With a scan every 10 s the first one in the margin of 15 s is at 50 s.
    assert run(ASAP, (0, 20, 20), interval=10, margin=15).instances == [(0, 10, 50)]


def test_an_instance_that_becomes_idle_within_the_margin() -> None:
    """It ends its task at 57 s. By the text it is idle within the margin, and stops at once.

    The published simulator keeps it for the next unit, which ends at 120 s. Its units begin a
    second late: 115 + 5 s are in the second unit, 116 + 5 s in the third one.
    """
    assert run(ASAP, (0, 47, 47)).instances == [(0, 10, 57)]
    outcome = run(ASAP, (0, 47, 47), published=True, interval=1)
    assert outcome.instances == [(0, 10, 116)]
    assert outcome.bill == 4


def test_a_busy_instance_goes_on_into_the_next_unit() -> None:
    outcome = run(ASAP, (0, 60, 60))
    assert outcome.instances == [(0, 10, 115)]
    assert outcome.bill == 4


def test_scans_are_rarer_after_the_last_submission() -> None:
    """The second task is ready at 11 s; the scans after that of 3 s are at 8, 13, 18... s."""
    case = ASAP.change(parents=((), (0,)), boot=1, base=1.0, interval=1, later_interval=5)
    outcome = run(case, (0, 10, 10), (3, 5, 5))
    assert outcome.placements["t1"] == (1, 13, 18)


def test_one_instance_within_the_margin_does_not_delay_the_stop_of_another() -> None:
    """The third one may stop when 7 s and the margin are more than 16 s, the second one not."""
    case = BrokerCase(
        "asap",
        ((128, 5, 70), (49, 1, 70), (7, 1, 70), (125, 36, 70)),
        ((), (0,), (0,), ()),
        boot=1,
        base=0.0,
        per_booting=6.25,
        unit=16,
        margin=10,
        published=True,
    )
    assert run_native(case).instances[2] == (134, 135, 141)


@pytest.mark.parametrize("interval", [0, 1])
@pytest.mark.parametrize("is_limit_of_cloud", [False, True])
def test_the_limit_when_an_instance_is_given_back(interval: int, is_limit_of_cloud: bool) -> None:
    """At 55 s the only instance is given back, and a task arrives.

    For the limit of the cloud it counts until its end, so that the next scan requests another one.
    """
    limits: dict[str, Any] = {"limit": 1, "is_limit_of_cloud": is_limit_of_cloud}
    outcome = run(ASAP, (0, 12, 12), (55, 9, 9), interval=interval, **limits)
    assert list_requests(outcome) == [0, 55 + interval * is_limit_of_cloud]


# --- instances that do not boot ------------------------------------------------------------------


def start_failing(
    *, queue: str = "skip", hosts: str = "a b", policy: Any = None, **options: Any
) -> Simulation:
    """Start a broker on hosts of one core, with three tasks of 20 s for one instance."""
    native = {"name": "afap", "options": {"boot": {"base": 10}, "margin": 5, **options}}
    return start(
        [make_host(hosts, 1)],
        [make_task(i, run_time=20, requested_time=20) for i in range(3)],
        image={"name": "base", "boot": {"delay": 10}},
        billing={"unit": 100, "price": 1},
        controllers={"placement": {"name": "first-fit", "options": {"queue": queue}}},
        policy=policy or native,
    )


def test_an_instance_that_fails_in_its_boot_is_replaced_with_its_tasks() -> None:
    sim = start_failing()
    sim.run_until(4)
    sim.fail("a")
    sim.run()
    assert list_times(sim) == [(14, 34), (34, 54), (54, 74)]
    columns = ("host", "requested", "ready", "end", "reason", "price")
    assert list_rentals(sim, *columns) == [
        ("a", 0, None, 4, "lost", 1),
        ("b", 4, 14, 99, "released", 1),
    ]


def test_tasks_of_an_instance_that_is_lost_get_another_one() -> None:
    """The first task, which has run since 10 s, runs again in full; the others have not started."""
    sim = start_failing()
    sim.run_until(15)
    sim.fail("a")
    sim.run()
    assert list_times(sim) == [(10, 45), (45, 65), (65, 85)]
    assert list_rentals(sim, "requested", "end", "reason") == [
        (0, 15, "lost"),
        (15, 110, "released"),
    ]


def test_a_refused_instance_is_requested_again_later() -> None:
    sim = start_failing(queue="refuse", hosts="a", retry=7)
    sim.fail("a")
    sim.run_until(10)
    sim.restore("a")
    sim.run()
    assert list_times(sim) == [(24, 44), (44, 64), (64, 84)]
    assert list_rentals(sim, "requested", "reason", "price") == [
        (0, "refused", 0),
        (7, "refused", 0),
        (14, "released", 1),
    ]


def test_tasks_are_killed_after_as_many_attempts_as_allowed() -> None:
    sim = start_failing(queue="refuse", hosts="a", retry=7, attempts=3)
    sim.fail("a")
    sim.run()
    assert list_rentals(sim, "requested", "reason") == [(t, "refused") for t in (0, 7, 14)]
    assert sim.tasks["status"].to_list() == ["killed"] * 3


@pytest.mark.parametrize("strategy", ["asap", "afap", "list", "deadline"])
def test_failures_lose_no_task(strategy: str) -> None:
    sim = start(
        [make_host("a b c", 1)],
        [make_task(i, i, 15, requested_time=15, parents=["t0"] if i > 4 else []) for i in range(8)],
        image={"name": "base", "boot": {"delay": 10}},
        billing={"unit": 60, "price": 1},
        policy={"name": strategy, "options": {"instances": 3, "margin": 5, "interval": 1}},
    )
    for time in (3, 12, 14, 31, 55):
        sim.run_until(time)
        sim.fail("a")
        sim.fail("b")
        sim.run_until(time + 1)
        sim.restore("a")
        sim.restore("b")
    sim.run()
    assert set(sim.tasks["status"]) == {"completed"}
    assert sim.trace().instances["end"].null_count() == 0


# --- instances of several cores ------------------------------------------------------------------


def run_on_pairs(strategy: str, tasks: list[dict[str, Any]], **options: Any) -> Simulation:
    """Run a broker with instances of two cores, boots of 10 s and units of 60 s."""
    return finish(
        [make_host("a b", 4)],
        tasks,
        types=[{"name": "pair", "cores": 2}],
        image={"name": "base", "boot": {"delay": 10}},
        billing={"unit": 60, "price": 1},
        policy={
            "name": strategy,
            "options": {"boot": {"base": 10}, "margin": 5, **options},
        },
    )


def test_tasks_share_the_cores_of_an_instance() -> None:
    """A task of two cores starts when the last of the tasks before it has ended."""
    times = (20, 10, 5, 10)
    tasks = [
        make_task(i, run_time=time, requested_time=time, cores=cores)
        for i, (time, cores) in enumerate(zip(times, (1, 1, 2, 1), strict=True))
    ]
    sim = run_on_pairs("afap", tasks)
    assert list_times(sim) == [(10, 30), (10, 20), (30, 35), (35, 45)]
    assert list_rentals(sim, "requested", "end") == [(0, 55)]


def test_asap_predicts_when_enough_cores_are_idle() -> None:
    """At 25 s one core is idle from 20 s on, both from 40 s on; a boot would end at 35 s.

    The second task comes 1 s later: the boot of an instance of its own would end at 11 s.
    """
    first = [make_task(i, i, t, requested_time=t) for i, t in enumerate((30, 10))]

    def place(cores: int) -> list[str]:
        later = make_task(2, 25, 5, cores, requested_time=5)
        run = run_on_pairs("asap", [*first, later], instances=2)
        return run.trace().placements.sort("task")["machine"].to_list()

    assert place(1) == ["instance-1"] * 3
    assert place(2) == ["instance-1", "instance-1", "instance-2"]


def test_a_task_that_no_instance_can_hold_is_rejected() -> None:
    sim = run_on_pairs("asap", [make_task(0, cores=3), make_task(1, cores=2)])
    assert sim.tasks["status"].to_list() == ["rejected", "completed"]
