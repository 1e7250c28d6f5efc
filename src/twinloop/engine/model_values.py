"""Model values: the numbers that may differ between runs of a compiled scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.scenario import Contention, Scenario
from twinloop.scenario.model import MODEL_VALUES

_POSITIVE: Final = ("speed_factor", "service_factor", "effective_capacity")

#: Field of each value of a power model, by kind of model and name of the value.
_POWER_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "constant": {"idle": "power"},
    **{name: {"idle": "idle", "max": "max"} for name in ("linear", "sqrt", "square", "cubic")},
    "mse": {"idle": "idle", "max": "max", "parameter": "r"},
    "asymptotic": {"idle": "idle", "max": "max", "parameter": "a"},
}


class ModelValue(NamedTuple):
    """A model value: its name, the value in the scenario, and its lower bound."""

    name: str
    own: float
    minimum: float = 0.0
    #: Whether the value must be greater than the bound, not equal to it.
    is_exclusive: bool = False
    #: Name in the native engine, empty for `MODEL_VALUES`, and index among those of the same name.
    native_name: str = ""
    native_index: int = 0


class ModelValues:
    """The model values of a scenario, by name and in order."""

    def __init__(self, values: Sequence[ModelValue]) -> None:
        self._values = tuple(values)
        #: The names, `MODEL_VALUES` first.
        self.names = tuple(value.name for value in self._values)
        #: The values of the scenario itself.
        self.own: NDArray[np.float64] = np.array([value.own for value in self._values])
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._minima = np.array([value.minimum for value in self._values])
        self._exclusive = np.array([value.is_exclusive for value in self._values])

    @classmethod
    def from_scenario(
        cls, scenario: Scenario, platform: Platform, kinds: tuple[str, ...]
    ) -> ModelValues:
        """Create the values of a scenario; `kinds` are the kinds of tasks by native index."""
        model = scenario.model
        common = (
            ModelValue(name, getattr(model, name), is_exclusive=name in _POSITIVE)
            for name in MODEL_VALUES
        )
        factors = (
            ModelValue(
                f"service_factors.{kind}",
                model.service_factors.get(kind, 1.0),
                is_exclusive=True,
                native_name="service_factor",
                native_index=index,
            )
            for index, kind in enumerate(kinds)
            if kind
        )
        return cls(
            [
                *common,
                *factors,
                *_list_contention_values(model.contention, kinds),
                *_list_power_values(platform),
            ]
        )

    @property
    def further(self) -> list[tuple[str, int]]:
        """The native names and indices of the values beyond `MODEL_VALUES`."""
        return [
            (value.native_name, value.native_index) for value in self._values if value.native_name
        ]

    def columns(self, native_name: str) -> list[int]:
        """Return the columns of the values with this native name."""
        return [
            index for index, value in enumerate(self._values) if value.native_name == native_name
        ]

    def make_row(self, given: Mapping[str, float] | Sequence[float] | None) -> NDArray[np.float64]:
        """Build a row from changed values by name, or from a complete row."""
        if given is None:
            return self.own.copy()
        if isinstance(given, Mapping):
            return self._fill_columns(
                {name: [value] for name, value in given.items()}, "values"
            ).ravel()
        row = _to_floats(given, "values").reshape(1, -1)
        self.check(row, "values")
        return np.concatenate([row[0], self.own[row.shape[1] :]])

    def make_rows(
        self, given: ArrayLike | Mapping[str, ArrayLike] | Sequence[Mapping[str, float]]
    ) -> NDArray[np.float64]:
        """Build rows from a matrix, from columns by name, or from a mapping per row."""
        if isinstance(given, Mapping):
            return self._fill_columns(given, "matrix")
        if isinstance(given, Sequence) and given and isinstance(given[0], Mapping):
            return np.array([self.make_row(each) for each in given])  # type: ignore[arg-type]
        rows = _to_floats(given, "matrix")
        self.check(rows, "matrix")
        return rows

    def make_power_rows(self, given: ArrayLike) -> NDArray[np.float64]:
        """Build complete rows from rows of the power model alone."""
        indices = [index for index, name in enumerate(self.names) if name.startswith("power.")]
        if not indices:
            raise InputError(
                "the hosts do not share one power model, or it is a table",
                kind="not-applicable",
                field="power",
                remedy="give all hosts the same power model, other than a table",
            )
        powers = _to_floats(given, "rows")
        if powers.ndim != 2 or powers.shape[1] != len(indices):
            raise InputError(
                f"must have a row per power model and {len(indices)} columns, not {powers.shape}",
                kind="wrong-count",
                field="rows",
                remedy=f"the columns are {', '.join(self.names[index] for index in indices)}",
            )
        rows = np.tile(self.own, (len(powers), 1))
        rows[:, indices] = powers
        self.check(rows, "rows")
        return rows

    def check(self, rows: NDArray[np.float64], field: str) -> None:
        """Raise an error for values outside the bounds of the model."""
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
        if not len(rows):
            return
        # The minimum and the maximum represent all rows; NaN propagates to both.
        low, high = rows.min(axis=0), rows.max(axis=0)
        minimum, is_exclusive = self._minima[:width], self._exclusive[:width]
        is_valid = np.where(is_exclusive, low > minimum, low >= minimum) & (high < np.inf)
        if not is_valid.all():
            value = self._values[int(np.argmin(is_valid))]
            column = rows[:, int(np.argmin(is_valid))]
            bad = column[~(np.isfinite(column) & (column >= value.minimum))]
            shown = float(bad[0]) if len(bad) else value.minimum
            must = _describe_bound(value.minimum, is_exclusive=value.is_exclusive)
            raise InputError(
                f"{value.name} must be finite and {must}, not {shown}",
                kind="out-of-range",
                field=field,
            )
        if width > common and "power.max" in self._indices:
            self._check_power(rows, field)

    def _check_power(self, rows: NDArray[np.float64], field: str) -> None:
        idle, maximum = (rows[:, self._indices[name]] for name in ("power.idle", "power.max"))
        crossed = maximum < idle
        if crossed.any():
            row = int(np.argmax(crossed))
            raise InputError(
                f"power.max must not be below power.idle, {idle[row]:g}, not {maximum[row]:g}",
                kind="out-of-range",
                field=field,
            )

    def _fill_columns(self, given: Mapping[str, ArrayLike], field: str) -> NDArray[np.float64]:
        columns = {self.index(name): _to_floats(column, name) for name, column in given.items()}
        lengths = {column.size for column in columns.values()}
        if len(lengths) > 1:
            raise InputError(
                "the columns do not have the same length", kind="wrong-count", field=field
            )
        rows = np.tile(self.own, (lengths.pop() if lengths else 1, 1))
        for index, column in columns.items():
            rows[:, index] = column.reshape(-1)
        self.check(rows, field)
        return rows

    def index(self, name: str) -> int:
        """Return the column of a value."""
        if name not in self._indices:
            raise InputError(
                f"{name!r} is not a model value of this scenario",
                kind="unknown-name",
                field="values",
                remedy=f"one of: {', '.join(self.names)}",
            )
        return self._indices[name]

    def apply(self, row: NDArray[np.float64], scenario: Scenario) -> Scenario:
        """Return the scenario with the values of a row."""
        values = dict(zip(self.names, row.tolist(), strict=True))
        model = scenario.model
        changes: dict[str, Any] = {name: values[name] for name in MODEL_VALUES}
        factors = _select_prefix(values, "service_factors.")
        changes["service_factors"] = {
            kind: factor
            for kind, factor in factors.items()
            if factor != 1.0 or kind in model.service_factors
        }
        changes["contention"] = _replace_contention(model.contention, values)
        changes["overrides"] = {
            **model.overrides,
            **_build_overrides(scenario, _select_prefix(values, "power.")),
        }
        return scenario.replace(model=model.replace(**changes))


def _select_prefix(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def _list_contention_values(rule: Contention, kinds: tuple[str, ...]) -> Iterator[ModelValue]:
    if rule.linear is not None:
        yield ModelValue("contention.linear.slope", rule.linear.slope, native_name="slope")
    for i, (_, inflation) in enumerate(rule.table or ()):
        yield ModelValue(
            f"contention.table[{i}]",
            inflation,
            minimum=1.0,
            native_name="inflation",
            native_index=i,
        )
    for name, kind in (rule.kinds or {}).items():
        for what in ("pressure", "sensitivity"):
            full = f"contention.kinds.{name}.{what}"
            yield ModelValue(
                full, getattr(kind, what), native_name=what, native_index=kinds.index(name)
            )


def _replace_contention(rule: Contention, values: Mapping[str, float]) -> Contention:
    """Return the contention rule with its values replaced."""
    if rule.linear is not None:
        return Contention(linear={"slope": values["contention.linear.slope"]})
    if rule.table is not None:
        points = [
            (load, values[f"contention.table[{i}]"]) for i, (load, _) in enumerate(rule.table)
        ]
        return Contention(table=points)
    if rule.kinds is not None:
        both = ("pressure", "sensitivity")
        kinds = {
            name: {what: values[f"contention.kinds.{name}.{what}"] for what in both}
            for name in rule.kinds
        }
        return Contention(kinds=kinds, within=rule.within)
    return rule


def _list_power_values(platform: Platform) -> Iterator[ModelValue]:
    """List the values of the power model, if all hosts have the same one."""
    models = [host.power for _, host in platform.hosts()]
    first = models[0] if models else None
    if first is None or any(model != first for model in models):
        return
    for what, field in _POWER_FIELDS.get(first.model, {}).items():
        is_exclusive = field == "r"
        yield ModelValue(
            f"power.{what}", getattr(first, field), is_exclusive=is_exclusive, native_name=what
        )


def _build_overrides(scenario: Scenario, values: Mapping[str, float]) -> dict[str, float]:
    """Return the power values as overrides of the platform."""
    clusters = scenario.effective_platform().clusters if values else ()
    return {
        f"clusters[{i}].hosts[{j}].power.{_POWER_FIELDS[host.power.model][what]}": value
        for i, cluster in enumerate(clusters)
        for j, host in enumerate(cluster.hosts)
        if host.power is not None
        for what, value in values.items()
    }


def _to_floats(given: Any, field: str) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("must be numbers", kind="wrong-type", field=field) from None


def _describe_bound(minimum: float, *, is_exclusive: bool) -> str:
    if minimum:
        return f"at least {minimum:g}"
    return "positive" if is_exclusive else "not negative"
