"""Unidentifiable values of a fit, and their influence on the makespan of a scenario."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.calibration.cases import make_value_columns
from twinloop.calibration.parameters.values import declare_values, is_model_value
from twinloop.engine import CompiledScenario
from twinloop.exploration.extrapolation.load_levels import LoadLevels
from twinloop.scenario import Scenario

if TYPE_CHECKING:
    from twinloop.calibration import Fit

#: Maximum number of draws with which the influence of a value is computed.
_MAX_DRAWS: Final = 64


class FittedRange:
    """The load levels of the runs of a fit, and the influence of values on their makespans.

    >>> from twinloop.calibration import calibrate
    >>> from twinloop.engine import simulate
    >>> plain = Scenario(platform="2x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "run_time": 5, "kind": "cache"}]})
    >>> fit = calibrate(simulate(plain), parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=20, analysis=0)
    >>> FittedRange.of(fit).levels.tasks
    {'cache': 1}
    >>> FittedRange.of(fit) is FittedRange.of(fit)
    True
    """

    def __init__(self, fit: Fit, *, allow_code: bool = False) -> None:
        self.levels = LoadLevels.of(
            CompiledScenario(each, allow_code=allow_code) for each in fit.scenarios
        )
        self._allow_code = allow_code
        self._changes: dict[tuple[str, ...], float] = {}

    @classmethod
    def of(cls, fit: Fit, *, allow_code: bool = False) -> FittedRange:
        """Return the range of a fit, cached for the lifetime of the fit as it needs simulations."""
        key = id(fit)
        cached = _CACHE.get(key)
        if cached is not None and cached[0]() is fit:
            return cached[1]
        fitted_range = cls(fit, allow_code=allow_code)
        _CACHE[key] = (weakref.ref(fit, lambda _: _CACHE.pop(key, None)), fitted_range)
        return fitted_range

    def compute_change(self, fit: Fit, names: Sequence[str]) -> float:
        """Compute the maximum relative change of the makespan of a fitted run with these values."""
        key = tuple(names)
        if key not in self._changes:
            self._changes[key] = max(
                compute_makespan_change(
                    compile_with_fit(each, fit, allow_code=self._allow_code), fit, names
                )
                for each in fit.scenarios
            )
        return self._changes[key]


_CACHE: dict[int, tuple[weakref.ref[Fit], FittedRange]] = {}


class UnidentifiedValues:
    """The values of a scenario that come from a fit and are not identifiable."""

    def __init__(self, fit: Fit, compiled: CompiledScenario) -> None:
        paths = [name for name in fit.values if name not in compiled.value_names]
        values = dict(zip(compiled.value_names, compiled.values().tolist(), strict=True)) | {
            name: own
            for name in paths
            if compiled.is_value(name) and (own := compiled.own_value(name)) is not None
        }
        #: The names of values that equal those of the fit; the scenario sets the others itself.
        self.fitted = {
            name
            for name, value in values.items()
            if math.isclose(value, fit.values.get(name, -1.0))
        }
        identifiability = fit.identifiability
        #: Whether the identifiability was analysed and draws exist.
        self.analysed = identifiability is not None and fit.draws is not None
        #: The unidentifiable values, grouped if they compensate each other.
        self.groups: list[tuple[str, ...]] = []
        # Values that an unfinished analysis has not examined count as unidentifiable.
        names = (
            (*identifiability.unidentifiable, *identifiability.unknown) if identifiability else ()
        )
        ungrouped = [name for name in names if name in self.fitted]
        for group in identifiability.groups if identifiability else ():
            names_in_group = tuple(name for name in group if name in self.fitted)
            if set(names_in_group) & set(ungrouped):
                self.groups.append(names_in_group)
                ungrouped = [name for name in ungrouped if name not in names_in_group]
        self.groups += [(name,) for name in ungrouped]


def compile_with_fit(scenario: Scenario, fit: Fit, *, allow_code: bool = False) -> CompiledScenario:
    """Compile a scenario so that all values of the fit can be varied."""
    names = (
        [] if fit.draws is None else [name for name in fit.draws.columns if is_model_value(name)]
    )
    return CompiledScenario(declare_values(scenario, names), allow_code=allow_code)


def compute_makespan_change(compiled: CompiledScenario, fit: Fit, names: Sequence[str]) -> float:
    """Compute the 90 % range of the makespan over the draws of these values, by its median.

    It is 0 if the fit has no draws or the scenario does not use these values.
    """
    draws = fit.draws
    if draws is None:
        return 0.0
    chosen = np.unique(np.linspace(0, draws.height - 1, _MAX_DRAWS).round().astype(np.intp))
    values = {
        name: draws[name].to_numpy()[chosen]
        for name in names
        if name in draws.columns and compiled.is_value(name)
    }
    if not values:
        return 0.0
    columns = make_value_columns(compiled, len(chosen), values)
    if compiled.is_native:
        makespans = compiled.run_many(columns, outputs=["makespan_s"])["makespan_s"]
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        makespans = np.array([compiled.run(row)["makespan_s"] for row in rows])
    makespans = makespans[np.isfinite(makespans)]
    if not len(makespans):
        return 0.0
    low, median, high = np.quantile(makespans, [0.05, 0.5, 0.95])
    return float((high - low) / median) if median > 0 else 0.0
