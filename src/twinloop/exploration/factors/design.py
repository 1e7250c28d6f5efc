"""Experimental designs: the combinations of levels and the seeds of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from twinloop.description.address import suggest_name
from twinloop.description.description import Description, FilePath, get_read_folder
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Whole, quote_value
from twinloop.exploration.factors.factors import (
    Factor,
    Label,
    describe_level,
    format_level,
    has_object,
    label_level,
    list_changes,
    matches_level,
)
from twinloop.exploration.ranking.objectives import KPIS

#: Default number of combinations of a Latin hypercube.
DEFAULT_SAMPLES: Final = 50
#: Names of columns of the result tables, which must not be names of factors.
RESERVED_NAMES: Final = frozenset(
    {"run", "configuration", "name", "seed", "runs", "failed_runs", "seconds", "error", *KPIS}
)
#: Maximum number of runs of a study; a larger number is treated as an input error.
MAX_RUNS: Final = 1_000_000


#: A level: its label and its value.
Level = tuple[Label, Any]


@dataclass(frozen=True)
class Configuration:
    """One combination of levels.

    >>> next(Design(factors={"policy": ["fifo", "easy"]}).configurations())
    Configuration(number=0, name='fifo', labels={'policy': 'fifo'}, changes={'policy': 'fifo'})
    """

    number: int
    name: str
    #: The label of the level of each active factor.
    labels: dict[str, Label]
    #: The new values, by field of the scenario.
    changes: dict[str, Any]


class Design(Description):
    """An experimental design: factors, their levels, the rule of combination, and the seeds.

    `factorial`: every combination. `one-at-a-time`: the first level of all factors, then one factor
    at a time at another level. `latin-hypercube`: `samples` combinations that cover all ranges
    evenly. `list`: the combinations in `points`.

    >>> design = Design.from_text('''
    ... factors:
    ...   platform: [4x4, 2x8]
    ...   policy: [baseline-ic1, first-fit, pack-ic, spread-ic, spread-vcpu]
    ...   overcommit:
    ...     levels: [1, 1.25, 1.5, 2]
    ...     when: {policy: [pack-ic, spread-ic, spread-vcpu]}
    ... seeds: 3
    ... ''')
    >>> len(list(design.configurations())), len(design.seeds)
    (28, 3)
    """

    scenario: FilePath | None = Field(None, description="the base scenario, which is changed")
    design: Literal["factorial", "one-at-a-time", "latin-hypercube", "list"] = Field(
        "factorial", description="how levels are combined"
    )
    factors: dict[str, Factor] = Field(description="the factors, by name")
    points: tuple[dict[str, Any], ...] = Field(
        (), description="the combinations of a list: a level for each factor that is changed"
    )
    samples: int = Field(
        DEFAULT_SAMPLES, ge=1, le=MAX_RUNS, description="combinations of a Latin hypercube"
    )
    seeds: tuple[Whole, ...] = Field(
        (), description="seeds of the runs of each combination, or their number: 3 means 0, 1, 2"
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="random seed of a Latin hypercube")

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        seeds = ("seeds", "seed")
        if not isinstance(data, Mapping) or data.keys() & (cls.model_fields.keys() - {*seeds}):
            return data
        # The short form is a mapping of factors, which may include the seeds.
        factors = {name: levels for name, levels in data.items() if name not in seeds}
        named = [data[name] for name in seeds if name in data]
        if len(named) > 1:
            raise InputError(
                "seeds and seed have the same meaning among factors: give one of them",
                kind="conflicting-fields",
            )
        if not factors:
            return data
        return {"factors": factors, **({"seeds": named[0]} if named else {})}

    @field_validator("seeds", mode="before")
    @classmethod
    def _expand_seed_count(cls, value: Any) -> Any:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if is_integer and 1 <= value <= MAX_RUNS:
            return tuple(range(value))
        if is_integer and value > MAX_RUNS:
            raise InputError(f"must be at most {MAX_RUNS:,}, not {value:,}", kind="out-of-range")
        if isinstance(value, int | float | str):
            given = quote_value(value)
            problem = f"must be a positive whole number, or a list of seeds, not {given}"
            raise InputError(problem, kind="out-of-range" if is_integer else "wrong-type")
        return value

    @field_serializer("points")
    def _serialise_points(self, points: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        """Replace levels that are objects in memory by their labels."""
        return [
            {
                name: _find_level(self.factors[name], level)[0] if has_object(level) else level
                for name, level in point.items()
            }
            for point in points
        ]

    @model_validator(mode="after")
    def _check_fields(self, info: ValidationInfo) -> Design:
        findings = ProblemCollector()
        names = list(self.factors)
        if not names:
            findings.add(
                ("factors",),
                "there is no factor",
                "add one: policy: [fifo, easy]",
                kind="missing-field",
            )
        for name, factor in self.factors.items():
            if name in RESERVED_NAMES:
                remedy = (
                    "list `seeds` beside the factors" if name == "seed" else "choose another name"
                )
                findings.add(
                    ("factors", name),
                    "is the name of a column of the results",
                    remedy,
                    kind="duplicate-name",
                )
            if factor.range is not None and self.design not in ("latin-hypercube", "list"):
                problem = f"is a range, but the design {self.design} needs levels"
                findings.add(("factors", name, "range"), problem, "list levels", kind="wrong-type")
            try:
                for value in factor.levels or factor.range or ():
                    list_changes(name, factor, value)
            except InputError as error:
                findings.add_error(("factors", name, "field"), error)
            self._check_when(findings, name, factor)
        if (self.design == "list") != bool(self.points):
            findings.add(
                ("points",),
                "are required by the design `list`, and only used by it",
                kind="conflicting-fields",
            )
        for index, point in enumerate(self.points):
            for name in point:
                if name not in self.factors:
                    where = ("points", index, name)
                    findings.add(
                        where,
                        "is not a factor",
                        suggest_name(name, names),
                        kind="unknown-reference",
                    )
        if len(set(self.seeds)) < len(self.seeds):
            findings.add(("seeds",), "contains a seed twice", kind="duplicate-name")
        findings.check()
        folder = get_read_folder(info)
        return self if folder == Path() else self.located(folder)

    def located(self, folder: Path, *, whole: bool = False) -> Design:
        """Return the design with absolute paths of all files in its levels; the labels stay.

        Args:
            folder: The folder that relative paths refer to.
            whole: Whether the path of a platform file is replaced by the platform in it.

        >>> found = Design(factors={"workload": ["kth.swf"]}).located(Path("/logs"))
        >>> next(found.configurations())  # doctest: +NORMALIZE_WHITESPACE
        Configuration(number=0, name='kth.swf', labels={'workload': 'kth.swf'},
                      changes={'workload': '/logs/kth.swf'})
        """
        more = {name: [each[name] for each in self.points if name in each] for name in self.factors}
        factors = {
            name: factor.located(name, folder, more[name], whole=whole)
            for name, factor in self.factors.items()
        }
        same = all(new is self.factors[name] for name, new in factors.items())
        return self if same else self.model_copy(update={"factors": factors})

    def _check_when(self, findings: ProblemCollector, name: str, factor: Factor) -> None:
        earlier = list(self.factors)[: list(self.factors).index(name)]
        for other, levels in factor.when.items():
            where = ("factors", name, "when", other)
            if other not in earlier:
                remedy = "define it before this factor" if other in self.factors else None
                findings.add(
                    where,
                    "is not a factor defined above",
                    remedy or suggest_name(other, earlier),
                    kind="unknown-reference",
                )
                continue
            labels = self.factors[other].labels
            for level in levels:
                if labels and not any(matches_level(label, level) for label in labels):
                    problem = f"has no level {label_level(level)!r}"
                    findings.add(
                        where, problem, f"known: {_join_labels(labels)}", kind="not-a-choice"
                    )

    def configurations(self) -> Iterator[Configuration]:
        """Generate all distinct combinations in a fixed order."""
        seen: set[tuple[tuple[str, Label], ...]] = set()
        for values in self._list_combinations():
            labels: dict[str, Label] = {}
            changes: dict[str, Any] = {}
            for name, factor in self.factors.items():
                active = all(
                    any(matches_level(labels.get(other), level) for level in levels)
                    for other, levels in factor.when.items()
                )
                if active and name in values:
                    labels[name], value = values[name]
                    changes |= list_changes(name, factor, value)
            key = tuple(labels.items())
            if key not in seen:
                seen.add(key)
                yield Configuration(len(seen) - 1, self._make_name(labels), labels, changes)

    def _make_name(self, labels: Mapping[str, Label]) -> str:
        """Name a configuration by its levels, without the factors that have a single level."""
        described = {
            name: describe_level(name, self.factors[name], label) for name, label in labels.items()
        }
        varied = [name for name in described if self.factors[name].size != 1]
        return ", ".join(described[name] for name in varied or described) or "nothing changed"

    def _list_combinations(self) -> Iterator[dict[str, Level]]:
        factors = self.factors
        if self.design == "factorial":
            for values in product(*map(_list_levels, factors.values())):
                yield dict(zip(factors, values, strict=True))
        elif self.design == "one-at-a-time":
            base = {name: _list_levels(factor)[0] for name, factor in factors.items()}
            yield base
            for name, factor in factors.items():
                for level in _list_levels(factor)[1:]:
                    yield base | self._find_activating_levels(name) | {name: level}
        elif self.design == "list":
            for point in self.points:
                yield {name: _find_level(factors[name], level) for name, level in point.items()}
        else:
            yield from self._sample_hypercube()

    def _find_activating_levels(self, name: str) -> dict[str, Level]:
        """Find the levels of other factors that make a factor active."""
        activating: dict[str, Level] = {}
        for other, levels in self.factors[name].when.items():
            factor = self.factors[other]
            if not any(matches_level(factor.labels[0], level) for level in levels):
                activating |= self._find_activating_levels(other) | {
                    other: _find_level(factor, levels[0])
                }
        return activating

    def _sample_hypercube(self) -> Iterator[dict[str, Level]]:
        from scipy.stats.qmc import LatinHypercube

        shares = LatinHypercube(len(self.factors), rng=self.seed).random(self.samples)
        for row in shares:
            yield {
                name: _sample_level(factor, float(share))
                for (name, factor), share in zip(self.factors.items(), row, strict=True)
            }


def read_design(given: Design | Mapping[str, Any] | str | Path) -> Design:
    """Return a design from a file, a mapping or a `Design`.

    >>> read_design({"policy": ["fifo", "easy"]}).design
    'factorial'
    """
    if isinstance(given, Design):
        return given
    return Design.load(given) if isinstance(given, str | Path) else Design.from_dict(dict(given))


def _list_levels(factor: Factor) -> list[Level]:
    return list(zip(factor.labels, factor.levels, strict=True))


def _sample_level(factor: Factor, share: float) -> Level:
    if factor.range is None:
        return _list_levels(factor)[factor.place(share)]
    value = factor.sampled(share)
    return label_level(value), value


def _find_level(factor: Factor, level: Any) -> Level:
    """Find a level by its value or by its label; any other value is a further level."""
    for label, value in _list_levels(factor):
        if value is level:
            return label, value
    for label, value in _list_levels(factor):
        if matches_level(label, level):
            return label, value
    return label_level(level), level


def _join_labels(labels: tuple[Label, ...]) -> str:
    return ", ".join(map(format_level, labels))
