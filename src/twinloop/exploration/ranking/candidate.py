"""A candidate: one configuration of a study with its predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.description.safe_text import escape_name
from twinloop.exploration.study.input_hashes import Hashes
from twinloop.metrics.confidence import moments
from twinloop.scenario import Scenario


@dataclass(frozen=True, repr=False)
class Candidate:
    """A configuration with its scenario and its predicted KPIs.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    >>> Candidate("easy", scenario, {"makespan_s": 120.0}, levels={"policy": "easy"})
    <Candidate easy: makespan_s 120>
    """

    #: The name of the configuration, made of its levels.
    name: str
    #: The scenario to run, with the first seed and the fitted model.
    scenario: Scenario
    #: The mean over the seeds of each KPI.
    predicted: Mapping[str, float]
    #: The standard deviation over the seeds; empty for a single seed.
    spread: Mapping[str, float] = field(default_factory=dict)
    #: With a fit: the values of each KPI for draws of the parameters, in the same order for all
    #: candidates of a study.
    draws: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    #: The level of each active factor.
    levels: Mapping[str, Any] = field(default_factory=dict)
    #: Its number in the study; None: it is not a configuration of a study.
    configuration: int | None = None
    #: The values of each KPI for all seeds, in the same order for all candidates of a study.
    by_seed: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    #: The same candidate with results of the first seed only, that of `scenario`; None: there is
    #: only one seed.
    alone: Candidate | None = field(default=None, repr=False, compare=False)
    #: Sentences on its extrapolations beyond the data of the fit.
    unsupported: tuple[str, ...] = ()
    #: The hashes of the input files of its study at the time of the simulation, by path.
    inputs: Hashes = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_runs(
        cls,
        name: str,
        scenario: Scenario,
        results: Sequence[Mapping[str, Any]],
        levels: Mapping[str, Any] | None = None,
        configuration: int | None = None,
    ) -> Candidate:
        """Make a candidate from the results of its runs, one for each seed.

        >>> from twinloop.scenario import Scenario
        >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
        >>> results = [{"kpis": {"makespan_s": 100.0}}, {"kpis": {"makespan_s": 140.0}}]
        >>> Candidate.of_runs("easy", scenario, results)
        <Candidate easy: makespan_s 120>
        """
        names = list(results[0]["kpis"])
        rows = [[result["kpis"].get(kpi, math.nan) for result in results] for kpi in names]
        values = np.array(rows, float)
        has_several = len(results) > 1
        statistics = [moments(row) if has_several else (row[0], math.nan) for row in values]
        means, spread = (
            (list(each) for each in zip(*statistics, strict=True)) if statistics else ([], [])
        )
        finite = [(index, kpi) for index, kpi in enumerate(names) if math.isfinite(means[index])]
        draws = [result.get("draws") or {} for result in results]
        drawn_kpis = [kpi for kpi in draws[0] if all(kpi in result for result in draws)]
        return cls(
            name,
            scenario,
            {kpi: float(means[index]) for index, kpi in finite},
            {kpi: float(spread[index]) for index, kpi in finite if has_several},
            {kpi: np.mean([result[kpi] for result in draws], axis=0) for kpi in drawn_kpis},
            dict(levels or {}),
            configuration,
            {kpi: values[index] for index, kpi in finite},
            cls.of_runs(name, scenario, results[:1], levels, configuration)
            if has_several
            else None,
        )

    def of_its_scenario(self) -> Candidate:
        """Return the candidate with predictions for the seed of its scenario, not for the mean.

        >>> from twinloop.scenario import Scenario
        >>> scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
        >>> first = Candidate("easy", scenario, {"makespan_s": 100.0})
        >>> Candidate("easy", scenario, {"makespan_s": 120.0}, alone=first).of_its_scenario()
        <Candidate easy: makespan_s 100>
        """
        if self.alone is None:
            return self
        return replace(
            self.alone, scenario=self.scenario, unsupported=self.unsupported, inputs=self.inputs
        )

    def __repr__(self) -> str:
        name, value = next(iter(self.predicted.items()), ("nothing", float("nan")))
        return escape_name(f"<Candidate {self.name}: {name} {value:.4g}>")
