"""Values by name: values of the Model, or paths in a scenario."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from twinloop.description.address import address_from_path
from twinloop.description.errors import InputError
from twinloop.scenario import Scenario
from twinloop.scenario.parameters import MODEL_VALUES

#: Parts of a scenario that a path may begin with.
SCENARIO_PARTS: Final = ("model.", "platform.", "policy.", "source.", "workload.", "failures.")
_CONTENTION = re.compile(r"contention\.(linear|table|kinds)\b")
_KIND = re.compile(r"contention\.kinds\.(?P<kind>.+)\.(?P<what>pressure|sensitivity)")
_TABLE = re.compile(r"contention\.table\[(?P<row>[0-9]+)\]")
#: The values of the power model that all hosts share.
POWER_VALUES: Final = ("power.idle", "power.max", "power.parameter")


def is_model_value(name: str) -> bool:
    """Whether a name is a value of the model, which can be changed without a new compilation.

    >>> is_model_value("speed_factor"), is_model_value("contention.kinds.cache.pressure")
    (True, True)
    >>> is_model_value("platform.clusters[0].hosts[0].mhz")
    False
    """
    return (
        name in MODEL_VALUES
        or name in POWER_VALUES
        or name.startswith("service_factors.")
        or _CONTENTION.match(name) is not None
    )


def set_values(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Set values by name in a scenario.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> set_values(scenario, {"speed_factor": 1.07}).model.speed_factor
    1.07
    """
    changes: dict[str, Any] = {}
    overrides = dict(scenario.model.overrides)
    table = scenario.model.contention.table
    for name, value in values.items():
        if name in POWER_VALUES:
            overrides |= dict.fromkeys(find_power_paths(scenario, name), value)
        elif (row := _TABLE.fullmatch(name)) and table is not None:
            index = int(row["row"])
            table = tuple(
                (load, value if i == index else old) for i, (load, old) in enumerate(table)
            )
            changes["model.contention.table"] = table
        elif is_model_value(name):
            changes[f"model.{name}"] = value
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
    if overrides != scenario.model.overrides:
        changes["model.overrides"] = overrides
    return (
        declare_values(scenario, select_model_names(changes)).replace(**changes)
        if changes
        else scenario
    )


def get_value(scenario: Scenario, path: str) -> Any:
    """Get the value at a path in a scenario; None if the path does not exist.

    >>> get_value(Scenario(platform="2x8", policy="easy", workload="log.swf"), "policy.name")
    'easy'
    """
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
    return [name.removeprefix("model.") for name in changes if name.startswith("model.")]


def declare_values(scenario: Scenario, names: Collection[str]) -> Scenario:
    """Declare values in the model of a scenario, so that they can be set in its compiled form.

    Declared values have defaults without effect.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> declare_values(scenario, ["contention.kinds.cache.sensitivity"]).model.contention.kinds
    {'cache': KindContention(pressure=1.0, sensitivity=0.0)}
    """
    model = scenario.model
    contention_rule = model.contention
    kinds = {found["kind"] for name in names if (found := _KIND.fullmatch(name))}
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
    prefix = "service_factors."
    kinds_of_factors = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    if missing_factors := kinds_of_factors - set(model.service_factors):
        factors = dict(model.service_factors) | dict.fromkeys(sorted(missing_factors), 1.0)
        model = model.replace(service_factors=factors)
    return scenario.replace(model=model) if model != scenario.model else scenario


def find_power_paths(scenario: Scenario, name: str) -> list[str]:
    """Find the paths of a value of the power model in the platform, one per group of hosts."""
    field = name.removeprefix("power.")
    paths = []
    for c, cluster in enumerate(scenario.platform.clusters):
        for h, host in enumerate(cluster.hosts):
            if host.power is None:
                continue
            fields = type(host.power).model_fields
            field_names = {"parameter": "r" if "r" in fields else "a"}
            field_names |= {"idle": "power"} if "power" in fields else {}
            paths.append(f"clusters[{c}].hosts[{h}].power.{field_names.get(field, field)}")
    return paths
