"""Which optimiser suits a space, a budget and the cost of an evaluation."""

from __future__ import annotations

from typing import Final

from twinloop.calibration.parameters.space import Space

#: An evaluation that takes longer is worth the seconds that a Gaussian process thinks (s).
SLOW: Final = 0.1
#: One that is shorter is not worth the time that a quadratic model takes (s).
LIGHT: Final = 1e-3
#: With so many evaluations there is time for a broad search.
MANY: Final = 20_000
#: A quadratic model of more parameters has too many terms.
MOST_MODELLED: Final = 25
#: So many points are what a Gaussian process is fitted to.
FEW: Final = 250


def choose_optimiser(
    space: Space, *, budget: int | None = None, seconds: float | None = None, cost: float = 0.0
) -> str:
    """The name of the optimiser that `auto` stands for.

    Names joined by `+` are optimisers that take turns; the budget goes to those with progress.

    Args:
        space: The parameters.
        budget: How many evaluations there may be.
        seconds: How long all of them may take.
        cost: How long one takes (s).

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
