"""Options of the Model: parts of it that can be on or off, each fitted when it is on."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twinloop.calibration.cases import Case, average_latencies, read_declared_scenario
from twinloop.calibration.losses import DEFAULT_LOSS, get_loss
from twinloop.calibration.parameters.defaults import choose_default_space
from twinloop.calibration.parameters.kinds import LinearParameter, Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import declare_values
from twinloop.calibration.search.minimisation import minimise
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.stage import refine_by_least_squares
from twinloop.engine import CompiledScenario
from twinloop.scenario import Model, Scenario
from twinloop.trace import Trace

#: A latency is looked for up to this (s).
_LATENCY: Final = 1.0
_FACTORS: Final = (0.5, 2.0)
#: The latencies that runs measure.
_MEASURED: Final = ("dispatch_latency", "release_latency")


@dataclass(frozen=True)
class ModelOption:
    """A part of the Model that is on or off.

    >>> start_up.name, start_up.is_on(Model(startup_overhead=0.5), (), ())
    ('start-up overhead', True)
    """

    name: str
    #: The fields of the Model that it consists of.
    fields: tuple[str, ...]
    #: What is searched for when it is on.
    values: Callable[[Sequence[Case]], list[Parameter]] = field(compare=False)
    #: What is set when it is on, by field.
    set: Mapping[str, Any] = field(default_factory=dict, compare=False)
    #: Whether recorded runs measure it: then it is on with what they measured.
    measured: bool = False

    def serves(self, cases: Sequence[Case]) -> bool:
        """Whether it says anything about these runs."""
        return bool(self.measured or self.set or self.values(cases))

    def is_on(self, model: Model, fitted: Iterable[str], runs: Sequence[Trace]) -> bool:
        """Whether it is on in a model, or was free in the fit that made it."""
        if any(name.split(".")[0] in self.fields for name in fitted):
            return True
        usual = Model()
        if any(getattr(model, name) != getattr(usual, name) for name in self.fields):
            return True
        return self.measured and bool(average_latencies(runs))

    def off(self, model: Model) -> Model:
        """The model without it."""
        usual = Model()
        return model.replace(**{name: getattr(usual, name) for name in self.fields})


def _kinds(cases: Sequence[Case]) -> list[str]:
    return sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})


def _contention(cases: Sequence[Case]) -> list[Parameter]:
    kinds = _kinds(cases)
    if not kinds:
        return [LinearParameter("contention.linear.slope", 0.0, 1.0)]
    found: list[Parameter] = []
    for kind in kinds:
        # Only products of pressure and sensitivity show: one kind needs no pressure of its own.
        if len(kinds) > 1:
            found.append(LinearParameter(f"contention.kinds.{kind}.pressure", 0.0, 1.0))
        found.append(LinearParameter(f"contention.kinds.{kind}.sensitivity", 0.0, 1.0))
    return found


def _start_up(cases: Sequence[Case]) -> list[Parameter]:
    return [each for each in choose_default_space(cases) if each.name == "startup_overhead"]


def _latencies(cases: Sequence[Case]) -> list[Parameter]:
    if average_latencies([trace for case in cases for trace in case.traces]):
        return []  # they are measured, and need no search
    return [LinearParameter(name, 0.0, _LATENCY) for name in _MEASURED]


def _services(cases: Sequence[Case]) -> list[Parameter]:
    return [
        each for each in choose_default_space(cases) if each.name.startswith("service_factors.")
    ]


def _speed(cases: Sequence[Case]) -> list[Parameter]:
    single = [each for each in choose_default_space(cases) if each.name == "service_factor"]
    return single or [LinearParameter("service_factor", *_FACTORS)]


contention = ModelOption("contention", ("contention",), _contention)
start_up = ModelOption("start-up overhead", ("startup_overhead",), _start_up)
latencies = ModelOption("latencies of the scheduler", _MEASURED, _latencies, measured=True)
services = ModelOption("service by kind", ("service_factors",), _services)
speed = ModelOption("speed", ("speed_factor", "service_factor"), _speed)
no_delay = ModelOption(
    "sharing without delay", ("sharing",), lambda cases: [], {"sharing": "no-delay"}
)

#: The options that are tried unless others are given.
DEFAULTS: Final = (contention, start_up, latencies, services, speed, no_delay)


@dataclass(frozen=True)
class FittedOptions:
    """A model with some options on: what is set in it, the values that were found, their loss."""

    model: Model
    values: Mapping[str, Any]
    loss: float


class Refit:
    """Fits of one model to the same runs, with these or those options on.

    Scenarios are compiled with room for the values of all options, and so once for all of them, but
    for those that set what is no value.
    """

    def __init__(
        self,
        runs: Sequence[Trace],
        model: Model,
        options: Sequence[ModelOption] = DEFAULTS,
        *,
        budget: str | float = 400,
        seed: int = 0,
        allow_code: bool = False,
    ) -> None:
        self._model, self._options = model, tuple(options)
        self._budget, self._seed, self._allow_code = budget, seed, allow_code
        self._measured = average_latencies(runs)
        groups: dict[str, list[Trace]] = {}
        for trace in runs:
            # What a run was predicted with changes no run: all get the model that is tried.
            kept = {**read_declared_scenario(trace).to_manifest(), "model": None}
            groups.setdefault(json.dumps(kept, sort_keys=True, default=str), []).append(trace)
        self._groups = tuple(groups.values())
        self._cases: dict[Model, list[Case]] = {}
        self._compiled: dict[tuple[Model, Scenario], CompiledScenario] = {}
        self._names: tuple[str, ...] = ()
        #: The runs by their scenarios, with all options off.
        self.cases = self._cases_with(self._bare({}))
        found = (each.name for option in options for each in option.values(self.cases))
        self._names = tuple(found)
        self._cases.clear()

    def fitted(self, on: Collection[ModelOption]) -> FittedOptions:
        """The model with these options on and all others off."""
        changes: dict[str, Any] = {}
        for option in on:
            changes |= option.set
            changes |= self._measured if option.measured else {}
        model = self._bare(changes)
        free = [
            each for option in self._options if option in on for each in option.values(self.cases)
        ]
        # With nothing to search for, the loss of the model as it is remains.
        space = Space(free or [LinearParameter("speed_factor", *_FACTORS)])
        objective = TwinObjective(space, self._cases_with(model), get_loss(DEFAULT_LOSS))
        if not free:
            return FittedOptions(model, {}, objective.at({}))
        history = refine_by_least_squares(
            objective, minimise(objective, budget=self._budget, seed=self._seed)
        )
        return FittedOptions(model, history.best_values, history.best_loss)

    def kpis(self, scenario: Scenario, found: FittedOptions) -> Mapping[str, float]:
        """What a model that was fitted says of a scenario."""
        key = (found.model, scenario)
        if key not in self._compiled:
            told = self._with_model(scenario, found.model)
            self._compiled[key] = CompiledScenario(told, allow_code=self._allow_code)
        return self._compiled[key].run(dict(found.values))

    def _bare(self, changes: Mapping[str, Any]) -> Model:
        """The model with all options off, and what these set."""
        model = self._model
        for option in self._options:
            model = option.off(model)
        rule = self._model.contention
        if contention in self._options and rule.kinds is not None:
            kinds = {kind: {"pressure": 1.0, "sensitivity": 0.0} for kind in rule.kinds}
            model = model.replace(contention={"kinds": kinds, "within": rule.within})
        return model.replace(**changes) if changes else model

    def _with_model(self, scenario: Scenario, model: Model) -> Scenario:
        # What a platform draws is its own, whoever models the rest.
        own = model.replace(overrides=scenario.model.overrides)
        return declare_values(scenario.replace(model=own), self._names)

    def _cases_with(self, model: Model) -> list[Case]:
        if model not in self._cases:
            self._cases[model] = [
                Case.of(
                    traces,
                    scenario=self._with_model(read_declared_scenario(traces[0]), model),
                    allow_code=self._allow_code,
                )
                for traces in self._groups
            ]
        return self._cases[model]
