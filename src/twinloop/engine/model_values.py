"""Rows of model values: the numbers that may differ between runs of a compiled scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop._core import ValueColumns
from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.scenario import Scenario
from twinloop.scenario.model_values import (
    ModelValue,
    list_model_values,
    refuse_aliases,
    set_model_values,
)
from twinloop.scenario.parameters import MODEL_VALUES

if TYPE_CHECKING:
    from twinloop.engine.path_values import PathValue, PathValues

_Floats = NDArray[np.float64]
#: The largest number of names in an error message.
_MAX_SHOWN: Final = 20


class ValueRows(NamedTuple):
    """Native rows of values, and what their columns set; None: the values of the scenario."""

    matrix: _Floats
    columns: ValueColumns | None = None


class _Layout(NamedTuple):
    """Native columns of rows with these paths."""

    paths: tuple[PathValue, ...]
    columns: ValueColumns


class ModelValues:
    """The model values of a scenario, by name and in order, and its paths.

    Args:
        scenario: The scenario.
        platform: Its platform with the overrides of the model.
        kinds: The kinds of tasks by native index.
        reference_mhz: The reference clock of the workload.
        has_clocks: Whether tasks request a clock, so that a clock decides where they fit.
    """

    def __init__(
        self,
        scenario: Scenario,
        platform: Platform,
        kinds: Sequence[str],
        *,
        reference_mhz: float | None,
        has_clocks: bool,
    ) -> None:
        self._scenario, self._platform = scenario, platform
        self._reference_mhz, self._has_clocks = reference_mhz, has_clocks
        named = [kind for kind in kinds if kind]
        self._values = tuple(list_model_values(scenario.model, platform, named))
        #: The names, `MODEL_VALUES` first.
        self.names = tuple(value.name for value in self._values)
        #: The values of the scenario itself.
        self.own: _Floats = np.array([value.own for value in self._values])
        #: The native column of each value: parameter, index and item.
        self.native_columns = [
            (value.parameter.name, _find_index(value, kinds), 0) for value in self._values
        ]
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._minima = np.array([value.type.minimum for value in self._values])
        self._exclusive = np.array([value.type.is_exclusive for value in self._values])
        self._maxima = np.array([value.type.maximum for value in self._values])
        self._layouts: dict[tuple[str, ...], _Layout] = {}

    @cached_property
    def paths(self) -> PathValues:
        """The numbers of the platform by path, which few runs use."""
        from twinloop.engine.path_values import PathValues

        return PathValues(
            self._scenario,
            self._platform,
            reference_mhz=self._reference_mhz,
            has_clocks=self._has_clocks,
        )

    def columns(self, parameter: str) -> list[int]:
        """Return the columns of the values of a parameter."""
        return [
            index for index, value in enumerate(self._values) if value.parameter.name == parameter
        ]

    @property
    def power_names(self) -> tuple[str, ...]:
        """The names of the values of the power model that all hosts share."""
        return tuple(value.name for value in self._values if value.parameter.is_shared_power)

    def is_value(self, name: str) -> bool:
        """Whether runs take a value of this name: a model value, or the path of a number."""
        return name in self._indices or self.paths.is_path(name)

    def changes_schedule(self, name: str) -> bool:
        """Whether the times of a run depend on this value."""
        if name in self._indices:
            return self._values[self._indices[name]].parameter.changes_schedule
        path = self.paths.find(name)
        return path is None or path.changes_schedule

    def get_own(self, name: str) -> float | None:
        """Return the value of the scenario; None for a number of the platform that is not set."""
        if name in self._indices:
            return float(self.own[self._indices[name]])
        return self._require_path(name).number.value

    def make_row(self, given: Mapping[str, float] | Sequence[float] | None) -> _Floats:
        """Build a row from changed values by name, or from a complete row."""
        if given is None:
            return self.own.copy()
        if isinstance(given, Mapping):
            for name in given:
                self.index(name)
            columns = {name: [value] for name, value in given.items()}
            return self.fill(columns, 1, "values").matrix.ravel()
        row = _to_floats(given, "values").reshape(1, -1)
        return self._complete(row, "values").ravel()

    def group_rows(
        self, given: ArrayLike | Mapping[str, ArrayLike] | Sequence[Mapping[str, float]]
    ) -> Iterator[tuple[NDArray[np.intp], _Floats | dict[str, _Floats]]]:
        """Divide rows into groups with the same names: their indices, and a matrix or columns."""
        if isinstance(given, Mapping):
            columns = {name: _to_floats(column, name).ravel() for name, column in given.items()}
            lengths = {column.size for column in columns.values()}
            if len(lengths) > 1:
                raise InputError(
                    "the columns do not have the same length", kind="wrong-count", field="matrix"
                )
            yield np.arange(lengths.pop() if lengths else 1), columns
        elif isinstance(given, Sequence) and given and isinstance(given[0], Mapping):
            groups: dict[tuple[str, ...], list[int]] = {}
            for index, row in enumerate(given):
                groups.setdefault(tuple(row), []).append(index)
            for names, indices in groups.items():
                yield (
                    np.array(indices, dtype=np.intp),
                    {
                        name: _to_floats([given[i][name] for i in indices], name)  # type: ignore[index]
                        for name in names
                    },
                )
        else:
            rows = self._complete(_to_floats(given, "matrix"), "matrix")
            yield np.arange(len(rows)), rows

    def divide(
        self, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, tuple[PathValue, Any]]]:
        """Divide values by name into those that act natively and those that need a compilation."""
        native: dict[str, Any] = {}
        compiled: dict[str, tuple[PathValue, Any]] = {}
        for name, value in given.items():
            if name in self._indices or (path := self._require_path(name)).columns:
                native[name] = value
            else:
                compiled[path.name] = (path, value)
        if len(native) + len(compiled) < len(given):
            self._refuse_aliases(given, "values")
        return native, compiled

    def _refuse_aliases(self, given: Iterable[str], field: str) -> None:
        refuse_aliases([name for name in given if name not in self._indices], field)

    def fill(self, given: Mapping[str, ArrayLike], count: int, field: str) -> ValueRows:
        """Build rows from columns by name, with the values of the scenario for the others."""
        rows = np.empty((count, len(self.own)))
        rows[:] = self.own
        paths: dict[str, _Floats] = {}
        for name, column in given.items():
            floats = _to_floats(column, name).reshape(-1)
            if name in self._indices:
                rows[:, self._indices[name]] = floats
            else:
                path = self._require_path(name)
                if path.name in paths:
                    self._refuse_aliases(given, field)
                paths[path.name] = floats
        self.check(rows, field)
        if not paths:
            return ValueRows(rows)
        for name, column in paths.items():
            self._check_path(self._require_path(name), column, field)
        self._check_group_power(paths, rows, field)
        layout = self._get_layout(tuple(sorted(paths)))
        further = [
            paths[path.name] / column.divisor for path in layout.paths for column in path.columns
        ]
        return ValueRows(np.ascontiguousarray(np.column_stack([rows, *further])), layout.columns)

    def _get_layout(self, names: tuple[str, ...]) -> _Layout:
        if names not in self._layouts:
            paths = sorted((self._require_path(name) for name in names), key=self.paths.order)
            further = [
                (column.name, column.first, column.second)
                for path in paths
                for column in path.columns
            ]
            columns = ValueColumns([*self.native_columns, *further])
            self._layouts[names] = _Layout(tuple(paths), columns)
        return self._layouts[names]

    def _complete(self, rows: _Floats, field: str) -> _Floats:
        """Check a matrix, and add the values of the scenario to rows of `MODEL_VALUES` alone."""
        common = len(MODEL_VALUES)
        width = rows.shape[1] if rows.ndim == 2 else 0
        if width not in (common, len(self.names)):
            more = f" or {len(self.names)}" if len(self.names) > common else ""
            raise InputError(
                f"must have a row per run and {common}{more} columns, not {rows.shape}",
                kind="wrong-count",
                field=field,
                remedy=f"the columns are {', '.join(self.names)}",
            )
        if width < len(self.names):
            given, rows = rows, np.empty((len(rows), len(self.own)))
            rows[:, :width], rows[:, width:] = given, self.own[width:]
        self.check(rows, field)
        return rows

    def check(self, rows: _Floats, field: str) -> None:
        """Raise an error for values outside the bounds of their parameters."""
        if not len(rows):
            return
        # The minimum and the maximum represent all rows; NaN propagates to both.
        low, high = rows.min(axis=0), rows.max(axis=0)
        is_valid = np.where(self._exclusive, low > self._minima, low >= self._minima)
        is_valid &= (high <= self._maxima) & (high < np.inf)
        if not is_valid.all():
            index = int(np.argmin(is_valid))
            _refuse_outside(self._values[index], rows[:, index], field)
        if "power.max" in self._indices:
            idle, maximum = (rows[:, self._indices[name]] for name in ("power.idle", "power.max"))
            _refuse_crossed("power.idle", idle, "power.max", maximum, field)

    def _check_path(self, path: PathValue, column: _Floats, field: str) -> None:
        value_type = path.number.type
        for number in column.tolist():
            if not value_type.contains(number):
                raise InputError(
                    f"{path.name} {value_type.describe_violation(number)}",
                    kind="out-of-range",
                    field=field,
                )

    def _check_group_power(self, paths: Mapping[str, _Floats], rows: _Floats, field: str) -> None:
        """Raise an error if the idle power of a group of hosts exceeds its maximum."""
        stems = {
            name.rpartition(".")[0]
            for name in paths
            if name.endswith((".power.idle", ".power.max"))
        }
        for stem in sorted(stems):
            columns = []
            for what in ("idle", "max"):
                name = f"{stem}.{what}"
                if name in paths:
                    columns.append(paths[name])
                elif f"power.{what}" in self._indices:
                    columns.append(rows[:, self._indices[f"power.{what}"]])
                else:
                    columns.append(np.full(len(rows), self._require_path(name).number.value))
            _refuse_crossed(f"{stem}.idle", columns[0], f"{stem}.max", columns[1], field)

    def index(self, name: str) -> int:
        """Return the column of a value in a row."""
        if name in self._indices:
            return self._indices[name]
        self._require_path(name)
        raise InputError(
            f"{name!r} has no column in a row",
            kind="unknown-name",
            field="values",
            remedy="give paths by name: run({path: value}), run_many({path: column})",
        )

    def _require_path(self, name: str) -> PathValue:
        try:
            path = self.paths.find(name)
        except InputError as error:
            raise InputError(
                error.problem, kind=error.kind, field="values", remedy=error.remedy
            ) from None
        if path is None:
            shown = ", ".join(self.names[:_MAX_SHOWN])
            close = suggest_name(name, self.names)
            raise InputError(
                f"{name!r} is not a model value of this scenario",
                kind="unknown-name",
                field="values",
                remedy=close
                if close.startswith("did")
                else f"one of: {shown}, or a path such as platform.clusters[0].hosts[0].mhz",
            )
        return path

    def apply(self, given: Mapping[str, float] | Sequence[float], scenario: Scenario) -> Scenario:
        """Return the scenario with these values."""
        if not isinstance(given, Mapping):
            given = dict(zip(self.names, self.make_row(given).tolist(), strict=True))
        else:
            native, _ = self.divide(given)
            self.fill({name: [value] for name, value in native.items()}, 1, "values")
        changes = {
            name: float(value)
            for name, value in given.items()
            if name not in self._indices or float(value) != self.own[self._indices[name]]
        }
        return set_model_values(scenario, changes)


def _find_index(value: ModelValue, kinds: Sequence[str]) -> int:
    if isinstance(value.key, str):
        return kinds.index(value.key)
    return value.key or 0


def _refuse_outside(value: ModelValue, column: _Floats, field: str) -> None:
    bad = next(number for number in column.tolist() if not value.type.contains(number))
    raise InputError(
        f"{value.name} {value.type.describe_violation(bad)}", kind="out-of-range", field=field
    )


def _refuse_crossed(low_name: str, low: _Floats, high_name: str, high: _Floats, field: str) -> None:
    crossed = high < low
    if crossed.any():
        row = int(np.argmax(crossed))
        raise InputError(
            f"{high_name} must not be below {low_name}, {low[row]:g}, not {high[row]:g}",
            kind="out-of-range",
            field=field,
        )


def _to_floats(given: Any, field: str) -> _Floats:
    try:
        return np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("must be numbers", kind="wrong-type", field=field) from None
