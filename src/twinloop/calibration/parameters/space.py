"""The space of all parameters of a calibration: a mapping from the unit cube to values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twinloop.calibration.parameters import file_format
from twinloop.calibration.parameters.kinds import Parameter, require_unit_interval
from twinloop.description import text as text_of
from twinloop.description.address import suggest_name
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value

Floats = npt.NDArray[np.float64]


class Space:
    """An ordered set of parameters; a point has one coordinate in 0..1 per parameter.

    >>> from twinloop.calibration.parameters.kinds import ExponentialParameter, LinearParameter
    >>> latency = ExponentialParameter("latency", 1e-3, 1.0)
    >>> space = Space([LinearParameter("speed", 0.5, 2), latency])
    >>> len(space), space.names
    (2, ('speed', 'latency'))
    >>> space.decode_one(np.array([0.0, 1.0]))
    {'speed': 0.5, 'latency': 1.0}
    >>> space.encode({"speed": 1.25, "latency": 1.0}).tolist()
    [0.5, 1.0]
    """

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        if not self.parameters:
            raise InputError("must have at least one parameter", kind="no-runs", field="parameters")
        for parameter in self.parameters:
            if not isinstance(parameter, Parameter):
                raise InputError(
                    f"must contain parameters, not {quote_value(parameter)}",
                    kind="wrong-type",
                    field="parameters",
                    remedy="such as LinearParameter('speed_factor', 0.5, 2)",
                )
        self._by_name = {parameter.name: parameter for parameter in self.parameters}
        if len(self._by_name) < len(self.parameters):
            names = [parameter.name for parameter in self.parameters]
            duplicate = next(name for name in names if names.count(name) > 1)
            raise InputError(
                "is the name of two parameters", kind="duplicate-name", field=duplicate
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the coordinates."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self.parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters)

    def __getitem__(self, name: str) -> Parameter:
        if name not in self._by_name:
            raise InputError(
                f"no parameter is called '{name}'",
                kind="unknown-name",
                remedy=suggest_name(name, self.names),
            )
        return self._by_name[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.parameters == other.parameters

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Space({list(self.parameters)!r})"

    def decode(self, points: Floats) -> dict[str, Any]:
        """Decode many points: for each name an array of numbers, or a list.

        >>> from twinloop.calibration.parameters.kinds import LinearParameter
        >>> Space([LinearParameter("cores", 1, 2, integer=True)]).decode(np.array([[0.0], [1.0]]))
        {'cores': array([1, 2])}
        """
        points = require_unit_interval(self._check_shape(points))
        return {
            parameter.name: parameter.decode_many(points[:, column])
            for column, parameter in enumerate(self.parameters)
        }

    def decode_one(self, point: Floats) -> dict[str, Any]:
        """Decode one point to values by name.

        >>> from twinloop.calibration.parameters.kinds import CategoricalParameter
        >>> Space([CategoricalParameter("mode", ["a", "b"])]).decode_one(np.array([0.9]))
        {'mode': 'b'}
        """
        (point,) = require_unit_interval(
            self._check_shape(np.asarray(point, dtype=np.float64)[np.newaxis])
        )
        return {
            parameter.name: parameter.decode(position)
            for parameter, position in zip(self.parameters, point.tolist(), strict=True)
        }

    def encode(self, values: Mapping[str, Any]) -> Floats:
        """Encode values to a point; every parameter needs a value.

        >>> from twinloop.calibration.parameters.kinds import LinearParameter
        >>> Space([LinearParameter("speed", 0, 2)]).encode({"sped": 1})
        Traceback (most recent call last):
        twinloop.InputError: no parameter is called 'sped' (did you mean 'speed'?) [TL0209]
        """
        for name in values:
            self[name]
        for name in self.names:
            if name not in values:
                raise InputError("has no value", kind="missing-field", field=name)
        return np.array([parameter.encode(values[parameter.name]) for parameter in self.parameters])

    def format_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Format the values for a simulator.

        >>> from twinloop.calibration.parameters.kinds import LinearParameter
        >>> Space([LinearParameter("rate", 0, 2, format="{:.1f}Gbps")]).format_values({"rate": 1})
        {'rate': '1.0Gbps'}
        """
        return {name: self[name].format_value(value) for name, value in values.items()}

    def _check_shape(self, points: Floats) -> Floats:
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self):
            raise InputError(
                f"points must have {len(self)} coordinates, not shape {points.shape}",
                kind="wrong-count",
            )
        return points

    @classmethod
    def load(cls, path: str | Path) -> Space:
        """Read the parameters from a YAML or JSON file."""
        return cls.from_document(text_of.load_document(Path(path)))

    @classmethod
    def from_text(cls, text: str, *, file: str | None = None) -> Space:
        """Make a space from YAML or JSON text; `file` is its name in errors.

        >>> space = Space.from_text('''
        ... parameters:
        ...   speed_factor: {linear: [0.5, 2]}
        ...   dispatch_latency: {exponential: [1ms, 1s]}
        ...   mode: {categorical: [a, b]}
        ... ''')
        >>> space["dispatch_latency"]
        ExponentialParameter(name='dispatch_latency', metadata={}, low=0.001, high=1.0,
            integer=False, format=None)
        """
        return cls.from_document(text_of.parse_document(text, file))

    @classmethod
    def from_dict(cls, data: Any) -> Space:
        """Make a space from plain values with the structure of a file.

        >>> Space.from_dict({"parameters": {"speed": {"linear": [2, 0.5]}}})
        Traceback (most recent call last):
        twinloop.description.DescriptionError: parameters.speed.linear: must have its lower
            end below its upper end, not 2 and 0.5 [TL0206]
        """
        return cls.from_document(ParsedDocument(data))

    @classmethod
    def from_document(
        cls,
        source: ParsedDocument,
        find_type: file_format.TypeFinder = lambda name: None,
    ) -> Space:
        """Make a space from a parsed document; errors have its lines.

        Args:
            source: The document.
            find_type: Finds the type of a number, whose unit the ends of its range must have.
        """
        return cls(file_format.read_parameters(source, find_type))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that `from_dict` reads, except formats that are functions.

        >>> from twinloop.calibration.parameters.kinds import LinearParameter
        >>> Space([LinearParameter("speed", 0.5, 2, format="{:.2f}")]).to_dict()
        {'parameters': {'speed': {'linear': [0.5, 2.0], 'format': '{:.2f}'}}}
        """
        return {
            "parameters": {
                each.name: file_format.parameter_to_dict(each) for each in self.parameters
            }
        }
