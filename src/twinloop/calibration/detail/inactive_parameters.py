"""Parameters that a version of a scenario does not have, or does not use."""

from __future__ import annotations

from collections.abc import Iterable

from twinloop.calibration.parameters.values import find_number_type, get_value
from twinloop.description.errors import InputError
from twinloop.scenario import Scenario, detail
from twinloop.scenario.parameters import find_parameter


def find_inactive_parameters(scenario: Scenario, names: Iterable[str]) -> list[str]:
    """Find the parameters, of these names, that a scenario does not have or does not use.

    >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
    >>> find_inactive_parameters(scenario, ["speed_factor", "contention.linear.slope"])
    ['contention.linear.slope']
    """
    listed = list(names)
    unused = detail.find_inactive_parameters(scenario, listed)
    return [name for name in listed if name in unused or not _has_parameter(scenario, name)]


def _has_parameter(scenario: Scenario, name: str) -> bool:
    found = find_parameter(name)
    if found is None or found[0].is_path:
        try:
            return get_value(scenario, name) is not None
        except InputError:  # not a path, which the calibration reports
            return True
    row, keys = found
    if row.is_shared_power:
        return find_number_type(scenario, name) is not None
    # Every kind of task has a service factor, also one that the model does not name.
    if row.is_common or row.steps[0] == "service_factors":
        return True
    return get_value(scenario, f"model.{row.model_path(keys)}") is not None
