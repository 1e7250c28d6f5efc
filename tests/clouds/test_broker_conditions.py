"""Brokers under conditions: refusals, bills from the start, several cores, added tasks, reboots."""

from __future__ import annotations

from math import ceil
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import finish, list_rentals, list_times, make_host, make_scenario, make_task
from tests.clouds.test_broker_base import PythonAfap, PythonAsap
from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation, simulate
from twinloop.metrics import figures
from twinloop.policy import Kill, Policy, View, Wake
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import Workload

STRATEGIES = ("asap", "afap", "list", "deadline", "budget")
UNIT = 60
BILLING = {"unit": UNIT, "price": 1}
#: Submission, run time (which is predicted exactly) and cores of each task.
Bag = list[tuple[int, int, int]]


def choose(name: str, **options: Any) -> dict[str, Any]:
    if name == "budget":
        options.setdefault("budget", 1000)
    return {"name": name, "options": {"margin": 5, **options}}


def make_bag(bag: Bag) -> list[dict[str, Any]]:
    return [
        make_task(i, submit, time, cores, requested_time=time)
        for i, (submit, time, cores) in enumerate(bag)
    ]


def list_all(trace: Trace) -> tuple[Any, Any]:
    return (
        trace.placements.sort("start", "task").select("task", "machine", "start", "end").rows(),
        trace.instances.select("requested", "ready", "price").rows(),
    )


bags = st.lists(
    st.tuples(st.integers(0, 150), st.integers(1, 90), st.integers(1, 2)), min_size=1, max_size=10
)


@examples(40)
@given(
    bags,
    st.sampled_from(["asap", "afap"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["request", "start"]),
    st.sampled_from([0, 7, 25]),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([None, 2]),
    st.integers(0, 3),
)
def test_native_brokers_are_those_in_python(
    bag: Bag,
    strategy: str,
    cores: int,
    begin: str,
    delay: int,
    refused: float,
    failed: float,
    limit: int | None,
    seed: int,
) -> None:
    """Refused and failed boots, delays of the provider, bills from the start, several cores."""
    options: dict[str, Any] = {"margin": 5, "attempts": 100, "retry": 13, "instances": limit}
    scenario = make_scenario(
        [make_host("a b c d e f", 4)],
        make_bag([(submit, time, min(own, cores)) for submit, time, own in bag]),
        image={"name": "base", "boot": {"delay": 10, "refused": refused, "failed": failed}},
        types=[{"name": "only", "cores": cores}],
        billing={**BILLING, "from": begin},
        decision_delay=delay,
        policy=choose(strategy, **{k: v for k, v in options.items() if v is not None}),
    ).replace(seed=seed)
    kind = {"asap": PythonAsap, "afap": PythonAfap}[strategy]
    native = simulate(scenario)
    assert list_all(native) == list_all(simulate(scenario.replace(policy=kind(**options))))
    assert set(native.tasks["status"]) == {"completed"}


@examples(25)
@given(bags, st.sampled_from([0, 5, 30]), st.integers(0, 60))
def test_a_deadline_costs_no_more_than_an_instance_per_task_if_bills_begin_later(
    bag: Bag, delay: int, slack: int
) -> None:
    hosts = [make_host(" ".join(f"h{i}" for i in range(20)), 2)]
    tasks = make_bag(bag)
    others: dict[str, Any] = {
        "image": {"name": "base", "boot": {"delay": 10}},
        "types": [{"name": "only", "cores": 2}],
        "billing": {**BILLING, "from": "start"},
        "decision_delay": delay,
    }
    single = finish(hosts, tasks, **others).trace()
    latest = single.placements["end"].max() + slack
    options = {"boot": {"base": 10 + delay}, "margin": 0, "deadline": latest}
    trace = finish(hosts, tasks, policy=choose("deadline", **options), **others).trace()
    assert trace.placements["end"].max() <= latest
    assert trace.instances["price"].sum() <= single.instances["price"].sum()


@pytest.mark.parametrize(("latest", "missed"), [(29, 3), (30, 2), (45, 1), (None, 0)])
def test_tasks_that_miss_the_deadline_of_the_broker_are_counted(
    latest: float | None, missed: int
) -> None:
    """Three tasks on one instance end at 30, 40 and 50."""
    scenario = make_scenario(
        [make_host("a", 1)],
        make_bag([(0, 20, 1), (0, 10, 1), (0, 10, 1)]),
        image={"name": "base", "boot": {"delay": 10}},
        billing=BILLING,
        policy=choose("deadline", boot={"base": 10}, margin=0, deadline=latest, instances=1),
    )
    compiled = CompiledScenario(scenario)
    found = figures(simulate(scenario))
    assert compiled.run()["deadline_misses"] == found.deadline_misses
    assert found.deadlines == (0 if latest is None else 3)
    assert found.deadline_misses == missed


class Killer(Policy):
    """Kills the waiting tasks with these numbers at a time."""

    def __init__(self, time: float, tasks: set[int]) -> None:
        self.time, self.tasks = time, tasks

    def start(self, view: View, rng: Any) -> Killer:
        return self

    def decide(self, view: View) -> list[Any]:
        if view.now < self.time:
            return [Wake(self.time)]
        return [Kill(task) for task in view.waiting if task in self.tasks]


def test_a_killed_task_no_longer_occupies_its_instance() -> None:
    """Without the second task, the third one ends within the unit of the first instance."""
    tasks = make_bag([(0, 100, 1), (1, 100, 1), (60, 200, 1)])
    scenario = make_scenario(
        [make_host("a b", 1)],
        tasks,
        image={"name": "base", "boot": {"delay": 50}},
        billing={"unit": 400, "price": 1},
        policy=choose("afap", boot={"base": 50}, interval=0),
    )
    assert simulate(scenario).instances.height == 2
    trace = simulate(scenario.replace(controllers=[Killer(55.0, {1})]))
    assert list(trace.tasks["status"]) == ["completed", "killed", "completed"]
    assert trace.instances.height == 1
    assert trace.placements["end"].to_list() == [150, 350]


def test_an_instance_whose_tasks_were_killed_is_not_requested_again() -> None:
    """The only task is killed while its instance waits after a refusal."""
    scenario = make_scenario(
        [make_host("a", 1)],
        make_bag([(0, 10, 1), (0, 10, 1)]),
        image={"name": "base", "boot": {"delay": 10, "refused": 1}},
        billing=BILLING,
        policy=choose("asap", retry=30, attempts=50, interval=0),
    )
    trace = simulate(scenario.replace(controllers=[Killer(40.0, {0, 1})]))
    assert set(trace.tasks["status"]) == {"killed"}
    assert trace.instances["requested"].max() == 30


# --- tasks that are added during the run ------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tasks_that_are_added_during_the_run(strategy: str, interval: int) -> None:
    """They are tasks as all others: each runs once, in full, and instances are given back."""
    sim = Simulation(
        make_scenario(
            [make_host(" ".join(f"h{i}" for i in range(50)), 4)],
            make_bag([(0, 5, 1), (0, 500, 1)]),
            image={"name": "base", "boot": {"delay": 10}},
            types=[{"name": "only", "cores": 1}],
            billing=BILLING,
            policy=choose(strategy, interval=interval, margin=10),
        )
    )
    sim.run_until(20)
    for number in range(40):
        parents = [f"n{number - 1}"] if number % 5 == 4 else []
        sim.submit(
            f"n{number}", cores=1, run_time=30, requested_time=30, at=21 + number % 7,
            parents=parents,
        )  # fmt: skip
    sim.run()
    trace = sim.trace()
    assert set(trace.tasks["status"]) == {"completed"}
    assert trace.placements.height == 42
    assert set(trace.instances["reason"]) == {"released"}
    times = dict(zip(trace.placements["task"], list_times(sim), strict=True))
    assert all(times[f"n{i}"][0] >= times[f"n{i - 1}"][1] for i in range(4, 40, 5))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_added_tasks_run_as_those_that_were_known(strategy: str) -> None:
    """At the time of the first decision a broker knows only what is submitted then: of a bag that
    is submitted later, all brokers but those that plan ahead decide the same."""
    known = make_bag([(0, 5, 1), *((30 + i % 3, 20 + i, 1) for i in range(8))])
    others: dict[str, Any] = {
        "image": {"name": "base", "boot": {"delay": 10}},
        "types": [{"name": "only", "cores": 1}],
        "billing": BILLING,
        "policy": choose(strategy),
    }
    hosts = [make_host("a b c d e f g h i", 1)]
    sim = Simulation(make_scenario(hosts, known[:1], **others))
    sim.run_until(12)
    for task in known[1:]:
        sim.submit(
            task["id"], cores=1, run_time=task["run_time"], requested_time=task["requested_time"],
            at=task["submit"],
        )  # fmt: skip
    sim.run()
    assert list_all(sim.trace()) == list_all(finish(hosts, known, **others).trace())


# --- budgets ------------------------------------------------------------------------------------


@examples(30)
@given(
    bags,
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.5]),
    st.integers(0, 12),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([0, 10]),
    st.integers(0, 3),
)
def test_a_budget_ends_and_is_kept_if_boots_fail_or_are_refused(
    bag: Bag, refused: float, failed: float, budget: int, price: int | None, delay: int, seed: int
) -> None:
    scenario = make_scenario(
        [make_host("a b c", 4)],
        make_bag(bag),
        image={"name": "base", "boot": {"delay": delay, "refused": refused, "failed": failed}},
        types=[{"name": "only", "cores": 2}],
        **({} if price is None else {"billing": {"unit": UNIT, "price": price}}),
        policy=choose("budget", budget=budget, attempts=4, retry=7),
    ).replace(seed=seed)
    trace = simulate(scenario)
    assert set(trace.tasks["status"]) <= {"completed", "killed"}
    if refused == 1.0:
        assert set(trace.tasks["status"]) == {"killed"}
    if price:
        assert trace.instances["price"].sum() <= budget
    elif refused == failed == 0.0:
        # What costs nothing is never refused.
        assert set(trace.tasks["status"]) == {"completed"}


@examples(30)
@given(st.lists(st.integers(5, 120), min_size=2, max_size=5), st.integers(2, 6))
def test_instances_that_get_no_host_cost_no_budget(lengths: list[int], budget: int) -> None:
    """One host of one core: no task is killed that the rest of the budget pays."""
    sim = finish(
        [make_host("a", 1)],
        make_bag([(0, length, 1) for length in lengths]),
        image={"name": "base", "boot": {"delay": 10}},
        types=[{"name": "only", "cores": 1}],
        billing=BILLING,
        policy=choose("budget", budget=budget),
    )
    rest = budget - sum(price for (price,) in list_rentals(sim, "price"))
    assert rest >= 0
    for length, status in zip(lengths, sim.tasks["status"], strict=True):
        assert status == "completed" or ceil((10 + length) / UNIT) > rest


def make_budget_scenario(budget: float, **cloud: Any) -> Scenario:
    return make_scenario(
        [make_host("a b", 1)],
        make_bag([(0, 5, 1)]),
        policy=choose("budget", budget=budget),
        **cloud,
    )


def test_budgets_that_cannot_be_kept_are_refused() -> None:
    reserved = {"instances": 2, "price": 0.1, "upfront": 5}
    with pytest.raises(InputError, match=r"budget: must be at least 10, the price of the reserv"):
        simulate(make_budget_scenario(3, billing={**BILLING, "reserved": reserved}))
    messages = {"client": "a", "controller": "b"}
    with pytest.raises(InputError, match=r"options\.budget: a budget cannot be kept where orders"):
        simulate(make_budget_scenario(3, billing=BILLING, messages=messages))


# --- by hand ------------------------------------------------------------------------------------


def test_an_instance_of_several_cores_is_kept_for_one_unit_by_the_published_rule() -> None:
    """Four tasks of 1000 s at once on four cores: idle at 1010 s, the unit ends at 1200 s."""
    for cores, count in ((1, 1), (4, 4)):
        sim = finish(
            [make_host("a", 4)],
            make_bag([(0, 1000, 1)] * count),
            image={"name": "base", "boot": {"delay": 10}},
            types=[{"name": "only", "cores": cores}],
            billing={"unit": 600, "price": 1},
            policy=choose(
                "asap", margin=50, published=True, interval=1, later_interval=5, instances=1
            ),
        )
        assert list_rentals(sim, "end", "price") == [(1155, 2)]


@pytest.mark.parametrize("policy", [choose("asap", boot={"base": 30}), PythonAsap(boot=30.0)])
def test_after_a_reboot_an_instance_is_idle_when_it_is_ready(policy: Any) -> None:
    """Rebooted at 500 s, ready at 510 s: the tasks of 501 s and 515 s share it."""
    sim = Simulation(
        make_scenario(
            [make_host("a b", 1)],
            make_bag([(0, 20, 1), (501, 20, 1), (515, 5, 1)]),
            image={"name": "base", "boot": {"delay": 10}},
            types=[{"name": "only", "cores": 1}],
            billing={"unit": 3600, "price": 1},
            policy=policy,
        )
    )
    sim.run_until(500)
    sim.cloud("cloud").reboot("instance-1")
    sim.run()
    assert list_times(sim) == [(10, 30), (510, 530), (530, 535)]
    assert list_rentals(sim, "price") == [(1,)]


def test_tasks_submitted_before_the_start_of_the_run() -> None:
    """Scans before t = 0 are scans: at -100 s of a log that begins two hours too early."""
    frame = pl.DataFrame(
        {"id": ["a", "b"], "submit": [-100.0, -100.0], "requested_cores": [1.0, 1.0],
         "requested_time": [20.0, 20.0], "run_time": [20.0, 20.0]}
    )  # fmt: skip
    scenario = make_scenario(
        [make_host("a", 1)],
        make_bag([(0, 1, 1)]),
        image={"name": "base", "boot": {"delay": 10}},
        types=[{"name": "only", "cores": 1}],
        billing=BILLING,
        policy=choose("afap", margin=10, interval=1, instances=1),
    ).replace(workload=Workload.from_trace(Trace(tasks=frame)))
    trace = simulate(scenario)
    assert trace.placements.select("start", "end").rows() == [(-90, -70), (-70, -50)]
