"""The plan of a study: its versions with their objectives, parameters and identities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from twinloop import __version__
from twinloop.calibration.cases import (
    LATENCIES,
    Case,
    make_cases,
    read_declared_scenario,
)
from twinloop.calibration.detail.inactive_parameters import find_inactive_parameters
from twinloop.calibration.detail.levels import Levels, Version
from twinloop.calibration.detail.spec_sheet import SpecSheet
from twinloop.calibration.detail.version_runs import TRAINING, VALIDATION, VersionRuns
from twinloop.calibration.losses import LOSSES, Loss
from twinloop.calibration.parameters import defaults
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.kinds import Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import declare_values
from twinloop.calibration.run import NamedRuns, refuse_incomparable
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.stage import identify_code
from twinloop.description.errors import InputError
from twinloop.fidelity.alignment import digest_trace
from twinloop.scenario import Scenario
from twinloop.scenario.identity import Identities, values_to_hash


@dataclass(frozen=True)
class PlannedVersion:
    """A version with its objectives, and what identifies its searches."""

    version: Version
    runs: VersionRuns
    #: The scenario of its first case.
    scenario: Scenario
    skipped: tuple[str, ...]
    identity: Mapping[str, Any]
    #: The digests of the validation runs, on which the results of a search do not depend.
    held_out: tuple[Any, ...]

    @property
    def space(self) -> Space:
        """The parameters of the version."""
        return self.runs.training.space


@dataclass(frozen=True)
class DetailPlan:
    """The input of a study."""

    levels: Levels
    training: NamedRuns
    held_out: NamedRuns
    scenario: Scenario | None
    loss: Loss
    aggregate: str | None
    optimiser: str
    budget: SearchBudget
    seeds: tuple[int, ...]
    analysis: int | None
    sheet: SpecSheet | None
    warm_start: bool
    allow_code: bool

    def make_versions(self, parameters: Any) -> dict[int, PlannedVersion]:
        """Make the objectives of all versions, each with the parameters that it has."""
        cases = {
            version.number: self._make_first_cases(version) for version in self.levels.versions
        }
        spaces, skipped = self._divide_parameters(parameters, cases)
        for number, space in spaces.items():
            refuse_inapplicable(space, cases[number], parameters)
        return {
            each.number: self._make_version(
                each, cases[each.number], spaces[each.number], skipped[each.number]
            )
            for each in self.levels.versions
        }

    def make_cases(
        self, version: Version, runs: NamedRuns, fitted: Sequence[str] = ()
    ) -> list[Case]:
        """Make the cases of these runs for a version."""
        needs_power = "power" in self.loss.needs
        return make_cases(
            runs.traces,
            names=runs.names,
            scenario=self.scenario,
            fitted=fitted,
            # Latencies of held-out runs must not enter the model.
            latencies=self.training.traces,
            adapt=partial(self.levels.apply, version),
            allow_code=self.allow_code,
            power_step=defaults.find_power_step(self.training.traces[0]) if needs_power else None,
        )

    def count_cores(self, case: Case) -> float:
        """Count the cores of the platform of a case, in the scenario that the levels change."""
        scenario = self.scenario or read_declared_scenario(case.traces[0], case.name)
        return float(scenario.effective_platform().total_cores)

    def _make_first_cases(self, version: Version) -> list[Case]:
        """Make the cases of the training runs; an error that only a later version has names it."""
        try:
            return self.make_cases(version, self.training)
        except InputError as error:
            if version is self.levels.versions[0] or version.name in error.problem:
                raise
            raise self.levels.locate(error, version) from None

    def _divide_parameters(
        self, parameters: Any, cases: Mapping[int, list[Case]]
    ) -> tuple[dict[int, Space], dict[int, tuple[str, ...]]]:
        """Find the parameters that each version has, and those that it does not have."""
        every: dict[str, Parameter] = {}
        if parameters is None:
            for of_version in cases.values():
                for each in defaults.choose_default_space(of_version):
                    every.setdefault(each.name, each)
        else:
            every = {each.name: each for each in _read_space(parameters, cases)}
        for factor in self.levels.factors:
            for name in every:
                if factor.path in (name, f"model.{name}"):
                    raise InputError(
                        f"'{name}' is a parameter as well as a factor of the levels",
                        kind="conflicting-fields",
                        field="parameters",
                        remedy="remove it from one of the files",
                    )
        absent = {
            number: set(find_inactive_parameters(of_version[0].scenario, every))
            for number, of_version in cases.items()
        }
        # Values that no version has are created, as in every calibration.
        nowhere = set.intersection(*absent.values())
        spaces, skipped = {}, {}
        for version in self.levels.versions:
            left_out = absent[version.number] - nowhere
            kept = [each for each in every.values() if each.name not in left_out]
            if not kept:
                raise InputError(
                    f"the version '{version.name}' has none of the parameters",
                    kind="no-runs",
                    field="parameters",
                    remedy="add a parameter that it has, such as speed_factor",
                )
            spaces[version.number] = Space(kept)
            skipped[version.number] = tuple(name for name in every if name in left_out)
        return spaces, skipped

    def _make_version(
        self, version: Version, first: list[Case], space: Space, skipped: tuple[str, ...]
    ) -> PlannedVersion:
        # The cases without parameters are those with them, unless these add values to the scenario
        # or replace measured latencies.
        is_equal = not set(LATENCIES) & set(space.names) and all(
            declare_values(case.scenario, space.names) == case.scenario for case in first
        )
        cases = first if is_equal else self.make_cases(version, self.training, space.names)
        training = self._make_objective(space, cases)
        refuse_incomparable(training)
        names = {TRAINING: _list_names(self.training, cases)}
        validation = None
        if self.held_out.traces:
            held_cases = self.make_cases(version, self.held_out, space.names)
            validation = self._make_objective(space, held_cases)
            refuse_incomparable(validation)
            names[VALIDATION] = _list_names(self.held_out, held_cases)
        return PlannedVersion(
            version,
            VersionRuns(version.number, training, validation, names),
            cases[0].scenario,
            skipped,
            self._identify(training),
            () if validation is None else tuple(_digest_cases(validation.cases)),
        )

    def _make_objective(self, space: Space, cases: Sequence[Case]) -> TwinObjective:
        return TwinObjective(space, cases, self.loss, aggregate=self.aggregate, threads=1)

    def _identify(self, objective: TwinObjective) -> dict[str, Any]:
        """Return everything that the results of a search depend on, but its seed and start."""
        identities = Identities(allow_code=self.allow_code)
        identity: dict[str, Any] = {
            "twinloop": __version__,
            "parameters": [journal_text(parameter) for parameter in objective.space],
            "loss": objective.loss.name,
            "aggregation": objective.aggregation,
            "optimiser": self.optimiser,
            "evaluations": self.budget.evaluations,
            "runs": list(_digest_cases(objective.cases)),
            "objects": [identities.identify(case.scenario) for case in objective.cases],
        }
        if LOSSES.get(objective.loss.name) is not objective.loss:  # its code may change
            # Results of code that cannot be identified are never used again.
            code = identify_code(objective.loss, None, "loss")
            identity["loss_code"] = uuid4().hex if code is None else code
        return identity


def _read_space(parameters: Any, cases: Mapping[int, list[Case]]) -> Space:
    """Read the parameters; the scenario that has most of them gives the default ranges."""
    every = [each for of_version in cases.values() for each in of_version[:1]]
    if isinstance(parameters, Mapping):
        given = parameters.get("parameters", parameters)
        names = list(given) if isinstance(given, Mapping) else []
        every.sort(key=lambda case: len(find_inactive_parameters(case.scenario, map(str, names))))
    return defaults.make_space(parameters, every)


def _list_names(runs: NamedRuns, cases: Sequence[Case]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(runs.name_of(trace) for trace in case.traces) for case in cases)


def _digest_cases(cases: Iterable[Case]) -> Iterator[Any]:
    for case in cases:
        yield [
            values_to_hash(case.scenario.to_manifest()),
            [digest_trace(trace) for trace in case.traces],
        ]
