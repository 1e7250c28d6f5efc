"""What a candidate leans on that the data of the fit could not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

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

#: A value matters to a candidate if it may change its makespan by more than this.
MATTERS: Final = 0.05
#: Speeds and clocks that differ by less are the same.
_SAME: Final = 0.01
_CONTENTION: Final = "contention."


def find_extrapolations(
    scenario: Scenario, fit: Fit, *, allow_code: bool = False
) -> tuple[str, ...]:
    """What a scenario leans on that the data of a fit could not tell, in sentences.

    That is: more tasks on a core or a host at a time than in any run that was fitted, unless
    contention between them was fitted and the data told it; kinds of tasks that no such run had;
    hosts of another speed or clock; and values that are not identifiable and change its makespan
    by more than 5 %, as the calibrations which the data allows vary, and by so much more than those
    of the fitted runs themselves. Values that compensate each other in the data are varied
    together, since they may compensate each other here as well.

    How many tasks run on a core at a time is seen in simulations of the scenario and of those that
    were fitted; a task that uses two cores counts twice.

    Args:
        scenario: What is to be predicted with the fit.
        fit: The fit.
        allow_code: Whether a policy named as `module:Class` may be imported and run.

    Returns:
        Sentences; none: everything that it leans on was seen.

    >>> from twinloop.calibration import calibrate
    >>> from twinloop.engine import simulate
    >>> tasks = [{"id": f"t{i}", "run_time": 1 + i} for i in range(8)]
    >>> plain = Scenario(platform="2x1", policy="pack-ic", workload={"tasks": tasks})
    >>> fit = calibrate(simulate(plain), parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=50, analysis=0)
    >>> find_extrapolations(plain, fit)
    ()
    >>> print(*find_extrapolations(plain.replace(**{"policy.options": {"overcommit": 2}}), fit))
    Up to 2 tasks per core run at a time, and no run that was fitted had more than 1: contention
    between them is not in the model.
    """
    if not fit.scenarios:
        return ("The fit is that of a black box: nobody knows what its runs had.",)
    try:
        past = FittedRange.of(fit, allow_code=allow_code)
    except TwinloopError as error:
        return (f"What the runs that were fitted had cannot be found out any more: {error}",)
    # One that has been given the values of this fit may have been moved away from them since.
    given = scenario.model.fitted_on == fit.model.fitted_on != ()
    compiled = compile_with_fit(
        scenario if given else fit.apply(scenario), fit, allow_code=allow_code
    )
    case = _Case(fit, past, compiled, UnidentifiedValues(fit, compiled), LoadLevels.of([compiled]))
    crowded = tuple(_crowding(case))
    loose = [
        group
        for group in case.loose.groups
        if not (crowded and all(name.startswith(_CONTENTION) for name in group))
    ]
    return (*_kinds(case), *_hosts(case), *crowded, *_matter(case, loose))


class _Case(NamedTuple):
    """A scenario, and all that is known of it and of the runs that were fitted."""

    fit: Fit
    past: FittedRange
    compiled: CompiledScenario
    loose: UnidentifiedValues
    had: LoadLevels

    def matters(self, names: Sequence[str]) -> float:
        """What these values change in the makespan; 0: not more than in the fitted runs."""
        found = compute_makespan_change(self.compiled, self.fit, names) if names else 0.0
        if found <= MATTERS or found <= MATTERS + self.past.open(self.fit, names):
            return 0.0
        return found


# --- sentences -----------------------------------------------------------------------------------


def _kinds(case: _Case) -> Iterator[str]:
    seen = case.past.seen
    counts = case.compiled.workload.tasks["kind"].drop_nulls().value_counts(sort=True)
    for kind, count in sorted(counts.iter_rows()):
        if kind not in seen.load:
            yield (
                f"{format_count(count, 'task')} {'is' if count == 1 else 'are'} of the kind "
                f"'{kind}', and no run that was fitted had any: {_those(sorted(seen.load))}."
            )


def _those(kinds: Sequence[str]) -> str:
    named = [f"'{kind}'" for kind in kinds if kind]
    return f"they had {_listed(named)}" if named else "their tasks were of no kind"


def _hosts(case: _Case) -> Iterator[str]:
    seen = case.past.seen

    def differ(one: float, other: float) -> bool:
        return bool(one and other) and abs(one / other - 1.0) > _SAME

    for mhz, speed in sorted(case.had.hosts):
        if any(not differ(mhz, m) and not differ(speed, s) for m, s in seen.hosts):
            continue
        clocks = sorted({m for m, _ in seen.hosts if m})
        if mhz and clocks and all(differ(mhz, m) for m in clocks):
            here, there = f"{mhz:,.0f} MHz", _listed([f"{m:,.0f}" for m in clocks]) + " MHz"
        else:
            speeds = sorted({s for _, s in seen.hosts})
            here, there = f"speed {speed:.3g}", _listed([f"{s:.3g}" for s in speeds])
        yield f"It runs on hosts of {here}, and the runs that were fitted ran on such of {there}."


def _crowding(case: _Case) -> Iterator[str]:
    """More tasks on a core, or else on a host, at a time than was seen."""
    had, seen = case.had, case.past.seen
    for most, before, where in (
        (had.load, seen.load, "per core"),
        (had.tasks, seen.tasks, "on one host"),
    ):
        highest = max(before.values(), default=0)
        # One task that has its core for itself meets nobody.
        beyond = {
            kind: (much, before.get(kind, highest))
            for kind, much in most.items()
            if much > max(before.get(kind, highest), 1) + 1e-9
        }
        if not beyond:
            continue
        why = _contention(case, sorted(beyond))
        if why is None:
            return
        much = max(much for much, _ in beyond.values())
        least = min(known for _, known in beyond.values())
        named = [f"'{kind}'" for kind in sorted(beyond) if kind]
        partly = len(beyond) < len(most)
        among = f", some of the kind {_listed(named)}" if named and partly else ""
        such = " with such" if among else ""
        yield (
            f"Up to {much:.3g} tasks {where} run at a time{among}, and no run{such} that was "
            f"fitted had more than {least:.3g}: {why}."
        )
        return


def _contention(case: _Case, kinds: Sequence[str]) -> str | None:
    """Why the contention between tasks of these kinds is not known; None: the data told it."""
    rule, fitted = case.compiled.scenario.model.contention, case.fit.values
    if rule.linear is None and rule.table is None and rule.kinds is None:
        return "contention between them is not in the model"
    wanted = [name for name in case.compiled.value_names if name.startswith(_CONTENTION)]
    moved = [name for name in wanted if name in fitted]
    if not moved or not case.loose.fitted.issuperset(moved):
        return "the contention in the model was not fitted to any run"
    lacking = [
        f"'{kind}'"
        for kind in kinds
        if rule.kinds is not None and f"contention.kinds.{kind}.sensitivity" not in fitted
    ]
    if lacking:
        return f"the model knows no contention for tasks of the kind {_listed(lacking)}"
    if not case.loose.analysed:
        return "whether the data can tell the contention between them was not analysed"
    loose = any(name in moved for group in case.loose.groups for name in group)
    if not loose or not (much := case.matters(moved)):
        return None
    return (
        "the data could not tell the contention between them, which changes the makespan by "
        f"{_percent(much)}"
    )


def _matter(case: _Case, groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """Values that the data could not tell, and that matter here."""
    for group in groups:
        if much := case.matters(group):
            does = "compensate each other in the data" if len(group) > 1 else "the data cannot tell"
            yield (
                f"Its makespan changes by {_percent(much)} with "
                f"{_listed([_between(case.fit, name) for name in group])}, which {does}."
            )


def _between(fit: Fit, name: str) -> str:
    """A value and between what it may lie."""
    if fit.draws is None or name not in fit.draws.columns:
        return name
    low, high = np.quantile(fit.draws[name].to_numpy(), [0.05, 0.95])
    return f"{name} (from {low:.3g} to {high:.3g})"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
