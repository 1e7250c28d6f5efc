"""Values that the data of a fit could not tell, and what they change in a scenario."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from twinloop.calibration.cases import make_value_rows
from twinloop.calibration.parameters.values import declare_values, is_model_value
from twinloop.engine import CompiledScenario
from twinloop.exploration.extrapolation.load_levels import LoadLevels
from twinloop.policy import BuiltInPolicy
from twinloop.scenario import Scenario

if TYPE_CHECKING:
    from twinloop.calibration import Fit

#: How many of the calibrations are tried to see what a value changes.
_TRIED: Final = 64


class FittedRange:
    """What the runs of a fit had, and how much of it values that it could not tell leave open.

    >>> from twinloop.calibration import calibrate
    >>> from twinloop.engine import simulate
    >>> plain = Scenario(platform="2x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "run_time": 5, "kind": "cache"}]})
    >>> fit = calibrate(simulate(plain), parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=20, analysis=0)
    >>> FittedRange.of(fit).seen.tasks
    {'cache': 1}
    >>> FittedRange.of(fit) is FittedRange.of(fit)
    True
    """

    def __init__(self, fit: Fit, *, allow_code: bool = False) -> None:
        self.seen = LoadLevels.of(
            CompiledScenario(each, allow_code=allow_code) for each in fit.scenarios
        )
        self._allow_code = allow_code
        self._open: dict[tuple[str, ...], float] = {}

    @classmethod
    def of(cls, fit: Fit, *, allow_code: bool = False) -> FittedRange:
        """That of a fit; it takes some simulations, and is kept as long as the fit is."""
        key = id(fit)
        kept = _kept.get(key)
        if kept is not None and kept[0]() is fit:
            return kept[1]
        made = cls(fit, allow_code=allow_code)
        _kept[key] = (weakref.ref(fit, lambda _: _kept.pop(key, None)), made)
        return made

    def open(self, fit: Fit, names: Sequence[str]) -> float:
        """What these values change in the makespans of the fitted runs themselves, at most."""
        key = tuple(names)
        if key not in self._open:
            self._open[key] = max(
                compute_makespan_change(
                    compile_with_fit(each, fit, allow_code=self._allow_code), fit, names
                )
                for each in fit.scenarios
            )
        return self._open[key]


_kept: dict[int, tuple[weakref.ref[Fit], FittedRange]] = {}


class UnidentifiedValues:
    """Which values of a scenario come from a fit whose data could not tell them."""

    def __init__(self, fit: Fit, compiled: CompiledScenario) -> None:
        own = dict(zip(compiled.value_names, compiled.values().tolist(), strict=True))
        #: The values that are as the fit has them; what a scenario sets itself is its own.
        self.fitted = {
            name for name, value in own.items() if math.isclose(value, fit.values.get(name, -1.0))
        }
        known = fit.identifiability
        #: Whether it is known what the data could tell.
        self.analysed = known is not None and fit.draws is not None
        #: The values that it could not; those that compensate each other together.
        self.groups: list[tuple[str, ...]] = []
        # What an unfinished analysis does not know counts as not told.
        untold = (*known.unidentifiable, *known.unknown) if known else ()
        left = [name for name in untold if name in self.fitted]
        for group in known.groups if known else ():
            here = tuple(name for name in group if name in self.fitted)
            if set(here) & set(left):
                self.groups.append(here)
                left = [name for name in left if name not in here]
        self.groups += [(name,) for name in left]


def compile_with_fit(scenario: Scenario, fit: Fit, *, allow_code: bool = False) -> CompiledScenario:
    """The scenario compiled so that all values of the fit can be varied."""
    names = (
        [] if fit.draws is None else [name for name in fit.draws.columns if is_model_value(name)]
    )
    return CompiledScenario(declare_values(scenario, names), allow_code=allow_code)


def compute_makespan_change(compiled: CompiledScenario, fit: Fit, names: Sequence[str]) -> float:
    """What values change in a makespan, relative to it, as nine in ten calibrations have them."""
    draws = fit.draws
    if draws is None:
        return 0.0
    rows = np.unique(np.linspace(0, draws.height - 1, _TRIED).round().astype(np.intp))
    values = {
        name: draws[name].to_numpy()[rows]
        for name in names
        if name in draws.columns and name in compiled.value_names
    }
    if not values:
        return 0.0
    tried = make_value_rows(compiled, len(rows), values)
    if isinstance(compiled.policy, BuiltInPolicy):
        found = compiled.run_many(tried, outputs=["makespan_s"])["makespan_s"]
    else:
        found = np.array([compiled.run(row)["makespan_s"] for row in tried])
    found = found[np.isfinite(found)]
    if not len(found):
        return 0.0
    low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
    return float((high - low) / middle) if middle > 0 else 0.0
