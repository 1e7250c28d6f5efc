"""Readings of meters: by hand, as integrals, and against a sampled calculation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinloop as tl
from twinloop import metrics
from twinloop.description import InputError
from twinloop.description.class_registry import CodeNotAllowed
from twinloop.scenario import Scenario
from twinloop.trace import Trace

few = settings(max_examples=max(1, settings.default.max_examples // 4), deadline=None)

POWER = {"model": "linear", "idle": 100, "max": 200}
NODES = ("rack-pm-001", "rack-pm-002")
TASKS = ({"id": "a", "cores": 4, "run_time": 60}, {"id": "b", "cores": 2, "run_time": 40})


def make_scenario(*meters: dict[str, Any], tasks: Any = TASKS, **cloud: Any) -> Scenario:
    """Two hosts of four cores: the first at 200 W until 60 s, the second at 150 W until 40 s."""
    host = {"name": "pm", "count": 2, "cores": 4, "power": POWER}
    return Scenario.from_dict(
        {
            "platform": {
                "clusters": [{"name": "rack", "hosts": [host]}],
                "clouds": [{"name": "east", "meters": list(meters), **cloud}],
            },
            "workload": {"tasks": list(tasks)},
            "policy": "one-per-task",
        }
    )


def read(*meters: dict[str, Any], **cloud: Any) -> dict[str, float]:
    """The energy of each meter."""
    table = metrics.energy_by_meter(tl.simulate(make_scenario(*meters, **cloud)))
    return dict(table.select("meter", "energy_j").rows())


# --- by hand -------------------------------------------------------------------------------------


def test_the_hosts_of_a_cloud_are_a_meter() -> None:
    table = metrics.meter_readings(tl.simulate(make_scenario()))
    assert table.rows() == [
        ("east", "it", "direct", 0.0, 40.0, 350.0),
        ("east", "it", "direct", 40.0, 60.0, 300.0),
    ]


def test_direct_meters_have_the_power_of_their_hosts() -> None:
    first = {"name": "first", "hosts": [NODES[0]]}
    second = {"name": "second", "hosts": [NODES[1]]}
    found = read(first, second, {"name": "rack", "cluster": "rack"})
    assert found == {"it": 20_000, "first": 12_000, "second": 8_000, "rack": 20_000}


def test_indirect_meters_are_computed_at_each_step() -> None:
    """At most 100 W: 0.3 x 350 = 105 W counts as 100 W; load: 6 / 8, then 4 / 8."""
    found = read(
        {"name": "hvac", "watts": "min(0.3 * it, 100)"},
        {"name": "service", "watts": "40 * load"},
        {"name": "fan", "watts": "hvac / 10"},
        {"name": "lights", "watts": 5},
    )
    hvac = 40 * 100 + 20 * 90
    expected = {"hvac": hvac, "service": 40 * 30 + 20 * 20, "fan": hvac / 10, "lights": 300}
    assert found == pytest.approx({"it": 20_000, **expected})


def test_aggregated_meters_add_up_the_others() -> None:
    found = read(
        {"name": "total", "sum": ["first", "lights"]},
        {"name": "first", "hosts": [NODES[0]]},
        {"name": "lights", "watts": 5},
    )
    assert found["total"] == 12_000 + 300


def test_the_temperature_changes_the_power_between_events() -> None:
    found = read(
        {"name": "cooling", "watts": "2 * temperature"},
        temperature=[[0, 10], ["30s", "20 °C"], ["2h", 99]],
    )
    assert found["cooling"] == 30 * 20 + 30 * 40


def test_a_temperature_file_by_seconds_or_by_date(tmp_path: Path) -> None:
    seconds, dated = tmp_path / "seconds.csv", tmp_path / "dated.csv"
    seconds.write_text("\ufefft, temperature\n\n-5,10\n30, 20\n\n")
    dated.write_text("unix_ms,temperature\n86400000,10\n86430000,20\n")
    meter = {"name": "cooling", "watts": "2 * temperature"}
    assert read(meter, temperature=str(seconds))["cooling"] == 1800
    scenario = make_scenario(meter, temperature=str(dated)).replace(start="1970-01-02")
    assert metrics.energy_by_meter(tl.simulate(scenario))["energy_j"][1] == 1800
    with pytest.raises(InputError, match="has no date of t = 0"):
        read(meter, temperature=str(dated))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("t,temperature\n0,10\n5,warm\n", r"csv:3: .*temperature is not a number: 'warm'"),
        ("t,temperature\n0,10\n0,11\n", r"csv:3: .*the times must increase"),
        ("t,degrees\n0,10\n", r"csv:1: .*lacks a column: it has t, degrees"),
        ("t,temperature\n", "has no rows"),
        ("t,temperature\n\n0\n", r"csv:3: has 1 value for 2 columns"),
        ("t,temperature\n7,10\n", "starts at t = 7 s, after the start of the run, t = 0 s"),
        (None, "cannot be read: does not exist"),
    ],
)
def test_a_wrong_temperature_file_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "temperature.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=problem):
        read({"name": "cooling", "watts": "temperature"}, temperature=str(file))


def test_transitions_of_hosts_count() -> None:
    """All hosts are off at 10 W; the first is switched on for 20 s at 150 W, and then runs 10 s."""
    scenario = make_scenario(
        {"name": "half", "watts": "it / 2"},
        tasks=[{"id": "a", "cores": 4, "run_time": 10}],
        controllers={"machines": "on-demand"},
    )
    states = {"off": {"power": 10}, "switching-on": {"power": 150, "duration": 20}}
    run = tl.simulate(scenario.replace(**{"platform.clusters[0].hosts[0].states": states}))
    expected = 30 * 10 + 20 * 150 + 10 * 200
    assert metrics.energy_by_meter(run)["energy_j"].to_list() == [expected, expected / 2]


def test_clouds_have_their_own_hosts() -> None:
    values = make_scenario().to_dict()
    values["platform"]["clusters"] = [
        {"name": name, "hosts": [{"cores": 4, "power": POWER}]} for name in ("one", "two")
    ]
    values["platform"]["clouds"] = [
        {"name": "east", "clusters": ["one"]},
        {"name": "west", "clusters": ["two"], "meters": [{"name": "double", "watts": "2 * it"}]},
    ]
    values["workload"]["tasks"] = [{"id": "a", "cores": 4, "run_time": 10}]
    table = metrics.energy_by_meter(tl.simulate(Scenario.from_dict(values)))
    assert table.select("cloud", "meter", "energy_j").rows() == [
        ("east", "it", 2000.0),
        ("west", "it", 1000.0),
        ("west", "double", 2000.0),
    ]


# --- functions -----------------------------------------------------------------------------------

MODULE = """
import numpy as np

def chiller(it, temperature):
    return np.where(temperature > 15, it / 3, it / 5)

def constant():
    return 7

def fail(it):
    raise ValueError("no such chiller")

def short(it):
    return it[:-1]
"""


@pytest.fixture
def cooling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cooling_of_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cooling_of_test", raising=False)


def call(name: str, *inputs: str, allow_code: bool = True) -> dict[str, float]:
    meter = {"name": "chiller", "function": f"cooling_of_test:{name}", "inputs": list(inputs)}
    run = tl.simulate(make_scenario(meter, temperature=[[0, 10], [40, 20]]))
    table = metrics.energy_by_meter(run, allow_code=allow_code)
    return dict(table.select("meter", "energy_j").rows())


@pytest.mark.usefixtures("cooling")
def test_a_function_is_called_with_its_inputs() -> None:
    assert call("chiller", "it", "temperature")["chiller"] == 40 * 70 + 20 * 100
    assert call("constant")["chiller"] == 60 * 7


@pytest.mark.usefixtures("cooling")
def test_a_function_needs_permission() -> None:
    with pytest.raises(CodeNotAllowed, match="'cooling_of_test:constant' is Python code"):
        call("constant", allow_code=False)
    assert "cooling_of_test" not in sys.modules


@pytest.mark.usefixtures("cooling")
def test_errors_of_functions_name_the_meter() -> None:
    with pytest.raises(InputError, match=r"meter 'chiller'.*no such chiller"):
        call("fail", "it")
    with pytest.raises(InputError, match=r"meter 'chiller'.*as long as its inputs"):
        call("short", "it")
    with pytest.raises(InputError, match="has no 'shart'"):
        call("shart", "it")


# --- errors --------------------------------------------------------------------------------------


def test_a_division_by_zero_names_the_meter() -> None:
    tasks = [{"id": "a", "run_time": 1}, {"id": "b", "submit": 5, "run_time": 10}]
    run = tl.simulate(make_scenario({"name": "share", "watts": "it / load"}, tasks=tasks))
    with pytest.raises(InputError, match=r"'east.share'.*divides by zero"):
        metrics.energy_by_meter(run)


def test_the_power_of_a_cloud_needs_that_of_all_its_hosts() -> None:
    values = make_scenario().to_dict()
    values["platform"]["clusters"][0]["hosts"].append({"name": "dark", "cores": 4})
    run = tl.simulate(Scenario.from_dict(values))
    with pytest.raises(InputError, match="host 'rack-dark-001' of cloud 'east' has no power model"):
        metrics.energy_by_meter(run)


def test_a_run_without_clouds_has_no_meters() -> None:
    scenario = Scenario.from_dict(
        {"platform": "1x4", "workload": {"tasks": list(TASKS)}, "policy": "fcfs"}
    )
    assert metrics.energy_by_meter(tl.simulate(scenario)).is_empty()


# --- laws ----------------------------------------------------------------------------------------

_TASKS = st.lists(
    st.fixed_dictionaries(
        {
            "submit": st.sampled_from([0, 3, 10, 25.5]),
            "run_time": st.sampled_from([1, 10, 17.25]),
            "cores": st.integers(1, 4),
        }
    ),
    min_size=1,
    max_size=6,
)


def sample(run: Trace, meter: str, times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The power of a meter at some times."""
    steps = metrics.meter_readings(run).filter(meter=meter)
    return steps["watts"].to_numpy()[np.searchsorted(steps["start"].to_numpy(), times, "right") - 1]


@few
@given(_TASKS, st.lists(st.floats(-30, 50), min_size=1, max_size=4))
def test_meters_are_their_expressions_at_all_times(
    tasks: list[dict[str, Any]], degrees: list[float]
) -> None:
    named = [{"id": f"t{i}", **task} for i, task in enumerate(tasks)]
    scenario = make_scenario(
        {"name": "hvac", "watts": "max(0.2 * it, 5 * (temperature - 10)) + 30 * load"},
        {"name": "first", "hosts": [NODES[0]]},
        {"name": "second", "hosts": [NODES[1]]},
        {"name": "total", "sum": ["first", "second", "hvac"]},
        tasks=named,
        temperature=[[7 * i, value] for i, value in enumerate(degrees)],
    )
    run = tl.simulate(scenario)
    table = metrics.energy_by_meter(run)
    energy = dict(table.select("meter", "energy_j").rows())
    # The energy of the hosts is that of the simulation, and no meter loses energy.
    assert energy["it"] == pytest.approx(metrics.energy(run))
    assert energy["first"] + energy["second"] == pytest.approx(energy["it"])
    assert energy["total"] == pytest.approx(energy["it"] + energy["hvac"])
    # At any time, a meter has the value of its expression.
    begin, end = min(task["submit"] for task in tasks), run.placements["end"].to_numpy().max()
    times = begin + (end - begin) * (np.arange(40) + 0.37) / 40
    it = sample(run, "it", times)
    warmth = np.array([degrees[min(int(t // 7), len(degrees) - 1)] for t in times])
    cores = [
        sum(
            row["cores"]
            for row in run.placements.iter_rows(named=True)
            if row["start"] <= t < row["end"]
        )
        for t in times
    ]
    expected = np.maximum(0.2 * it, 5 * (warmth - 10)) + 30 * np.array(cores) / 8
    assert sample(run, "hvac", times) == pytest.approx(expected)
    steps = metrics.meter_readings(run).sort("meter", "start")
    is_joined = (pl.col("start") == pl.col("end").shift(1)).over("meter").fill_null(True)
    assert steps.select(is_joined.all()).item()
