"""Tables that grow with the length of a run over that of a window have a bound."""

import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation
from twinloop.engine.table_size import MAX_ROWS
from twinloop.policy import Policy

POWER = {"model": "linear", "idle": 50.0, "max": 200.0}
YEAR = 365 * 86400.0


class Asked(Policy):
    """Fails the test when it is asked: the run was to be refused before it began."""

    def decide(self, view):
        raise AssertionError("the run has begun")


def one(run_time: float = YEAR, policy: object = "fcfs", **host) -> tl.Scenario:
    return Case(({"cores": 2.0, **host},), (Task(0.0, run_time=run_time),)).scenario.replace(
        policy=policy
    )


def test_usage_is_refused_before_the_run():
    with pytest.raises(InputError, match=r"usage table would have at least 31,536,000 rows") as e:
        tl.simulate(one(policy=Asked()), usage_step=1.0)
    assert "more than 10,000,000" in str(e.value)
    assert "most_rows (--most-rows)" in str(e.value)
    assert MAX_ROWS == 10_000_000


def test_power_is_refused_before_the_run():
    for per_node, rows in ((False, "31,536,000"), (True, "63,072,000")):
        with pytest.raises(InputError, match=f"power table would have at least {rows} rows"):
            tl.simulate(one(policy=Asked(), power=POWER), power_step=1.0, power_per_node=per_node)


def test_the_bound_is_that_of_the_caller():
    trace = tl.simulate(one(100.0, power=POWER), usage_step=1.0, power_step=1.0, most_rows=100)
    assert (trace.usage.height, trace.power.height) == (100, 100)
    for what in ({"usage_step": 1.0}, {"power_step": 1.0}):
        with pytest.raises(InputError, match=r"at least 100 rows, more than 99"):
            tl.simulate(one(100.0, power=POWER), **what, most_rows=99)
    assert tl.simulate(one(100.0), usage_step=1.0, most_rows=float("inf")).usage.height == 100
    for wrong in (0, -1, float("nan")):
        with pytest.raises(InputError, match="most_rows"):
            tl.simulate(one(100.0), most_rows=wrong)


def test_the_estimate_counts_the_model():
    made = one(100.0)
    for model, rows in (
        ({"speed_factor": 2.0}, 50),
        ({"service_factor": 3.0}, 300),
        ({"speed_factor": 2.0, "demand": "fixed"}, 100),
    ):
        scenario = made.replace(model=model)
        assert tl.simulate(scenario, usage_step=1.0, most_rows=rows).usage.height == rows
        with pytest.raises(InputError, match=f"at least {rows} rows"):
            tl.simulate(scenario, usage_step=1.0, most_rows=rows - 1)


def test_a_run_that_turns_out_longer_is_stopped_at_the_bound():
    """Two tasks share the cores of one, which no estimate of single tasks sees."""
    tasks = (Task(0.0, run_time=100.0), Task(0.0, run_time=100.0))
    crowded = {"name": "spread-ic", "options": {"overcommit": 4.0}}
    made = Case(({"cores": 1.0, "power": POWER},), tasks, crowded).scenario
    assert tl.simulate(made, usage_step=1.0).usage.height == 400
    with pytest.raises(InputError, match=r"usage table would have at least 201 rows"):
        tl.simulate(made, usage_step=1.0, most_rows=200)
    with pytest.raises(InputError, match=r"power table would have at least 200 rows"):
        tl.simulate(made, power_step=1.0, most_rows=150)


def test_one_execution_of_countless_windows_takes_no_memory():
    made = one(1e12)
    with pytest.raises(InputError, match="usage table"):
        tl.simulate(made, usage_step=1e-3)
    # Even where no estimate came before.
    run = CompiledScenario(made).start(usage_step=1e-3, usage_rows=1000.0)
    while run.run_slice():
        pass
    assert run.is_usage_full
    assert Simulation(made).run()["end"].to_list() == [1e12]
