"""The outages of a real run are drawn for its whole duration."""

import math

import polars as pl
import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.execution.outages import Outages
from twinloop.scenario.failures import compute_failure_intervals

SCENARIO = tl.Scenario(
    platform="3x1",
    policy="fcfs",
    workload={"tasks": [{"id": "a", "run_time": 10}]},
    failures={"mtbf": "20s", "mttr": "5s"},
    seed=4,
)


def draw_outages(until: float) -> list[tuple[float, str | None]]:
    names = CompiledScenario(SCENARIO).names.machines
    found = compute_failure_intervals(SCENARIO.failures, names, 2 * until, SCENARIO.seed)
    times = pl.concat(
        [
            found.select(t="start", state=pl.lit("down")),
            found.select(t="end", state=pl.lit(None, dtype=pl.String)),
        ]
    )
    return sorted(times.filter(pl.col("t") <= until).rows(), key=lambda row: row[0])


@pytest.mark.parametrize("step", [7.0, 90.0, 1000.0])
def test_failures_cover_the_whole_run(step):
    compiled = CompiledScenario(SCENARIO)
    planned = compiled.horizon
    outages = Outages(compiled)
    found = []
    for count in range(1, math.ceil(1000.0 / step) + 1):
        found += [(outage.t, outage.state) for outage in outages.pop_until(count * step)]
        assert count * step < outages.due < math.inf
    assert found == draw_outages(step * math.ceil(1000.0 / step))
    assert found[-1][0] > 5 * planned


def test_only_the_return_of_a_node_helps_a_waiting_task():
    compiled = CompiledScenario(SCENARIO)
    outages = Outages(compiled)
    assert outages.next_return == math.inf
    (went,) = outages.pop_until(draw_outages(100.0)[0][0])
    assert went.state == "down"
    assert went.t < outages.next_return < math.inf
    plain = Outages(CompiledScenario(SCENARIO.replace(failures=None)))
    assert (plain.due, plain.next_return) == (math.inf, math.inf)
