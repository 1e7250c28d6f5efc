"""The design of a study over real executions: the executions, and what is injected from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationInfo, field_validator, model_validator

from twinloop.description.description import Description, FilePath, get_read_folder
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.text import load_document
from twinloop.exploration.factors.design import Configuration, Design
from twinloop.exploration.factors.factors import Factor, describe_level, format_level
from twinloop.workload.injection import resolve_injection

#: The factors with a meaning of their own: the executions, and the injected keys.
RUN: Final = "run"
INJECT: Final = "inject"
#: The field of the scenario that the factor `inject` changes.
_INJECT_FIELD: Final = "workload.inject"
#: The labels of an execution by which the errors are grouped, unless the design names others.
DEFAULT_CELLS: Final = ("platform", "application")
_REMEDIES: Final = {
    RUN: "add one: run: [executions/]",
    INJECT: "name what is taken from the executions: inject: [best, predictions]",
}


@dataclass(frozen=True)
class SimulationSet:
    """A set of simulations, one of each execution, with the same injected data and changes.

    >>> SimulationSet("best", {"inject": "best"}, ("boot_times", "wall_times"), {}).description
    'replay: boot_times and wall_times are injected'
    >>> SimulationSet("predictions", {"inject": "predictions"}, (), {}).mode
    'predict'
    """

    name: str
    #: The label of the level of each factor.
    labels: dict[str, str]
    #: The injected keys.
    keys: tuple[str, ...]
    #: The other changes of the scenarios, by field.
    changes: dict[str, Any]

    @property
    def mode(self) -> str:
        """`replay` if measured data of the execution is injected, otherwise `predict`."""
        return "replay" if self.keys else "predict"

    @property
    def description(self) -> str:
        """The mode, and what is injected."""
        if not self.keys:
            return "predict: nothing is injected"
        *others, last = self.keys
        listed = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        return f"replay: {listed} injected"


class ExecutionDesign(Description):
    """The design of a study over real executions.

    The factor `run` lists files, folders and patterns of executions, `inject` what is taken from
    each execution. Further factors change fields of the scenarios, as in other studies. Every
    execution is simulated once with every combination of the other factors.

    >>> design = ExecutionDesign.from_text('''
    ... factors:
    ...   run: [executions/]
    ...   inject: [best, predictions]
    ...   policy.options.published: [true, false]
    ... ''')
    >>> [each.name for each in design.sets()]
    ['best, policy.options.published yes', 'best, policy.options.published no',
     'predictions, policy.options.published yes', 'predictions, policy.options.published no']
    """

    scenario: FilePath | None = Field(
        None,
        description="a scenario whose workload is replaced by each execution; by default that of "
        "the execution itself",
    )
    factors: dict[str, Factor] = Field(
        description="the factors, by name; `run` and `inject` are required"
    )
    measured: FilePath | None = Field(
        None, description="a table of the measured results of the executions"
    )
    cells: tuple[str, ...] = Field(
        DEFAULT_CELLS, description="the labels of the executions by which the errors are grouped"
    )

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
        single = {name: [value[name]] for name in (RUN, INJECT) if isinstance(value.get(name), str)}
        return {**value, **single}

    @model_validator(mode="after")
    def _check_factors(self, info: ValidationInfo) -> ExecutionDesign:
        findings = ProblemCollector()
        for name, remedy in _REMEDIES.items():
            if name not in self.factors:
                findings.add(("factors",), f"has no factor `{name}`", remedy, kind="missing-field")
            elif self.factors[name].range is not None:
                findings.add(("factors", name), "must be a list", remedy, kind="wrong-type")
        run, inject = self.factors.get(RUN), self.factors.get(INJECT)
        for index, level in enumerate(() if run is None else run.levels):
            if not isinstance(level, str) or not level:
                where = ("factors", RUN, "levels", index)
                problem = "must be the path of a file or folder, or a pattern"
                findings.add(where, problem, kind="wrong-type")
        for index, level in enumerate(() if inject is None else inject.levels):
            _check_injection(findings, ("factors", INJECT, "levels", index), level)
        findings.check()
        self._make_set_design()
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

    def _make_set_design(self) -> Design:
        """Make the design of the sets: all factors without the executions."""
        others = {name: factor for name, factor in self.factors.items() if name != RUN}
        inject = others[INJECT]
        names = inject.names or tuple(map(_label_keys, inject.levels))
        others[INJECT] = inject.model_copy(update={"field": _INJECT_FIELD, "names": names})
        return Design(factors=others)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The files, folders and patterns of the executions."""
        return tuple(map(str, self.factors[RUN].levels))

    def sets(self) -> tuple[SimulationSet, ...]:
        """Return the sets of simulations: all combinations of the levels of the other factors."""
        return tuple(map(self._make_set, self._make_set_design().configurations()))

    def _make_set(self, configuration: Configuration) -> SimulationSet:
        labels = {name: format_level(label) for name, label in configuration.labels.items()}
        parts = [
            labels[name] if name == INJECT else describe_level(name, self.factors[name], label)
            for name, label in configuration.labels.items()
            if name == INJECT or self.factors[name].size != 1
        ]
        changes = dict(configuration.changes)
        keys = resolve_injection(changes.pop(_INJECT_FIELD, ()))
        return SimulationSet(", ".join(parts), labels, keys, changes)


def _check_injection(
    findings: ProblemCollector, address: tuple[str | int, ...], level: Any
) -> None:
    """Add a problem if a level is neither a preset nor a list of keys."""
    is_list = isinstance(level, list | tuple) and all(isinstance(key, str) for key in level)
    if not isinstance(level, str) and not is_list:
        problem = "must be the name of a preset, or a list of keys"
        findings.add(address, problem, kind="wrong-type")
        return
    try:
        resolve_injection(level)
    except InputError as error:
        findings.add_error(address, error)


def _label_keys(level: Any) -> str:
    """Label the injected keys: a list by its keys, a preset by its name."""
    return level if isinstance(level, str) else " + ".join(level) or "nothing"


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
