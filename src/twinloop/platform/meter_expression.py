"""Expressions of meters: arithmetic of numbers and names.

An expression is parsed by Python's `ast` into a tree of which only numbers, names, + - * /, min and
max are accepted; no code is run.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError

#: The functions of an expression.
FUNCTIONS: Final = ("min", "max")
_MAX_LENGTH: Final = 2000
_MAX_DEPTH: Final = 200

_TOKEN: Final = re.compile(
    r"\s+|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|[-+*/(),]",
    re.ASCII,
)
#: The form of a name.
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
            if is_value and not IDENTIFIER.fullmatch(before):
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
            if not is_finite(value):
                _refuse(f"the number at character {position} is out of range", "use a smaller one")
        case ast.Name(id=name) if name in FUNCTIONS:
            _refuse(f"'{name}' at character {position} is a function", f"write {name}(..., ...)")
        case ast.Name(id=name):
            names.setdefault(name)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            parts = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            parts = [operand]
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            if not arguments:
                _refuse(f"'{name}' at character {position} has no values", f"write {name}(it, 100)")
            parts = arguments
        case ast.Call(func=ast.Name(id=name)):
            remedy = f"the functions are {' and '.join(FUNCTIONS)}; write * between factors"
            _refuse(f"'{name}' at character {position} is not a function", remedy)
        case _:
            _refuse(f"the part at character {position} is not arithmetic")
    for part in parts:
        _check_tree(part, start, names, depth + 1)


def is_finite(value: float) -> bool:
    """Whether a number is finite as a float."""
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
