"""Metrics of a client who rents instances, on runs computed by hand."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.metrics import client_metrics, scheduling_error
from twinloop.trace import Manifest, Trace

CLOUD = {"name": "east", "billing": {"unit": 60.0, "price": 2.0}}
FROM_START = {"name": "west", "billing": {"unit": 60.0, "price": 1.0, "from": "start"}}


def make_run(
    instances: list[dict[str, Any]],
    placements: list[dict[str, Any]],
    clouds: tuple[dict[str, Any], ...] = (),
) -> Trace:
    manifest = Manifest(scenario={"platform": {"clouds": list(clouds)}})
    return Trace(
        manifest=manifest, instances=pl.DataFrame(instances), placements=pl.DataFrame(placements)
    )


def rent(name: str, requested: float, end: float | None, **more: Any) -> dict[str, Any]:
    values = {"instance": name, "cloud": "east", "requested": requested, "start": requested + 5.0}
    return values | {"end": end, "reason": "released", "price": None} | more


def place(task: str, machine: str, start: float, end: float, attempt: int = 0) -> dict[str, Any]:
    return {"task": task, "attempt": attempt, "machine": machine, "start": start, "end": end}


def test_metrics_computed_by_hand() -> None:
    run = make_run(
        [
            rent("a", 10.0, 130.0, price=4.0),  # 120 s: two units, not three
            rent("b", 10.0, 71.0, price=4.0),  # 61 s: two units
            rent("c", 20.0, 20.0, reason="refused", start=None),
        ],
        [place("x", "a", 40.0, 100.0), place("y", "b", 30.0, 50.0)],
        (CLOUD,),
    )
    found = client_metrics(run)
    assert (found.instances, found.units, found.bill) == (2, 4, 8.0)
    assert (found.uptime, found.runtime, found.makespan) == (181.0, 80.0, 100.0)
    assert found.usage == 80.0 / 181.0


def test_units_are_counted_as_the_cloud_bills() -> None:
    # From the start: 60 s are one unit, although 65 s have passed since the request.
    rows = [rent("a", 0.0, 65.0, cloud="west"), rent("b", 0.0, 65.0)]
    run = make_run(rows, [place("x", "a", 10.0, 20.0)], (CLOUD, FROM_START))
    assert client_metrics(run).units == 1 + 2
    assert client_metrics(run).bill is None  # the trace has no prices
    assert client_metrics(make_run(rows, [], (CLOUD,))).units is None


def test_an_instance_on_two_hosts_is_one_instance() -> None:
    moved = [
        rent("a", 0.0, 30.0, reason="moved"),
        rent("a", 0.0, 90.0, start=30.0, price=4.0),
    ]
    found = client_metrics(make_run(moved, [], (CLOUD,)))
    assert (found.instances, found.uptime, found.units, found.bill) == (1, 90.0, 2, 4.0)
    assert (found.runtime, found.makespan, found.usage) == (None, None, None)


def test_an_instance_in_two_clouds_is_billed_in_both() -> None:
    rows = [
        rent("a", 0.0, 50.0, reason="moved"),
        rent("a", 0.0, 70.0, start=50.0, reason="left", price=4.0) | {"requested": None},
        rent("a", 70.0, 200.0, start=70.0, cloud="west", price=3.0) | {"requested": None},
    ]
    found = client_metrics(make_run(rows, [], (CLOUD, FROM_START)))
    assert (found.instances, found.uptime) == (1, 200.0)
    assert (found.units, found.bill) == (2 + 3, 7.0)


def test_an_instance_without_an_end_counts_until_the_end_of_the_run() -> None:
    run = make_run([rent("a", 10.0, None)], [place("x", "a", 20.0, 70.0)])
    assert client_metrics(run).uptime == 60.0


def test_a_run_without_instances() -> None:
    found = client_metrics(make_run([], [place("x", "node", 5.0, 8.0)]))
    assert (found.instances, found.units, found.uptime, found.usage) == (0, 0, 0.0, None)
    assert (found.runtime, found.makespan) == (3.0, 8.0)


def test_scheduling_error_by_hand() -> None:
    # The instances have the same numbers in the order of their requests, not the same names.
    nodes = ("n1", "n1", "n2", "n2")
    real = make_run(
        [rent("n1", 0.0, 99.0), rent("n2", 5.0, 99.0)],
        [place(task, node, 10.0, 20.0) for task, node in zip("wxyz", nodes, strict=True)],
    )
    twin = make_run(
        [rent("later", 7.0, 99.0), rent("first", 1.0, 99.0)],
        [
            place("w", "first", 10.0, 20.0),
            place("x", "later", 10.0, 20.0),  # elsewhere
            place("y", "first", 10.0, 12.0),  # its last attempt counts
            place("y", "later", 15.0, 20.0, attempt=1),
        ],  # z did not run
    )
    assert scheduling_error(twin, real) == 2 / 4
    assert scheduling_error(real, real) == 0.0


def test_scheduling_error_without_recorded_instances_is_an_error() -> None:
    run = make_run([rent("a", 0.0, 9.0)], [place("x", "a", 1.0, 2.0)])
    with pytest.raises(InputError, match="no tasks on rented instances"):
        scheduling_error(run, Trace())


@examples(50)
@given(st.data())
def test_scheduling_error_counts_as_a_loop_does(data: st.DataObject) -> None:
    """Compare with a loop over the tasks, on random requests and assignments."""
    tasks = [f"t{i}" for i in range(data.draw(st.integers(1, 8)))]

    def draw_run() -> tuple[Trace, dict[str, int]]:
        times = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
        rows = [rent(f"i{index}", float(time), 99.0) for index, time in enumerate(times)]
        chosen = [data.draw(st.integers(0, len(times) - 1)) for _ in tasks]
        placed = [place(t, f"i{c}", 0.0, 1.0) for t, c in zip(tasks, chosen, strict=True)]
        order = sorted(range(len(times)), key=lambda index: times[index])
        return make_run(rows, placed), dict(zip(tasks, map(order.index, chosen), strict=True))

    (real, expected), (twin, found) = draw_run(), draw_run()
    errors = sum(expected[task] != found[task] for task in tasks)
    assert scheduling_error(twin, real) == pytest.approx(errors / len(tasks))
