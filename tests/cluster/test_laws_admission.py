"""Which tasks a run admits follows from its own effective capacity, not from the scenario's."""

import numpy as np
import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop._core import KPI_NAMES
from twinloop.engine import CompiledScenario, Simulation

#: Of 1, 3 and 5 cores, on a machine of 4: the last runs from a capacity of 1.25 on.
TASKS = tuple(Task(float(i), cores=c, run_time=2.0 + i) for i, c in enumerate((1.0, 3.0, 5.0, 1.0)))
CAPACITIES = (1.0, 0.5, 1.25, 2.0, 0.2, 1.25, 1.0)


def case(policy: str = "fcfs", source: str = "rigid") -> tl.Scenario:
    tasks = tuple(Task(**{**vars(task), "user": "u"}) for task in TASKS)
    return Case(({"cores": 4.0},), tasks, {"name": policy}, source=source).scenario


@pytest.mark.parametrize("source", ["rigid", "sessions:1"])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "spread-ic"])
def test_values_admit_what_their_scenario_admits(policy, source):
    compiled = CompiledScenario(case(policy, source))
    rejected = []
    for capacity in CAPACITIES:
        told = {"effective_capacity": capacity}
        anew = CompiledScenario(compiled.scenario_from_values(told)).run()
        np.testing.assert_equal(compiled.run(told), anew)
        rejected.append(anew["rejected"])
    rows = [{"effective_capacity": capacity} for capacity in CAPACITIES]
    many = compiled.run_many(rows, outputs=(*KPI_NAMES, "task_end"))
    for place, capacity in enumerate(CAPACITIES):
        anew = CompiledScenario(compiled.scenario_from_values({"effective_capacity": capacity}))
        np.testing.assert_equal({name: many[name][place] for name in KPI_NAMES}, anew.run())
        alone = anew.run_many([{}], outputs=["task_end"])["task_end"][0]
        assert many["task_end"][place].tobytes() == alone.tobytes()
    assert len(set(rejected)) > 1, "the capacities make no difference here"


def test_a_larger_capacity_admits_a_task_that_the_scenario_rejects():
    compiled = CompiledScenario(case())
    assert compiled.run()["rejected"] == 1
    assert compiled.run({"effective_capacity": 1.25})["rejected"] == 0
    assert compiled.run({"effective_capacity": 0.5})["rejected"] == 2
    # What the object itself says stays what its scenario says.
    assert compiled.rejected.sum() == 1
    assert Simulation(compiled).run()["status"].to_list().count("rejected") == 1


def test_power_of_a_run_with_another_capacity():
    power = {"model": "linear", "idle": 50.0, "max": 200.0}
    made = Case(({"cores": 4.0, "power": power},), TASKS).scenario
    compiled = CompiledScenario(made)
    told = {"effective_capacity": 1.25}
    watts = compiled.power_many([[50.0, 200.0]], 1.0, values=told)
    expected = (
        tl.simulate(compiled.scenario_from_values(told), power_step=1.0).power["watts"].to_numpy()
    )
    np.testing.assert_allclose(watts[0], expected, rtol=1e-12)
