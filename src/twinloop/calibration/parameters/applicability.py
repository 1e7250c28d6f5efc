"""Check that the scenarios have the values to be fitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinloop.calibration.cases import Case
from twinloop.calibration.parameters.kinds import (
    ExponentialParameter,
    LinearParameter,
    Parameter,
)
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import (
    POWER_VALUES,
    SCENARIO_PARTS,
    find_number_type,
    is_model_value,
    set_values,
)
from twinloop.description import text as text_of
from twinloop.description.address import address_to_path, suggest_name
from twinloop.description.errors import InputError
from twinloop.description.number_fields import list_numbers, require_number
from twinloop.scenario.model_values import platform_address
from twinloop.scenario.parameters import MODEL_VALUES, PLATFORM, find_parameter


def refuse_inapplicable(space: Space, cases: Sequence[Case], given: Any = None) -> None:
    """Raise an error if a scenario does not have a parameter, before any simulation.

    Args:
        space: The parameters.
        cases: The cases that they are applied to.
        given: The argument of the user; if it is a file, the error has the file and the line.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> case = Case.of([simulate(scenario)])
    >>> refuse_inapplicable(Space([LinearParameter("startup_overhed", 0, 1)]), [case])
    Traceback (most recent call last):
    twinloop.InputError: parameters.startup_overhed: is neither a value of the model nor a
        path in the scenario (did you mean 'startup_overhead'?) [TL0808]
    """
    for parameter in space:
        if found := _find_problem(parameter, cases):
            problem, remedy = found
            raise InputError(
                problem,
                kind="not-applicable",
                file=given if isinstance(given, str | Path) else None,
                line=_find_line(given, parameter.name),
                field=f"parameters.{parameter.name}",
                remedy=remedy,
            )


def _find_problem(parameter: Parameter, cases: Sequence[Case]) -> tuple[str, str | None] | None:
    """Return the problem with the parameter and its remedy; None if it can be fitted."""
    name = parameter.name
    if unknown := describe_unknown_name(name, cases):
        return unknown
    found = find_parameter(name)
    if found is not None and "kind" in found[1]:
        kind = str(found[1]["kind"])
        kinds = sorted({each for case in cases for each in case.compiled.names.kinds if each})
        if kind not in kinds:
            return f"no task has the kind '{kind}'", suggest_name(kind, kinds)
    for case in cases:
        if name in POWER_VALUES and name not in case.compiled.value_names:
            return f"the hosts of {case.name} do not share a power model with this value", None
        if found_problem := _find_range_problem(parameter, case):
            return found_problem, None
        try:
            set_values(case.scenario, {name: parameter.decode(0.5)})
        except InputError as error:
            return error.problem, error.remedy
    return None


def describe_unknown_name(name: str, cases: Sequence[Case]) -> tuple[str, str | None] | None:
    """Describe why no parameter has this name: problem and remedy; None if one may have it."""
    if name.startswith(SCENARIO_PARTS) or is_model_value(name):
        return None
    paths = [
        PLATFORM + address_to_path(number.address)
        for case in cases[:1]
        for number in list_numbers(case.scenario.effective_platform())
    ]
    problem = "is neither a value of the model nor a path in the scenario"
    return problem, suggest_name(name, [*MODEL_VALUES, *POWER_VALUES, *paths])


def describe_missing_default(name: str, cases: Sequence[Case]) -> tuple[str, str | None]:
    """Describe why a parameter has no default range: problem and remedy."""
    if unknown := describe_unknown_name(name, cases):
        return unknown
    try:
        if (address := platform_address(name)) is not None:
            require_number(cases[0].scenario.effective_platform(), address, prefix=PLATFORM)
    except InputError as error:
        return error.problem, error.remedy
    problem = "has no default range, because it has no value in the scenario"
    return problem, "give a range, such as linear: [0.5, 2]"


def _find_range_problem(parameter: Parameter, case: Case) -> str | None:
    """Return the problem of a range that exceeds the bounds of the value; None if it does not."""
    if not isinstance(parameter, LinearParameter | ExponentialParameter):
        return None
    bounds = find_number_type(case.scenario, parameter.name)
    if bounds is None or (bounds.minimum <= parameter.low and parameter.high <= bounds.maximum):
        return None
    wrong = parameter.high if parameter.high > bounds.maximum else parameter.low
    return f"its range: {bounds.describe_violation(wrong)}"


def _find_line(given: Any, name: str) -> int | None:
    if not isinstance(given, str | Path):
        return None
    return text_of.load_document(Path(given)).line(("parameters", name))
