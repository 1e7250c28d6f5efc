"""Laws of the table of model parameters: everything that names a parameter is made from it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twinloop._core import PARAMETER_NAMES
from twinloop.calibration.cases import Case
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.description.address import address_to_path
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberType, list_numbers, read_number_type
from twinloop.engine import CompiledScenario
from twinloop.policy import Place, Policy, SetState
from twinloop.scenario import (
    MODEL_VALUES,
    Contention,
    KindContention,
    LinearContention,
    Model,
    Scenario,
)
from twinloop.scenario.detail import Submission
from twinloop.scenario.model_values import set_model_values
from twinloop.scenario.parameters import PARAMETERS, find_parameter
from twinloop.workload import Workload

LINEAR = {"model": "linear", "idle": 50.0, "max": 200.0}
POWERS = (
    LINEAR,
    {"model": "constant", "power": 80.0},
    {"model": "mse", "idle": 50.0, "max": 200.0, "r": 1.4},
    {"model": "asymptotic", "idle": 50.0, "max": 200.0, "a": 0.3},
    {"model": "table", "points": [[0.0, 30.0], [0.5, 120.0], [1.0, 150.0]]},
)
CONTENTIONS: tuple[Any, ...] = (
    {"linear": {"slope": 0.5}},
    {"table": [[1.0, 1.0], [2.0, 1.5]]},
    {"kinds": {"loud": {"pressure": 0.4, "sensitivity": 0.1}}},
)


SHARED = {"name": "spread-ic", "options": {"overcommit": 4.0}}


STATES = {
    "off": {"power": 5.0},
    "switching-on": {"power": 90.0, "duration": 2.0},
    "switching-off": {"power": 80.0, "duration": 1.0},
    "suspended": {
        "power": 10.0,
        "enter": {"power": 70.0, "duration": 0.5},
        "leave": {"power": 60.0, "duration": 0.75},
    },
}


class TwoStates(Policy):
    """Place tasks on the first machine; switch the others off, or suspend them, and on again."""

    def decide(self, view: Any) -> Iterator[Any]:
        state = "on" if view.now > 0 else ""
        for machine, other in ((1, "off"), (2, "suspended")):
            if (state or view.state(machine)) != other:
                yield SetState(machine, state or other)
        for task in view.waiting:
            yield Place(task, 0)


def make_scenario(
    power: Any = LINEAR, contention: Any = "none", policy: Any = SHARED, **host: Any
) -> Scenario:
    """Tasks of a kind that share one host, so that every parameter has an effect."""
    tasks = [
        {"id": f"t{i}", "submit": 0.3 * i, "run_time": 2 + i, "cores": 1, "kind": "loud"}
        for i in range(6)
    ]
    return Scenario(
        platform={"clusters": [{"hosts": [{"cores": 2, "mhz": 1000, "power": power, **host}]}]},
        workload={"tasks": tasks},
        policy=policy,
        model={"contention": contention},
    )


def list_networks() -> Iterator[dict[str, Any]]:
    """Platforms whose transfers are bound by one kind of part each: ports, stores, links."""
    ports = {"in": 2.0, "out": 2.0}
    disk = {"name": "disk"}
    host = {"name": "h", "cores": 1, "count": 2, "power": LINEAR}
    hosts = {"clusters": [{"hosts": [host]}]}
    yield {
        "clusters": [{"hosts": [{**host, "ports": ports}]}],
        "stores": [disk],
        "network": {"latency": 0.5},
    }
    yield {**hosts, "stores": [{**disk, "read": 3.0, "write": 2.0, "streams": 1}]}
    yield {**hosts, "stores": [{**disk, "ports": ports}]}
    store = {"read": 3.0, "write": 2.0, "streams": 1}
    yield {"clusters": [{"hosts": [{**host, "store": store}]}], "network": {"latency": 0.5}}
    # The first file has 7 bytes: it fits, or only if the cache is larger.
    for cache in ({"read": 5.0, "size": 8.0}, {"size": 6.9}):
        cached = {"read": 3.0, "page_cache": cache}
        yield {**hosts, "stores": [{**disk, **cached}]}
        yield {"clusters": [{"hosts": [{**host, "store": cached}]}]}
    links = [
        {"between": ["C01", "core"], "bandwidth": 2.0, "latency": 0.5},
        {"between": ["core", "disk"], "latency": 1.0},
    ]
    route = {"between": ["C01-h-002", "disk"], "links": ["C01-h-002-core", "core-disk"]}
    network = {"switches": ["core"], "links": links}
    yield {**hosts, "stores": [disk], "network": network}
    network = {**network, "routes": [{**route, "latency": 4.0}]}
    yield {**hosts, "stores": [disk], "network": network}


def make_transfer_scenario(platform: dict[str, Any]) -> Scenario:
    """Two tasks, each of which reads and writes a file of its own; without stores, on hosts."""
    tasks = ("a", "b")
    # With a page cache, the first file is read again.
    again = ["a"] if "page_cache" in str(platform) else []
    local = [] if platform.get("stores") else ["C01-h-001", "C01-h-001", "local", "local"]
    return Scenario(
        platform=platform,
        workload=Workload(
            tasks=pl.DataFrame(
                {"id": tasks, "submit": [0.0, 0.0], "cores": [1.0] * 2, "work": [3.0] * 2}
            ).with_columns(limit="cores"),
            files=pl.DataFrame(
                {
                    "file": ["ia", "ib", "oa", "ob"],
                    "size": [7.0, 9.0, 5.0, 8.0],
                    "store": local or [None] * 4,
                }
            ),
            task_files=pl.DataFrame(
                {
                    "task": [*tasks, *tasks, *again],
                    "file": ["ia", "ib", "oa", "ob", *("ia" for _ in again)],
                    "access": ["read", "read", "write", "write", *("read" for _ in again)],
                }
            ),
        ),
        policy="fcfs",
    )


def list_scenarios() -> Iterator[Scenario]:
    for power in POWERS:
        yield make_scenario(power)
    for contention in CONTENTIONS:
        yield make_scenario(contention=contention)
    yield make_scenario(policy=TwoStates(), count=3, cores=9, states=STATES)
    # Tasks wait for cores.
    yield make_scenario(policy="fcfs", cores=4)
    for network in list_networks():
        yield make_transfer_scenario(network)
    chain = [{"id": "a", "run_time": 3}, {"id": "b", "run_time": 3, "parents": ["a"]}]
    managed = {"workload": {"tasks": chain}, "model.detail.submission": "negotiator"}
    yield make_scenario().replace(**managed)
    # A speed is not set unless it is given.
    yield make_scenario(speed=1.0)


def test_native_parameters_have_the_same_names() -> None:
    assert tuple(PARAMETERS) == PARAMETER_NAMES


def test_model_values_are_the_rows_without_placeholders() -> None:
    assert tuple(n for n in PARAMETERS if "." not in n and "<" not in n) == MODEL_VALUES
    assert set(MODEL_VALUES) < set(Model.model_fields)


def test_every_parameter_can_be_set_and_has_an_effect() -> None:
    effective = set()
    for scenario in list_scenarios():
        compiled = CompiledScenario(scenario)
        own = compiled.run()
        paths = [
            f"platform.{address_to_path(each.address)}" for each in list_numbers(scenario.platform)
        ]
        for name in (*compiled.value_names, *paths):
            found = find_parameter(name)
            value = compiled.own_value(name) if found is not None else None
            if found is None or value is None:
                continue
            assert compiled.acts_natively(name), name
            is_whole = name.endswith(".streams")
            changed = compiled.run({name: value + (1 if is_whole else 0.25)})
            if changed["energy_j"] != own["energy_j"]:
                effective.add(found[0].name)
            assert found[0].changes_schedule or changed["makespan_s"] == own["makespan_s"], name
    assert effective == set(PARAMETERS)


def list_schema_types() -> Iterator[tuple[str, NumberType | None]]:
    """The type of every parameter of the model as its description has it."""
    for name in MODEL_VALUES:
        field = Model.model_fields[name]
        yield name, read_number_type(field.annotation, tuple(field.metadata))
    for description, name, parameter in (
        (LinearContention, "slope", "contention.linear.slope"),
        (KindContention, "pressure", "contention.kinds.<kind>.pressure"),
        (KindContention, "sensitivity", "contention.kinds.<kind>.sensitivity"),
    ):
        field = description.model_fields[name]
        yield parameter, read_number_type(field.annotation, tuple(field.metadata))
    for name, field in Submission.model_fields.items():
        yield (
            f"submission.{name}",
            read_number_type(field.annotation, tuple(field.metadata)),
        )
    whole = Model(service_factors={"loud": 2.0}, contention=CONTENTIONS[1])
    types = {address_to_path(each.address): each.type for each in list_numbers(whole)}
    yield "service_factors.<kind>", types["service_factors.loud"]
    yield "contention.table[<i>]", types["contention.table[0][1]"]


def test_bounds_and_units_of_the_schema_are_those_of_the_table() -> None:
    found = dict(list_schema_types())
    assert found == {name: row.number_type for name, row in PARAMETERS.items() if row.type}


def list_bounds() -> Iterator[tuple[CompiledScenario, str, float]]:
    """Values at, below and above the bounds of every value of the scenarios."""
    for scenario in list_scenarios():
        compiled = CompiledScenario(scenario)
        for value in compiled._values._values:
            for bound in (value.type.minimum, value.type.maximum):
                if math.isfinite(bound):
                    for number in (
                        bound,
                        math.nextafter(bound, -9e99),
                        math.nextafter(bound, 9e99),
                    ):
                        yield compiled, value.name, number


def is_accepted(action: Any) -> bool:
    try:
        action()
    except InputError:
        return False
    return True


def test_runs_descriptions_and_calibrations_have_the_same_bounds() -> None:
    cases: dict[int, Case] = {}
    checked = 0
    for compiled, name, number in list_bounds():
        described = is_accepted(lambda: set_model_values(compiled.scenario, {name: number}))  # noqa: B023
        row = compiled.values()
        row[compiled.value_names.index(name)] = number
        valued = is_accepted(lambda: compiled.values(row))  # noqa: B023
        assert valued == described, (name, number)
        case = cases.setdefault(id(compiled), Case("case", compiled.scenario, compiled, (), ()))
        # A range that ends with a value that the parameter may not have is refused.
        low, high = sorted((number, compiled.own_value(name) or 0.5))
        if low == high or name in ("power.idle", "power.max"):
            continue
        fitted = is_accepted(
            lambda: refuse_inapplicable(Space([LinearParameter(name, low, high)]), [case])  # noqa: B023
        )
        type_ = PARAMETERS[find_parameter(name)[0].name]  # type: ignore[index]
        checked += 1
        if described or (type_.type and number != type_.number_type.minimum):
            assert fitted == described, (name, number)
    assert checked > 50


@pytest.mark.parametrize("name", PARAMETERS)
def test_defaults_and_ranges_are_within_the_bounds(name: str) -> None:
    row = PARAMETERS[name]
    if row.type is None:
        return
    assert row.default is not None
    assert row.number_type.contains(row.default)
    low, high = row.search.around(row.default or 1.0)
    assert low < high
    assert row.number_type.contains(low)
    assert row.number_type.contains(high)


def test_the_default_contention_has_no_value() -> None:
    assert Contention() == Model().contention


def test_the_page_has_the_table() -> None:
    from twinloop.scenario.parameter_reference import format_markdown

    page = Path(__file__).parents[1] / "docs" / "model-parameters.md"
    assert format_markdown() in page.read_text(encoding="utf-8")
