"""Designs: which combinations of levels a study runs, with which seeds."""

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
from twinloop.description.quantities import Whole
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

#: How many combinations a Latin hypercube has unless it is said.
SAMPLES: Final = 50
#: Names that columns of the tables have already.
TAKEN: Final = frozenset(
    {"run", "configuration", "name", "seed", "runs", "failed_runs", "seconds", "error", *KPIS}
)
#: More runs than this are taken for a slip.
MOST: Final = 1_000_000


#: A level: what it is called, and its value.
Level = tuple[Label, Any]


@dataclass(frozen=True)
class Configuration:
    """One combination of levels.

    >>> next(Design(factors={"policy": ["fifo", "easy"]}).configurations())
    Configuration(number=0, name='fifo', labels={'policy': 'fifo'}, changes={'policy': 'fifo'})
    """

    number: int
    name: str
    #: The level of each factor that is active, as tables call it.
    labels: dict[str, Label]
    #: What it changes in the scenario.
    changes: dict[str, Any]


class Design(Description):
    """Factors, their levels, how they are combined, and the seeds.

    `factorial`: every combination. `one-at-a-time`: the first level of all, then one factor at
    another level. `latin-hypercube`: `samples` combinations that cover all ranges evenly. `list`:
    the combinations in `points`, and no others.

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

    scenario: FilePath | None = Field(None, description="the scenario that is changed")
    design: Literal["factorial", "one-at-a-time", "latin-hypercube", "list"] = Field(
        "factorial", description="how levels are combined"
    )
    factors: dict[str, Factor] = Field(description="what is changed, by name")
    points: tuple[dict[str, Any], ...] = Field(
        (), description="the combinations of a list: a level for each factor that is not as usual"
    )
    samples: int = Field(SAMPLES, ge=1, le=MOST, description="combinations of a Latin hypercube")
    seeds: tuple[Whole, ...] = Field(
        (), description="seeds of the runs of each combination, or how many: 3 is 0, 1, 2"
    )
    seed: int = Field(
        0, ge=0, le=2**63 - 1, description="where the randomness of a Latin hypercube starts"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        seeds = ("seeds", "seed")
        if not isinstance(data, Mapping) or data.keys() & (cls.model_fields.keys() - {*seeds}):
            return data
        # The factors alone, and the seeds among them: these are one more thing to vary.
        factors = {name: levels for name, levels in data.items() if name not in seeds}
        named = [data[name] for name in seeds if name in data]
        if len(named) > 1:
            raise InputError("seeds and seed stand for the same among factors: give one")
        if not factors:
            return data
        return {"factors": factors, **({"seeds": named[0]} if named else {})}

    @field_validator("seeds", mode="before")
    @classmethod
    def _count(cls, value: Any) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return tuple(range(value)) if whole and 1 <= value <= MOST else value

    @field_serializer("points")
    def _without_objects(self, points: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        """The points, with the names of levels that are objects in memory in their place."""
        return [
            {
                name: _meant(self.factors[name], level)[0] if has_object(level) else level
                for name, level in point.items()
            }
            for point in points
        ]

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Design:
        findings = ProblemCollector()
        names = list(self.factors)
        if not names:
            findings.add(("factors",), "nothing is changed", "name a factor: policy: [fifo, easy]")
        for name, factor in self.factors.items():
            if name in TAKEN:
                remedy = (
                    "list `seeds` beside the factors" if name == "seed" else "call it otherwise"
                )
                findings.add(("factors", name), "is the name of a column of the results", remedy)
            if factor.range is not None and self.design not in ("latin-hypercube", "list"):
                what = f"has a range, and {self.design} needs levels"
                findings.add(("factors", name, "range"), what, "list some levels")
            try:
                for value in factor.levels or factor.range or ():
                    list_changes(name, factor, value)
            except InputError as error:
                findings.add(("factors", name, "field"), error.problem, error.remedy)
            self._check_when(findings, name, factor)
        if (self.design == "list") != bool(self.points):
            findings.add(("points",), "are for the design `list`, and it needs them")
        for place, point in enumerate(self.points):
            for name in point:
                if name not in self.factors:
                    where = ("points", place, name)
                    findings.add(where, "is no factor", suggest_name(name, names))
        if len(set(self.seeds)) < len(self.seeds):
            findings.add(("seeds",), "has a seed twice")
        findings.check()
        folder = get_read_folder(info)
        return self if folder == Path() else self.located(folder)

    def located(self, folder: Path, *, whole: bool = False) -> Design:
        """The design with all files in its levels named by absolute paths, called as before.

        Args:
            folder: What paths in it are relative to.
            whole: Whether a platform in a file is read, and put in the place of its path.

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
        before = list(self.factors)[: list(self.factors).index(name)]
        for other, wanted in factor.when.items():
            where = ("factors", name, "when", other)
            if other not in before:
                remedy = "name it before this one" if other in self.factors else None
                findings.add(where, "is no factor above", remedy or suggest_name(other, before))
                continue
            known = self.factors[other].labels
            for level in wanted:
                if known and not any(matches_level(label, level) for label in known):
                    what = f"has no level {label_level(level)!r}"
                    findings.add(where, what, f"known: {_listed(known)}")

    def configurations(self) -> Iterator[Configuration]:
        """All combinations, each once, in a fixed order."""
        seen: set[tuple[tuple[str, Label], ...]] = set()
        for values in self._combinations():
            labels: dict[str, Label] = {}
            changes: dict[str, Any] = {}
            for name, factor in self.factors.items():
                active = all(
                    any(matches_level(labels.get(other), level) for level in wanted)
                    for other, wanted in factor.when.items()
                )
                if active and name in values:
                    labels[name], value = values[name]
                    changes |= list_changes(name, factor, value)
            key = tuple(labels.items())
            if key not in seen:
                seen.add(key)
                yield Configuration(len(seen) - 1, self._name(labels), labels, changes)

    def _name(self, labels: Mapping[str, Label]) -> str:
        """What it is called: by all levels that not every configuration has."""
        told = {
            name: describe_level(name, self.factors[name], label) for name, label in labels.items()
        }
        several = [name for name in told if self.factors[name].size != 1]
        return ", ".join(told[name] for name in several or told) or "nothing changed"

    def _combinations(self) -> Iterator[dict[str, Level]]:
        factors = self.factors
        if self.design == "factorial":
            for values in product(*map(_levels, factors.values())):
                yield dict(zip(factors, values, strict=True))
        elif self.design == "one-at-a-time":
            usual = {name: _levels(factor)[0] for name, factor in factors.items()}
            yield usual
            for name, factor in factors.items():
                for level in _levels(factor)[1:]:
                    yield usual | self._reached(name) | {name: level}
        elif self.design == "list":
            for point in self.points:
                yield {name: _meant(factors[name], level) for name, level in point.items()}
        else:
            yield from self._hypercube()

    def _reached(self, name: str) -> dict[str, Level]:
        """The levels of other factors that a factor needs to be active."""
        found: dict[str, Level] = {}
        for other, wanted in self.factors[name].when.items():
            factor = self.factors[other]
            if not any(matches_level(factor.labels[0], level) for level in wanted):
                found |= self._reached(other) | {other: _meant(factor, wanted[0])}
        return found

    def _hypercube(self) -> Iterator[dict[str, Level]]:
        from scipy.stats.qmc import LatinHypercube

        shares = LatinHypercube(len(self.factors), rng=self.seed).random(self.samples)
        for row in shares:
            yield {
                name: _sampled(factor, float(share))
                for (name, factor), share in zip(self.factors.items(), row, strict=True)
            }


def read_design(given: Design | Mapping[str, Any] | str | Path) -> Design:
    """A design, from a file, from a mapping, or as it is.

    >>> read_design({"policy": ["fifo", "easy"]}).design
    'factorial'
    """
    if isinstance(given, Design):
        return given
    return Design.load(given) if isinstance(given, str | Path) else Design.from_dict(dict(given))


def _levels(factor: Factor) -> list[Level]:
    return list(zip(factor.labels, factor.levels, strict=True))


def _sampled(factor: Factor, share: float) -> Level:
    if factor.range is None:
        return _levels(factor)[factor.place(share)]
    value = factor.sampled(share)
    return label_level(value), value


def _meant(factor: Factor, level: Any) -> Level:
    """The level that is called by its name, or is this value."""
    for label, value in _levels(factor):
        if value is level:
            return label, value
    for label, value in _levels(factor):
        if matches_level(label, level):
            return label, value
    return label_level(level), level


def _listed(labels: tuple[Label, ...]) -> str:
    return ", ".join(map(format_level, labels))
