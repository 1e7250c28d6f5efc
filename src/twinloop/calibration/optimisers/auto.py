"""Choice of an optimiser by space, budget and evaluation time."""

from __future__ import annotations

from typing import Final

from twinloop.calibration.parameters.space import Space

#: For longer evaluations the fit of a Gaussian process costs less than it saves (s).
SLOW: Final = 0.1
#: For shorter evaluations a quadratic model costs more than it saves (s).
LIGHT: Final = 1e-3
#: The number of evaluations from which on a broad search converges.
MANY: Final = 20_000
#: The largest number of parameters of a quadratic model.
MOST_MODELLED: Final = 25
#: The largest number of evaluations for a Gaussian process.
FEW: Final = 250


def choose_optimiser(
    space: Space, *, budget: int | None = None, seconds: float | None = None, cost: float = 0.0
) -> str:
    """Choose the optimiser for the name `auto`.

    Names joined by `+` are a portfolio, in which optimisers with progress get more of the budget.

    Args:
        space: The parameters.
        budget: The number of evaluations.
        seconds: The time for all evaluations (s).
        cost: The time of one evaluation (s).

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
    >>> space = Space([LinearParameter("speed", 0, 1), LinearParameter("latency", 0, 1)])
    >>> choose_optimiser(space, budget=2000, cost=1e-4)
    'quadratic+powell+nelder-mead+cma'
    >>> choose_optimiser(space, seconds=60, cost=1e-4)
    'cma+powell'
    >>> choose_optimiser(space, seconds=60, cost=1.0)
    'quadratic+bayes-gp+powell+cma'
    >>> choose_optimiser(Space([CategoricalParameter("mode", ["a", "b"])]), budget=2000)
    'powell+quadratic+cma'
    """
    d = len(space)
    counts = [] if budget is None else [budget]
    if seconds is not None and cost > 0:
        counts.append(int(seconds / cost))
    count = min(counts, default=None)
    if count is not None and count < d + 3:
        return "sobol"
    if count is not None and count >= MANY and cost < LIGHT:
        return "cma+powell"
    if any(not parameter.ordered for parameter in space):
        members = ["powell", "quadratic", "cma"]
    else:
        members = ["quadratic", "powell", "nelder-mead", "cma"]
    if d > MOST_MODELLED:
        members.remove("quadratic")
    elif cost >= SLOW and count is not None and count <= FEW:
        members = [members[0], "bayes-gp", *(each for each in members[1:] if each != "nelder-mead")]
    return "+".join(members)
