"""Values of the model parameters in a scenario: listed from it, and set in it by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from twinloop.description.address import address_from_path, address_to_path
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberType, find_number, require_number
from twinloop.platform import Platform
from twinloop.platform.power import AnyPowerModel
from twinloop.scenario.model import Model
from twinloop.scenario.parameters import (
    MODEL_VALUES,
    PARAMETERS,
    PLATFORM,
    ModelParameter,
    find_parameter,
)
from twinloop.scenario.scenario import Scenario


class ModelValue(NamedTuple):
    """A value of a model parameter in a scenario."""

    name: str
    #: The value in the scenario.
    own: float
    type: NumberType
    parameter: ModelParameter
    #: The kind of task or the point of a table that the name leaves open.
    key: str | int | None = None


def list_model_values(
    model: Model, platform: Platform, kinds: Sequence[str] = ()
) -> list[ModelValue]:
    """List the values that runs of a scenario have by name, in the order of a row.

    First those of `MODEL_VALUES`, then those of the families that the scenario has.

    Args:
        model: The model of the scenario.
        platform: The platform with the overrides of the model.
        kinds: The kinds of tasks, each with a service factor.

    >>> values = list_model_values(Model(), Platform.parse("2x8"), ["cache"])
    >>> [value.name for value in values[-2:]]
    ['decision_interval', 'service_factors.cache']
    """
    factors = PARAMETERS["service_factors.<kind>"].default
    # All kinds of tasks have a service factor, also those that the model does not name.
    parts = {
        "service_factors": {kind: model.service_factors.get(kind, factors) for kind in kinds},
        "contention": model.contention,
        "submission": model.submission if model.detail.is_managed(model.submission) else None,
    }
    found: list[tuple[tuple[int, int, int], ModelValue]] = []
    prefixes: dict[str, int] = {}
    for order, row in enumerate(PARAMETERS.values()):
        if row.is_common:
            value = ModelValue(row.name, getattr(model, row.name), row.number_type, row)
            found.append(((order, 0, 0), value))
        elif not row.is_path and not row.is_shared_power:
            # Families of the same kind of task stand together: its pressure, its sensitivity.
            first = prefixes.setdefault(row.name.partition(">")[0], order)
            for place, (key, own) in enumerate(_expand(parts, row.steps)):
                name = row.fill({_placeholder(row): key}) if key is not None else row.name
                value = ModelValue(name, float(own), row.number_type, row, key)
                found.append(((first, place, order), value))
    found.sort(key=lambda each: each[0])
    return [*(value for _, value in found), *_list_shared_power(platform)]


def _placeholder(row: ModelParameter) -> str:
    return row.name.partition("<")[2].partition(">")[0]


def _expand(value: Any, steps: Address, key: Any = None) -> Iterator[tuple[Any, Any]]:
    """List the values at an address with placeholders, each with the key of its placeholder."""
    if value is None:
        return
    if not steps:
        yield key, value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, str) and step.startswith("<"):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for each, part in items:
            yield from _expand(part, rest, each)
    elif isinstance(step, str) and not isinstance(value, Mapping):
        yield from _expand(getattr(value, step), rest, key)
    else:
        yield from _expand(value[step], rest, key)


def _list_shared_power(platform: Platform) -> Iterator[ModelValue]:
    """List the values of the power model, if all hosts have the same one."""
    models = [host.power for _, host in platform.hosts()]
    first = models[0] if models else None
    if first is None or any(model != first for model in models):
        return
    for row in PARAMETERS.values():
        if row.is_shared_power and (field := find_power_field(row, first)):
            number = require_number(first, (field,))
            if number.value is not None:
                yield ModelValue(row.name, number.value, number.type, row)


def find_power_field(parameter: ModelParameter, model: AnyPowerModel) -> str | None:
    """Find the field of a power model that a parameter stands for; None if there is none.

    >>> from twinloop.platform.power import Constant
    >>> find_power_field(PARAMETERS["power.idle"], Constant(power=80))
    'power'
    """
    return next((each for each in parameter.fields if each in type(model).model_fields), None)


def find_power_type(platform: Platform, parameter: ModelParameter) -> NumberType | None:
    """Find the type of a value of the power model of the hosts; None if none has it."""
    for _, host in platform.hosts():
        if host.power is not None and (field := find_power_field(parameter, host.power)):
            return require_number(host.power, (field,)).type
    return None


def platform_address(name: str) -> Address | None:
    """Return the address in the platform of a value by path; None if the name is not a path.

    A path begins with `platform.`, or is the path of an override: `clusters[0].hosts[0].mhz`.

    >>> platform_address("platform.clusters[0].carbon"), platform_address("speed_factor")
    (('clusters', 0, 'carbon'), None)
    """
    first = name.partition("[")[0].partition(".")[0]
    if not name.startswith(PLATFORM) and (
        first not in Platform.model_fields or find_parameter(name)
    ):
        return None
    return address_from_path(name.removeprefix(PLATFORM))


def refuse_aliases(names: Iterable[str], field: str | None = None) -> None:
    """Raise an error if two names stand for the same number of the platform.

    >>> refuse_aliases(["platform.clusters[0].carbon", "clusters[0].carbon"])
    Traceback (most recent call last):
    twinloop.InputError: 'platform.clusters[0].carbon' and 'clusters[0].carbon' are the same number
        (give one of them) [TL0211]
    """
    seen: dict[Address, str] = {}
    for name in names:
        address = platform_address(name)
        if address is None:
            continue
        if address in seen:
            raise InputError(
                f"'{seen[address]}' and '{name}' are the same number",
                kind="duplicate-name",
                field=field,
                remedy="give one of them",
            )
        seen[address] = name


def is_number_path(scenario: Scenario, name: str) -> bool:
    """Whether a name is the path of a number of the platform.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> is_number_path(scenario, "platform.clusters[0].hosts[0].cores")
    True
    """
    try:
        address = platform_address(name)
    except InputError:
        return False
    return address is not None and find_number(scenario.effective_platform(), address) is not None


def set_model_values(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Set values of model parameters by name; numbers of the platform become overrides.

    >>> scenario = Scenario(platform="2x8@2400MHz", policy="easy", workload="log.swf")
    >>> values = {"speed_factor": 1.07, "platform.clusters[0].hosts[0].mhz": 3000.0}
    >>> changed = set_model_values(scenario, values).model
    >>> changed.speed_factor, changed.overrides
    (1.07, {'clusters[0].hosts[0].mhz': 3000.0})
    """
    refuse_aliases(values)
    changes: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        found = find_parameter(name)
        if found is not None and found[0].is_shared_power:
            shared |= dict.fromkeys(_list_power_paths(scenario, found[0]), value)
        elif found is not None and not found[0].is_path:
            changes[f"model.{found[0].model_path(found[1])}"] = value
        elif (address := platform_address(name)) is not None:
            number = require_number(scenario.effective_platform(), address, prefix=PLATFORM)
            by_path[address_to_path(address)] = (
                int(value) if number.type.is_whole and float(value).is_integer() else value
            )
        else:
            raise InputError(
                f"'{name}' is neither a model parameter nor a path in the platform",
                kind="unknown-name",
                remedy=f"one of {', '.join(MODEL_VALUES)}, or a path such as "
                "platform.clusters[0].hosts[0].mhz",
            )
    # Later overrides win: the value of one group of hosts comes after that of all hosts.
    new = {**{k: v for k, v in shared.items() if k not in by_path}, **by_path}
    kept = {k: v for k, v in scenario.model.overrides.items() if k not in by_path}
    overrides = {**kept, **new}
    if overrides != scenario.model.overrides:
        changes["model.overrides"] = overrides
    return scenario.replace(**changes) if changes else scenario


def _list_power_paths(scenario: Scenario, parameter: ModelParameter) -> Iterator[str]:
    """List the paths of a value of the power model, one per group of hosts that has it."""
    for c, cluster in enumerate(scenario.effective_platform().clusters):
        for h, host in enumerate(cluster.hosts):
            if host.power is None:
                continue
            if (field := find_power_field(parameter, host.power)) is not None:
                yield f"clusters[{c}].hosts[{h}].power.{field}"
