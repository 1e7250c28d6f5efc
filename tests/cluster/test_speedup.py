"""Speed-up laws of tasks: run times, accounting, checks and saved states on other core counts."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import examples
from twinloop.engine import Simulation, SimulationState, simulate
from twinloop.metrics import figures
from twinloop.policy import Place, Policy

#: A contention that begins above a load of 1 changes nothing here, but makes tasks share machines.
SHARED = {"contention": {"linear": {"slope": 0.5}}}
TABLE = {"table": [[1, 1], [2, 1.8], [4, 3.1]]}
POWER = {"model": "linear", "idle": 100, "max": 200}


class Give(Policy):
    """Starts each task on the first machine with enough free cores: `cores` by id, in turn."""

    def __init__(self, cores):
        self.cores = {name: np.atleast_1d(given).tolist() for name, given in cores.items()}
        self.seen = []

    def start(self, view, rng):
        state = Give(self.cores)
        state.seen = self.seen
        return state

    def decide(self, view):
        for task in view.waiting:
            name = view.id(task)
            number = float(self.cores[name][0]) if name in self.cores else view.cores(task)
            room = np.flatnonzero(view.free_cores >= number)
            if room.size:
                if len(self.cores.get(name, ())) > 1:
                    self.cores[name].pop(0)
                self.seen.append([view.speedup(task, number), view.efficiency(task, number)])
                yield Place(task, int(room[0]), cores=number)


def scenario(task, cores, **options):
    """One task with a law on a machine of 8 cores."""
    host = {"names": ["n"], "cores": 8, "power": POWER}
    given = {"platform": {"clusters": [{"hosts": [host]}]}, "policy": Give({"a": cores})} | options
    return tl.Scenario(
        workload={"tasks": [{"id": "a", "cores": 2, "max_cores": 8} | task]}, **given
    )


# Two cores, 60 s. By hand: linear 120 / n; Amdahl 60 / 0.55 x (0.1 + 0.9 / n); the table has
# S(2) = 1.8, S(3) = 2.45, S(4) = 3.1, and no more beyond.
@pytest.mark.parametrize(
    ("law", "cores", "seconds"),
    [
        *[("linear", n, 120 / n) for n in (1, 2, 3, 8)],
        *[({"amdahl": 0.9}, n, 60 / 0.55 * (0.1 + 0.9 / n)) for n in (1, 2, 3, 8)],
        *[({"amdahl": 0}, n, 60) for n in (1, 8)],
        *[(TABLE, 1, 108), (TABLE, 2, 60), (TABLE, 3, 60 * 1.8 / 2.45), (TABLE, 4, 60 * 1.8 / 3.1)],
        (TABLE, 8, 60 * 1.8 / 3.1),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_run_time_by_hand(law, cores, seconds, shared):
    model = SHARED if shared else {}
    run = simulate(
        scenario({"run_time": 60, "speedup": law}, cores, model=model), usage_step=1000.0
    )
    assert run.placements["end"].to_list() == [pytest.approx(seconds, rel=1e-12)]
    assert run.placements["cores"].to_list() == [cores]
    # Every core is busy for the whole time: n T(n) core-seconds, and so the power.
    assert run.usage["cpu"].sum() == pytest.approx(cores * seconds, rel=1e-9)
    watts = 100 + 100 * cores / 8
    assert run.tasks["energy"].sum() == pytest.approx(watts * seconds, rel=1e-9)


def test_view_has_the_law():
    policy = Give({"a": 4})
    simulate(scenario({"run_time": 60, "speedup": TABLE}, 4, policy=policy))
    assert policy.seen == [[3.1, 3.1 / 4]]


@pytest.mark.parametrize("cores", [0.5, 5, 2.5])
def test_range_of_the_law(cores):
    task = {"run_time": 60, "speedup": "linear", "min_cores": 2, "max_cores": 4}
    if cores == 2.5:
        assert simulate(scenario(task, cores)).placements["end"].to_list() == [48.0]
        return
    with pytest.raises(tl.TwinloopError, match="its speed-up law does not allow"):
        simulate(scenario(task, cores))


def test_without_a_law_the_request_counts():
    task = {"run_time": 60, "max_cores": None}
    with pytest.raises(tl.TwinloopError, match="do not add up"):
        simulate(scenario(task, 3))
    # Policies that do not know laws use the request.
    law = {"run_time": 60, "speedup": "linear"}
    assert simulate(scenario(law, 2, policy="fcfs")).placements["end"].to_list() == [60.0]


@pytest.mark.parametrize(("memory", "start"), [("4 GB", 0.0), ("6 GB", 30.0)])
def test_memory_is_that_of_the_whole_task(memory, start):
    """On 4 of 8 cores, a task of 2 requested ones has all its memory, and gives it back."""
    host = {"names": ["n"], "cores": 8, "memory": "10 GB"}
    law = {"cores": 2, "memory": "6 GB", "speedup": "linear", "max_cores": 4}
    tasks = [{"id": "a", "run_time": 60} | law, {"id": "b", "run_time": 60, "memory": memory}]

    class Fit(Give):
        def decide(self, view):
            for task in view.waiting:
                if view.free_memory[0] >= view.memory(task):
                    yield Place(task, 0, cores=4 if view.id(task) == "a" else None)
                    return

        def start(self, view, rng):
            return self

    given = tl.Scenario(
        platform={"clusters": [{"hosts": [host]}]},
        workload={"tasks": [*tasks, {"id": "c", "submit": 1, "run_time": 1}]},
        policy=Fit({}),
    )
    run = simulate(given)
    starts = dict(run.placements.select("task", "start").rows())
    assert starts["a"] == 0.0
    assert starts["b"] == (1.0 if start == 0.0 else 30.0)


def test_requested_time_is_that_of_the_requested_cores():
    task = {"run_time": 60, "requested_time": 40, "speedup": "linear"}
    model = {"kill_at_requested_time": True}
    assert simulate(scenario(task, 1, model=model)).placements["end"].to_list() == [80.0]
    assert simulate(scenario(task, 4, model=model)).placements["end"].to_list() == [20.0]


def test_resume_on_other_cores(tmp_path):
    """Half of the work is done on 2 cores in 30 s, the other half on 4 in 15 s after the outage."""
    log = tmp_path / "down.csv"
    log.write_text("node,start,end\nn,30,40\n")
    failures = {"trace": str(log), "on_failure": "resume", "checkpoint_interval": 10}
    given = scenario({"run_time": 60, "speedup": "linear"}, [2, 4], failures=failures)
    assert simulate(given).placements["end"].to_list() == [30.0, 55.0]


@pytest.mark.parametrize("shared", [False, True])
def test_states_and_copies(shared, tmp_path):
    model = SHARED if shared else {}
    given = scenario({"run_time": 60, "speedup": {"amdahl": 0.9}}, 5, model=model)
    origin = Simulation(given)
    origin.run_until(7.0)
    copy = origin.copy()
    origin.state.save(tmp_path / "state.json")
    later = Simulation(given, state=SimulationState.load(tmp_path / "state.json"))
    ends = [each.run()["end"].item() for each in (origin, copy, later)]
    assert ends == [pytest.approx(60 / 0.55 * (0.1 + 0.9 / 5), rel=1e-9)] * 3


def test_saved_cores_outside_of_the_law_are_refused():
    given = scenario({"run_time": 60, "speedup": "linear", "max_cores": 4}, 4)
    origin = Simulation(given)
    origin.run_until(1.0)
    wider = scenario({"run_time": 60, "speedup": "linear", "max_cores": 2}, 2)
    with pytest.raises(tl.InputError, match=r"must be from 1 to 2, by its speed-up law, not 4"):
        Simulation(wider, state=replace(origin.state, scenario=""))


@examples(10)
@given(
    st.floats(0, 1), st.integers(1, 8), st.integers(1, 8), st.floats(1, 100), st.booleans(),
    st.sampled_from([0.5, 1.0, 2.0]),
)  # fmt: skip
def test_law_of_amdahl(fraction, requested, cores, seconds, shared, speed):
    """T(n) = T(c) S(c) / S(n), on machines of any speed; the figures count the placed cores."""
    model = SHARED if shared else {}
    host = {"cores": 8, "speed": speed}
    task = {"cores": requested, "run_time": seconds, "speedup": {"amdahl": fraction}}
    given = scenario(task, cores, model=model, platform={"clusters": [{"hosts": [host]}]})
    scale = (1 - fraction + fraction / cores) / (1 - fraction + fraction / requested)
    end = seconds * scale / speed
    sim = Simulation(given)
    assert sim.run()["end"].item() == pytest.approx(end, rel=1e-9)
    found = figures(sim.trace()).to_dict()
    assert found["core_s"] == pytest.approx(cores * end, rel=1e-9)
    assert sim.kpis()["utilisation"] == pytest.approx(found["utilisation"], rel=1e-9)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"max_cores": [4.0]}, "max_cores: has no effect without a speed-up law"),
        ({"parallel_fraction": [1.5]}, "must be a share from 0 to 1"),
        ({"parallel_fraction": [0.5], "min_cores": [3.0]}, "min_cores <= cores <= max_cores"),
        ({"parallel_fraction": [0.5], "nodes": [2]}, "on one machine"),
        ({"speedup_points": [[]]}, "has no point"),
        ({"speedup_points": [[{"cores": 1.0, "speedup": None}]]}, "positive, finite numbers"),
        (
            {"speedup_points": [[{"cores": 1.0, "speedup": 1.0}]], "parallel_fraction": [0.5]},
            "cannot be combined",
        ),
    ],
)
def test_wrong_columns(columns, why):
    rows = pl.DataFrame({"id": ["a"], "submit": 0.0, "cores": 2.0, "work": 4.0, "limit": 2.0})
    given = {name: pl.Series(values) for name, values in columns.items()}
    workload = tl.Workload(tasks=rows.with_columns(**given))
    with pytest.raises(tl.InputError, match=why):
        workload.to_arrays()


def test_columns_and_list_agree(tmp_path):
    """A table read from Parquet and a list of tasks give the same run."""
    rows = {
        "id": ["a"], "submit": 0.0, "cores": 2.0, "work": 120.0, "limit": 2.0, "max_cores": 8.0,
        "speedup_points": [[{"cores": float(n), "speedup": float(s)} for n, s in TABLE["table"]]],
    }  # fmt: skip
    pl.DataFrame(rows).write_parquet(tmp_path / "tasks.parquet")
    table = tl.Workload(tasks=pl.read_parquet(tmp_path / "tasks.parquet"))
    listed = scenario({"run_time": 60, "speedup": TABLE}, 3)
    runs = [simulate(each) for each in (listed, listed.replace(workload=table))]
    assert runs[0].placements.equals(runs[1].placements)
    assert runs[0].placements["end"].item() == 60 * 1.8 / 2.45
