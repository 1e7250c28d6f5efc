"""Checks of the factors of a study over real executions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from twinloop.description.address import address_from_path
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.exploration.executions.cross_validation import BOOTS, RUN_TIMES, resolve_models
from twinloop.exploration.factors.factors import Factor, list_changes
from twinloop.workload.injection import resolve_injection

#: The factors with a meaning of their own: the executions, the injected keys, and the models that
#: are fitted to other executions.
RUN: Final = "run"
INJECT: Final = "inject"
FIT: Final = "fit"
#: What to do if one of them is missing or wrong.
REMEDIES: Final = {
    RUN: "add one: run: [executions/]",
    INJECT: "name what is taken from the executions: inject: [best, predictions]",
    FIT: "name what is fitted to other executions: fit: [boots, [boots, run_times]]",
}
#: What each of them can have. The paths of stored studies have their given text as names.
_APPLICABLE: Final = {"levels", "names"}
_EXPECTED: Final = {
    RUN: "the path of a file or folder, or a pattern",
    INJECT: "the name of a preset, or a list of keys",
    FIT: "a model, or a list of models",
}
_RESOLVE: Final[Mapping[str, Callable[[Any], object]]] = {
    INJECT: resolve_injection,
    FIT: resolve_models,
}
#: The fields that the fitted models replace, as they are named in the address of a field.
_FITTED_FIELDS: Final = {BOOTS: ("boot", "shortage"), RUN_TIMES: ("prediction_errors",)}
#: The only field of a workload that an execution does not replace.
_ERRORS: Final = ("workload", "prediction_errors")


def check_levels_given(findings: ProblemCollector, name: str, levels: Any) -> None:
    """Add a problem if there are no levels, or something that cannot be some."""
    is_list = isinstance(levels, list | tuple | Mapping | Factor) or levels is None
    if not is_list:
        findings.add((name,), "must be a list", REMEDIES[name], kind="wrong-type")
    elif not levels:
        findings.add((name,), "names nothing", REMEDIES[name], kind="missing-field")


def check_factors(findings: ProblemCollector, factors: Mapping[str, Factor]) -> None:
    """Add the problems of the factors of a study over real executions."""
    for name, remedy in REMEDIES.items():
        if name in factors:
            _check_own_factor(findings, name, factors[name])
        elif name == RUN or (name == INJECT and FIT not in factors):
            findings.add(("factors",), f"has no factor `{name}`", remedy, kind="missing-field")
    fitted = set(_list_fitted(factors))
    for name, factor in factors.items():
        if name not in REMEDIES:
            _check_further_factor(findings, name, factor, fitted)


def _check_own_factor(findings: ProblemCollector, name: str, factor: Factor) -> None:
    if factor.range is not None:
        problem = "must be a list"
        findings.add(("factors", name), problem, REMEDIES[name], kind="wrong-type")
    for key in sorted(factor.model_fields_set - {*_APPLICABLE, "range"}):
        findings.add(
            ("factors", name, key),
            f"does not apply to the factor `{name}`",
            "remove it",
            kind="no-effect",
        )
    for index, level in enumerate(factor.levels):
        address = ("factors", name, "levels", index)
        is_name = isinstance(level, str) and (name != RUN or level != "")
        is_list = isinstance(level, list | tuple) and all(isinstance(key, str) for key in level)
        if not is_name and (name == RUN or not is_list):
            findings.add(address, f"must be {_EXPECTED[name]}", kind="wrong-type")
        elif name != RUN:
            try:
                _RESOLVE[name](level)
            except InputError as error:
                findings.add_error(address, error)


def _list_fitted(factors: Mapping[str, Factor]) -> Iterator[str]:
    """List the models that are fitted; what is no model is reported elsewhere."""
    for level in factors[FIT].levels if FIT in factors else ():
        if isinstance(level, str | list | tuple):
            yield from (level,) if isinstance(level, str) else map(str, level)


def _check_further_factor(
    findings: ProblemCollector, name: str, factor: Factor, fitted: set[str]
) -> None:
    """Add the problem of a factor that changes what executions or fitted models replace."""
    for value in factor.levels or factor.range or ():
        try:
            addresses = [address_from_path(path) for path in list_changes(name, factor, value)]
        except InputError:
            return  # reported with the design
        for address in addresses:
            if problem := _explain_no_effect(address, fitted):
                findings.add(("factors", name), *problem, kind="no-effect")
                return


def _explain_no_effect(address: tuple[str | int, ...], fitted: set[str]) -> tuple[str, str] | None:
    """Explain why a field has no effect, and what to do; None: it has one."""
    if address[0] == "workload" and address[:2] != _ERRORS:
        problem = "has no effect: each execution is the workload"
        return problem, "remove it; `inject` says what is taken from the executions"
    for model in sorted(fitted):
        if set(_FITTED_FIELDS.get(model, ())) & set(address):
            problem = f"has no effect on sets with fitted {model}, which replace it"
            return problem, f"study it without {model} in `fit`"
    return None
