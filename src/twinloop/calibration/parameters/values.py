"""Values by name: model parameters, numbers of the platform, or other paths in a scenario."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from twinloop.description.address import address_from_path
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberType, find_number
from twinloop.scenario import Scenario
from twinloop.scenario.model_values import (
    find_power_type,
    is_number_path,
    platform_address,
    set_model_values,
)
from twinloop.scenario.parameters import MODEL_VALUES, PARAMETERS, PLATFORM, find_parameter

_MODEL: Final = "model."
#: Parts of a scenario that a path may begin with.
SCENARIO_PARTS: Final = (_MODEL, PLATFORM, "policy.", "source.", "workload.", "failures.")
#: The values of the power model that all hosts share.
POWER_VALUES: Final = tuple(row.name for row in PARAMETERS.values() if row.is_shared_power)


def is_model_value(name: str) -> bool:
    """Whether a name is a value of the model, not a path.

    >>> is_model_value("speed_factor"), is_model_value("contention.kinds.cache.pressure")
    (True, True)
    >>> is_model_value("platform.clusters[0].hosts[0].mhz")
    False
    """
    found = find_parameter(name)
    return found is not None and not found[0].is_path


def may_vary(name: str) -> bool:
    """Whether runs of a compiled scenario may take this value: of the model, or of the platform.

    >>> may_vary("platform.clusters[0].hosts[0].mhz"), may_vary("policy.options.depth")
    (True, False)
    """
    return is_model_value(name) or name.startswith(PLATFORM)


def is_power_value(name: str) -> bool:
    """Whether a value belongs to a power model, so that the times of runs do not depend on it.

    >>> is_power_value("power.idle"), is_power_value("platform.clusters[1].hosts[0].power.idle")
    (True, True)
    """
    found = find_parameter(name)
    return found is not None and not found[0].changes_schedule


def find_number_type(scenario: Scenario, name: str) -> NumberType | None:
    """Find the unit and the bounds of a value; None if the name is not that of a number.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> find_number_type(scenario, "platform.clusters[0].hosts[0].mhz").unit
    'MHz'
    """
    found = find_parameter(name)
    if found is not None and found[0].is_shared_power:
        return find_power_type(scenario.effective_platform(), found[0])
    if found is not None and not found[0].is_path:
        return found[0].number_type
    address = platform_address(name)
    if address is not None:
        number = find_number(scenario.effective_platform(), address)
    elif name.startswith(SCENARIO_PARTS):
        number = find_number(scenario, address_from_path(name))
    else:
        number = None
    return None if number is None else number.type


def set_values(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Set values by name in a scenario; numbers of the platform become overrides of the model.

    >>> scenario = Scenario(platform="2x8@2GHz", policy="easy", workload="log.swf")
    >>> set_values(scenario, {"speed_factor": 1.07}).model.speed_factor
    1.07
    >>> set_values(scenario, {"platform.clusters[0].hosts[0].mhz": 2100.0}).model.overrides
    {'clusters[0].hosts[0].mhz': 2100.0}
    """
    changes: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name in values:
        if name.startswith(_MODEL) and name.removeprefix(_MODEL) in values:
            raise InputError(
                f"'{name.removeprefix(_MODEL)}' and '{name}' are the same number",
                kind="duplicate-name",
                field="parameters",
                remedy="give one of them",
            )
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_model_value(name) or (is_number and is_number_path(scenario, name)):
            numbers[name] = value
        elif name.startswith(SCENARIO_PARTS):
            changes[name] = value
        else:
            raise InputError(
                f"'{name}' is neither a value of the model nor a path in the scenario",
                kind="unknown-name",
                field="parameters",
                remedy=f"one of {', '.join(MODEL_VALUES)}, contention..., service_factors.KIND, "
                f"{', '.join(POWER_VALUES)}, or a path such as platform.clusters[0].hosts[0].mhz",
            )
    scenario = declare_values(scenario, [*select_model_names(changes), *numbers])
    return set_model_values(scenario.replace(**changes) if changes else scenario, numbers)


def get_value(scenario: Scenario, path: str) -> Any:
    """Get the value at a path in a scenario; None if the path does not exist.

    >>> get_value(Scenario(platform="2x8", policy="easy", workload="log.swf"), "policy.name")
    'easy'
    """
    if is_number_path(scenario, path):
        number = find_number(scenario.effective_platform(), platform_address(path) or ())
        return None if number is None else number.value
    value: Any = scenario
    for step in address_from_path(path):
        try:
            value = (
                value[step]
                if not isinstance(step, str) or isinstance(value, dict)
                else (getattr(value, step))
            )
        except (KeyError, IndexError, AttributeError, TypeError):
            return None
    return value


def select_model_names(changes: Mapping[str, Any]) -> Collection[str]:
    """Select the names of model values from changes of a scenario."""
    return [name.removeprefix(_MODEL) for name in changes if name.startswith(_MODEL)]


def declare_values(scenario: Scenario, names: Collection[str]) -> Scenario:
    """Declare values in the model of a scenario, so that they can be set in its compiled form.

    Declared values have defaults without effect.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> declare_values(scenario, ["contention.kinds.cache.sensitivity"]).model.contention.kinds
    {'cache': KindContention(pressure=1.0, sensitivity=0.0)}
    """
    model = scenario.model
    contention_rule = model.contention
    kinds = {
        str(kind)
        for name in names
        for what in ("pressure", "sensitivity")
        for kind in (PARAMETERS[f"contention.kinds.<kind>.{what}"].match(name) or {}).values()
    }
    if missing := kinds - set(contention_rule.kinds or {}):
        if contention_rule.linear is not None or contention_rule.table is not None:
            raise InputError(
                "contention by kind cannot be combined with the contention rule of the scenario",
                kind="conflicting-fields",
                field="model.contention",
                remedy="remove one of them",
            )
        new_kinds: dict[str, Any] = dict(contention_rule.kinds or {})
        new_kinds |= {kind: {"pressure": 1.0, "sensitivity": 0.0} for kind in sorted(missing)}
        contention = {
            "kinds": new_kinds,
            "within": contention_rule.within if contention_rule.kinds else "core",
        }
        model = model.replace(contention=contention)
    if "contention.linear.slope" in names and contention_rule.linear is None:
        model = model.replace(contention={"linear": {"slope": 0.0}})
    factor = PARAMETERS["service_factors.<kind>"]
    kinds_of_factors = {str(kind) for name in names for kind in (factor.match(name) or {}).values()}
    if missing_factors := kinds_of_factors - set(model.service_factors):
        factors = dict(model.service_factors) | dict.fromkeys(
            sorted(missing_factors), factor.default
        )
        model = model.replace(service_factors=factors)
    return scenario.replace(model=model) if model != scenario.model else scenario
