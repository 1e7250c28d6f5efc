"""The base class of brokers in Python: `asap` and `afap` written with it are the native ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given

from tests.clouds.broker_twin import BrokerCase, run_native
from tests.clouds.cases import finish, list_rentals, list_times, make_host, make_task
from tests.clouds.test_broker_twin import broker_cases
from tests.clouds.test_brokers import start_failing
from tests.examples import examples
from twinloop.description.errors import InputError, TwinloopError
from twinloop.policy import RENT, Broker, BrokerNode, NewInstance

Choice = BrokerNode | Literal[NewInstance.RENT] | None


class PythonAsap(Broker):
    def choose(self, task: int, nodes: Sequence[BrokerNode]) -> Choice:
        if not self.can_rent:
            return min(nodes, key=lambda each: self.idle_at(each, task), default=None)
        boot_end = self.view.now + self.predict_boot()
        early = [each for each in nodes if self.idle_at(each, task) < boot_end]
        return min(early, key=lambda each: self.left(each, task), default=RENT)


class PythonAfap(Broker):
    def choose(self, task: int, nodes: Sequence[BrokerNode]) -> Choice:
        filled = [each for each in nodes if not self.extends(each, task)]
        if filled:
            return min(filled, key=lambda each: self.left(each, task))
        if self.can_rent:
            return RENT
        return min(reversed(nodes), key=lambda each: self.idle_at(each, task), default=None)

    def extends(self, node: BrokerNode, task: int) -> bool:
        end = self.idle_at(node, task) - node.begin + self.margin
        return self.units(end + self.view.predicted_time(task)) > self.units(end)


def make_broker(case: BrokerCase) -> Broker:
    kind = {"asap": PythonAsap, "afap": PythonAfap}[case.strategy]
    return kind(
        boot=case.base,
        per_booting=case.per_booting,
        margin=case.margin,
        instances=None if case.is_limit_of_cloud else case.limit,
    )


@examples(25)
@given(broker_cases(published=False, validation=False, boots=(), interval=0, later_interval=None))
def test_brokers_in_python_are_the_native_ones(case: BrokerCase) -> None:
    assert run_native(case, make_broker(case)) == run_native(case)


def run_with_failure(at: float, until: float, policy: Any, **others: Any) -> tuple[Any, Any]:
    """Run three tasks on two hosts, of which the first fails for a time."""
    sim = start_failing(policy=policy, **others)
    sim.run_until(at)
    sim.fail("a")
    sim.run_until(until)
    sim.restore("a")
    sim.run()
    return list_times(sim), list_rentals(sim, "host", "requested", "ready", "price")


@pytest.mark.parametrize("at", [0, 4, 10, 15, 40])
@pytest.mark.parametrize("queue", ["skip", "refuse"])
@pytest.mark.parametrize("hosts", ["a", "a b"])
def test_instances_that_do_not_boot_are_replaced(at: float, queue: str, hosts: str) -> None:
    others: dict[str, Any] = {"queue": queue, "hosts": hosts}
    broker = PythonAfap(margin=5, retry=7)
    mine = run_with_failure(at, at + 20, broker, **others)
    assert mine == run_with_failure(at, at + 20, None, **others, retry=7)


def test_tasks_are_killed_after_as_many_attempts_as_allowed() -> None:
    sim = start_failing(queue="refuse", hosts="a", policy=PythonAfap(margin=5, retry=7, attempts=3))
    sim.fail("a")
    sim.run()
    assert list_rentals(sim, "requested", "reason") == [(t, "refused") for t in (0, 7, 14)]
    assert sim.tasks["status"].to_list() == ["killed"] * 3


@pytest.mark.parametrize("seed", range(3))
def test_a_type_of_several_cores_and_one_that_fits_the_task(seed: int) -> None:
    """No host has more than its cores; the tasks of a pair run together."""
    rng = np.random.default_rng(seed)
    tasks = [
        make_task(i, *rng.integers(1, 30, 2).tolist(), cores=int(rng.integers(1, 3)))
        for i in range(8)
    ]
    for kind in ({"name": "pair", "cores": 2}, {"name": "any", "fits": "task"}):
        sim = finish(
            [make_host("a b", 4, memory="8 GB")],
            tasks,
            types=[kind],
            image={"name": "base", "boot": {"delay": 5}},
            billing={"unit": 60, "price": 1},
            limits={"cores": 4},
            policy=PythonAsap(margin=5, retry=10),
        )
        assert set(sim.tasks["status"]) == {"completed"}
        trace = sim.trace()
        assert trace.placements["task"].n_unique() == trace.placements.height == 8
        if "cores" in kind:
            assert set(trace.instances["cores"]) == {2.0}


def test_a_task_that_no_instance_can_hold_is_killed() -> None:
    sim = finish(
        [make_host()],
        [make_task(0, cores=3), make_task(1)],
        types=[{"name": "pair", "cores": 2}],
        policy=PythonAsap(),
    )
    assert sim.tasks["status"].to_list() == ["killed", "completed"]


class Misled(Broker):
    """A broker with a wrong answer."""

    def choose(self, task: int, nodes: Sequence[BrokerNode]) -> Choice:
        return 0  # type: ignore[return-value]


def test_a_wrong_answer_is_an_error() -> None:
    with pytest.raises(TwinloopError, match="`choose` must return a node, RENT or None, not 0"):
        finish([make_host()], [make_task(0)], policy=Misled())


def test_a_copy_in_the_middle_ends_like_the_original() -> None:
    sim = start_failing(policy=PythonAfap(margin=5))
    sim.run_until(15)
    twin = sim.copy()
    sim.run()
    assert twin.run().equals(sim.tasks)
    assert list_rentals(twin, "requested", "ready", "price") == [(0, 10, 1)]


@pytest.mark.parametrize(("time", "end"), [(5, 5), (15, 30), (35, 50)])
def test_a_broker_takes_over_from_another_client(time: int, end: int) -> None:
    """The instance of the client before is given back when its task has ended."""
    sim = start_failing()
    sim.run_until(time)
    other = sim.copy(PythonAfap(margin=5))
    other.run()
    assert set(other.tasks["status"]) == {"completed"}
    trace = other.trace()
    assert trace.placements.height == 3
    found = trace.instances.filter(instance="instance-1").row(0, named=True)
    assert (found["reason"], found["end"]) == ("released", end)


def test_a_part_of_the_cloud_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="there is no type 'large'") as caught:
        finish([make_host()], [make_task(0)], policy=PythonAsap(type="large"))
    assert caught.value.field == "policy.options.type"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": -5}, "margin: must not be negative"),
        ({"margin": float("nan")}, "margin: must be a finite number"),
        ({"margin": "50x"}, "margin: 'x' is not a unit for a duration"),
        ({"retry": -1}, "retry: must not be negative"),
        ({"boot": -3}, "boot: must not be negative"),
        ({"per_booting": float("inf")}, "per_booting: must be a finite number"),
        ({"instances": 0}, "instances: must be at least 1"),
        ({"instances": 1.5}, "instances: must be a whole number"),
        ({"attempts": 0}, "attempts: must be at least 1"),
        ({"type": -1}, "type: must be a name, or a position from 0 on, not -1"),
        ({"cloud": None}, "cloud: must be a name, or a position from 0 on, not null"),
        ({"image": ""}, "image: must be a name, or a position from 0 on, not ''"),
        ({"margin": -5, "retry": -1}, "margin: .*\nretry: "),
    ],
)
def test_options_have_the_rules_of_the_built_in_brokers(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        PythonAsap(**options)


def test_times_of_options_can_have_units() -> None:
    broker = PythonAsap(margin="1min", boot="48s", per_booting=6, retry="2min")
    found = (broker.margin, broker.boot, broker.per_booting, broker.retry)
    assert found == (60.0, 48.0, 6.0, 120.0)


@pytest.mark.parametrize("what", ["cloud", "type", "image"])
@pytest.mark.parametrize("given", ["none", 7])
def test_parts_that_the_platform_does_not_have(what: str, given: Any) -> None:
    broker = PythonAsap(**{what: given}, boot=10)
    with pytest.raises(InputError, match=f"there is no {what} .*{given}|unknown {what}"):
        start_failing(policy=broker).run()
