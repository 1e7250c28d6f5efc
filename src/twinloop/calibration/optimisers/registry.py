"""Optimisers by name: built-in, several joined by `+`, or from plug-ins.

The module of a built-in optimiser is imported when that optimiser is created: a search with one
optimiser does not need the imports of all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from twinloop.calibration.optimisers.auto import choose_optimiser
from twinloop.calibration.optimisers.interface import BaseOptimiser, Optimiser
from twinloop.calibration.optimisers.portfolio import OptimiserPortfolio
from twinloop.calibration.parameters.space import Space
from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.description.plugins import describe_error, list_plugins, load_plugin

#: The group of entry points by which installed packages provide optimisers.
GROUP: Final = "twinloop.optimisers"


class _BuiltInOptimiser(NamedTuple):
    """The module and the class of a built-in optimiser, and a description of one line."""

    module: str
    kind: str
    description: str

    def load(self) -> type[BaseOptimiser]:
        """Import the module and return the class."""
        optimiser_class: type[BaseOptimiser] = getattr(
            import_module(f".{self.module}", __package__), self.kind
        )
        return optimiser_class


_BUILT_IN: Final[Mapping[str, _BuiltInOptimiser]] = MappingProxyType(
    {
        "random": _BuiltInOptimiser("sampling", "RandomSampling", "independent uniform points"),
        "lhs": _BuiltInOptimiser(
            "sampling", "LatinHypercube", "a Latin hypercube of the size of the budget"
        ),
        "sobol": _BuiltInOptimiser("sampling", "Sobol", "Sobol's sequence, scrambled"),
        "grid": _BuiltInOptimiser("grid", "Grid", "a grid that is refined round by round"),
        "gradient": _BuiltInOptimiser(
            "gradient", "Gradient", "gradient descent by finite differences"
        ),
        "genetic": _BuiltInOptimiser("genetic", "Genetic", "a genetic algorithm"),
        "de": _BuiltInOptimiser(
            "differential_evolution", "DifferentialEvolution", "differential evolution"
        ),
        "cma": _BuiltInOptimiser("cma_es", "Cma", "CMA-ES with restarts"),
        "powell": _BuiltInOptimiser("powell", "Powell", "Powell's method within bounds"),
        "nelder-mead": _BuiltInOptimiser(
            "nelder_mead", "NelderMead", "the simplex of Nelder and Mead"
        ),
        "quadratic": _BuiltInOptimiser(
            "quadratic", "Quadratic", "a local quadratic model in a trust region"
        ),
        "bayes-gp": _BuiltInOptimiser("bayes", "GaussianProcess", "Bayesian, a Gaussian process"),
        "bayes-gbrt": _BuiltInOptimiser(
            "bayes_trees", "BoostedTrees", "Bayesian, gradient-boosted trees"
        ),
        "bayes-rf": _BuiltInOptimiser("bayes_trees", "RandomForest", "Bayesian, a random forest"),
        "bayes-et": _BuiltInOptimiser(
            "bayes_trees", "ExtraTrees", "Bayesian, extremely randomised trees"
        ),
    }
)

#: The built-in optimisers by name, each with a description; `choose_optimiser` selects for `auto`.
OPTIMISERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: each.description for name, each in _BUILT_IN.items()},
        "auto": "a choice by the space, the budget and the cost of an evaluation",
    }
)


def create_optimiser(
    name: str, space: Space, *, seed: int = 0, budget: int | None = None, batch: int = 1
) -> Optimiser:
    """Create an optimiser by its name.

    Args:
        name: The name of a built-in optimiser, names joined by `+` for a portfolio, or the name of
            a plug-in.
        space: The parameters.
        seed: The random seed: equal seeds and losses lead to equal points.
        budget: The total number of points, if known.
        batch: The usual number of points per `ask`.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> create_optimiser("sobol", Space([LinearParameter("speed", 0.5, 2)]), seed=1).ask(3).shape
    (3, 1)
    >>> create_optimiser("cmaes", Space([LinearParameter("speed", 0.5, 2)]))
    Traceback (most recent call last):
    twinloop.InputError: no optimiser is called 'cmaes' (did you mean 'cma'?) [TL0209]
    """
    if batch < 1:
        raise InputError(f"must be at least 1, not {batch}", kind="out-of-range", field="batch")
    if name == "auto":
        name = choose_optimiser(space, budget=budget)
    settings: dict[str, Any] = {"seed": seed, "budget": budget, "batch": batch}
    if name in _BUILT_IN:
        return _BUILT_IN[name].load()(space, **settings)
    if "+" in name:
        names = [part.strip() for part in name.split("+")]
        for part in names:
            if part not in _BUILT_IN:
                raise InputError(
                    f"no built-in optimiser is called '{part}'",
                    kind="unknown-name",
                    remedy=suggest_name(part, [*_BUILT_IN]),
                )
        return OptimiserPortfolio(
            space, **settings, members=[_BUILT_IN[part].load() for part in names]
        )
    return _make_plugin(name, space, settings)


def _make_plugin(name: str, space: Space, settings: dict[str, Any]) -> Optimiser:
    plugins = list_plugins(GROUP)
    if name not in plugins:
        remedy = suggest_name(name, [*OPTIMISERS, *plugins])
        raise InputError(f"no optimiser is called '{name}'", kind="unknown-name", remedy=remedy)
    factory = load_plugin(GROUP, name, "optimiser")
    try:
        optimiser = factory(space, **settings)
    except InputError:
        raise
    except Exception as error:  # a plug-in may raise anything
        raise InputError(
            f"the plug-in '{name}' cannot be used: {describe_error(error)}", kind="plugin-error"
        ) from error
    if not isinstance(optimiser, Optimiser):
        raise InputError(
            f"the plug-in '{name}' is not an optimiser",
            kind="wrong-interface",
            remedy="implement ask and tell",
        )
    return optimiser
