"""Laws of all brokers, on random bags of tasks and graphs."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.broker_twin import BrokerCase
from tests.clouds.test_broker_twin import broker_cases
from tests.examples import examples
from twinloop.engine import Simulation, simulate
from twinloop.trace import Trace


@st.composite
def cases_of_all_brokers(draw: st.DrawFn) -> BrokerCase:
    """Draw a case of `broker_cases` with any strategy."""
    case = draw(broker_cases())
    strategy = draw(st.sampled_from(["asap", "afap", "list", "deadline", "budget"]))
    if strategy in ("asap", "afap"):
        return case.change(strategy=strategy)
    values = {
        "list": (),
        "deadline": (("deadline", draw(st.none() | st.integers(1, 400))),),
        "budget": (("budget", draw(st.integers(0, 40))),),
    }
    return case.change(
        strategy=strategy, options=values[strategy], boots=(), published=False, validation=False
    )


def run(case: BrokerCase) -> Trace:
    return simulate(case.make_scenario(), decisions=True)


@examples(25)
@given(cases_of_all_brokers())
def test_tasks_and_instances(case: BrokerCase) -> None:
    trace = run(case)
    placed = trace.placements
    by_task = {row["task"]: row for row in placed.rows(named=True)}
    instances = trace.instances
    # Every instance is given back, and billed by the units that it has begun.
    assert set(instances["reason"]) <= {"released"}
    lengths = (instances["end"] - instances["requested"]).to_list()
    assert instances["price"].to_list() == [
        case.price * max(1, ceil(each / case.unit)) for each in lengths
    ]
    # There are never more of them than allowed.
    if case.limit is not None:
        for time in instances["requested"]:
            present = (pl.col("requested") <= time) & (time < pl.col("end"))
            assert instances.filter(present).height <= case.limit
    # An instance of one core runs one task at a time, after its boot and before its end.
    ready = dict(instances.select("instance", "ready").rows())
    end = dict(instances.select("instance", "end").rows())
    for (name,), rows in placed.sort("start").group_by("machine"):
        times = [ready[name], *rows.select("start", "end").to_numpy().flat, end[name]]
        assert all(before <= after for before, after in pairwise(times))
    for task, parents in enumerate(case.parents):
        for parent in parents:
            if f"t{task}" in by_task:
                assert by_task[f"t{task}"]["start"] >= by_task[f"t{parent}"]["end"]
    if case.strategy == "budget":
        assert instances["price"].sum() <= dict(case.options)["budget"]
        return
    # A task is assigned once and runs once, in full.
    assert placed.height == len(case.tasks) == placed["task"].n_unique()
    assert (placed["end"] - placed["start"]).to_list() == [
        case.tasks[int(name[1:])][1] for name in placed["task"]
    ]
    assigned = trace.decisions.filter(kind="reserve")["subject"]
    assert sorted(assigned) == sorted(f"t{i}" for i in range(len(case.tasks)))


@examples(15)
@given(cases_of_all_brokers(), st.integers(0, 150), st.data())
def test_decisions_do_not_depend_on_later_events(
    case: BrokerCase, time: int, data: st.DataObject
) -> None:
    """Other run times of the tasks that end later leave the decisions until then."""
    first = run(case)
    start = dict(first.placements.select("task", "start").rows())
    end = dict(first.placements.select("task", "end").rows())
    tasks = []
    for i, (submit, run_time, predicted) in enumerate(case.tasks):
        if end.get(f"t{i}", time + 1) > time:
            least = max(1, int(time - start.get(f"t{i}", time)) + 1)
            run_time = data.draw(st.integers(least, least + 50))
        tasks.append((submit, run_time, predicted))
    second = run(case.change(tasks=tuple(tasks)))
    until = pl.col("t") <= time
    assert first.decisions.filter(until).rows() == second.decisions.filter(until).rows()


@examples(10)
@given(cases_of_all_brokers(), st.integers(1, 150))
def test_a_copy_in_the_middle_ends_like_the_original(case: BrokerCase, time: int) -> None:
    sim = Simulation(case.make_scenario())
    sim.run_until(max(time, sim.now))
    twin = sim.copy()
    sim.run()
    twin.run()
    for name in ("placements", "instances", "decisions"):
        assert getattr(twin.trace(), name).equals(getattr(sim.trace(), name)), name


@examples(20)
@given(
    broker_cases(overrun=0, boots=(), published=False, validation=False, limit=None),
    st.integers(0, 60),
)
def test_deadline_is_met_if_an_instance_for_every_task_meets_it(
    drawn: BrokerCase, slack: int
) -> None:
    """The bill is not higher: with exact predictions, and decisions at every event."""
    case = drawn.change(
        tasks=tuple((submit, run_time, run_time) for submit, run_time, _ in drawn.tasks),
        base=float(drawn.boot),
        per_booting=0.0,
        margin=0,
        interval=0,
        later_interval=None,
        strategy="deadline",
    )
    single = simulate(case.make_scenario("one-per-task"))
    latest = single.placements["end"].max() + slack
    trace = run(case.change(options=(("deadline", latest),)))
    assert trace.placements["end"].max() <= latest
    assert trace.instances["price"].sum() <= single.instances["price"].sum()
