"""Numbers of the platform by path: a run with them equals the run of a scenario with overrides."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import Case, Task, cases, fewer
from tests.cluster.test_laws_values import FACTORS, changed
from tests.examples import examples
from tests.test_model_parameters import (
    STATES,
    TwoStates,
    list_networks,
    make_transfer_scenario,
)
from twinloop._core import KPI_NAMES
from twinloop.description.address import address_to_path
from twinloop.description.errors import InputError
from twinloop.description.number_fields import list_numbers
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario

HOST = "platform.clusters[0].hosts[0]"
LINEAR = {"model": "linear", "idle": 50.0, "max": 200.0}


@st.composite
def clocked_cases(draw: st.DrawFn) -> Case:
    """Cases in which some hosts have a clock in place of a speed."""
    case = draw(cases(most=8))
    machines = []
    for machine in case.machines:
        clock = draw(st.sampled_from([None, 1000.0, 3000.0]))
        kept = dict(machine)
        if clock is not None:
            kept = {**kept, "mhz": clock}
            if draw(st.booleans()):
                kept.pop("speed", None)
        machines.append(kept)
    return case.but(machines=tuple(machines))


@st.composite
def path_values(draw: st.DrawFn, compiled: CompiledScenario, most: int = 3) -> dict[str, float]:
    """Some numbers of the platform, each changed; the platform may not accept all of them."""
    numbers = list(list_numbers(compiled.scenario.effective_platform()))
    numbers = [each for each in numbers if each.address[-1] != "carbon"]
    chosen = draw(st.lists(st.sampled_from(numbers), max_size=most, min_size=1))
    factors = st.sampled_from([0.5, 1.0, 1.25, 2.0])
    return {
        f"platform.{address_to_path(each.address)}": (each.value or 1.0) * draw(factors)
        for each in chosen
    }


def figures(kpis: Any) -> bytes:
    return np.array([kpis[name] for name in KPI_NAMES]).tobytes()


@fewer
@given(clocked_cases(), FACTORS, st.data())
def test_a_path_is_an_override(case: Case, factors: list[float], data: st.DataObject) -> None:
    compiled = CompiledScenario(case.scenario)
    values = data.draw(path_values(compiled))
    if data.draw(st.booleans()):
        values = {**changed(compiled, factors), **values}
    try:
        anew = CompiledScenario(compiled.scenario_from_values(values))
    except InputError:
        # The engine refuses exactly what the description refuses.
        with pytest.raises(InputError):
            compiled.run(values)
        with pytest.raises(InputError):
            compiled.run_many([values])
        return
    paths = [name for name in values if name.startswith("platform.")]
    event("native" if all(map(compiled.acts_natively, paths)) else "compiled")
    expected, own = figures(anew.run()), figures(compiled.run())
    assert figures(compiled.run(values)) == expected
    many = compiled.run_many([{}, values, {}], outputs=KPI_NAMES, threads=2)
    assert figures({name: many[name][1] for name in KPI_NAMES}) == expected
    assert figures({name: many[name][2] for name in KPI_NAMES}) == own
    columns = {name: [value, value] for name, value in values.items()}
    again = compiled.run_many(columns, outputs=KPI_NAMES)
    assert figures({name: again[name][0] for name in KPI_NAMES}) == expected
    assert figures(compiled.run()) == own


@fewer
@given(clocked_cases(), st.data(), st.sampled_from([0.7, 3.0]))
def test_power_of_one_run_under_many_models_by_path(
    case: Case, data: st.DataObject, step: float
) -> None:
    compiled = CompiledScenario(
        case.but(machines=tuple({"power": LINEAR, **each} for each in case.machines)).scenario
    )
    watts = [
        f"platform.{address_to_path(each.address)}"
        for each in list_numbers(compiled.scenario.platform)
        if "power" in each.address and each.address[-1] in ("max", "power", "r", "a")
    ]
    assume(watts)
    name = data.draw(st.sampled_from(watts))
    own = compiled.own_value(name)
    assert own is not None
    values = [own, own * 1.5]
    found = compiled.power_many({name: values}, step, threads=2)
    for value, row in zip(values, found, strict=True):
        anew = compiled.scenario_from_values({name: value})
        expected = tl.simulate(anew, power_step=step).power["watts"].to_numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-9)


STATE_PATHS = [
    "off.power.power",
    "switching-on.duration",
    "switching-on.power.power",
    "switching-off.duration",
    "suspended.enter.duration",
    "suspended.enter.power.power",
    "suspended.leave.duration",
]


@examples(5)
@given(
    st.dictionaries(
        st.sampled_from(STATE_PATHS), st.sampled_from([0.0, 0.5, 3.0, 40.0]), min_size=1
    )
)
def test_states_by_path_are_overrides(numbers: dict[str, float]) -> None:
    host = {"cores": 9, "count": 2, "power": LINEAR, "states": STATES}
    tasks = [{"id": f"t{i}", "submit": 0.7 * i, "run_time": 9} for i in range(4)]
    compiled = CompiledScenario(
        Scenario(
            platform={"clusters": [{"hosts": [{"cores": 9, "power": LINEAR}, host]}]},
            workload={"tasks": tasks},
            policy=TwoStates(),
        )
    )
    values = {f"{HOST[:-2]}1].states.{path}": value for path, value in numbers.items()}
    assert all(compiled.acts_natively(name) for name in values)
    own = figures(compiled.run())
    anew = CompiledScenario(compiled.scenario_from_values(values)).run()
    assert figures(compiled.run(values)) == figures(anew)
    assert figures(compiled.run()) == own


@examples(12)
@given(st.sampled_from(list(list_networks())), st.data())
def test_networks_by_path_are_overrides(platform: dict[str, Any], data: st.DataObject) -> None:
    compiled = CompiledScenario(make_transfer_scenario(platform))
    parts = ("ports", "network", "stores", "store")
    numbers = [
        each
        for each in list_numbers(compiled.scenario.platform)
        if not {*parts}.isdisjoint(each.address) and each.address[-1] != "capacity"
    ]
    chosen = data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=4))
    values = {
        f"platform.{address_to_path(each.address)}": data.draw(
            st.sampled_from([1, 2, 5] if each.type.is_whole else [0.5, 1.25, 4.0, 60.0])
        )
        for each in chosen
    }
    assert all(compiled.acts_natively(name) for name in values)
    own = figures(compiled.run())
    anew = CompiledScenario(compiled.scenario_from_values(values))
    assert figures(compiled.run(values)) == figures(anew.run())
    mine, others = compiled.start(values, placements=True), anew.start(placements=True)
    while mine.run_slice() | others.run_slice():
        pass
    for name, column in others.transfers().items():
        assert column.tobytes() == mine.transfers()[name].tobytes()
    many = compiled.run_many([values, {}], outputs=KPI_NAMES, threads=2)
    assert figures({name: many[name][0] for name in KPI_NAMES}) == figures(anew.run())
    assert figures({name: many[name][1] for name in KPI_NAMES}) == own


# --- by hand --------------------------------------------------------------------------------------


def two_groups() -> CompiledScenario:
    """Two groups of hosts, and a store that no task uses."""
    hosts = [{"cores": 1, "mhz": 1000, "power": LINEAR}, {"cores": 1, "mhz": 1000, "power": LINEAR}]
    scenario = Case(tuple(hosts), (Task(0.0, run_time=8.0),) * 2).scenario
    return CompiledScenario(scenario.replace(**{"platform.stores": [{"name": "disk"}]}))


def test_a_clock_changes_the_speed_of_its_group() -> None:
    ready = two_groups()
    many = ready.run_many({f"{HOST}.mhz": [1000.0, 2000.0, 4000.0]}, outputs=["ends"])
    assert many["ends"].tolist() == [[8.0, 8.0], [4.0, 8.0], [2.0, 8.0]]
    # A speed is given by itself, whatever the clock.
    both = ready.run_many([{f"{HOST}.speed": 4.0, f"{HOST}.mhz": 2000.0}], outputs=["ends"])
    assert both["ends"].tolist() == [[2.0, 8.0]]


def test_the_idle_power_of_one_group() -> None:
    ready = two_groups()
    assert ready.run()["energy_j"] == 2 * 8 * 200
    slower = {"speed_factor": 1.0, f"{HOST}.speed": 2.0}
    # One group is idle for the last 4 s: 4 s at 200 W and 4 s at 10 W; the other one as before.
    assert ready.run({**slower, f"{HOST}.power.idle": 10.0})["energy_j"] == 4 * 200 + 4 * 10 + 1600
    # The value of all hosts comes first, that of the group afterwards.
    all_hosts = {f"{HOST}.power.idle": 10.0, "power.idle": 100.0}
    assert ready.run({**slower, **all_hosts})["energy_j"] == 4 * 200 + 4 * 10 + 1600
    by_group = ready.power_many({f"{HOST}.power.idle": [10.0, 50.0]}, 4.0, values=slower)
    assert by_group.tolist() == [[400.0, 210.0], [400.0, 250.0]]


def test_bandwidths_and_latencies_by_hand() -> None:
    ready = [CompiledScenario(make_transfer_scenario(each)) for each in list_networks()]
    ports, stores, *_, links = ready
    # Task a: 0.5 s of latency and 7 bytes at 2 B/s, 3 s of work, latency and 5 bytes at 2 B/s.
    assert ports.run_many([{}], outputs=["ends"])["ends"].tolist() == [[10.0, 12.5]]
    names = [f"{HOST}.ports.in", f"{HOST}.ports.out", "platform.network.latency"]
    values = dict(zip(names, [7.0, 5.0, 0.25], strict=True))
    assert ports.run_many([values], outputs=["ends"])["ends"][0, 0] == 0.25 + 1 + 3 + 0.25 + 1
    # With one stream b reads after a, and writes after a.
    assert stores.run()["makespan_s"] == pytest.approx(16 / 3 + 3 + 8 / 2)
    two = stores.run({"platform.stores[0].streams": 2, "platform.stores[0].read": 16.0})
    # Both read at 8 B/s: a has read after 7/8 s, and from 3 s later on 13 bytes are written.
    assert two["makespan_s"] == pytest.approx(7 / 8 + 3 + 13 / 2)
    # The latency of the route of b replaces those of its links.
    ends = links.run_many({"platform.network.routes[0].latency": [4.0, 0.0]}, outputs=["ends"])
    assert ends["ends"].tolist() == [[12.0, 19.5], [11.5, 12.0]]


def test_paths_that_need_a_compilation() -> None:
    ready = two_groups()
    assert not ready.acts_natively(f"{HOST}.cores")
    assert ready.run({f"{HOST}.cores": 0.5})["completed"] == 2
    # Both tasks on one host of two cores, or one after the other on the only host that is left.
    assert ready.run_many({f"{HOST}.count": [1]}, outputs=["ends"])["ends"].tolist() == [[8.0, 8.0]]
    with pytest.raises(InputError, match="scenario_from_values"):
        ready.start({f"{HOST}.cores": 2.0})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({f"{HOST}.mzh": 1.0}, r"mzh is not a number.*did you mean '.*mhz', in MHz"),
        ({"clusters[0].hosts[0].mzh": 1.0}, "in MHz"),
        ({f"{HOST}.power.idel": 1.0}, "idle', in W"),
        ({f"{HOST}.power.idle": -1.0}, "in W, not -1"),
        ({f"{HOST}.power.idle": 201.0}, r"power\.max must not be below"),
        ({f"{HOST}.mhz": 0.0}, "positive, in MHz"),
        ({f"{HOST}.cores": -1.0}, r"hosts\[0\]\.cores must be finite and positive"),
        ({f"{HOST}.name": 1.0}, "is not a number"),
        ({"platform.stores[0].streams": 1.5}, "must be a whole number, not 1.5"),
        ({"platform.stores[0].read": 0.0}, "positive, in B/s"),
        ({"platform.clusters[7].hosts[0].mhz": 1.0}, "is not a number"),
        ({"platform.[": 1.0}, "is not a path"),
        ({"speed_facto": 1.0}, "did you mean 'speed_factor'"),
    ],
)
def test_wrong_paths_and_values(values: dict[str, float], message: str) -> None:
    ready = two_groups()
    for run in (ready.run, lambda given: ready.run_many([given])):
        with pytest.raises(InputError, match=message):
            run(values)


def test_the_syntax_of_overrides_is_accepted() -> None:
    ready = two_groups()
    short, long = "clusters[0].hosts[0].mhz", f"{HOST}.mhz"
    assert figures(ready.run({short: 2000.0})) == figures(ready.run({long: 2000.0}))
    assert ready.scenario_from_values({short: 2000.0}) == ready.scenario_from_values({long: 2000.0})
    assert ready.scenario_from_values({short: 2000.0}).model.overrides == {short: 2000.0}


def test_a_row_has_no_place_for_a_path() -> None:
    with pytest.raises(InputError, match="by name"):
        two_groups().values({f"{HOST}.mhz": 2000.0})


def test_overrides_of_the_scenario_are_kept() -> None:
    other = "clusters[0].hosts[1].mhz"
    scenario = two_groups().scenario.replace(**{"model.overrides": {other: 2000.0}})
    ready = CompiledScenario(scenario)
    changed = ready.scenario_from_values({f"{HOST}.mhz": 4000.0})
    assert changed.model.overrides == {other: 2000.0, "clusters[0].hosts[0].mhz": 4000.0}
    for values in ({f"{HOST}.mhz": [4000.0]}, {f"{HOST}.mhz": [4000.0], f"{HOST}.cores": [2.0]}):
        assert ready.run_many(values, outputs=["task_end"])["task_end"].min() == 2.0
    assert ready.run_many([{}], outputs=["ends"])["ends"].tolist() == [[4.0, 8.0]]
