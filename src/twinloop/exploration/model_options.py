"""Options of the Model: parts that can be switched on or off, and that are fitted when on."""

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

#: Upper limit of a fitted latency (s).
_MAX_LATENCY: Final = 1.0
#: Range of a fitted speed or service factor.
_FACTOR_RANGE: Final = (0.5, 2.0)
#: The latencies, which recorded runs may contain as measurements.
_LATENCY_FIELDS: Final = ("dispatch_latency", "release_latency")


@dataclass(frozen=True)
class ModelOption:
    """A part of the Model that can be switched on or off.

    >>> start_up.name, start_up.is_on(Model(startup_overhead=0.5), (), ())
    ('start-up overhead', True)
    """

    name: str
    #: The fields of the model that it sets.
    fields: tuple[str, ...]
    #: A function that lists the parameters to fit to these runs when it is on.
    list_parameters: Callable[[Sequence[Case]], list[Parameter]] = field(compare=False)
    #: The values that are set when it is on, by field.
    fixed_values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    #: Whether its values may be measured: if the runs recorded them, they are used instead of
    #: fitted ones.
    measured: bool = False

    def is_applicable(self, cases: Sequence[Case]) -> bool:
        """Whether the option has an effect for these runs."""
        return bool(self.measured or self.fixed_values or self.list_parameters(cases))

    def is_on(self, model: Model, fitted: Iterable[str], runs: Sequence[Trace]) -> bool:
        """Whether a field of the option was fitted, differs from its default, or is measured."""
        if any(name.split(".")[0] in self.fields for name in fitted):
            return True
        default = Model()
        if any(getattr(model, name) != getattr(default, name) for name in self.fields):
            return True
        return self.measured and bool(average_latencies(runs))

    def switch_off(self, model: Model) -> Model:
        """Return the model with the option off."""
        default = Model()
        return model.replace(**{name: getattr(default, name) for name in self.fields})


def _list_kinds(cases: Sequence[Case]) -> list[str]:
    return sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})


def _list_contention_parameters(cases: Sequence[Case]) -> list[Parameter]:
    kinds = _list_kinds(cases)
    if not kinds:
        return [LinearParameter("contention.linear.slope", 0.0, 1.0)]
    parameters: list[Parameter] = []
    for kind in kinds:
        # Only products of pressure and sensitivity are identifiable: one kind needs no pressure.
        if len(kinds) > 1:
            parameters.append(LinearParameter(f"contention.kinds.{kind}.pressure", 0.0, 1.0))
        parameters.append(LinearParameter(f"contention.kinds.{kind}.sensitivity", 0.0, 1.0))
    return parameters


def _list_start_up_parameters(cases: Sequence[Case]) -> list[Parameter]:
    return [each for each in choose_default_space(cases) if each.name == "startup_overhead"]


def _list_latency_parameters(cases: Sequence[Case]) -> list[Parameter]:
    if average_latencies([trace for case in cases for trace in case.traces]):
        return []  # they are measured
    return [LinearParameter(name, 0.0, _MAX_LATENCY) for name in _LATENCY_FIELDS]


def _list_service_parameters(cases: Sequence[Case]) -> list[Parameter]:
    return [
        each for each in choose_default_space(cases) if each.name.startswith("service_factors.")
    ]


def _list_speed_parameters(cases: Sequence[Case]) -> list[Parameter]:
    single = [each for each in choose_default_space(cases) if each.name == "service_factor"]
    return single or [LinearParameter("service_factor", *_FACTOR_RANGE)]


contention = ModelOption("contention", ("contention",), _list_contention_parameters)
start_up = ModelOption("start-up overhead", ("startup_overhead",), _list_start_up_parameters)
latencies = ModelOption(
    "latencies of the scheduler", _LATENCY_FIELDS, _list_latency_parameters, measured=True
)
services = ModelOption("service by kind", ("service_factors",), _list_service_parameters)
speed = ModelOption("speed", ("speed_factor", "service_factor"), _list_speed_parameters)
no_delay = ModelOption(
    "sharing without delay", ("sharing",), lambda cases: [], {"sharing": "no-delay"}
)

#: The default options of a diagnosis.
DEFAULT_OPTIONS: Final = (contention, start_up, latencies, services, speed, no_delay)


@dataclass(frozen=True)
class FittedOptions:
    """A model with some options on, its fitted values, and their loss."""

    model: Model
    values: Mapping[str, Any]
    loss: float


class OptionFitter:
    """Fits of one model to the same runs with different options on.

    A scenario is compiled once per model, with the parameters of all options declared, so that all
    fits with that model share it.
    """

    def __init__(
        self,
        runs: Sequence[Trace],
        model: Model,
        options: Sequence[ModelOption] = DEFAULT_OPTIONS,
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
            # Runs are grouped by scenario without its model, which is replaced in each fit.
            declared = {**read_declared_scenario(trace).to_manifest(), "model": None}
            groups.setdefault(json.dumps(declared, sort_keys=True, default=str), []).append(trace)
        self._groups = tuple(groups.values())
        self._cases: dict[Model, list[Case]] = {}
        self._compiled: dict[tuple[Model, Scenario], CompiledScenario] = {}
        #: The names of the parameters of all options, known after the first compilation.
        self._names: tuple[str, ...] = ()
        #: The runs by scenario, with all options off.
        self.cases = self._get_cases(self._make_model({}))
        self._names = tuple(
            each.name for option in options for each in option.list_parameters(self.cases)
        )
        # Compiled without these names.
        self._cases.clear()

    def fit(self, on: Collection[ModelOption]) -> FittedOptions:
        """Fit the model with these options on and all others off."""
        changes: dict[str, Any] = {}
        for option in on:
            changes |= option.fixed_values
            changes |= self._measured if option.measured else {}
        model = self._make_model(changes)
        parameters = [
            each
            for option in self._options
            if option in on
            for each in option.list_parameters(self.cases)
        ]
        # Without free parameters, only the loss of the model is computed.
        space = Space(parameters or [LinearParameter("speed_factor", *_FACTOR_RANGE)])
        objective = TwinObjective(space, self._get_cases(model), get_loss(DEFAULT_LOSS))
        if not parameters:
            return FittedOptions(model, {}, objective.at({}))
        history = refine_by_least_squares(
            objective, minimise(objective, budget=self._budget, seed=self._seed)
        )
        return FittedOptions(model, history.best_values, history.best_loss)

    def compute_kpis(self, scenario: Scenario, fitted: FittedOptions) -> Mapping[str, float]:
        """Simulate a scenario with a fitted model and return its KPIs."""
        key = (fitted.model, scenario)
        if key not in self._compiled:
            changed = self._with_model(scenario, fitted.model)
            self._compiled[key] = CompiledScenario(changed, allow_code=self._allow_code)
        return self._compiled[key].run(dict(fitted.values))

    def _make_model(self, changes: Mapping[str, Any]) -> Model:
        """Return the model with all options off and these changes.

        Contention by kind is kept without an effect (sensitivity 0), so that it can be fitted.
        """
        model = self._model
        for option in self._options:
            model = option.switch_off(model)
        rule = self._model.contention
        if contention in self._options and rule.kinds is not None:
            kinds = {kind: {"pressure": 1.0, "sensitivity": 0.0} for kind in rule.kinds}
            model = model.replace(contention={"kinds": kinds, "within": rule.within})
        return model.replace(**changes) if changes else model

    def _with_model(self, scenario: Scenario, model: Model) -> Scenario:
        """Return the scenario with this model, and the parameters of all options declared."""
        # Overrides of the platform (power models) belong to the scenario, not to the model.
        own = model.replace(overrides=scenario.model.overrides)
        return declare_values(scenario.replace(model=own), self._names)

    def _get_cases(self, model: Model) -> list[Case]:
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
