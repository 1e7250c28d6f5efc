"""The file format of parameters: reading, with the lines of problems, and writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    OrderedParameter,
    OrdinalParameter,
    Parameter,
)
from twinloop.description import DescriptionError
from twinloop.description.address import address_to_path, suggest_name
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberType
from twinloop.description.quantities import UNITS, Unit, find_unit, quote_value

_LISTS: Final[Mapping[str, type[CategoricalParameter]]] = {
    "categorical": CategoricalParameter,
    "ordered": OrderedParameter,
    "ordinal": OrdinalParameter,
}
_RANGES: Final[Mapping[str, Any]] = {
    "linear": LinearParameter,
    "exponential": ExponentialParameter,
    "exponents": ExponentialParameter.from_exponents,
}
_KINDS: Final = (*_LISTS, *_RANGES)
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "categorical": ("metadata",),
    "ordered": ("metadata",),
    "ordinal": ("format", "metadata"),
    **dict.fromkeys(_RANGES, ("integer", "format", "metadata")),
}
#: Finds the type of a number by the name of its parameter; None: the number is unknown.
TypeFinder = Callable[[str], NumberType | None]
#: The names of the kinds in files and journals, which do not follow the names of the classes.
_STORED_NAMES: Final[Mapping[type[Parameter], str]] = {
    CategoricalParameter: "Categorical",
    OrderedParameter: "Ordered",
    OrdinalParameter: "Ordinal",
    LinearParameter: "Linear",
    ExponentialParameter: "Exponential",
}


def read_parameters(
    source: ParsedDocument, find_type: TypeFinder = lambda name: None
) -> list[Parameter]:
    """Read the parameters of a document.

    Args:
        source: The document.
        find_type: Finds the type of a number, whose unit the ends of its range must have.

    >>> read_parameters(ParsedDocument({"parameters": {"speed": {"linear": [0.5, 2]}}}))
    [LinearParameter(name='speed', metadata={}, low=0.5, high=2.0, integer=False, format=None)]
    """
    reader = _ParameterReader(source, find_type)
    parameters = reader.read_all()
    if reader.problems:
        raise DescriptionError(sorted(reader.problems, key=lambda problem: problem.line or 0))
    return parameters


def parameter_to_dict(parameter: Parameter) -> dict[str, Any]:
    """Convert a parameter to plain values; a format that is a function is left out.

    >>> parameter_to_dict(LinearParameter("cores", 1, 4, integer=True))
    {'linear': [1, 4], 'integer': True}
    """
    kind = _STORED_NAMES.get(type(parameter), type(parameter).__name__).lower()
    if isinstance(parameter, CategoricalParameter):
        plain: dict[str, Any] = {kind: list(parameter.values)}
    elif isinstance(parameter, LinearParameter | ExponentialParameter):
        plain = {kind: [parameter.low, parameter.high]}
        if parameter.integer:
            plain["integer"] = True
    else:
        plain = {kind: repr(parameter)}
    format_text = getattr(parameter, "format", None)
    if isinstance(format_text, str):
        plain["format"] = format_text
    if parameter.metadata:
        plain["metadata"] = dict(parameter.metadata)
    return plain


def journal_text(parameter: Parameter) -> str:
    """Return the text of a parameter in the header of a journal: its kind and its fields.

    >>> journal_text(LinearParameter("cores", 1, 4, integer=True))
    "Linear(name='cores', metadata={}, low=1, high=4, integer=True, format=None)"
    """
    name = _STORED_NAMES.get(type(parameter))
    text = repr(parameter)
    return text if name is None else name + text.removeprefix(type(parameter).__qualname__)


class _ParameterReader:
    """A reader of parameters that collects all problems with their lines."""

    def __init__(self, source: ParsedDocument, find_type: TypeFinder) -> None:
        self.source = source
        self.find_type = find_type
        self.problems: list[InputError] = []

    def read_all(self) -> list[Parameter]:
        data = self.source.data
        if not isinstance(data, dict):
            self._note(
                (),
                f"must be a mapping with 'parameters', not {quote_value(data)}",
                kind="wrong-type",
            )
            return []
        for key in data:
            if key != "parameters":
                self._note(
                    (key,),
                    "is not a field",
                    "put all parameters under 'parameters'",
                    kind="unknown-field",
                )
        named = data.get("parameters")
        if not isinstance(named, dict) or not named:
            problem = (
                "is missing" if named is None else f"must be a mapping, not {quote_value(named)}"
            )
            self._note(
                ("parameters",),
                problem,
                "such as speed_factor: {linear: [0.5, 2]}",
                kind="missing-field" if named is None else "wrong-type",
            )
            return []
        parameters = [self._read_parameter(name, value) for name, value in named.items()]
        return [parameter for parameter in parameters if parameter is not None]

    def _read_parameter(self, name: str, value: Any) -> Parameter | None:
        address = ("parameters", name)
        kinds = [key for key in value if key in _KINDS] if isinstance(value, dict) else []
        if len(kinds) != 1:
            problem = "must have exactly one kind of parameter"
            self._note(
                address,
                problem,
                f"one of {', '.join(_KINDS)}, such as linear: [0.5, 2]",
                kind="wrong-count",
            )
            return None
        (kind,) = kinds
        before = len(self.problems)
        for key in value:
            if key != kind and key not in _OPTIONS[kind]:
                known = _OPTIONS[kind]
                self._note(
                    (*address, key),
                    f"is not an option of {kind}",
                    suggest_name(str(key), known),
                    kind="unknown-field",
                )
        self._check_options(address, value)
        given = value[kind]
        if kind in _RANGES:
            ends = self._read_ends((*address, kind), name, given)
        elif not isinstance(given, list) or not given:
            self._note(
                (*address, kind),
                f"must be a list of values, not {quote_value(given)}",
                kind="wrong-type",
            )
        if len(self.problems) > before:
            return None
        options = {key: value[key] for key in _OPTIONS[kind] if key in value}
        try:
            if kind in _RANGES:
                parameter: Parameter = _RANGES[kind](name, *ends, **options)
            else:
                parameter = _LISTS[kind](name, given, **options)
        except InputError as error:
            self._note((*address, kind), error.problem, error.remedy, kind=error.kind)
            return None
        return parameter

    def _check_options(self, address: tuple[str, ...], value: dict[str, Any]) -> None:
        if not isinstance(value.get("integer", False), bool):
            self._note(
                (*address, "integer"),
                f"must be true or false, not {quote_value(value['integer'])}",
                kind="wrong-type",
            )
        if not isinstance(value.get("metadata", {}), dict):
            self._note(
                (*address, "metadata"), "must be a mapping of names to values", kind="wrong-type"
            )
        format_text = value.get("format", "{}")
        try:
            usable = isinstance(format_text, str) and format_text.format(1) != format_text
        except (ValueError, IndexError, KeyError, AttributeError):
            usable = False
        if not usable:
            self._note(
                (*address, "format"),
                f"is not a format of a number: {quote_value(format_text)}",
                'such as "{:.3g}Mbps"',
                kind="invalid-template",
            )

    def _find_reader(self, name: str, ends: list[Any]) -> Callable[[Any], float]:
        """Find how the ends of a range are read: with the unit of the number, if it is known."""
        number_type = self.find_type(name)
        if number_type is not None:
            unit = find_unit(number_type.unit)
            return _read_plain_number if unit is None else unit.read
        units = [each for each in UNITS if any(_is_quantity(each, end) for end in ends)]
        if len(units) > 1:
            names = " and ".join(each.what.split(" ", 1)[1] for each in units)
            raise InputError(f"mixes {names}", kind="invalid-quantity")
        return units[0].read if units else _read_quantity

    def _read_ends(self, address: tuple[str, ...], name: str, given: Any) -> tuple[float, ...]:
        if not isinstance(given, list) or len(given) != 2:
            self._note(
                address, f"must be a list of two ends, not {quote_value(given)}", kind="wrong-type"
            )
            return ()
        try:
            is_exponent = address[-1] == "exponents"
            read = _read_number if is_exponent else self._find_reader(name, given)
        except InputError as error:
            self._note(address, error.problem, kind=error.kind)
            return ()
        ends: list[float] = []
        for position, end in enumerate(given):
            try:
                ends.append(read(end))
            except InputError as error:
                self._note((*address, position), error.problem, error.remedy, kind=error.kind)
        return tuple(ends)

    def _note(
        self, address: tuple[str | int, ...], problem: str, remedy: str | None = None, *, kind: str
    ) -> None:
        self.problems.append(
            InputError(
                problem,
                kind=kind,
                file=self.source.file,
                line=self.source.line(address),
                field=address_to_path(address) or None,
                remedy=remedy,
            )
        )


def _read_number(end: Any, remedy: str | None = None) -> float:
    if isinstance(end, bool) or not isinstance(end, int | float):
        raise InputError(
            f"must be a number, not {quote_value(end)}", kind="wrong-type", remedy=remedy
        )
    return float(end)


def _read_quantity(end: Any) -> float:
    kinds = "time, memory, frequency, power or bandwidth"
    return _read_number(end, f"a number, or a quantity of {kinds}")


def _read_plain_number(end: Any) -> float:
    """Read an end of the range of a number that has no unit."""
    for unit in UNITS:
        if _is_quantity(unit, end):
            raise InputError(
                f"must be a number without a unit, not {quote_value(end)}", kind="invalid-quantity"
            )
    return _read_number(end)


def _is_quantity(unit: Unit, end: Any) -> bool:
    """Whether a text is a quantity of this unit."""
    if not isinstance(end, str) or not end[-1:].isalpha():
        return False
    try:
        unit.read(end)
    except InputError:
        return False
    return True
