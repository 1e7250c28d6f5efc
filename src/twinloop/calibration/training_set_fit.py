"""The fit of a scenario to a training set, for lossmaps of recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twinloop.calibration.cases import Case, make_cases
from twinloop.calibration.losses import Loss
from twinloop.calibration.lossmap import Sample
from twinloop.calibration.parameters import defaults
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.run import refuse_incomparable, resolve_loss
from twinloop.calibration.search.minimisation import SearchBudget, minimise
from twinloop.calibration.search.objective import TwinObjective
from twinloop.scenario import Scenario


@dataclass(frozen=True)
class TrainingSetFit:
    """A fit function for `compute_lossmap`: the scenarios of the runs, with fitted values.

    >>> from twinloop.calibration.lossmap import compute_lossmap
    >>> from twinloop.engine import simulate
    >>> def record(nodes, count):
    ...     tasks = [{"id": f"t{i}", "run_time": 5 + i % 7} for i in range(count)]
    ...     scenario = Scenario(platform=f"{nodes}x1", policy="fcfs", workload={"tasks": tasks})
    ...     run = simulate(scenario.replace(**{"model.speed_factor": 0.8}))
    ...     stored = run.manifest.model_copy(update={"scenario": scenario.to_manifest()})
    ...     return Sample.of(run.replace(manifest=stored), workers_used=nodes)
    >>> samples = [record(nodes, count) for nodes in (1, 2) for count in (10, 20)]
    >>> fit = TrainingSetFit({"speed_factor": {"linear": [0.5, 2]}}, budget=60)
    >>> bool(compute_lossmap(samples, fit).best["validation_loss"] < 0.01)
    True
    """

    parameters: Any = None
    scenario: Scenario | None = None
    loss: str | Loss | Callable[..., float] = "makespan"
    aggregate: str | None = None
    optimiser: str = "auto"
    budget: str | float | SearchBudget = 500
    seed: int = 0
    threads: int | None = None
    allow_code: bool = False

    def __call__(self, samples: Sequence[Sample]) -> Callable[[Sequence[Sample]], float]:
        """Fit to the runs of these samples, and return the loss of the fit on others."""
        cases = self._make_cases(samples, samples)
        space = (
            defaults.choose_default_space(cases)
            if self.parameters is None
            else defaults.make_space(self.parameters, cases)
        )
        refuse_inapplicable(space, cases, self.parameters)

        def make_objective(chosen: Sequence[Sample]) -> TwinObjective:
            objective = TwinObjective(
                space,
                self._make_cases(chosen, samples, space.names),
                resolve_loss(self.loss, allow_code=self.allow_code),
                aggregate=self.aggregate,
                threads=self.threads,
            )
            refuse_incomparable(objective)
            return objective

        values = minimise(
            make_objective(samples), optimiser=self.optimiser, budget=self.budget, seed=self.seed
        ).best_values
        return lambda others: make_objective(others).at(values)

    def _make_cases(
        self, chosen: Sequence[Sample], training: Sequence[Sample], fitted: Sequence[str] = ()
    ) -> list[Case]:
        return make_cases(
            [each.run for each in chosen],
            names=[f"run with {each.workers} workers, {each.tasks} tasks" for each in chosen],
            scenario=self.scenario,
            fitted=fitted,
            # Latencies of validation runs must not enter the model.
            latencies=[each.run for each in training],
            allow_code=self.allow_code,
        )
