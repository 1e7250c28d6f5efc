"""The CPU time of tasks in windows: exact, at every resolution."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import MODELS, OVERCOMMITTING, Case, Task, cases, few, fewer
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.trace.quality import check

STEPS = st.sampled_from([0.25, 0.7, 1.0, 3.0, 1000.0])
EXACT = 1e-9
TWICE = {"name": "pack-ic", "options": {"overcommit": 2.0}}


# Machines that are asked for more than they have, and do not give it.
SHORT = cases(
    policies=OVERCOMMITTING,
    model=MODELS.map(lambda model: {**model, "sharing": "no-delay", "effective_capacity": 2.0}),
    failing=False,
)


@few
@given(st.one_of(cases(), SHORT), STEPS)
def test_windows_cover_executions_and_add_up_to_the_cpu_time(case, step):
    trace = tl.simulate(case.scenario, usage_step=step)
    found = trace.usage
    assert (found["cpu"] >= -EXACT).all()
    assert found["rss"].null_count() == found.height
    for _, part in found.group_by("task", "machine"):
        pieces = part.sort("t")
        assert (pieces["dt"] > 0).all()
        assert (pieces["dt"] <= step * (1 + 1e-9)).all()
        begins = pieces["t"] - pieces["dt"]
        assert (begins[1:] >= pieces["t"][:-1] - EXACT).all()
    # Each execution that took time is covered, from its start to its end.
    ran = trace.placements.filter(pl.col("end") > pl.col("start"))
    lengths = ran.group_by("task").agg(seconds=(pl.col("end") - pl.col("start")).sum())
    covered = found.group_by("task").agg(seconds=pl.col("dt").sum())
    both = lengths.join(covered, on="task", how="full")
    np.testing.assert_allclose(both["seconds"], both["seconds_right"], rtol=EXACT, atol=EXACT)
    used = dict(found.group_by("task").agg(pl.col("cpu").sum()).iter_rows())
    for name, cpu_time in trace.tasks.select("id", "cpu_time").iter_rows():
        assert used.get(name, 0.0) == pytest.approx(cpu_time or 0.0, rel=EXACT, abs=EXACT)


@fewer
@given(cases(), st.sampled_from([(0.25, 4), (0.5, 3), (1.0, 5)]))
def test_long_windows_are_the_sum_of_short_ones(case, steps):
    step, times = steps
    compiled = CompiledScenario(case.scenario)
    fine, coarse = (tl.simulate(compiled, usage_step=each) for each in (step, step * times))
    starts = fine.placements.select("task", "machine", "start", "end")
    for task, machine, start, end in starts.iter_rows():
        parts = [
            one.usage.filter(
                (pl.col("task") == task)
                & (pl.col("machine") == machine)
                & (pl.col("t") > start + 1e-9)
                & (pl.col("t") <= end + 1e-9)
            )["cpu"].to_numpy()
            for one in (fine, coarse)
        ]
        summed = np.add.reduceat(parts[0], np.arange(0, len(parts[0]), times))
        if len(summed) == len(parts[1]):  # but for one that is nothing but rounding
            np.testing.assert_allclose(summed, parts[1], rtol=EXACT, atol=EXACT)
        assert summed.sum() == pytest.approx(parts[1].sum(), rel=EXACT, abs=EXACT)


@fewer
@given(cases())
def test_machines_are_used_by_the_tasks_on_them(case):
    """What all tasks of a machine used over time is what the machine was used for."""
    compiled = CompiledScenario(case.scenario)
    run = compiled.start(use=True, usage_step=1000.0)
    while run.run_slice():
        pass
    noted, usage, speeds = run.use(), run.usage(), compiled.machines.speed
    assume(len(set(speeds)) == 1)  # CPU time counts at the speed of a task's slowest machine
    for machine, speed in enumerate(speeds):
        mine = noted["machine"] == machine
        at, used = np.append(noted["t"][mine], run.now), noted["used"][mine]
        drawn = sum(
            0.0 if np.isnan(level) else level * (after - before)
            for level, (before, after) in zip(used, pairwise(at), strict=True)
        )
        cpu = usage["cpu"][usage["machine"] == machine].sum()
        reference = cpu * speed * case.model["speed_factor"]
        assert reference == pytest.approx(drawn, rel=EXACT, abs=EXACT)


@fewer
@given(cases(), STEPS)
def test_recording_usage_does_not_change_results(case, step):
    compiled = CompiledScenario(case.scenario)
    plain, noted = (tl.simulate(compiled, usage_step=each) for each in (float("inf"), step))
    assert plain.usage.is_empty()
    for table in ("tasks", "placements", "power"):
        assert getattr(plain, table).equals(getattr(noted, table))
    run = compiled.start(usage_step=step)
    for _ in range(3):
        run.step()
    twin = run.copy()
    for each in (run, twin):
        while each.run_slice():
            pass
    for name, column in run.usage().items():
        assert column.tobytes() == twin.usage()[name].tobytes()


# --- by hand --------------------------------------------------------------------------------------


def cpu(case: Case, task: str, step: float) -> list[float]:
    return tl.simulate(case.scenario, usage_step=step).usage.filter(task=task)["cpu"].to_list()


def test_fragments_and_start_up():
    # Half a second of start-up, 2 s on both cores, 1 s on none, 3 s on one.
    pieces = ((2.0, 1.0), (1.0, 0.0), (3.0, 0.5))
    case = Case(
        ({"cores": 2.0},),
        (Task(1.0, cores=2.0, fragments=pieces),),
        model={"startup_overhead": 0.5},
    )
    assert cpu(case, "t0", 1.0) == [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 0.5]
    usage = tl.simulate(case.scenario, usage_step=4.0).usage
    assert usage.select("t", "dt", "cpu").rows() == [(5.0, 4.0, 4.5), (7.5, 2.5, 2.5)]


@pytest.mark.parametrize("sharing", ["stretch", "no-delay"])
def test_two_on_one_core_get_half_each(sharing):
    # With delay the short one ends at 4 and the other has the core for itself until 6; without,
    # the short one ends at 2.
    tasks = (Task(0.0, run_time=2.0), Task(0.0, run_time=4.0))
    case = Case(({"cores": 1.0},), tasks, TWICE, {"sharing": sharing})
    half, own = ([0.5] * 4, [1.0] * 2) if sharing == "stretch" else ([0.5] * 2, [1.0] * 2)
    assert cpu(case, "t0", 1.0) == half
    assert cpu(case, "t1", 1.0) == half + own


def test_the_parts_of_a_task_and_its_attempts():
    # On two machines from 0 on, of which one fails at 1.5; again on both from 2.5 to 4.5.
    case = Case(
        ({"cores": 1.0},) * 2,
        (Task(0.0, cores=2.0, run_time=2.0, nodes=2),),
        failures=((0, 1.5, 1.0),),
    )
    usage = tl.simulate(case.scenario, usage_step=1.0).usage.sort("machine", "t")
    windows = [(1.0, 1.0, 1.0), (1.5, 0.5, 0.5), (3.5, 1.0, 1.0), (4.5, 1.0, 1.0)]
    assert usage.select("t", "dt", "cpu").rows() == windows * 2
    assert usage["machine"].to_list() == ["m0"] * 4 + ["m1"] * 4


def test_what_is_drawn_while_a_checkpoint_is_written_counts_once():
    # 1 s, a checkpoint of 0.5 s, and 0.5 s of the next when the machine fails: 2 s were drawn, 1 s
    # is kept. Then the other two seconds, with a checkpoint between them.
    for task in (Task(0.0, run_time=3.0), Task(0.0, fragments=((2.0, 1.0), (1.0, 1.0)))):
        case = Case(
            ({"cores": 1.0},),
            (task,),
            failures=((0, 2.0, 1.0),),
            then={"on_failure": "resume", "checkpoint_interval": 1.0, "checkpoint_cost": 0.5},
        )
        trace = tl.simulate(case.scenario, usage_step=0.5)
        assert trace.tasks["cpu_time"].to_list() == [4.5]
        assert trace.usage["cpu"].to_list() == [0.5] * 9


def test_a_replay_has_the_windows_of_the_recording():
    case = Case(({"cores": 1.0},), (Task(0.0, run_time=2.5), Task(0.0, run_time=1.0)))
    run = tl.simulate(case.scenario, usage_step=0.5)
    assert not check(run).errors
    assert tl.simulate(case.scenario.replace(workload=run)).usage.is_empty()
    manifest = run.manifest.model_copy(update={"kind": "recorded"})
    again = case.scenario.replace(workload=run.replace(manifest=manifest))
    assert tl.simulate(again).usage.equals(run.usage)
    told = manifest.model_copy(update={"sampling_period": 1.0})
    rarely = again.replace(workload=run.replace(manifest=told))
    assert tl.simulate(rarely).usage["dt"].to_list() == [1.0, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan")])
def test_windows_of_no_length(step):
    with pytest.raises(InputError, match="usage_step"):
        tl.simulate(Case(({"cores": 1.0},), (Task(0.0),)).scenario, usage_step=step)
