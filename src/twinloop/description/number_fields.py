"""Numbers of a description by path: value, unit and bounds, from the types of the fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from twinloop.description.address import address_to_path, suggest_name
from twinloop.description.description import Description
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.quantities import Unit


class NumberType(NamedTuple):
    """The type of a number: its unit and its bounds.

    >>> from twinloop.description.quantities import MHz
    >>> read_number_type(MHz).describe_bounds(), read_number_type(MHz).unit
    ('positive', 'MHz')
    """

    #: The unit of the stored value; empty if it has none.
    unit: str = ""
    minimum: float = -math.inf
    #: Whether the number must be greater than the minimum, not equal to it.
    is_exclusive: bool = False
    maximum: float = math.inf
    is_whole: bool = False

    def describe_bounds(self) -> str:
        """Describe the bounds in words."""
        parts = []
        if self.minimum == 0:
            parts.append("positive" if self.is_exclusive else "not negative")
        elif self.minimum > -math.inf:
            parts.append(f"{'more than' if self.is_exclusive else 'at least'} {self.minimum:g}")
        if self.maximum < math.inf:
            parts.append(f"at most {self.maximum:g}")
        if self.is_whole:
            parts.append("a whole number")
        return " and ".join(parts) or "finite"

    def describe_violation(self, number: float) -> str:
        """Describe the bound that a number violates.

        >>> NumberType("W", 0.0).describe_violation(-1.0)
        'must be finite and not negative, in W, not -1.0'
        """
        if math.isfinite(number) and number > self.maximum:
            must = f"at most {self.maximum:g}"
        elif self.is_whole and math.isfinite(number) and not float(number).is_integer():
            must = "a whole number"
        else:
            lower = NumberType(minimum=self.minimum, is_exclusive=self.is_exclusive)
            bounds = lower.describe_bounds()
            must = bounds if bounds == "finite" else f"finite and {bounds}"
        return f"must be {must}{self.unit and f', in {self.unit}'}, not {number}"

    def contains(self, number: float) -> bool:
        """Whether a number is within the bounds."""
        above = number > self.minimum if self.is_exclusive else number >= self.minimum
        whole = not self.is_whole or float(number).is_integer()
        return math.isfinite(number) and above and number <= self.maximum and whole


class NumberField(NamedTuple):
    """A number of a description: its address, its value (None if not set) and its type."""

    address: Address
    value: float | None
    type: NumberType


def read_number_type(annotation: Any, metadata: Sequence[Any] = ()) -> NumberType | None:
    """Read the unit and the bounds of an annotated type; None if it is not a number.

    >>> from twinloop.description.quantities import Share
    >>> read_number_type(Share)
    NumberType(unit='', minimum=0, is_exclusive=False, maximum=1, is_whole=False)
    """
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        return read_number_type(inner, (*own, *metadata))
    if get_origin(annotation) in (Union, UnionType):
        found = (read_number_type(each, metadata) for each in get_args(annotation))
        return next((each for each in found if each is not None), None)
    if annotation not in (float, int):
        return None
    unit, minimum, is_exclusive, maximum = "", -math.inf, False, math.inf
    for each in _flatten(metadata):
        reader = getattr(getattr(each, "func", None), "__self__", None)
        if isinstance(reader, Unit):
            unit, maximum = reader.stored, min(maximum, reader.max_value)
        elif hasattr(each, "gt") or hasattr(each, "ge"):
            is_exclusive = hasattr(each, "gt")
            minimum = each.gt if is_exclusive else each.ge
        elif hasattr(each, "le"):
            maximum = min(maximum, each.le)
    return NumberType(unit, minimum, is_exclusive, maximum, annotation is int)


def _flatten(metadata: Sequence[Any]) -> Iterator[Any]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from each.metadata
        else:
            yield each


def find_number(description: Description, address: Address) -> NumberField | None:
    """Find the number at an address; None if there is none.

    >>> from twinloop.platform import Platform
    >>> platform = Platform.parse("2x8@2400MHz")
    >>> found = find_number(platform, ("clusters", 0, "hosts", 0, "mhz"))
    >>> found.value, found.type.unit
    (2400.0, 'MHz')
    """
    value: Any = description
    annotation: Any = type(description)
    metadata: tuple[Any, ...] = ()
    for step in address:
        found = next((each for each in _list_parts(value, annotation) if each[0] == step), None)
        if found is None:
            return None
        _, value, annotation, metadata = found
    number_type = read_number_type(annotation, metadata)
    if number_type is None or isinstance(value, str | bool):
        return None
    return NumberField(address, None if value is None else float(value), number_type)


def list_numbers(description: Description) -> Iterator[NumberField]:
    """List all numbers of a description, also those that are not set.

    >>> from twinloop.platform import Platform
    >>> from twinloop.description.address import address_to_path
    >>> [address_to_path(each.address) for each in list_numbers(Platform.parse("1x8"))]
    ['clusters[0].hosts[0].count', 'clusters[0].hosts[0].cores', 'clusters[0].hosts[0].mhz',
        'clusters[0].hosts[0].speed', 'clusters[0].hosts[0].memory', 'clusters[0].carbon']
    """
    yield from _list_below(description, type(description), (), ())


def _list_below(
    value: Any, annotation: Any, metadata: tuple[Any, ...], address: Address
) -> Iterator[NumberField]:
    number_type = read_number_type(annotation, metadata)
    if number_type is not None and not isinstance(value, str | bool):
        yield NumberField(address, None if value is None else float(value), number_type)
    for step, part, part_annotation, part_metadata in _list_parts(value, annotation):
        yield from _list_below(part, part_annotation, part_metadata, (*address, step))


def _list_parts(
    value: Any, annotation: Any
) -> Iterator[tuple[str | int, Any, Any, tuple[Any, ...]]]:
    """List the parts of a value: step of the address, value, type and metadata of the type."""
    if isinstance(value, Description):
        for name, field in type(value).model_fields.items():
            yield name, getattr(value, name), field.annotation, tuple(field.metadata)
        return
    if isinstance(value, dict):
        item = _select_arguments(annotation, dict)
        for key, each in value.items():
            yield key, each, item[1] if len(item) > 1 else Any, ()
    elif isinstance(value, tuple | list):
        items = _select_arguments(annotation, tuple)
        for index, each in enumerate(value):
            is_repeated = len(items) == 2 and items[1] is Ellipsis
            place = 0 if is_repeated else index
            yield index, each, items[place] if place < len(items) else Any, ()


def _select_arguments(annotation: Any, container: type) -> tuple[Any, ...]:
    """Return the type arguments of a container in an annotation, also within a union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _select_arguments(get_args(annotation)[0], container)
    if origin in (Union, UnionType):
        for each in get_args(annotation):
            if each is not NoneType and (found := _select_arguments(each, container)):
                return found
        return ()
    return get_args(annotation) if origin is container else ()


def require_number(description: Description, address: Address, *, prefix: str = "") -> NumberField:
    """Find the number at an address; raise an error with the closest path and its unit.

    >>> from twinloop.platform import Platform
    >>> require_number(Platform.parse("1x8"), ("clusters", 0, "hosts", 0, "mzh"))
    Traceback (most recent call last):
    twinloop.InputError: clusters[0].hosts[0].mzh is not a number of the platform (did you mean
        'clusters[0].hosts[0].mhz', in MHz?) [TL0209]
    """
    found = find_number(description, address)
    if found is not None:
        return found
    path = prefix + address_to_path(address)
    known = {
        prefix + address_to_path(each.address): each.type for each in list_numbers(description)
    }
    remedy = suggest_name(path, list(known))
    for name, number_type in known.items():
        if number_type.unit and remedy == f"did you mean '{name}'?":
            remedy = f"did you mean '{name}', in {number_type.unit}?"
    raise InputError(
        f"{path} is not a number of the {description.noun()}",
        kind="unknown-name",
        remedy=remedy,
    )
