"""The design of a study over real executions: the executions, and what is injected from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from twinloop.description.address import address_from_path
from twinloop.description.description import Description, FilePath, get_read_folder
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.position import Position
from twinloop.description.problems import DescriptionError, ProblemCollector
from twinloop.description.text import load_document
from twinloop.exploration.executions.cross_validation import CrossValidation, resolve_models
from twinloop.exploration.executions.factor_checks import (
    FIT,
    INJECT,
    REMEDIES,
    RUN,
    check_factors,
    check_levels_given,
)
from twinloop.exploration.factors.design import Configuration, Design
from twinloop.exploration.factors.factors import Factor, describe_level, format_level
from twinloop.workload.injection import resolve_injection

#: The field that the factors `inject` and `fit` change. Each of their levels is a set.
_SET_FIELD: Final = "workload.inject"
#: The labels of an execution by which the errors are grouped, unless the design names others.
DEFAULT_CELLS: Final = ("platform", "application")


@dataclass(frozen=True)
class SimulationSet:
    """A set of simulations, one of each execution, with the same injected data and changes.

    >>> SimulationSet("best", {"inject": "best"}, ("boot_times", "wall_times"), {}).description
    'replay: boot_times and wall_times are injected'
    >>> SimulationSet("predictions", {"inject": "predictions"}, (), {}).mode
    'predict'
    >>> SimulationSet("fit boots", {"fit": "boots"}, (), {}, ("boots",)).description
    'predict: nothing is injected; boots are fitted to other executions'
    """

    name: str
    #: The label of the level of each factor.
    labels: dict[str, str]
    #: The injected keys.
    keys: tuple[str, ...]
    #: The other changes of the scenarios, by field.
    changes: dict[str, Any]
    #: The models that are fitted to other executions.
    fitted: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        """`replay` if measured data of the execution is injected, otherwise `predict`."""
        return "replay" if self.keys else "predict"

    @property
    def description(self) -> str:
        """The mode, and what is injected."""
        if self.fitted:
            listed = " and ".join(self.fitted)
            return f"predict: nothing is injected; {listed} are fitted to other executions"
        if not self.keys:
            return "predict: nothing is injected"
        *others, last = self.keys
        listed = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        return f"replay: {listed} injected"


class ExecutionDesign(Description):
    """The design of a study over real executions.

    The factor `run` lists files, folders and patterns of executions, `inject` what is taken from
    each execution, `fit` which models are fitted to other executions instead. Each level of
    `inject` and of `fit` is a set. Further factors change fields of the scenarios, as in other
    studies. Every execution is simulated with every set and combination of the further factors.

    >>> design = ExecutionDesign.from_text('''
    ... factors:
    ...   run: [executions/]
    ...   inject: [best, predictions]
    ...   policy.options.published: [true, false]
    ... ''')
    >>> [each.name for each in design.sets()]
    ['best, policy.options.published yes', 'best, policy.options.published no',
     'predictions, policy.options.published yes', 'predictions, policy.options.published no']
    >>> design = ExecutionDesign.from_text("{run: [runs/], inject: [best], fit: [[boots]]}")
    >>> [each.name for each in design.sets()]
    ['best', 'fit boots']
    """

    scenario: FilePath | None = Field(
        None,
        description="a scenario whose workload is replaced by each execution; by default that of "
        "the execution itself",
    )
    factors: dict[str, Factor] = Field(
        description="the factors, by name; `run` is required, and `inject` or `fit`"
    )
    measured: FilePath | None = Field(
        None, description="a table of the measured results of the executions"
    )
    cells: tuple[str, ...] = Field(
        DEFAULT_CELLS, description="the labels of the executions by which the errors are grouped"
    )
    cross_validation: CrossValidation = Field(
        CrossValidation(), description="how models are fitted to other executions"
    )

    #: Whether the file has the factors without the key `factors`.
    _is_flat: bool = PrivateAttr(False)

    def note_positions(self, data: Any, file: str | None, address: Address = ()) -> None:
        """Note where it was read from: the executions are searched and read later."""
        self._position = None if file is None else Position(file, address)
        self._is_flat = isinstance(data, Mapping) and "factors" not in data

    def locate(self, error: InputError, *path: str | int) -> InputError:
        """Add file, line and field of the value at this path to an error, if they are known."""
        is_inside = self._is_flat and len(path) > 1 and path[0] == "factors"
        return super().locate(error, *(path[1:] if is_inside else path))

    def locate_missing(self, error: InputError) -> InputError:
        """Name file, line and field of the design in an error about a file that does not exist."""
        addresses: dict[str, Address] = {
            str(Path(each)): ("factors", RUN, index) for index, each in enumerate(self.patterns)
        }
        for name in ("measured", "scenario"):
            path = getattr(self, name)
            if path is not None and error.kind == "file-not-found":
                addresses[str(path)] = (name,)
        if self._position is None or error.file not in addresses:
            return error
        problem = f"'{error.file}' {error.problem}"
        found = InputError(problem, kind=error.kind, field=error.field, remedy=error.remedy)
        return self.locate(found, *addresses[error.file])

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "factors" in data or RUN not in data:
            return data
        fields = cls.model_fields.keys()
        factors = {name: levels for name, levels in data.items() if name not in fields}
        return {"factors": factors, **{name: data[name] for name in data if name in fields}}

    @field_validator("factors", mode="before")
    @classmethod
    def _wrap_single_levels(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given = [name for name in REMEDIES if name in value]
        single = {name: [value[name]] for name in given if isinstance(value[name], str)}
        findings = ProblemCollector()
        for name in given:
            check_levels_given(findings, name, single.get(name, value[name]))
        findings.check()
        return {**value, **single}

    @model_validator(mode="after")
    def _check_factors(self, info: ValidationInfo) -> ExecutionDesign:
        findings = ProblemCollector()
        check_factors(findings, self.factors)
        if FIT not in self.factors and "cross_validation" in self.model_fields_set:
            findings.add(
                ("cross_validation",),
                "has no effect without the factor `fit`",
                f"remove it, or {REMEDIES[FIT]}",
                kind="no-effect",
            )
        findings.check()
        try:
            self.sets()
        except DescriptionError as error:
            for problem in error.problems:
                findings.add_error(address_from_path(problem.field or "factors"), problem)
        findings.check()
        return self._located(get_read_folder(info))

    def _located(self, folder: Path) -> ExecutionDesign:
        """Return the design with paths relative to the folder of its file."""
        if folder == Path():
            return self
        factors = {name: each.located(name, folder) for name, each in self.factors.items()}
        run = self.factors[RUN]
        names = tuple(map(format_level, run.labels))
        levels = tuple((folder / level).as_posix() for level in run.levels)
        factors[RUN] = run.model_copy(update={"levels": levels, "names": names})
        return self.model_copy(update={"factors": factors})

    def _make_set_design(self, source: str) -> Design:
        """Make the design of the sets of `inject` or `fit`: with all further factors."""
        factor = self.factors[source]
        names = factor.names or tuple(map(_LABELS[source], factor.levels))
        own = factor.model_copy(update={"field": _SET_FIELD, "names": names})
        others = {k: v for k, v in self.factors.items() if k not in REMEDIES}
        order = [name for name in self.factors if name == source or name in others]
        return Design(factors={name: own if name == source else others[name] for name in order})

    @property
    def patterns(self) -> tuple[str, ...]:
        """The files, folders and patterns of the executions."""
        return tuple(map(str, self.factors[RUN].levels))

    @property
    def named_labels(self) -> dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
        """The fields that name labels of executions: those named, and those by default."""
        used, default = self.cross_validation, CrossValidation()
        return {
            ("cells",): (self.cells, DEFAULT_CELLS),
            ("cross_validation", "boots"): (used.boots, default.boots),
            ("cross_validation", "run_times"): (used.run_times, default.run_times),
        }

    def sets(self) -> tuple[SimulationSet, ...]:
        """Return the sets: those of `inject`, then those of `fit`, with all further factors."""
        return tuple(
            self._make_set(source, configuration)
            for source in (INJECT, FIT)
            if source in self.factors
            for configuration in self._make_set_design(source).configurations()
        )

    def _make_set(self, source: str, configuration: Configuration) -> SimulationSet:
        labels = {name: format_level(label) for name, label in configuration.labels.items()}
        parts = [
            labels[name] if name == source else describe_level(name, self.factors[name], label)
            for name, label in configuration.labels.items()
            if name == source or self.factors[name].size != 1
        ]
        changes = dict(configuration.changes)
        level = changes.pop(_SET_FIELD, ())
        name = ", ".join(parts)
        if source == FIT:
            return SimulationSet(name, labels, (), changes, resolve_models(level))
        return SimulationSet(name, labels, resolve_injection(level), changes)


def _label_keys(level: Any) -> str:
    """Label the injected keys: a list by its keys, a preset by its name."""
    return level if isinstance(level, str) else " + ".join(level) or "nothing"


def _label_models(level: Any) -> str:
    """Label the fitted models; a level that is invalid is reported elsewhere."""
    names = (level,) if isinstance(level, str) else level
    return f"fit {' + '.join(map(str, names))}"


#: How the levels of the factors that make sets are labelled.
_LABELS: Final[Mapping[str, Callable[[Any], str]]] = {INJECT: _label_keys, FIT: _label_models}


def is_execution_design(given: Any) -> bool:
    """Whether factors, or the file with them, describe a study over real executions.

    >>> is_execution_design({"run": ["executions/"], "inject": ["best"]})
    True
    >>> is_execution_design({"policy": ["fifo", "easy"]})
    False
    """
    if isinstance(given, ExecutionDesign):
        return True
    if isinstance(given, str | Path):
        try:
            given = load_document(Path(given)).data
        except InputError:
            return False  # reported by the reader of other designs
    if not isinstance(given, Mapping):
        return False
    factors = given.get("factors", given)
    return isinstance(factors, Mapping) and RUN in factors


def read_execution_design(
    given: ExecutionDesign | Mapping[str, Any] | str | Path,
) -> ExecutionDesign:
    """Return a design from a file, a mapping or an `ExecutionDesign`.

    >>> read_execution_design({"run": "executions", "inject": "best"}).patterns
    ('executions',)
    """
    if isinstance(given, ExecutionDesign):
        return given
    if isinstance(given, str | Path):
        return ExecutionDesign.load(given)
    return ExecutionDesign.from_dict(dict(given))
