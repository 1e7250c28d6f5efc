"""Extrapolations of a scenario beyond the runs of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from twinloop.calibration.identifiability.advice import join_names
from twinloop.description.errors import TwinloopError
from twinloop.engine import CompiledScenario
from twinloop.exploration.extrapolation.load_levels import LoadLevels
from twinloop.exploration.extrapolation.unidentified_values import (
    FittedRange,
    UnidentifiedValues,
    compile_with_fit,
    compute_makespan_change,
)
from twinloop.scenario import Scenario
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration import Fit

#: Relative change of the makespan above which an unidentifiable value is reported, and the
#: minimum distance from the change in the fitted runs.
MIN_CHANGE: Final = 0.05
#: Relative difference up to which speeds and clock rates count as equal.
_SPEED_TOLERANCE: Final = 0.01
_CONTENTION: Final = "contention."


def find_extrapolations(
    scenario: Scenario, fit: Fit, *, allow_code: bool = False
) -> tuple[str, ...]:
    """Find the extrapolations of a scenario beyond the runs of a fit, as sentences.

    Extrapolations are: more simultaneous tasks on a core or a host than in any fitted run, unless
    the contention between them was fitted and is identifiable; kinds of tasks that do not occur in
    the fitted runs; hosts of another speed or clock rate; and values that are not identifiable and
    change the makespan, over the draws of the fit, by more than 5 %, and by more than 5 percentage
    points beyond the largest change in a fitted run. Values that compensate each other in the data
    are varied together, because they may also compensate each other in this scenario.

    The number of simultaneous tasks on a core comes from simulations of the scenario and of the
    fitted runs; a task that uses two cores counts twice.

    Args:
        scenario: The scenario to predict with the fit.
        fit: The fit.
        allow_code: Whether a policy named as `module:Class` may be imported and run.

    Returns:
        Sentences; empty if the scenario is within the range of the fitted runs.

    >>> from twinloop.calibration import calibrate
    >>> from twinloop.engine import simulate
    >>> tasks = [{"id": f"t{i}", "run_time": 1 + i} for i in range(8)]
    >>> plain = Scenario(platform="2x1", policy="pack-ic", workload={"tasks": tasks})
    >>> fit = calibrate(simulate(plain), parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=50, analysis=0)
    >>> find_extrapolations(plain, fit)
    ()
    >>> print(*find_extrapolations(plain.replace(**{"policy.options": {"overcommit": 2}}), fit))
    Up to 2 tasks per core run at the same time, but at most 1 in the fitted runs: the model has no
    contention between them.
    """
    if not fit.scenarios:
        return ("The fit is that of a black box, so the range of its runs is not known.",)
    try:
        fitted_range = FittedRange.of(fit, allow_code=allow_code)
    except TwinloopError as error:
        return (f"The fitted runs cannot be simulated any more: {error}",)
    # A scenario that has the fitted model already keeps values that were changed afterwards.
    has_fit = scenario.model.fitted_on == fit.model.fitted_on != ()
    compiled = compile_with_fit(
        scenario if has_fit else fit.apply(scenario), fit, allow_code=allow_code
    )
    case = _Case(
        fit, fitted_range, compiled, UnidentifiedValues(fit, compiled), LoadLevels.of([compiled])
    )
    higher_loads = tuple(_find_higher_loads(case))
    unidentified = [
        group
        for group in case.unidentified.groups
        if not (higher_loads and all(name.startswith(_CONTENTION) for name in group))
    ]
    return (
        *_find_new_kinds(case),
        *_find_new_hosts(case),
        *higher_loads,
        *_find_sensitive_values(case, unidentified),
    )


class _Case(NamedTuple):
    """A scenario, its load levels, and the range of the fitted runs."""

    fit: Fit
    fitted_range: FittedRange
    compiled: CompiledScenario
    unidentified: UnidentifiedValues
    levels: LoadLevels

    def compute_change(self, names: Sequence[str]) -> float:
        """Compute the relative change of the makespan with these values; 0 if it is too small."""
        change = compute_makespan_change(self.compiled, self.fit, names) if names else 0.0
        if change <= MIN_CHANGE:
            return 0.0
        fitted_change = self.fitted_range.compute_change(self.fit, names)
        return change if change > MIN_CHANGE + fitted_change else 0.0


# --- sentences -----------------------------------------------------------------------------------


def _find_new_kinds(case: _Case) -> Iterator[str]:
    fitted_levels = case.fitted_range.levels
    counts = case.compiled.workload.tasks["kind"].drop_nulls().value_counts(sort=True)
    for kind, count in sorted(counts.iter_rows()):
        if kind not in fitted_levels.load:
            yield (
                f"{format_count(count, 'task')} {'is' if count == 1 else 'are'} of the kind "
                f"'{kind}', which does not occur in the fitted runs: "
                f"{_describe_kinds(sorted(fitted_levels.load))}."
            )


def _describe_kinds(kinds: Sequence[str]) -> str:
    named = [f"'{kind}'" for kind in kinds if kind]
    return f"they contain {join_names(named)}" if named else "their tasks have no kind"


def _find_new_hosts(case: _Case) -> Iterator[str]:
    fitted_levels = case.fitted_range.levels

    def differ(one: float, other: float) -> bool:
        return bool(one and other) and abs(one / other - 1.0) > _SPEED_TOLERANCE

    for mhz, speed in sorted(case.levels.hosts):
        if any(not differ(mhz, m) and not differ(speed, s) for m, s in fitted_levels.hosts):
            continue
        clocks = sorted({m for m, _ in fitted_levels.hosts if m})
        if mhz and clocks and all(differ(mhz, m) for m in clocks):
            own, fitted = f"{mhz:,.0f} MHz", join_names([f"{m:,.0f}" for m in clocks]) + " MHz"
        else:
            speeds = sorted({s for _, s in fitted_levels.hosts})
            own, fitted = f"speed {speed:.3g}", join_names([f"{s:.3g}" for s in speeds])
        yield f"It uses hosts of {own}, but the fitted runs used hosts of {fitted}."


def _find_higher_loads(case: _Case) -> Iterator[str]:
    """Report more simultaneous tasks on a core than in the fitted runs, or else on a host.

    Nothing is reported if the contention between these tasks is known.
    """
    levels, fitted_levels = case.levels, case.fitted_range.levels
    for maxima, fitted_maxima, where in (
        (levels.load, fitted_levels.load, "per core"),
        (levels.tasks, fitted_levels.tasks, "on one host"),
    ):
        highest = max(fitted_maxima.values(), default=0)
        # A single task has no contention.
        beyond = {
            kind: (maximum, fitted_maxima.get(kind, highest))
            for kind, maximum in maxima.items()
            if maximum > max(fitted_maxima.get(kind, highest), 1) + 1e-9
        }
        if not beyond:
            continue
        reason = _explain_contention(case, sorted(beyond))
        if reason is None:
            return
        maximum = max(maximum for maximum, _ in beyond.values())
        limit = min(fitted_maximum for _, fitted_maximum in beyond.values())
        named = [f"'{kind}'" for kind in sorted(beyond) if kind]
        partly = len(beyond) < len(maxima)
        among = f", some of the kind {join_names(named)}" if named and partly else ""
        suffix = " with this kind" if among else ""
        yield (
            f"Up to {maximum:.3g} tasks {where} run at the same time{among}, but at most "
            f"{limit:.3g} in the fitted runs{suffix}: {reason}."
        )
        return


def _explain_contention(case: _Case, kinds: Sequence[str]) -> str | None:
    """Explain why the contention between tasks of these kinds is not known; None if it is."""
    rule, fit_values = case.compiled.scenario.model.contention, case.fit.values
    if rule.linear is None and rule.table is None and rule.kinds is None:
        return "the model has no contention between them"
    contention_values = [name for name in case.compiled.value_names if name.startswith(_CONTENTION)]
    fitted_values = [name for name in contention_values if name in fit_values]
    if not fitted_values or not case.unidentified.fitted.issuperset(fitted_values):
        return "the contention in the model was not fitted to any run"
    unfitted_kinds = [
        f"'{kind}'"
        for kind in kinds
        if rule.kinds is not None and f"contention.kinds.{kind}.sensitivity" not in fit_values
    ]
    if unfitted_kinds:
        return f"the model has no contention for tasks of the kind {join_names(unfitted_kinds)}"
    if not case.unidentified.analysed:
        return "the identifiability of the contention between them was not analysed"
    unidentified = any(
        name in fitted_values for group in case.unidentified.groups for name in group
    )
    if not unidentified or not (change := case.compute_change(fitted_values)):
        return None
    return (
        "the contention between them is not identifiable from these runs and changes the makespan "
        f"by {_format_percent(change)}"
    )


def _find_sensitive_values(case: _Case, groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """Report unidentifiable values that change the makespan of the scenario."""
    for group in groups:
        if change := case.compute_change(group):
            reason = (
                "compensate each other in the data" if len(group) > 1 else "is not identifiable"
            )
            yield (
                f"Its makespan changes by {_format_percent(change)} with "
                f"{join_names([_format_range(case.fit, name) for name in group])}, which {reason}."
            )


def _format_range(fit: Fit, name: str) -> str:
    """Format the name of a value with its 90 % interval over the draws."""
    if fit.draws is None or name not in fit.draws.columns:
        return name
    low, high = np.quantile(fit.draws[name].to_numpy(), [0.05, 0.95])
    return f"{name} (from {low:.3g} to {high:.3g})"


def _format_percent(share: float) -> str:
    return f"{100 * share:.0f} %"
