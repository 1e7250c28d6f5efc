"""Meters of a cloud: the power of its hosts, and powers computed from it, such as of its cooling.

A Python function as a meter is code, which needs permission.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from twinloop.description.address import suggest_name
from twinloop.description.description import Description
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.plugins import CODE_PATTERN
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name, quote_value
from twinloop.platform.meter_expression import FUNCTIONS, IDENTIFIER, MeterExpression, is_finite

#: The quantities that every meter may use, with their meaning.
METER_INPUTS: Final[Mapping[str, str]] = {
    "it": "power of the hosts of the cloud (W)",
    "load": "cores in use, divided by the cores of the hosts of the cloud",
    "temperature": "temperature, as the cloud describes it",
}

#: The fields of which a meter has one.
_KINDS: Final = ("watts", "hosts", "cluster", "sum", "function")


def _check_watts(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(
            f"must be an expression or a number, not {quote_value(value)}",
            kind="wrong-type",
            remedy="such as 0.3 * it",
        )
    if isinstance(value, str):
        MeterExpression.parse(value)
    elif not is_finite(value):
        raise InputError("must be a finite number", kind="out-of-range")
    return value


def _check_function(value: Any) -> Any:
    if value is None:
        return None
    if not (isinstance(value, str) and CODE_PATTERN.fullmatch(value)):
        raise InputError(
            f"must be a Python function, not {quote_value(value)}",
            kind="wrong-type",
            remedy="write module:function",
        )
    return value


class CloudMeter(Description):
    """A meter of a cloud: a power over time, and its energy.

    It has one of: `watts`, an expression over other quantities; `hosts` or `cluster`, whose power
    it is; `sum`, of other meters; `function`, of Python.

    >>> meter = CloudMeter(name="hvac", watts="0.3 * it")
    >>> meter.expression.evaluate({"it": 1000.0})
    300.0
    >>> CloudMeter(name="total", sum=["rack_1", "rack_2"]).uses
    ('rack_1', 'rack_2')
    """

    name: Name = Field(description="name of the meter, also in the expressions of other meters")
    watts: Annotated[
        float | str | None,
        BeforeValidator(_check_watts),
        WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}]}),
    ] = Field(
        None,
        description="power (W): a number, or an expression of numbers, it (power of the hosts of "
        "the cloud, W), load (cores in use / cores of these hosts), temperature and other meters "
        "of the cloud, with + - * /, parentheses, min(...) and max(...)",
    )
    hosts: tuple[Name, ...] = Field(
        (), description="names of nodes of the cloud, of which it is the power"
    )
    cluster: Name | None = Field(
        None, description="name of a cluster of the cloud, of which it is the power"
    )
    sum: tuple[Name, ...] = Field(
        (), description="names of meters that it adds up, or it; none may depend on another"
    )
    function: Annotated[
        str | None,
        BeforeValidator(_check_function),
        WithJsonSchema({"type": "string", "pattern": CODE_PATTERN.pattern}),
    ] = Field(
        None,
        description="Python function, module:function, of the values in `inputs`: called once, "
        "with an array for each, it returns the power (W) as an array; needs --allow-code",
    )
    inputs: tuple[Name, ...] = Field(
        (), description="of a function: it, load, temperature and other meters of the cloud"
    )

    @model_validator(mode="after")
    def _check_kind(self) -> CloudMeter:
        findings = ProblemCollector()
        given = [name for name in _KINDS if getattr(self, name) not in (None, ())]
        if not given:
            remedy = f"give one of {', '.join(_KINDS)}"
            findings.add(("watts",), "is missing", remedy, kind="missing-field")
        for name in given[1:]:
            problem = f"cannot be combined with '{given[0]}'"
            findings.add((name,), problem, "keep one of them", kind="conflicting-fields")
        if self.inputs and "function" not in given:
            findings.add(("inputs",), "has no effect without 'function'", kind="no-effect")
        for key in ("hosts", "sum", "inputs"):
            names = ((name, (key, i)) for i, name in enumerate(getattr(self, key)))
            findings.add_repeats(names, "entry")
        findings.check()
        return self

    @field_validator("name", mode="after")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
            raise InputError(
                f"'{name}' cannot be used in an expression",
                kind="invalid-setting",
                remedy="write a name of letters, digits and _ that is not a keyword of Python",
            )
        if name in METER_INPUTS or name in FUNCTIONS:
            what = METER_INPUTS.get(name, "a function")
            raise InputError(
                f"'{name}' has a meaning in expressions: {what}",
                kind="duplicate-name",
                remedy="choose another name",
            )
        return name

    @property
    def expression(self) -> MeterExpression:
        """The parsed expression of `watts` or of the sum; of a number, one without names.

        >>> CloudMeter(name="lights", watts=-5).expression.evaluate({})
        -5.0
        """
        if self.sum:
            return MeterExpression.parse(" + ".join(self.sum))
        if self.watts is None:
            raise InputError(
                f"meter '{self.name}' has no expression", kind="invalid-setting", field="watts"
            )
        return MeterExpression.parse(
            self.watts if isinstance(self.watts, str) else repr(self.watts)
        )

    @property
    def uses(self) -> tuple[str, ...]:
        """The names of the quantities and meters that it is computed from.

        >>> CloudMeter(name="fan", function="cooling:fan_power", inputs=["load"]).uses
        ('load',)
        """
        if self.sum or self.watts is not None:
            return self.sum or self.expression.names
        return self.inputs

    @property
    def kind(self) -> str:
        """Its kind: direct, indirect or aggregated."""
        if self.hosts or self.cluster is not None:
            return "direct"
        return "aggregated" if self.sum else "indirect"


def order_meters(meters: Iterable[CloudMeter]) -> tuple[CloudMeter, ...]:
    """Return the meters in the order of evaluation: each after the meters that it uses.

    >>> fan = CloudMeter(name="fan", watts="0.1 * hvac")
    >>> hvac = CloudMeter(name="hvac", watts="0.3 * it")
    >>> [meter.name for meter in order_meters([fan, hvac])]
    ['hvac', 'fan']
    >>> order_meters([fan, CloudMeter(name="hvac", watts="it + fan")])
    Traceback (most recent call last):
    twinloop.InputError: the meters depend on each other: fan -> hvac -> fan (remove one of these
        names from the expression of a meter) [TL0226]
    """
    listed = tuple(meters)
    if cycle := find_meter_cycle(listed):
        raise InputError(
            f"the meters depend on each other: {' -> '.join(cycle)}",
            kind="invalid-setting",
            remedy="remove one of these names from the expression of a meter",
        )
    waiting = {meter.name: meter for meter in listed}
    uses = {meter.name: set(meter.uses) & set(waiting) for meter in listed}
    ordered: list[CloudMeter] = []
    while waiting:
        ready = [name for name in waiting if not uses[name] & set(waiting)]
        ordered += [waiting.pop(name) for name in ready]
    return tuple(ordered)


def find_meter_cycle(meters: Iterable[CloudMeter]) -> tuple[str, ...]:
    """Return the names along a cycle of meters, with the first one again at the end; or none.

    >>> find_meter_cycle([CloudMeter(name="a", watts="it + a")])
    ('a', 'a')
    """
    uses = {meter.name: meter.uses for meter in meters}
    done: set[str] = set()
    for first in uses:
        # The names from the first meter to the present one, each with those that it uses.
        path: list[str] = [first]
        following = [iter(uses[first])]
        while path:
            name = next((n for n in following[-1] if n in uses and n not in done), None)
            if name is None:
                done.add(path.pop())
                following.pop()
            elif name in path:
                return (*path[path.index(name) :], name)
            else:
                path.append(name)
                following.append(iter(uses[name]))
    return ()


def check_meters(meters: tuple[CloudMeter, ...]) -> Iterable[tuple[Address, InputError]]:
    """Check the names that a cloud's meters use, and their sums; return errors by address."""
    known = [*METER_INPUTS, *(meter.name for meter in meters)]
    is_known = True
    for i, meter in enumerate(meters):
        for j, name in enumerate(meter.uses):
            if name in known and not (meter.sum and name in ("load", "temperature")):
                continue
            is_known = False
            remedy = suggest_name(name, known)
            problem = f"unknown name '{name}'"
            if name in known:
                problem, remedy = f"'{name}' is no power", "add up meters, or it"
            yield (
                (i, *_find_field(meter, j)),
                InputError(problem, kind="unknown-reference", remedy=remedy),
            )
    try:
        order_meters(meters)
    except InputError as error:
        names = [meter.name for meter in meters]
        first = names.index(find_meter_cycle(meters)[0])
        yield (first, *_find_field(meters[first])), error
        return
    if is_known:
        for i, meter in enumerate(meters):
            yield from ((((i, "sum")), error) for error in _check_sum(meter, meters))


def _find_field(meter: CloudMeter, position: int | None = None) -> Address:
    """Return the address of a name that a meter uses."""
    key = "sum" if meter.sum else "inputs" if meter.inputs else "watts"
    return (key,) if key == "watts" or position is None else (key, position)


def _check_sum(meter: CloudMeter, meters: Iterable[CloudMeter]) -> Iterable[InputError]:
    """Refuse a sum of meters of which one depends on another."""
    by_name = {each.name: each for each in meters}
    below = {name: find_dependencies(name, by_name) for name in meter.sum}
    for name, depends in below.items():
        for other in meter.sum:
            if other in depends:
                yield InputError(
                    f"'{name}' depends on '{other}', so that power could be counted twice",
                    kind="inconsistent-values",
                    remedy=f"leave out one of them; if '{name}' does not contain '{other}', write "
                    f"`watts: {' + '.join(meter.sum)}`",
                )


def find_double_counts(
    meters: tuple[CloudMeter, ...], clusters: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, str, str]]:
    """Find the sums that count a host or a meter twice: position, problem and remedy.

    Args:
        meters: The meters of a cloud, without cycles.
        clusters: The names of the hosts of each of its clusters.

    >>> rack = CloudMeter(name="rack", cluster="rack")
    >>> both = CloudMeter(name="both", sum=["it", "rack"])
    >>> [problem for _, problem, _ in find_double_counts((rack, both), {"rack": ["n1", "n2"]})]
    ["'it' and 'rack' both contain the power of host 'n1'"]
    """
    # What each name contains: hosts, and meters that are no sum of others.
    contents = {"it": {f"host '{host}'": None for each in clusters.values() for host in each}}
    positions = {meter.name: i for i, meter in enumerate(meters)}
    for meter in order_meters(meters):
        if meter.kind == "indirect":
            contents[meter.name] = {f"meter '{meter.name}'": None}
            continue
        hosts = clusters[meter.cluster] if meter.cluster is not None else meter.hosts
        contents[meter.name] = {f"host '{host}'": None for host in hosts}
        found = contents[meter.name]
        owners: dict[str, str] = {}
        for name in meter.sum:
            twice = next((part for part in contents[name] if part in owners), None)
            if twice is not None:
                yield (
                    positions[meter.name],
                    f"'{owners[twice]}' and '{name}' both contain the power of {twice}",
                    "leave out one of them",
                )
                break
            owners |= dict.fromkeys(contents[name], name)
            found |= contents[name]


def find_dependencies(name: str, meters: Mapping[str, CloudMeter]) -> set[str]:
    """Return all that a meter is computed from, also through other meters.

    >>> hvac = CloudMeter(name="hvac", watts="0.3 * it")
    >>> fan = CloudMeter(name="fan", watts="0.1 * hvac")
    >>> sorted(find_dependencies("fan", {"hvac": hvac, "fan": fan}))
    ['hvac', 'it']
    """
    found: set[str] = set()
    waiting = [name]
    while waiting:
        meter = meters.get(waiting.pop())
        new = set(meter.uses) - found if meter is not None else set()
        found |= new
        waiting += new
    return found
