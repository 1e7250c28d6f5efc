"""Selection of loss and optimiser by parameter recovery on synthetic runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from twinloop.calibration.cases import Case, make_cases
from twinloop.calibration.losses import get_loss
from twinloop.calibration.parameters.defaults import choose_default_space, make_space
from twinloop.calibration.run_columns import OUTPUTS
from twinloop.calibration.search.minimisation import minimise
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.parameter_recovery import (
    RecoveryRanking,
    rank_by_recovery,
    round_values,
)
from twinloop.scenario import Scenario
from twinloop.trace import Trace

#: The losses and optimisers that are ranked by default.
RANKED_LOSSES: Final = (
    "matched",
    "makespan",
    "L3",
    "L5",
    "ends-sorted",
    "sorted-times",
    "double-sorted-all",
    "sorted-all",
    "hausdorff-all",
    "chamfer-all",
    "mrea-all",
)
RANKED_OPTIMISERS: Final = ("auto", "cma", "de", "sobol", "nelder-mead")
#: The number of evaluations of the calibration whose result is used as the true values.
_FIRST_BUDGET: Final = 200
#: The offset of its seed from the seeds of the ranked searches.
_SEED_OFFSET: Final = 7919


def rank_losses_and_optimisers(
    real: Sequence[Trace],
    *,
    parameters: Any = None,
    scenario: Scenario | str | Path | None = None,
    losses: Sequence[str] = RANKED_LOSSES,
    optimisers: Sequence[str] = RANKED_OPTIMISERS,
    budget: int = 300,
    seed: int = 0,
    progress: Callable[[str, str], None] | None = None,
) -> RecoveryRanking:
    """Rank pairs of loss and optimiser by how closely they recover known parameter values.

    The true values are those of a first calibration of the runs, rounded. The scenarios of the runs
    are simulated with them, and every pair is fitted to the synthetic runs.

    Args:
        real: The runs whose scenarios are simulated.
        parameters: The values to fit, as for `calibrate`.
        scenario: The scenario of the runs, if their manifests contain none.
        losses: Names of losses.
        optimisers: Names of optimisers.
        budget: The number of evaluations of each search.
        seed: The random seed.
        progress: Called with the loss and the optimiser before each search.
    """
    if scenario is not None and not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if parameters is None:
        space = choose_default_space(make_cases(real, scenario=scenario))
    else:
        space = make_space(parameters, make_cases(real, scenario=scenario))
    cases = make_cases(real, scenario=scenario, fitted=space.names, latencies=real)
    first = TwinObjective(space, cases, get_loss(losses[0]))
    # A separate seed: a ranked search must not draw the true values by chance.
    history = minimise(first, optimiser="random", budget=_FIRST_BUDGET, seed=seed + _SEED_OFFSET)
    truth = round_values(history.best_values, space)
    synthetic_cases = [make_synthetic_case(case, truth) for case in cases]
    return rank_by_recovery(
        lambda name: TwinObjective(space, synthetic_cases, get_loss(name)),
        truth,
        losses=losses,
        optimisers=optimisers,
        budget=budget,
        seeds=(seed,),
        progress=progress,
    )


def make_synthetic_case(
    case: Case, truth: dict[str, Any], needs: Collection[str] = tuple(OUTPUTS)
) -> Case:
    """Replace the real runs of a case by one simulated with these values."""
    values = {name: np.array([value]) for name, value in truth.items()}
    return replace(case, reals=(case.runs(1, values, needs)[0],))
