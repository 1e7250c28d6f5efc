"""Which loss and which optimiser do best on these runs: found out on hidden values."""

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

#: Who takes part if nobody says.
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
#: Evaluations of the calibration that the hidden values come from.
_FIRST: Final = 200
_APART: Final = 7919


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
    """Rank pairs of loss and optimiser by how near they come to values that are known.

    A first calibration of the runs gives the values, rounded; the scenarios of the runs are
    simulated with them, and every pair looks for them again.

    Args:
        real: The runs whose scenarios are simulated.
        parameters: The values to look for, as `calibrate` takes them.
        scenario: What was run, if the manifests do not say.
        losses: Names of losses.
        optimisers: Names of optimisers.
        budget: Evaluations of each search.
        seed: Where all randomness starts.
        progress: Told which pair is at work.
    """
    if scenario is not None and not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if parameters is None:
        space = choose_default_space(make_cases(real, scenario=scenario))
    else:
        space = make_space(parameters)
    cases = make_cases(real, scenario=scenario, moved=space.names, latencies=real)
    first = TwinObjective(space, cases, get_loss(losses[0]))
    # With draws of its own: who searches later must not meet the hidden values by asking alike.
    found = minimise(first, optimiser="random", budget=_FIRST, seed=seed + _APART)
    truth = round_values(found.best_values, space)
    made = [make_synthetic_case(case, truth) for case in cases]
    return rank_by_recovery(
        lambda name: TwinObjective(space, made, get_loss(name)),
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
    """The case with a simulated run in the place of the real ones, made with these values."""
    values = {name: np.array([value]) for name, value in truth.items()}
    return replace(case, reals=(case.runs(1, values, needs)[0],))
