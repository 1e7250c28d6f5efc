"""Expressions of meters: they compute what Python computes, and all else is refused by position."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.platform import CloudMeter, MeterExpression, Platform, order_meters
from twinloop.platform.meters import find_meter_cycle

NAMES = ("it", "load", "temperature", "hvac")
NUMBERS = st.floats(0, 1e6).map(repr) | st.integers(0, 10**6).map(str)
BLANKS = st.sampled_from(["", " ", "  ", "\n", "\t"])


def join(parts: tuple[str, str, str]) -> str:
    left, operator, right = parts
    return f"({left} {operator} {right})"


EXPRESSIONS = st.recursive(
    NUMBERS | st.sampled_from(NAMES),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(join)
        | inner.map(lambda text: f"-{text}")
        | inner.map(lambda text: f"({text})")
        | st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=4)).map(
            lambda call: f"{call[0]}({', '.join(call[1])})"
        )
    ),
    max_leaves=12,
)
VALUES = st.floats(-1e6, 1e6)


NUMBER = re.compile(r"(?<![\w.])([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)


def compute(text: str, values: Mapping[str, float]) -> float:
    """The value of an expression by Python itself, in floating-point numbers."""
    functions: dict[str, Any] = {"min": lambda *a: min(a), "max": lambda *a: max(a)}
    line = NUMBER.sub(lambda number: repr(float(number[0])), re.sub(r"\s", " ", text.strip()))
    return float(eval(line, functions, dict(values)))


@given(EXPRESSIONS, st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)), BLANKS)
def test_an_expression_has_the_value_that_python_gives_it(
    text: str, values: dict[str, float], blank: str
) -> None:
    expression = MeterExpression.parse(f"{blank}{text}{blank}")
    try:
        expected = compute(text, values)
    except ZeroDivisionError:
        with pytest.raises(InputError, match="meter 'm': divides by zero"):
            expression.evaluate(values, meter="m")
        return
    assume(np.isfinite(expected))
    assert expression.evaluate(values) == expected


@given(EXPRESSIONS, st.lists(st.tuples(*[VALUES] * len(NAMES)), min_size=1, max_size=5))
def test_an_array_has_the_values_of_its_numbers(text: str, rows: list[tuple[float, ...]]) -> None:
    expression = MeterExpression.parse(text)
    try:
        each = [expression.evaluate(dict(zip(NAMES, row, strict=True))) for row in rows]
    except InputError:
        assume(False)
    columns = dict(zip(NAMES, np.array(rows).T, strict=True))
    found = expression.evaluate(columns)
    assert np.array_equal(found, each if expression.names else each[0])


@given(EXPRESSIONS)
def test_names_are_those_of_the_text_in_their_order(text: str) -> None:
    places = {name: text.index(name) for name in NAMES if name in text}
    assert MeterExpression.parse(text).names == tuple(sorted(places, key=places.__getitem__))


@given(st.text(max_size=30) | st.text("it+-*/() ,.0123456789eEmaxinload_", max_size=30))
def test_any_text_is_an_expression_or_an_input_error(text: str) -> None:
    try:
        expression = MeterExpression.parse(text)
    except InputError:
        return
    values = dict.fromkeys(expression.names, 0.5)
    try:
        found = expression.evaluate(values)
    except InputError:
        return
    assert found == compute(text, values)


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("", "is an empty expression", "numbers, names"),
        ("  ", "is an empty expression", "numbers, names"),
        ("0.3 * it ^ 2", "'^' at character 10", "numbers, names"),
        ("it ** 2", "'*' at character 5 cannot follow '*'", "+ - * /"),
        ("1 + it // 2", "'/' at character 9 cannot follow '/'", "+ - * /"),
        ("5 kW", "'kW' at character 3 cannot follow '5'", "without units, in W"),
        ("5kW", "'kW' at character 2 cannot follow '5'", "without units, in W"),
        ("2(it)", "'(' at character 2 cannot follow '2'", "an operator between values"),
        ("(it)(it)", "'(' at character 5 cannot follow ')'", "an operator between values"),
        ("1_000", "'_000' at character 2 cannot follow '1'", "without units"),
        ("0x10", "'x10' at character 2 cannot follow '0'", "without units"),
        ("007", "'007' at character 1 begins with 0", "leave out"),
        ("it +", "the expression ends with '+'", "number or name that is missing"),
        ("* it", "'*' at character 1 cannot begin an expression", "numbers, names"),
        ("  it it", "'it' at character 6 cannot follow 'it'", "an operator between values"),
        ("2 * (it", "'(' at character 5 is not closed", "add a )"),
        ("1) + (2", "')' at character 2 cannot follow '1'", "numbers, names"),
        ("(it + )", "')' at character 7 cannot follow '+'", "numbers, names"),
        ("max(it,)", "')' at character 8 cannot follow ','", "numbers, names"),
        ("2 * ()", "the part at character 5 is not arithmetic", "+ - * /"),
        ("it, load", "the part at character 1 is not arithmetic", "+ - * /"),
        ("it.real", "'.' at character 3", "numbers, names"),
        ("'it'", "at character 1", "numbers, names"),
        ("it if load else 0", "'if' at character 4 cannot follow 'it'", "an operator"),
        ("1 + not it", "'not' at character 5 is not a part of an expression", "numbers, names"),
        ("True", "'True' at character 1 is not a part of an expression", "numbers, names"),
        ("abs(it)", "'abs' at character 1 is not a function", "the functions are min and max"),
        ("0.3 * max", "'max' at character 7 is a function", "write max(..., ...)"),
        ("max()", "'max' at character 1 has no values", "write max(it, 100)"),
        ("max(*it)", "'*' at character 5 cannot follow '('", "+ - * /"),
        ("1e999", "the number at character 1 is out of range", "smaller"),
        ("1 + " + "9" * 400, "the number at character 5 is out of range", "smaller"),
        ("-" * 1000 + "it", "is nested more than 200 deep", "several meters"),
        ("(" * 900 + "it" + ")" * 900, "is nested more than 200 deep", "several meters"),
        ("it + " * 1000 + "it", "has 5002 characters, more than 2000", "several meters"),
        ("temperatur\u00e9", "'\u00e9' at character 11", "numbers, names"),
    ],
)
def test_what_is_no_arithmetic_is_refused_by_its_position(
    text: str, problem: str, remedy: str
) -> None:
    with pytest.raises(InputError) as found:
        MeterExpression.parse(text)
    assert problem in found.value.problem
    assert found.value.remedy is not None
    assert remedy in found.value.remedy


def test_division_by_zero_at_one_time_names_the_meter_and_the_divisor() -> None:
    expression = MeterExpression.parse("it / load + 3 / 2")
    with pytest.raises(InputError) as found:
        expression.evaluate({"it": 1.0, "load": np.array([1.0, 0.0])}, meter="hvac")
    assert found.value.problem == "meter 'hvac': divides by zero in 'it / load + 3 / 2'"
    assert found.value.remedy == "bound the divisor, such as max(load, 0.01)"


def test_a_missing_or_infinite_value_is_refused() -> None:
    expression = MeterExpression.parse("it + temperature")
    with pytest.raises(InputError, match="no value of 'temperature'"):
        expression.evaluate({"it": 1.0})
    with pytest.raises(InputError, match="not a finite number"):
        expression.evaluate({"it": 1.0, "temperature": np.array([20.0, np.nan])})
    with pytest.raises(InputError, match="not a finite number"):
        MeterExpression.parse("1e300 * 1e300").evaluate({})


def test_expressions_are_values() -> None:
    expression = MeterExpression.parse("0.3 * it")
    copied = pickle.loads(pickle.dumps(expression))
    assert copied == expression
    assert hash(copied) == hash(expression)
    assert copied.evaluate({"it": 10.0}) == 3.0
    assert expression != MeterExpression.parse("0.3*it")


@given(VALUES | st.integers(-(10**6), 10**6))
def test_a_number_is_an_expression_without_names(watts: float) -> None:
    meter = CloudMeter(name="lights", watts=watts)
    assert meter.expression.names == ()
    assert meter.expression.evaluate({}) == watts
    assert CloudMeter.from_dict(meter.to_dict()) == meter


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"name": "a", "watts": True}, "watts", "must be an expression or a number, not True"),
        ({"name": "a", "watts": [1]}, "watts", "must be an expression or a number, not a list"),
        ({"name": "a", "watts": float("nan")}, "watts", "must be a finite number"),
        ({"name": "a", "watts": 10**400}, "watts", "must be a finite number"),
        ({"name": "a", "watts": "it +"}, "watts", "the expression ends with '+'"),
        ({"name": "a"}, "watts", "is missing"),
        ({"name": "it", "watts": 1}, "name", "has a meaning in expressions: power of the hosts"),
        ({"name": "max", "watts": 1}, "name", "has a meaning in expressions: a function"),
        ({"name": "hvac-1", "watts": 1}, "name", "cannot be used in an expression"),
        ({"name": "lambda", "watts": 1}, "name", "cannot be used in an expression"),
    ],
)
def test_a_wrong_meter_names_its_field(values: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as found:
        CloudMeter.from_dict(values)
    (only,) = found.value.problems
    assert only.field == field
    assert problem in only.problem


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [f"m{i}" for i in range(draw(st.integers(1, 7)))]
    return {name: draw(st.lists(st.sampled_from(names), max_size=2)) for name in names}


@given(graphs())
def test_meters_are_ordered_after_those_they_use_or_have_a_cycle(
    uses: dict[str, list[str]],
) -> None:
    meters = [CloudMeter(name=n, watts=" + ".join(["it", *used])) for n, used in uses.items()]
    if cycle := find_meter_cycle(meters):
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(b in uses[a] for a, b in pairwise(cycle))
        with pytest.raises(InputError, match=" -> ".join(cycle)):
            order_meters(meters)
        return
    assert list(TopologicalSorter(uses).static_order())  # an independent proof: no cycle
    ordered = [meter.name for meter in order_meters(meters)]
    assert sorted(ordered) == sorted(uses)
    place = {name: i for i, name in enumerate(ordered)}
    assert all(place[b] < place[a] for a, used in uses.items() for b in used)


# --- kinds of meters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"watts": "it", "hosts": ["n1"]}, "hosts", "cannot be combined with 'watts'"),
        ({"cluster": "C01", "sum": ["b"]}, "sum", "cannot be combined with 'cluster'"),
        ({"watts": 1, "inputs": ["it"]}, "inputs", "has no effect without 'function'"),
        ({"function": "cooling"}, "function", "must be a Python function, not 'cooling'"),
        ({"sum": ["b", "b"]}, "sum[1]", "another entry is called 'b' already"),
    ],
)
def test_a_meter_is_of_one_kind(values: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as found:
        CloudMeter.from_dict({"name": "a", **values})
    (only,) = found.value.problems
    assert only.field == field
    assert problem in only.problem


def make_platform(*meters: dict[str, Any], **cloud: Any) -> Platform:
    """Two clusters of two hosts each, in one cloud."""
    clusters = [{"name": name, "hosts": [{"name": "pm", "cores": 1, "count": 2}]} for name in "xy"]
    return Platform.from_dict(
        {"clusters": clusters, "clouds": [{"name": "east", "meters": list(meters), **cloud}]}
    )


HVAC = {"name": "hvac", "watts": "0.3 * it"}
FAN = {"name": "fan", "watts": "0.1 * hvac"}
LIGHTS = {"name": "lights", "watts": 50}
X = {"name": "x", "cluster": "x"}
Y = {"name": "y", "cluster": "y"}
ONE = {"name": "one", "hosts": ["x-pm-001"]}


def test_sums_of_independent_meters_are_accepted() -> None:
    platform = make_platform(
        *(HVAC, LIGHTS, X, Y, ONE),
        {"name": "racks", "sum": ["x", "y"]},
        {"name": "total", "sum": ["racks", "hvac", "lights"]},
        {"name": "dark", "sum": ["it", "lights"]},
    )
    assert [meter.kind for meter in platform.clouds[0].meters] == [
        *("indirect", "indirect", "direct", "direct", "direct"),
        *("aggregated", "aggregated", "aggregated"),
    ]
    assert Platform.from_text(platform.to_yaml()) == platform


@pytest.mark.parametrize(
    ("meters", "names", "problem"),
    [
        ([HVAC], ["it", "hvac"], "'hvac' depends on 'it'"),
        ([HVAC, FAN], ["hvac", "fan"], "'fan' depends on 'hvac'"),
        ([HVAC, FAN], ["it", "fan"], "'fan' depends on 'it'"),
        ([X, ONE], ["x", "one"], "'x' and 'one' both contain the power of host 'x-pm-001'"),
        ([X], ["x", "it"], "'x' and 'it' both contain the power of host 'x-pm-001'"),
        (
            [HVAC, LIGHTS, {"name": "s", "sum": ["hvac", "lights"]}],
            ["s", "hvac"],
            "'s' depends on 'hvac'",
        ),
        (
            [
                *(HVAC, LIGHTS, X),
                {"name": "s", "sum": ["hvac", "lights"]},
                {"name": "t", "sum": ["x", "lights"]},
            ],
            ["s", "t"],
            "'s' and 't' both contain the power of meter 'lights'",
        ),
    ],
)
def test_meters_that_depend_on_each_other_are_not_added_up(
    meters: list[dict[str, Any]], names: list[str], problem: str
) -> None:
    with pytest.raises(DescriptionError) as found:
        make_platform(*meters, {"name": "total", "sum": names})
    (only,) = found.value.problems
    assert only.field == f"clouds[0].meters[{len(meters)}].sum"
    assert problem in only.problem


@pytest.mark.parametrize(
    ("meter", "field", "problem"),
    [
        ({"hosts": ["x-pm-001", "x-pm-009"]}, "hosts[1]", "no host 'x-pm-009'"),
        ({"cluster": "z"}, "cluster", "no cluster 'z'"),
        ({"sum": ["hvacc"]}, "sum[0]", "unknown name 'hvacc'"),
        ({"sum": ["load"]}, "sum[0]", "'load' is no power"),
        ({"function": "a:b", "inputs": ["it", "up"]}, "inputs[1]", "unknown name 'up'"),
        ({"sum": ["total"]}, "sum", "depend on each other: total -> total"),
    ],
)
def test_names_of_a_meter_must_exist(meter: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as found:
        make_platform(HVAC, {"name": "total", **meter})
    (only,) = found.value.problems
    assert only.field == f"clouds[0].meters[1].{field}"
    assert problem in only.problem


# --- temperature ---------------------------------------------------------------------------------

COOLING = {"name": "cooling", "watts": "2 * temperature"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (20, 20.0),
        ("-3.5 °C", -3.5),
        ([[0, 10], ["1h", "12 C"]], ((0.0, 10.0), (3600.0, 12.0))),
    ],
)
def test_a_temperature_is_a_constant_or_pairs(given: Any, stored: Any) -> None:
    platform = make_platform(COOLING, temperature=given)
    assert platform.clouds[0].temperature == stored
    assert Platform.from_text(platform.to_yaml()) == platform


def test_a_temperature_file_is_relative_to_the_description(tmp_path: Path) -> None:
    platform = make_platform(COOLING, temperature="here.csv")
    file = platform.save(tmp_path / "platform.yaml")
    described = file.read_text()
    (tmp_path / "platform.yaml").write_text(
        re.sub(r"temperature: \S*here.csv", "temperature: here.csv", described)
    )
    found = Platform.load(file).clouds[0].temperature
    assert Path(str(found)).resolve() == (tmp_path / "here.csv").resolve()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "is missing, but meter 'cooling' uses it"),
        ([[0, 10], [0, 11]], "the time of entry 2 must be after that of the entry before"),
        ([[0, 10], [5]], "entry 2 must be a time and a temperature"),
        ([["5 GB", 10]], "'GB' is not a unit for a duration"),
        (float("nan"), "must be a finite number"),
        (True, "is not a temperature: True"),
        ([], "is not a temperature"),
    ],
)
def test_a_wrong_temperature_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(DescriptionError) as found:
        make_platform(COOLING, temperature=given)
    assert found.value.problems[0].field == "clouds[0].temperature"
    assert problem in found.value.problems[0].problem
