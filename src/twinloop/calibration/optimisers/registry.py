"""Optimisers by name: the built-ins, several joined by `+`, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final

from twinloop.calibration.optimisers.auto import choose
from twinloop.calibration.optimisers.bayes import (
    BoostedTrees,
    ExtraTrees,
    GaussianProcess,
    RandomForest,
)
from twinloop.calibration.optimisers.cma_es import Cma
from twinloop.calibration.optimisers.evolution import DifferentialEvolution, Genetic
from twinloop.calibration.optimisers.gradient import Gradient
from twinloop.calibration.optimisers.grid import Grid
from twinloop.calibration.optimisers.interface import Optimiser, Search
from twinloop.calibration.optimisers.nelder_mead import NelderMead
from twinloop.calibration.optimisers.portfolio import Portfolio
from twinloop.calibration.optimisers.powell import Powell
from twinloop.calibration.optimisers.quadratic import Quadratic
from twinloop.calibration.optimisers.sampling import LatinHypercube, Random, Sobol
from twinloop.calibration.parameters.space import Space
from twinloop.description.address import nearest
from twinloop.description.errors import InputError

#: The entry points through which an installed package offers optimisers.
GROUP: Final = "twinloop.optimisers"

_SINGLE: Final[Mapping[str, type[Search]]] = MappingProxyType(
    {
        "random": Random,
        "lhs": LatinHypercube,
        "sobol": Sobol,
        "grid": Grid,
        "gradient": Gradient,
        "genetic": Genetic,
        "de": DifferentialEvolution,
        "cma": Cma,
        "powell": Powell,
        "nelder-mead": NelderMead,
        "quadratic": Quadratic,
        "bayes-gp": GaussianProcess,
        "bayes-gbrt": BoostedTrees,
        "bayes-rf": RandomForest,
        "bayes-et": ExtraTrees,
    }
)

#: The built-in optimisers by name, and what each does; `auto` stands for what `choose` says.
OPTIMISERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: (kind.__doc__ or "").partition("\n")[0] for name, kind in _SINGLE.items()},
        "auto": "What suits the space, the budget and the cost of an evaluation.",
    }
)


def make(
    name: str, space: Space, *, seed: int = 0, budget: int | None = None, batch: int = 1
) -> Optimiser:
    """The optimiser of this name.

    Args:
        name: Of a built-in optimiser, of several joined by `+`, which then take turns, or of one
            that an installed package offers.
        space: The parameters.
        seed: Of all random draws: the same seed and the same losses lead to the same points.
        budget: How many points will be asked for in all, if that is known.
        batch: How many are usually asked for at once.

    >>> from twinloop.calibration.parameters.parameters import Linear
    >>> make("sobol", Space([Linear("speed", 0.5, 2)]), seed=1).ask(3).shape
    (3, 1)
    >>> make("cmaes", Space([Linear("speed", 0.5, 2)]))
    Traceback (most recent call last):
    twinloop.InputError: no optimiser is called 'cmaes' (did you mean 'cma'?)
    """
    if batch < 1:
        raise InputError(f"must be at least 1, not {batch}", field="batch")
    if name == "auto":
        name = choose(space, budget=budget)
    settings: dict[str, Any] = {"seed": seed, "budget": budget, "batch": batch}
    if name in _SINGLE:
        return _SINGLE[name](space, **settings)
    if "+" in name:
        names = [part.strip() for part in name.split("+")]
        for part in names:
            if part not in _SINGLE:
                raise InputError(
                    f"no built-in optimiser is called '{part}'", remedy=nearest(part, [*_SINGLE])
                )
        return Portfolio(space, **settings, members=[_SINGLE[part] for part in names])
    return _plugged_in(name, space, settings)


def _plugged_in(name: str, space: Space, settings: dict[str, Any]) -> Optimiser:
    offered = {entry.value: entry for entry in entry_points(group=GROUP) if entry.name == name}
    if not offered:
        known = [*OPTIMISERS, *(entry.name for entry in entry_points(group=GROUP))]
        raise InputError(f"no optimiser is called '{name}'", remedy=nearest(name, known))
    if len(offered) > 1:
        raise InputError(
            f"several plug-ins call an optimiser '{name}': {', '.join(sorted(offered))}",
            remedy="uninstall all but one",
        )
    ((value, entry),) = offered.items()
    try:
        made = entry.load()(space, **settings)
    except InputError:
        raise
    except Exception as error:  # whatever the code of others raises
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(f"the plug-in '{name}' ({value}) cannot be used: {said}") from error
    if not isinstance(made, Optimiser):
        raise InputError(
            f"the plug-in '{name}' ({value}) is no optimiser", remedy="it needs ask and tell"
        )
    return made
