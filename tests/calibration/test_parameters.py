"""Parameters and spaces: cells, ends, round trips, and errors with their positions."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    OrderedParameter,
    OrdinalParameter,
    Parameter,
)
from twinloop.calibration.parameters.space import Space
from twinloop.description import DescriptionError
from twinloop.description.errors import InputError

unit = st.floats(0.0, 1.0)
numbers = st.floats(-1e6, 1e6)


@st.composite
def parameters(draw: st.DrawFn) -> Parameter:
    kind = draw(
        st.sampled_from(
            [
                CategoricalParameter,
                OrderedParameter,
                OrdinalParameter,
                LinearParameter,
                ExponentialParameter,
            ]
        )
    )
    if kind in (CategoricalParameter, OrderedParameter):
        return kind("p", draw(st.lists(st.text(max_size=3), min_size=1, max_size=9, unique=True)))
    if kind is OrdinalParameter:
        return OrdinalParameter("p", draw(st.lists(numbers, min_size=1, max_size=9, unique=True)))
    integer = draw(st.booleans())
    low: float
    if integer:
        low = draw(st.integers(1 if kind is ExponentialParameter else -1000, 1000))
        high: float = low + draw(st.integers(1, 10 ** draw(st.integers(1, 9))))
    else:
        low = draw(st.floats(1e-6, 1e3) if kind is ExponentialParameter else st.floats(-1e3, 1e3))
        high = low + draw(st.floats(1e-3, 1e9))
    return kind("p", low, high, integer=integer)


@examples(60)
@given(parameters(), unit)
def test_encoding_and_decoding_are_inverse(parameter: Parameter, position: float) -> None:
    value = parameter.decode(position)
    again = parameter.decode(parameter.encode(value))
    if parameter.discrete or isinstance(value, str):
        assert again == value
        assert type(again) is type(value)
    else:
        assert again == pytest.approx(value, rel=1e-9, abs=1e-9)
        assert isinstance(parameter, LinearParameter | ExponentialParameter)
        assert parameter.low <= value <= parameter.high


@examples(40)
@given(parameters(), st.lists(unit, min_size=1, max_size=5))
def test_decoding_many_positions_equals_decoding_each(
    parameter: Parameter, positions: list[float]
) -> None:
    many = parameter.decode_many(np.array(positions))
    assert list(many) == [parameter.decode(position) for position in positions]


@examples(40)
@given(parameters())
def test_both_ends_of_the_unit_interval_are_the_ends(parameter: Parameter) -> None:
    if isinstance(parameter, LinearParameter | ExponentialParameter):
        assert parameter.decode(0.0) == parameter.low
        assert parameter.decode(1.0) == parameter.high
    else:
        assert isinstance(parameter, CategoricalParameter)
        assert parameter.decode(0.0) == parameter.values[0]
        assert parameter.decode(1.0) == parameter.values[-1]


@examples(30)
@given(st.integers(-50, 50), st.integers(1, 40))
def test_integers_have_equal_cells(low: int, width: int) -> None:
    # Exactly: cell k is [k/n, (k+1)/n), so its inner ends decode to k and the middle encodes to it.
    parameter = LinearParameter("n", low, low + width, integer=True)
    count = width + 1
    for k in range(count):
        assert parameter.decode((k + 1e-9) / count) == low + k
        assert parameter.decode((k + 1 - 1e-9) / count) == low + k
        assert parameter.encode(low + k) == pytest.approx((k + 0.5) / count)


def test_a_fine_grid_decodes_to_every_integer_equally_often() -> None:
    drawn = LinearParameter("n", 3, 9, integer=True).decode_many((np.arange(7000) + 0.5) / 7000)
    assert np.bincount(drawn)[3:].tolist() == [1000] * 7


@pytest.mark.parametrize(("low", "high"), [(1, 2), (1, 9), (5, 1000)])
def test_cells_of_exponential_integers_are_those_of_rounding(low: int, high: int) -> None:
    parameter = ExponentialParameter("n", low, high, integer=True)
    count = 200_000
    drawn = parameter.decode_many((np.arange(count) + 0.5) / count)
    whole = math.log((high + 0.5) / (low - 0.5))
    for k in {low, low + 1, (low + high) // 2, high}:
        share = math.log((k + 0.5) / (k - 0.5)) / whole
        assert abs(float((drawn == k).sum()) - share * count) <= 2
    assert (parameter.decode_many(parameter.middles()) == np.arange(low, high + 1)).all()
    assert (parameter.find_cells(parameter.middles()) == np.arange(high - low + 1)).all()


def test_an_exponential_parameter_spreads_its_logarithm() -> None:
    # The example of Simcal: exponents 0 to 10, the middle is 2^5.
    assert ExponentialParameter.from_exponents("x", 0, 10).decode(0.5) == 32.0
    bandwidth = ExponentialParameter("b", 1e6, 1e10)
    assert bandwidth.decode(0.25) == pytest.approx(1e7)
    assert bandwidth.encode(1e9) == pytest.approx(0.75)


def test_the_cells_of_ordered_values_are_thirds() -> None:
    level = OrderedParameter("level", ["Low", "Medium", "High"])
    assert [level.decode(u) for u in (0.0, 0.33, 0.34, 0.66, 0.67, 1.0)] == [
        "Low", "Low", "Medium", "Medium", "High", "High",
    ]  # fmt: skip
    assert level.ordered
    assert not CategoricalParameter("c", ["a"]).ordered


def test_formats_and_metadata_are_kept() -> None:
    link = LinearParameter("link", 1, 100, format="{:.0f}Mbps", metadata={"flag": "--bw"})
    assert link.format_value(12.3) == "12Mbps"
    assert link.metadata["flag"] == "--bw"
    assert LinearParameter("x", 0, 1, format=lambda value: [value]).format_value(0.5) == [0.5]
    assert CategoricalParameter("c", [("a", 1)]).format_value(("a", 1)) == ("a", 1)
    with pytest.raises(InputError, match="cannot format"):
        LinearParameter("x", 0, 1, format="{:d}").format_value(0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearParameter("x", 1, 1), "x: must have its lower end below"),
        (lambda: LinearParameter("x", 0, math.inf), "x: must be a finite number"),
        (lambda: LinearParameter("x", 0.5, 2, integer=True), "x: must have whole numbers as ends"),
        (
            lambda: LinearParameter("x", 0, 10**13, integer=True),
            "x: must have ends of at most 1,000,000,000,000, not 1",
        ),
        (lambda: LinearParameter("x", "1", 2), "x: must be a number"),  # type: ignore[arg-type]
        (lambda: ExponentialParameter("x", 0, 1), "x: must have positive ends"),
        (lambda: ExponentialParameter.from_exponents("x", 0, 5000), "x: must have exponents of 2"),
        (lambda: CategoricalParameter("x", []), "x: must have at least one value"),
        (lambda: CategoricalParameter("x", ["a", "a"]), "x: has 'a' twice"),
        (lambda: CategoricalParameter("x", "abc"), "x: must have a list of values"),
        (lambda: OrdinalParameter("x", [1, "a"]), "x: must be a number"),  # type: ignore[list-item]
        (lambda: LinearParameter(" ", 0, 1), "the name of a parameter must be a text"),
        (lambda: LinearParameter("x", 0, 1).decode(1.5), "between 0 and 1"),
        (lambda: LinearParameter("x", 0, 1).decode(math.nan), "between 0 and 1"),
        (lambda: LinearParameter("x", 0, 1).encode(2), "x: must be between 0 and 1, not 2"),
        (lambda: LinearParameter("x", 0, 3, integer=True).encode(1.5), "x: must be a whole number"),
        (lambda: LinearParameter("x", 0, 3).encode(math.nan), "x: must be a finite number"),
        (
            lambda: CategoricalParameter("x", ["a"]).encode("b"),
            r"x: has no value 'b' \(values: 'a'\)",
        ),
        (lambda: LinearParameter("x", 0, 1).middles(), "x: is continuous and has no cells"),
        (lambda: Space([]), "must have at least one parameter"),
        (lambda: Space([1]), "must contain parameters"),  # type: ignore[list-item]
        (
            lambda: Space([LinearParameter("x", 0, 1), LinearParameter("x", 0, 2)]),
            "x: is the name of two parameters",
        ),
        (lambda: Space([LinearParameter("x", 0, 1)])["y"], "no parameter is called 'y'"),
        (lambda: Space([LinearParameter("x", 0, 1)]).decode(np.zeros((1, 2))), "1 coordinates"),
        (
            lambda: Space([LinearParameter("x", 0, 1)]).decode(np.full((1, 1), 2.0)),
            "between 0 and 1",
        ),
        (lambda: Space([LinearParameter("x", 0, 1)]).encode({}), "x: has no value"),
    ],
)
def test_errors_state_the_problem(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@examples(40)
@given(st.lists(parameters(), min_size=1, max_size=4), st.randoms())
def test_a_space_decodes_each_coordinate_and_reads_its_own_files(
    drawn: list[Parameter], random: Any
) -> None:
    space = Space([replace(parameter, name=f"p{at}") for at, parameter in enumerate(drawn)])
    points = np.array([[random.random() for _ in space] for _ in range(3)])
    many = space.decode(points)
    for row, point in enumerate(points):
        one = space.decode_one(point)
        assert one == {name: many[name][row] for name in space.names}
        assert space.encode(one).tolist() == [space[name].encode(one[name]) for name in one]
    again = Space.from_dict(space.to_dict())
    assert again == space
    assert hash(again) == hash(space)


TEXT = """\
parameters:
  speed_factor: {linear: [0.5, 2]}
  dispatch_latency: {exponential: [1ms, 1s]}
  memory: {linear: [1GiB, 4GiB]}
  link: {exponential: [1e6, 1e10], format: "{:.0f}Bps", integer: true}
  buffer: {exponents: [0, 10], metadata: {unit: KiB}}
  mode: {categorical: [a, b]}
  level: {ordered: [low, high]}
  rate: {ordinal: [10, 100], format: "{}Mbps"}
"""


def test_a_file_names_parameters_with_units(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(TEXT, encoding="utf-8")
    space = Space.load(path)
    assert list(space) == [
        LinearParameter("speed_factor", 0.5, 2),
        ExponentialParameter("dispatch_latency", 1e-3, 1),
        LinearParameter("memory", 2**30, 2**32),
        ExponentialParameter("link", 10**6, 10**10, integer=True, format="{:.0f}Bps"),
        ExponentialParameter("buffer", 1, 1024, metadata={"unit": "KiB"}),
        CategoricalParameter("mode", ["a", "b"]),
        OrderedParameter("level", ["low", "high"]),
        OrdinalParameter("rate", [10, 100], format="{}Mbps"),
    ]
    assert Space.from_dict(space.to_dict()) == space
    assert len(space) == 8


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x: {linear: [2, 1]}", "p.yaml:2: parameters.x.linear: must have its lower end below"),
        ("x: {linear: [1]}", "p.yaml:2: parameters.x.linear: must be a list of two ends"),
        ("x: {linear: [1, a]}", "p.yaml:2: parameters.x.linear[1]: must be a number, not 'a'"),
        ("x: {linear: [1s, 1GiB]}", "p.yaml:2: parameters.x.linear: mixes duration and amount"),
        ("x: {linear: [1s, 2parsec]}", "p.yaml:2: parameters.x.linear[1]: 'parsec' is not a unit"),
        ("x: {exponential: [0, 1]}", "p.yaml:2: parameters.x.exponential: must have positive"),
        ("x: {exponents: [1s, 2]}", "p.yaml:2: parameters.x.exponents[0]: must be a number"),
        ("x: {lineal: [1, 2]}", "p.yaml:2: parameters.x: must have exactly one kind of parameter"),
        ("x: 3", "p.yaml:2: parameters.x: must have exactly one kind of parameter"),
        (
            "x: {linear: [1, 2], formt: a}",
            "p.yaml:2: parameters.x.formt: is not an option of linear",
        ),
        ("x: {linear: [1, 2], format: a}", "p.yaml:2: parameters.x.format: is not a format"),
        ("x: {linear: [1, 2], format: '{:'}", "p.yaml:2: parameters.x.format: is not a format"),
        ("x: {linear: [1, 2], integer: 1}", "p.yaml:2: parameters.x.integer: must be true"),
        ("x: {linear: [1, 2], metadata: 1}", "p.yaml:2: parameters.x.metadata: must be a mapping"),
        ("x: {categorical: a}", "p.yaml:2: parameters.x.categorical: must be a list of values"),
        ("x: {categorical: [a, a]}", "p.yaml:2: parameters.x.categorical: has 'a' twice"),
        ("x: {ordinal: [a]}", "p.yaml:2: parameters.x.ordinal: must be a number"),
    ],
)
def test_a_problem_in_a_file_is_reported_with_its_position(line: str, message: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        Space.from_text(f"parameters:\n  {line}\n", file="p.yaml")
    assert str(caught.value).startswith(message)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(DescriptionError) as caught:
        Space.from_text("parameters:\n  a: {linear: [1]}\n  b: 2\nspeed: 3\n")
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]


@pytest.mark.parametrize("data", [None, [], {}, {"parameters": []}, {"parameters": {}}])
def test_a_space_without_parameters_is_an_error(data: Any) -> None:
    with pytest.raises(DescriptionError):
        Space.from_dict(data)


def test_the_journal_stores_the_kinds_under_fixed_names() -> None:
    ends = "low=1.0, high=2.0, integer=False, format=None)"
    texts = {
        CategoricalParameter(
            "x", ["a", "b"]
        ): "Categorical(name='x', metadata={}, values=('a', 'b'))",
        OrderedParameter("x", ["a", "b"]): "Ordered(name='x', metadata={}, values=('a', 'b'))",
        OrdinalParameter("x", [1, 2]): "Ordinal(name='x', metadata={}, values=(1, 2), format=None)",
        LinearParameter("x", 1, 2): f"Linear(name='x', metadata={{}}, {ends}",
        ExponentialParameter("x", 1, 2): f"Exponential(name='x', metadata={{}}, {ends}",
    }
    assert {parameter: journal_text(parameter) for parameter in texts} == texts
