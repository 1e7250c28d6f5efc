"""Model values: a run with a row of values equals the run of a scenario with these values."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import KINDS, Case, Task, cases, few, fewer
from twinloop._core import KPI_NAMES
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.scenario import MODEL_VALUES

BY_TASK = ("submit", "ready", "start", "end", "run_time", "cpu", "machine")

LINEAR = {"model": "linear", "idle": 50.0, "max": 200.0}
POWERS = st.sampled_from(
    [
        LINEAR,
        {"model": "constant", "power": 80.0},
        {"model": "cubic", "idle": 0.0, "max": 200.0},
        {"model": "mse", "idle": 50.0, "max": 200.0, "r": 1.4},
        {"model": "asymptotic", "idle": 50.0, "max": 200.0, "a": 0.3, "dvfs": True},
    ]
)
CASES = st.builds(
    lambda case, power: case.but(
        machines=tuple({**machine, "power": power} for machine in case.machines)
    ),
    cases(most=8),
    POWERS,
)


def changed(compiled: CompiledScenario, factors: list[float]) -> dict[str, float]:
    """All values of the model, each changed, within what it may be."""
    made = {}
    for place, name in enumerate(compiled.value_names):
        factor = factors[place % len(factors)]
        own = float(compiled.values()[place])
        if name.startswith("contention.table"):
            made[name] = own + factor - 0.5
        elif name == "power.max":
            made[name] = max(own * factor, made["power.idle"])
        else:
            made[name] = own * factor if own else factor - 0.5
    return made


FACTORS = st.lists(st.sampled_from([1.0, 0.5, 2.0, 1.25]), min_size=3, max_size=5)


@fewer
@given(CASES, FACTORS)
def test_a_row_of_values_is_a_scenario_with_them(case, factors):
    compiled = CompiledScenario(case.scenario)
    values = changed(compiled, factors)
    anew = CompiledScenario(compiled.scenario_from_values(values))
    assert anew.value_names == compiled.value_names
    assert anew.values().tobytes() == compiled.values(values).tobytes()
    expected = np.array(list(anew.run().values())).tobytes()
    assert np.array(list(compiled.run(values).values())).tobytes() == expected
    rows = [compiled.values(), compiled.values(values)]
    many = compiled.run_many(rows, outputs=(*KPI_NAMES, "task_end"), threads=2)
    assert np.array([many[name][1] for name in KPI_NAMES]).tobytes() == expected
    own = np.array(list(compiled.run().values())).tobytes()
    assert np.array([many[name][0] for name in KPI_NAMES]).tobytes() == own
    traced = tl.simulate(compiled.scenario_from_values(values)).tasks
    ended = tl.simulate(anew).placements.group_by("task").agg(pl.col("end").max())
    ends = traced.join(ended, left_on="id", right_on="task", how="left", maintain_order="left")
    done = (ends["status"] == "completed").to_numpy()
    np.testing.assert_array_equal(many["task_end"][1][done], ends["end"].to_numpy()[done])


@fewer
@given(CASES, FACTORS)
def test_values_may_be_given_in_any_form(case, factors):
    compiled = CompiledScenario(case.scenario)
    told = changed(compiled, factors)
    whole = np.array([compiled.values(), compiled.values(told)])
    expected = compiled.run_many(whole)["makespan_s"].tobytes()
    columns = {name: [own, told[name]] for name, own in zip(told, whole[0], strict=True)}
    assert compiled.run_many(columns)["makespan_s"].tobytes() == expected
    assert compiled.run_many([{}, told])["makespan_s"].tobytes() == expected
    few_values = whole[:, : len(MODEL_VALUES)]
    alone = {name: told[name] for name in MODEL_VALUES}
    expected = compiled.run_many([{}, alone])["makespan_s"].tobytes()
    assert compiled.run_many(few_values)["makespan_s"].tobytes() == expected
    assert compiled.values(few_values[1]).tobytes() == compiled.values(alone).tobytes()


@fewer
@given(cases(most=8))
def test_task_columns_equal_the_trace(case):
    compiled = CompiledScenario(case.scenario)
    trace = tl.simulate(compiled)
    outputs = [f"task_{name}" for name in BY_TASK]
    many = compiled.run_many([compiled.values()], outputs=outputs)
    machines = compiled.names.machines
    ran = trace.placements.group_by("task").agg(
        start=pl.col("start").min(),
        end=pl.col("end").max(),
        machine=pl.col("machine").filter(pl.col("attempt") == pl.col("attempt").max()).first(),
    )
    tasks = trace.tasks.join(ran, left_on="id", right_on="task", how="left", maintain_order="left")
    done = (tasks["status"] == "completed").to_numpy()
    for name in BY_TASK:
        found = many[f"task_{name}"][0]
        column = tasks["cpu_time" if name == "cpu" else name]
        if name == "machine":
            expected = [machines.index(each) if each is not None else -1 for each in column]
            assert found.dtype == np.int64
            assert found[done].tolist() == np.array(expected)[done].tolist()
            assert (found[~done] == -1).all()
        else:
            np.testing.assert_array_equal(found[done], column.to_numpy()[done], err_msg=name)
            assert np.isnan(found[~done]).all()


@fewer
@given(CASES, FACTORS, st.sampled_from([0.7, 2.0, 100.0]))
def test_the_power_of_one_run_under_many_models(case, factors, step):
    compiled = CompiledScenario(case.scenario)
    names = [name for name in compiled.value_names if name.startswith("power.")]
    told = changed(compiled, factors)
    rows = [[compiled.values()[compiled.value_names.index(name)] for name in names]]
    rows.append([told[name] for name in names])
    watts = compiled.power_many(rows, step, threads=2)
    for row, found in zip(rows, watts, strict=True):
        anew = compiled.scenario_from_values(dict(zip(names, row, strict=True)))
        expected = tl.simulate(anew, power_step=step).power["watts"].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert compiled.power_many(rows[:1], step).tobytes() == watts[:1].tobytes()


CROWDS = st.lists(
    st.builds(
        Task,
        submit=st.sampled_from([0.0, 1.0, 3.0]),
        run_time=st.sampled_from([1.0, 2.0, 3.5]),
        kind=st.sampled_from(["loud", "shy", None]),
    ),
    min_size=3,
    max_size=10,
).map(tuple)
CROWDED = {"name": "spread-ic", "options": {"overcommit": 4.0}}


@few
@given(CROWDS, st.sampled_from([1.0, 0.5, 1.07]))
def test_on_hosts_of_one_core_contention_within_core_equals_within_host(tasks, speed):
    outputs = ["task_start", "task_end", "task_cpu"]
    one, other = (
        CompiledScenario(
            Case(
                ({"cores": 1.0}, {"cores": 1.0, "speed": 2.0}),
                tasks,
                CROWDED,
                {"speed_factor": speed, "contention": {"kinds": KINDS, "within": within}},
            ).scenario
        ).run_many([{}], outputs=outputs)
        for within in ("host", "core")
    )
    for name in outputs:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, err_msg=name)


CONTENTIONS = (
    {"linear": {"slope": 0.5}},
    {"table": [[1.0, 1.0], [2.0, 1.5]]},
    {"kinds": KINDS},
    {"kinds": KINDS, "within": "core"},
)


@pytest.mark.parametrize("contention", CONTENTIONS)
def test_every_value_changes_what_it_changes_in_a_scenario(contention):
    mse = {"model": "mse", "idle": 50.0, "max": 200.0, "r": 1.4}
    tasks = [Task(0.1 * i, run_time=2.0 + i, kind=("loud", "shy")[i % 2]) for i in range(8)]
    varying = Task(0.0, fragments=((1.0, 1.0), (2.0, 0.5)), kind="loud")
    model = {"contention": contention, "service_factors": {"loud": 1.5}}
    case = Case(({"cores": 2.0, "power": mse},), (*tasks, varying), CROWDED, model)
    compiled = CompiledScenario(case.scenario)
    own = compiled.run()
    assert len(compiled.value_names) >= len(MODEL_VALUES) + 2 + 1 + 3
    for name, value in zip(compiled.value_names, compiled.values(), strict=True):
        told = {name: value + 0.25}
        figures = compiled.run(told)
        anew = CompiledScenario(compiled.scenario_from_values(told)).run()
        np.testing.assert_equal(figures, anew, err_msg=name)
        assert figures["energy_j"] != own["energy_j"], name


# --- by hand --------------------------------------------------------------------------------------


def test_factors_by_kind_come_on_top_of_that_of_all():
    tasks = (
        Task(0.0, run_time=4.0, kind="loud"),
        Task(0.0, fragments=((1.0, 1.0), (2.0, 0.5)), kind="shy"),
        Task(0.0, run_time=4.0),
    )
    model = {"service_factor": 2.0, "service_factors": {"loud": 1.5, "shy": 0.5, "absent": 9.0}}
    compiled = CompiledScenario(Case(({"cores": 4.0},), tasks, model=model).scenario)
    many = compiled.run_many([compiled.values()], outputs=["task_end", "task_cpu"])
    assert many["task_end"].tolist() == [[12.0, 3.0, 8.0]]
    assert many["task_cpu"].tolist() == [[12.0, 2.0, 8.0]]


def test_the_value_names_match_the_scenario():
    def further(**parts) -> tuple[str, ...]:
        return CompiledScenario(Case(**parts).scenario).value_names[len(MODEL_VALUES) :]

    tasks = (Task(0.0, kind="loud"), Task(0.0))
    plain, other = {"cores": 1.0}, {"cores": 1.0, "power": LINEAR}
    assert CompiledScenario(Case((plain,), (Task(0.0),)).scenario).value_names == MODEL_VALUES
    factors = ("service_factors.loud",)
    power = ("power.idle", "power.max")
    assert further(machines=(plain,), tasks=tasks) == factors
    assert further(machines=(plain, other), tasks=tasks) == factors
    assert further(machines=(other, other), tasks=tasks) == (*factors, *power)
    table = {"model": "table", "points": [[0.0, 30.0], [1.0, 150.0]]}
    assert further(machines=({"cores": 1.0, "power": table},), tasks=tasks) == factors
    constant = {"model": "constant", "power": 30.0}
    named = further(machines=({"cores": 1.0, "power": constant},), tasks=tasks)
    assert named == (*factors, "power.idle")
    points = {"contention": {"table": [[1, 1], [2, 1.5]]}}
    assert further(machines=(plain,), tasks=tasks, model=points) == (
        *factors,
        "contention.table[0]",
        "contention.table[1]",
    )
    kinds = {"contention": {"kinds": {"shy": {"pressure": 1}}}, "service_factors": {"odd": 2}}
    assert further(machines=(plain,), tasks=tasks, model=kinds) == (
        *(f"service_factors.{kind}" for kind in ("loud", "shy", "odd")),
        *("contention.kinds.shy.pressure", "contention.kinds.shy.sensitivity"),
    )


@pytest.mark.parametrize(
    "value",
    [
        {"service_factors.loud": 0.0},
        {"service_factors.loud": math.inf},
        {"contention.table[0]": 0.99},
        {"contention.table[1]": math.nan},
        {"power.idle": -1.0},
        {"power.max": 20.0},
    ],
)
def test_values_that_the_model_cannot_have(value):
    case = Case(
        ({"cores": 1.0, "power": LINEAR},),
        (Task(0.0, kind="loud"),),
        model={"contention": {"table": [[1, 1], [2, 1.5]]}},
    )
    compiled = CompiledScenario(case.scenario)
    ((name, number),) = value.items()
    pattern = name.replace("[", r"\[")
    with pytest.raises(InputError, match=pattern):
        compiled.run(value)
    row = compiled.values()
    row[compiled.value_names.index(name)] = number
    with pytest.raises(InputError, match=pattern):
        compiled.run_many([row])


def test_no_rows_are_no_runs():
    compiled = CompiledScenario(Case(({"cores": 1.0, "power": LINEAR},), (Task(0.0),) * 2).scenario)
    many = compiled.run_many(np.empty((0, 7)), outputs=["makespan_s", "ends", "task_machine"])
    assert [many[name].shape for name in many] == [(0,), (0, 2), (0, 2)]
    assert compiled.power_many(np.empty((0, 2)), 1.0).shape == (0, 2)


def test_invalid_model_values_are_rejected():
    compiled = CompiledScenario(Case(({"cores": 1.0},), (Task(0.0, kind="loud"),)).scenario)
    for wrong in ({"service_factors.shy": 2.0}, {"speed_factor": "fast"}):
        with pytest.raises(InputError, match=r"service_factors\.shy|speed_factor"):
            compiled.run(wrong)
    with pytest.raises(InputError, match="7 or 8 columns"):
        compiled.run_many(np.ones((2, 9)))
    with pytest.raises(InputError, match="the same length"):
        compiled.run_many({"speed_factor": [1.0, 2.0], "service_factor": [1.0]})
    with pytest.raises(InputError, match="outputs"):
        compiled.run_many([{}], outputs=["task_colour"])
    with pytest.raises(InputError, match="power"):
        compiled.power_many([[1.0, 2.0]], 1.0)
    metered = CompiledScenario(Case(({"cores": 1.0, "power": LINEAR},), (Task(0.0),)).scenario)
    with pytest.raises(InputError, match="2 columns"):
        metered.power_many([[1.0]], 1.0)
    with pytest.raises(InputError, match="step"):
        metered.power_many([[1.0, 2.0]], 0.0)
