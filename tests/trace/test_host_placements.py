"""Executions on the hosts of instances, also of those that moved."""

from __future__ import annotations

import pytest

import twinloop as tl
from tests.clouds.cases import GB, make_host, make_scenario, make_task
from twinloop import metrics
from twinloop.trace.host_placements import place_on_hosts


def test_an_execution_on_an_instance_that_moved_is_on_each_of_its_hosts() -> None:
    # At 100 s, the second instance moves to the first host in 10 s; its task ends 10 s later.
    run = tl.simulate(
        make_scenario(
            [make_host(memory="8 GB")],
            [
                make_task(0, run_time=500, cores=2, memory=GB),
                make_task(1, run_time=300, cores=1, memory=GB),
            ],
            controllers={
                "placement": "worst-fit",
                "consolidation": {"name": "consolidate", "options": {"interval": 100}},
            },
            migration={"mode": "cold"},
        )
    )
    rows = place_on_hosts(run).placements.select("task", "machine", "start", "end").rows()
    assert rows == [
        ("t0", "a", 0.0, 500.0),
        ("t1", "b", 0.0, pytest.approx(110.0)),
        ("t1", "a", pytest.approx(110.0), pytest.approx(310.0)),
    ]
    # One host has a task for 500 s, the other one for 110 s.
    assert metrics.figures(run).to_dict()["busy_nodes_mean"] == pytest.approx(610 / 500)
