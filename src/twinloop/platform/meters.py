"""Meters of a cloud: the power of its hosts, and powers computed from it, such as of its cooling.

The expression of a meter is parsed by Python's `ast` into a tree of which only numbers, names,
+ - * /, min and max are accepted; no code is run. A Python function as a meter is code, which needs
permission.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from twinloop.description.address import suggest_name
from twinloop.description.description import Description
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.plugins import CODE_PATTERN
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name, quote_value

#: The quantities that every meter may use, with their meaning.
METER_INPUTS: Final[Mapping[str, str]] = {
    "it": "power of the hosts of the cloud (W)",
    "load": "cores in use, divided by the cores of the hosts of the cloud",
    "temperature": "temperature, as the cloud describes it",
}
_FUNCTIONS: Final = ("min", "max")
_MAX_LENGTH: Final = 2000
_MAX_DEPTH: Final = 200

_TOKEN: Final = re.compile(
    r"\s+|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|[-+*/(),]",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALLOWED: Final = "an expression has numbers, names, + - * / ( ), min(...) and max(...)"

#: A value of a meter: a number, or an array with one value per time.
MeterValue = float | NDArray[np.float64]


@dataclass(frozen=True)
class MeterExpression:
    """A parsed expression of a meter.

    >>> expression = MeterExpression.parse("max(0.3 * it, 50) + 2 * (temperature - 20)")
    >>> expression.names
    ('it', 'temperature')
    >>> expression.evaluate({"it": 1000.0, "temperature": 25.0})
    310.0
    >>> import numpy as np
    >>> expression.evaluate({"it": np.array([0.0, 1000.0]), "temperature": 20.0})
    array([ 50., 300.])
    """

    text: str
    #: The names in it, in the order of their first use.
    names: tuple[str, ...] = field(compare=False)
    _tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> MeterExpression:
        """Parse the text of an expression; an error has the position of the problem in the text.

        >>> MeterExpression.parse("0.3 * it ^ 2")
        Traceback (most recent call last):
        twinloop.InputError: '^' at character 10 is not a part of an expression (an expression has
            numbers, names, + - * / ( ), min(...) and max(...)) [TL0226]
        """
        _check_length(text)
        _check_tokens(text)
        start = len(text) - len(text.lstrip())
        try:
            # Line breaks become blanks, so that the column is the position in the text.
            tree = ast.parse(re.sub(r"\s", " ", text[start:]), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            _refuse_text(text, error)
        names: dict[str, None] = {}
        _check_tree(tree, start, names)
        return cls(text, tuple(names), tree)

    def evaluate(self, values: Mapping[str, MeterValue], *, meter: str = "") -> MeterValue:
        """Compute the expression for numbers or arrays; an array if one of its values is an array.

        Args:
            values: The value of every name in the expression.
            meter: The name of the meter, for error messages.

        >>> MeterExpression.parse("it / load").evaluate({"it": 90.0, "load": 0.0}, meter="share")
        Traceback (most recent call last):
        twinloop.InputError: meter 'share': divides by zero in 'it / load' (bound the divisor, such
            as max(load, 0.01)) [TL0226]
        """
        for name in self.names:
            if name not in values:
                raise InputError(
                    f"{_title(meter)}there is no value of '{name}' for '{self.text}'",
                    kind="missing-field",
                    remedy=f"give the value of '{name}'",
                )
        inputs = {name: np.asarray(values[name], dtype=np.float64) for name in self.names}
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(_compute(self._tree, inputs))
        except ZeroDivisionError:
            divisor = _find_divisor(self._tree)
            raise InputError(
                f"{_title(meter)}divides by zero in '{self.text}'",
                kind="invalid-setting",
                remedy=f"bound the divisor, such as max({divisor}, 0.01)",
            ) from None
        if not np.isfinite(result).all():
            raise InputError(
                f"{_title(meter)}'{self.text}' is not a finite number for these values",
                kind="invalid-setting",
                remedy="check the values of " + (", ".join(self.names) or "its numbers"),
            )
        return result if result.ndim else float(result)


def _title(meter: str) -> str:
    return f"meter '{meter}': " if meter else ""


# --- parser --------------------------------------------------------------------------------------


def _check_length(text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise InputError(
            f"has {len(text)} characters, more than {_MAX_LENGTH}",
            kind="too-large",
            remedy="divide it into several meters",
        )
    if not text.strip():
        raise InputError("is an empty expression", kind="invalid-setting", remedy=_ALLOWED)


def _check_tokens(text: str) -> None:
    """Refuse a text whose tokens are not those of an expression, or not in their order.

    `ast` then reads only known tokens, and the positions do not depend on the version of Python.
    """
    open_places: list[int] = []
    # The token before, and whether it ends a value, so that an operator must follow.
    before, is_value = "", False
    end = 0
    while end < len(text):
        token = _TOKEN.match(text, end)
        if token is None:
            _refuse(f"'{text[end]}' at character {end + 1} is not a part of an expression")
        place, part = end + 1, token[0]
        end = token.end()
        if part.isspace():
            continue
        if token["number"] or token["name"]:
            _check_value(part, place, before if is_value else "")
            is_value = True
        elif part == "(":
            if is_value and not _IDENTIFIER.fullmatch(before):
                _refuse_order(part, place, before)
            open_places.append(place)
            is_value = False
        elif part == ")":
            is_empty_call = before == "("
            if not open_places or not (is_value or is_empty_call):
                _refuse_order(part, place, before)
            open_places.pop()
            is_value = True
        else:
            if not is_value and part not in "+-":
                _refuse_order(part, place, before)
            is_value = False
        before = part
    if open_places:
        _refuse(f"'(' at character {open_places[-1]} is not closed", "add a )")
    if not is_value:
        _refuse(f"the expression ends with '{before}'", "add the number or name that is missing")


def _check_value(part: str, place: int, value_before: str) -> None:
    """Refuse a number or a name after another value, and words of Python."""
    if value_before:
        _refuse_order(part, place, value_before)
    if keyword.iskeyword(part):
        _refuse(f"'{part}' at character {place} is not a part of an expression")


def _refuse_order(part: str, place: int, before: str) -> NoReturn:
    problem = f"'{part}' at character {place} cannot "
    problem += f"follow '{before}'" if before else "begin an expression"
    if before and (before[0].isalnum() or before[0] in "._)") and part != ")":
        remedy = "write an operator between values, and numbers without units, in W"
    else:
        remedy = _ALLOWED
    _refuse(problem, remedy)


def _check_tree(node: ast.expr, start: int, names: dict[str, None], depth: int = 0) -> None:
    """Refuse all but arithmetic, and collect the names."""
    position = start + node.col_offset + 1
    if depth > _MAX_DEPTH:
        _refuse_depth()
    parts: list[ast.expr] = []
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if not _is_finite(value):
                _refuse(f"the number at character {position} is out of range", "use a smaller one")
        case ast.Name(id=name) if name in _FUNCTIONS:
            _refuse(f"'{name}' at character {position} is a function", f"write {name}(..., ...)")
        case ast.Name(id=name):
            names.setdefault(name)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            parts = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            parts = [operand]
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            if not arguments:
                _refuse(f"'{name}' at character {position} has no values", f"write {name}(it, 100)")
            parts = arguments
        case ast.Call(func=ast.Name(id=name)):
            remedy = f"the functions are {' and '.join(_FUNCTIONS)}; write * between factors"
            _refuse(f"'{name}' at character {position} is not a function", remedy)
        case _:
            _refuse(f"the part at character {position} is not arithmetic")
    for part in parts:
        _check_tree(part, start, names, depth + 1)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _refuse(problem: str, remedy: str = _ALLOWED) -> NoReturn:
    raise InputError(problem, kind="invalid-setting", remedy=remedy)


def _refuse_text(text: str, error: Exception) -> NoReturn:
    """Refuse a text of valid tokens that Python cannot read."""
    number = re.search(r"(?<![\w.])0[0-9]+(?![0-9.eE])", text)
    if isinstance(error, SyntaxError) and number:
        place = number.start() + 1
        _refuse(f"'{number[0]}' at character {place} begins with 0", "leave out the leading 0")
    _refuse_depth()


def _refuse_depth() -> NoReturn:
    _refuse(f"is nested more than {_MAX_DEPTH} deep", "divide it into several meters")


# --- evaluation ----------------------------------------------------------------------------------


def _compute(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return np.float64(value)
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _compute(operand, values)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right):
            return _combine(op, _compute(left, values), _compute(right, values))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            parts = [_compute(each, values) for each in arguments]
            choose = np.minimum if name == "min" else np.maximum
            result = parts[0]
            for part in parts[1:]:
                result = choose(result, part)
            return result
    raise AssertionError(f"{type(node).__name__} was not refused")


def _combine(op: ast.operator, left: Any, right: Any) -> Any:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
    if np.any(np.equal(right, 0.0)):
        raise ZeroDivisionError
    return left / right


def _find_divisor(tree: ast.expr) -> str:
    """Return the text of the only divisor with a name in an expression, for a remedy."""
    divisors = [
        each.right
        for each in ast.walk(tree)
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)
    ]
    named = [each for each in divisors if any(isinstance(n, ast.Name) for n in ast.walk(each))]
    return ast.unparse(named[0]) if len(named) == 1 else "..."


# --- description ---------------------------------------------------------------------------------


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
    elif not _is_finite(value):
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
        if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
            raise InputError(
                f"'{name}' cannot be used in an expression",
                kind="invalid-setting",
                remedy="write a name of letters, digits and _ that is not a keyword of Python",
            )
        if name in METER_INPUTS or name in _FUNCTIONS:
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
