"""Values of a specification sheet, with which versions are simulated beside their fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinloop.calibration.parameters.values import find_number_type, get_value, set_values
from twinloop.description import text as text_of
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.quantities import find_unit, quote_value
from twinloop.scenario import Scenario
from twinloop.scenario.parameters import find_parameter

#: The key that may stand above the values, as in the file of a fit.
_VALUES: Final = "values"
#: The fields by which a file is recognised as a scenario.
_SCENARIO_FIELDS: Final = frozenset({"platform", "workload"})


@dataclass(frozen=True)
class SpecSheet:
    """Values by the names of parameters, or a scenario that has them.

    >>> sheet = SpecSheet.of({"model": {"speed_factor": 1.1}, "startup_overhead": "50ms"})
    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> sheet.read_values(scenario, ["speed_factor"])
    {'model.speed_factor': 1.1, 'startup_overhead': 0.05}
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    scenario: Scenario | None = None
    _document: ParsedDocument | None = field(default=None, compare=False, repr=False)
    _addresses: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, given: SpecSheet | Scenario | Mapping[str, Any] | str | Path) -> SpecSheet:
        """Read a specification sheet: a scenario, or values by name, in a file or a mapping."""
        if isinstance(given, SpecSheet):
            return given
        if isinstance(given, Scenario):
            return cls(scenario=given)
        if isinstance(given, str | Path):
            document = text_of.load_document(Path(given))
        else:
            document = ParsedDocument(dict(given))
        data = document.data
        if not isinstance(data, dict) or not data:
            raise InputError(
                f"must map parameters to values, not {quote_value(data)}",
                kind="wrong-type",
                file=document.file,
                remedy="such as speed_factor: 1.1",
            )
        if data.keys() >= _SCENARIO_FIELDS:
            if isinstance(given, str | Path):
                return cls(scenario=Scenario.load(given))
            return cls(scenario=Scenario(**given))
        prefix = (_VALUES,) if isinstance(data.get(_VALUES), dict) and len(data) == 1 else ()
        found = list(_flatten(data[_VALUES] if prefix else data))
        addresses = {".".join(steps): (*prefix, *steps) for steps, _ in found}
        values = {".".join(steps): value for steps, value in found}
        return cls(values, None, document, addresses)

    def read_values(self, scenario: Scenario, names: Iterable[str]) -> dict[str, Any]:
        """Read the values that a version can be simulated with, in the units of its scenario.

        Args:
            scenario: The version.
            names: The parameters of the version; a scenario as sheet has these values.
        """
        if self.scenario is not None:
            found = {name: _get_parameter(self.scenario, name) for name in names}
            return {name: value for name, value in found.items() if value is not None}
        values = {}
        for name, given in self.values.items():
            try:
                value = _read_number(scenario, name, given)
                set_values(scenario, {name: value})
            except InputError as error:
                raise self._locate(error, name) from None
            values[name] = value
        return values

    def select(self, left_out: Iterable[str]) -> SpecSheet:
        """Select the values without those of these parameters."""
        names = set(left_out)
        kept = {name: value for name, value in self.values.items() if name not in names}
        return SpecSheet(kept, self.scenario, self._document, self._addresses)

    def _locate(self, error: InputError, name: str) -> InputError:
        document = self._document
        return InputError(
            error.problem,
            kind=error.kind,
            file=None if document is None else document.file,
            line=None if document is None else document.line(self._addresses[name]),
            field=name,
            remedy=error.remedy,
        )


def _flatten(data: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[Any]:
    """List the values of nested mappings, each with its steps."""
    for key, value in data.items():
        steps = (*above, str(key))
        if isinstance(value, dict):
            yield from _flatten(value, steps)
        else:
            yield steps, value


def _read_number(scenario: Scenario, name: str, given: Any) -> Any:
    number_type = find_number_type(scenario, name)
    unit = None if number_type is None else find_unit(number_type.unit)
    return given if unit is None else unit.read(given)


def _get_parameter(scenario: Scenario, name: str) -> Any:
    """Get the value of a parameter in a scenario; None if it has none."""
    found = find_parameter(name)
    if found is None or found[0].is_path or found[0].is_shared_power:
        return get_value(scenario, name)
    return get_value(scenario, f"model.{found[0].model_path(found[1])}")
