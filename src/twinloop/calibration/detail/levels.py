"""Levels of detail: the versions of a scenario, read from a file of paths and values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from twinloop.description import DescriptionError
from twinloop.description import text as text_of
from twinloop.description.address import suggest_name
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value
from twinloop.scenario import Scenario

#: The key of the combinations that are left out.
EXCEPT: Final = "except"
#: The largest number of versions; more are treated as an input error.
MAX_VERSIONS: Final = 1000
_EXAMPLE: Final = "such as model.demand: [elastic, fixed]"
#: The largest length of the text of a value in the name of a version.
_MAX_LABEL: Final = 40


@dataclass(frozen=True)
class DetailFactor:
    """A path of the scenario with its levels: a label and a value of each."""

    path: str
    #: The last part of the path, or more of it if two factors end alike.
    name: str
    levels: Mapping[str, Any]


@dataclass(frozen=True)
class Version:
    """A version of the scenario: a level of each factor."""

    number: int
    name: str
    #: The label of the level of each factor, by path.
    labels: Mapping[str, str]
    #: The value at each path.
    changes: Mapping[str, Any]

    def count_differences(self, other: Version) -> int:
        """Count the factors in which two versions differ.

        >>> first, *_, last = Levels.of({"policy": ["fcfs", "easy"], "seed": [1, 2]}).versions
        >>> first.count_differences(last)
        2
        """
        return sum(self.labels[path] != other.labels[path] for path in self.labels)


@dataclass(frozen=True)
class Levels:
    """The factors of a study and the combinations that are left out.

    >>> levels = Levels.of({"model.demand": ["elastic", "fixed"], "policy": ["fcfs", "easy"],
    ...                     "except": [{"model.demand": "fixed", "policy": "easy"}]})
    >>> [version.name for version in levels.versions]
    ['elastic, fcfs', 'elastic, easy', 'fixed, fcfs']
    """

    factors: tuple[DetailFactor, ...]
    versions: tuple[Version, ...]
    #: The combinations that are left out: the labels of some factors, by path.
    exceptions: tuple[Mapping[str, str], ...] = ()
    _document: ParsedDocument | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, given: Levels | Mapping[str, Any] | str | Path) -> Levels:
        """Read levels from a file, or from a mapping of paths to lists of values."""
        if isinstance(given, Levels):
            return given
        document = (
            text_of.load_document(Path(given))
            if isinstance(given, str | Path)
            else ParsedDocument(dict(given))
        )
        return _LevelsReader(document).read()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, the levels by their labels."""
        return {
            "factors": [
                {"path": each.path, "name": each.name, "levels": dict(each.levels)}
                for each in self.factors
            ],
            "except": [dict(each) for each in self.exceptions],
        }

    def apply(self, version: Version, scenario: Scenario) -> Scenario:
        """Make a version of a scenario; an error names the version and the line of the value.

        >>> levels = Levels.of({"policy": ["fcfs", "esy"]})
        >>> scenario = Scenario(platform="2x8", policy="easy", workload="log.swf")
        >>> levels.apply(levels.versions[1], scenario)
        Traceback (most recent call last):
        twinloop.InputError: policy: the version 'esy' is no valid scenario: ...
        """
        # Whole fields are set before parts of them.
        changes = dict(sorted(version.changes.items(), key=lambda change: len(change[0])))
        try:
            return scenario.replace(**changes)
        except InputError as error:
            first = error.problems[0] if isinstance(error, DescriptionError) else error
            raise self.locate(first, version) from None

    def locate(self, error: InputError, version: Version) -> InputError:
        """Add the version, and the line of its value, to an error about the scenario of it."""
        path = _find_path(error, version)
        label = None if path is None else version.labels[path]
        line = None
        if path is not None and self._document is not None:
            found = self._document.data[path]
            keys = list(found) if isinstance(found, dict) else range(len(found))
            names = list(next(each for each in self.factors if each.path == path).levels)
            line = self._document.line((path, keys[names.index(str(label))]))
        place = "" if error.field in (None, path) else f"{error.field}: "
        return InputError(
            f"the version '{version.name}' is no valid scenario: {place}{error.problem}",
            kind=error.kind,
            file=None if self._document is None else self._document.file,
            line=line,
            field=path,
            remedy=error.remedy or f"leave the version out with `{EXCEPT}`",
        )


def _find_path(error: InputError, version: Version) -> str | None:
    """Find the path of the level that an error is about: the longest that is part of its field."""
    about = error.field or error.problem
    for path in sorted(version.changes, key=len, reverse=True):
        if about.startswith(path) or path.startswith(about):
            return path
    return next(iter(version.changes)) if len(version.changes) == 1 else None


class _LevelsReader:
    """A reader of levels that collects all problems with their lines."""

    def __init__(self, document: ParsedDocument) -> None:
        self.document = document
        self.problems: list[InputError] = []

    def read(self) -> Levels:
        data = self.document.data
        if not isinstance(data, dict) or not data.keys() - {EXCEPT}:
            raise self._problem((), "must map paths of the scenario to lists of values", _EXAMPLE)
        levels = {
            str(path): self._read_levels(str(path), given)
            for path, given in data.items()
            if path != EXCEPT
        }
        self._raise()
        names = _shorten_paths(list(levels))
        factors = tuple(DetailFactor(path, names[path], found) for path, found in levels.items())
        exceptions = self._read_exceptions(data.get(EXCEPT, []), factors)
        self._raise()
        versions = self._make_versions(factors, exceptions)
        return Levels(factors, versions, tuple(exceptions), self.document)

    def _read_levels(self, path: str, given: Any) -> dict[str, Any]:
        """Read the levels of a factor: a list of values, or a mapping of labels to values."""
        if isinstance(given, dict) and given:
            return {str(label): value for label, value in given.items()}
        if not isinstance(given, list):
            self._note((path,), f"must be a list of values, not {quote_value(given)}", _EXAMPLE)
            return {}
        if not given:
            self._note((path,), "has no value", _EXAMPLE, kind="too-few-values")
        found: dict[str, Any] = {}
        for place, value in enumerate(given):
            label = _label(value)
            if label in found:
                self._note((path, place), f"has {label} twice", kind="duplicate-name")
            found[label] = value
        return found

    def _read_exceptions(
        self, given: Any, factors: tuple[DetailFactor, ...]
    ) -> list[Mapping[str, str]]:
        if not isinstance(given, list):
            self._note((EXCEPT,), f"must be a list of combinations, not {quote_value(given)}")
            return []
        by_path = {each.path: each for each in factors}
        combinations: list[Mapping[str, str]] = []
        for place, combination in enumerate(given):
            if not isinstance(combination, dict) or not combination:
                self._note(
                    (EXCEPT, place), f"must map paths to values, not {quote_value(combination)}"
                )
                continue
            labels = {}
            for path, value in combination.items():
                address = (EXCEPT, place, str(path))
                if path not in by_path:
                    remedy = suggest_name(str(path), list(by_path))
                    self._note(
                        address, "is not a path of these levels", remedy, kind="unknown-name"
                    )
                    continue
                label = _label(value)
                if label not in by_path[path].levels:
                    remedy = suggest_name(label, list(by_path[path].levels))
                    problem = f"{label} is not a level of {path}, so it matches no version"
                    self._note(address, problem, remedy, kind="unknown-name")
                labels[path] = label
            combinations.append(labels)
        return combinations

    def _make_versions(
        self, factors: tuple[DetailFactor, ...], exceptions: list[Mapping[str, str]]
    ) -> tuple[Version, ...]:
        count = 1
        for factor in factors:
            count *= len(factor.levels)
        if count > MAX_VERSIONS:
            raise self._problem(
                (), f"has {count:,} versions, more than {MAX_VERSIONS:,}", kind="out-of-range"
            )
        matched = [False] * len(exceptions)
        kept: list[dict[str, str]] = []
        for chosen in product(*(factor.levels for factor in factors)):
            labels = {factor.path: label for factor, label in zip(factors, chosen, strict=True)}
            matching = [each.items() <= labels.items() for each in exceptions]
            # A combination that an earlier one has left out matches, too.
            matched = [old or new for old, new in zip(matched, matching, strict=True)]
            if not any(matching):
                kept.append(labels)
        for place, found in enumerate(matched):
            if not found:
                self._note((EXCEPT, place), "matches no version")
        if not kept:
            self._note((EXCEPT,), "leaves out all versions", kind="too-few-values")
        self._raise()
        unclear = _find_unclear_labels(factors)
        return tuple(
            Version(
                number,
                ", ".join(
                    f"{factor.name}={labels[factor.path]}"
                    if labels[factor.path] in unclear
                    else labels[factor.path]
                    for factor in factors
                ),
                labels,
                {factor.path: factor.levels[labels[factor.path]] for factor in factors},
            )
            for number, labels in enumerate(kept, start=1)
        )

    def _note(self, *arguments: Any, **options: Any) -> None:
        self.problems.append(self._problem(*arguments, **options))

    def _problem(
        self,
        address: tuple[str | int, ...],
        problem: str,
        remedy: str | None = None,
        *,
        kind: str = "wrong-type",
    ) -> InputError:
        field = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
            for place, step in enumerate(address)
        )
        return InputError(
            problem,
            kind=kind,
            file=self.document.file,
            line=self.document.line(address),
            field=field or None,
            remedy=remedy,
        )

    def _raise(self) -> None:
        if self.problems:
            raise DescriptionError(self.problems)


def _label(value: Any) -> str:
    """Return the text of a value in names and tables."""
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, default=str).replace('"', "")
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"


def _shorten_paths(paths: list[str]) -> dict[str, str]:
    """Shorten each path to its last parts, as few as tell the paths apart.

    >>> _shorten_paths(["model.detail.network", "model.detail.storage", "policy"])
    {'model.detail.network': 'network', 'model.detail.storage': 'storage', 'policy': 'policy'}
    """
    names = {}
    for path in paths:
        steps = path.split(".")
        for count in range(1, len(steps) + 1):
            name = ".".join(steps[-count:])
            if sum(f".{other}".endswith(f".{name}") for other in paths) == 1:
                break
        names[path] = name
    return names


def _find_unclear_labels(factors: tuple[DetailFactor, ...]) -> set[str]:
    """Find labels that say nothing without their factor: of two factors, or no words."""
    counts = Counter(label for factor in factors for label in factor.levels)
    return {
        label
        for label, count in counts.items()
        if count > 1 or label in ("true", "false", "null") or not label[:1].isalpha()
    }
