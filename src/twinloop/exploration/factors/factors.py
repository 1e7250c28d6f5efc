"""Factors of a study and their levels: the changes of the scenario."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from twinloop.description.address import address_from_path, suggest_name
from twinloop.description.description import Description
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.exploration.factors.level_files import read_platform, resolve_all_files
from twinloop.policy import BuiltInPolicy, Policy
from twinloop.scenario import Scenario
from twinloop.trace.trace import Trace
from twinloop.workload import Workload

#: Short names of factors that change common fields.
SHORT_NAMES: Final = {"overcommit": "policy.options.overcommit"}
#: Factors whose levels are shown without the name of the factor: `easy`, not `policy easy`.
_SELF_EXPLANATORY: Final = ("platform", "policy", "workload", "source")

#: The memory address in the `repr` of an object, which is removed from its label.
_ADDRESS: Final = re.compile(r" (object )?at 0x[0-9a-fA-F]+")
#: Maximum length of the label of an object.
_MAX_NAME_LENGTH: Final = 80

#: The label of a level in tables: a number for a numeric level.
Label = str | float


class Factor(Description):
    """A property of the scenario that a study varies, and its levels.

    `levels` is sufficient if the name of the factor is the field that it changes, or if each level
    is a mapping of fields. Levels with names are a mapping of name to value.

    >>> Factor.from_dict([1, 2]).levels
    (1, 2)
    >>> Factor.from_dict({"levels": {"small": "2x4", "large": "2x16"}}).labels
    ('small', 'large')
    >>> Factor(range=[0.5, 2]).levels
    ()
    """

    field: str | None = Field(
        None, description="dotted path of the field of the scenario that it changes"
    )
    levels: tuple[Any, ...] = Field((), description="values, or a mapping of names to values")
    names: tuple[str, ...] = Field((), description="names of the levels in tables")
    range: tuple[float, float] | None = Field(
        None, description="lowest and highest value, for a Latin hypercube"
    )
    log: bool = Field(False, description="whether values of the range are spaced logarithmically")
    integer: bool = Field(False, description="whether the range contains only integers")
    when: dict[str, tuple[Any, ...]] = Field(
        {}, description="levels of other factors for which it is active; else it changes nothing"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, list | tuple):
            data = {"levels": data}
        if isinstance(data, Mapping) and isinstance(data.get("levels"), Mapping):
            named = data["levels"]
            data = {**data, "levels": list(named.values()), "names": list(map(str, named))}
        return data

    @field_validator("when", mode="before")
    @classmethod
    def _wrap_single_levels(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {k: v if isinstance(v, list | tuple) else [v] for k, v in value.items()}

    @model_validator(mode="after")
    def _check_levels(self) -> Factor:
        findings = ProblemCollector()
        if (self.range is None) == (not self.levels):
            findings.add(("levels",), "needs either levels or a range", kind="conflicting-fields")
        if self.names and len(self.names) != len(self.levels):
            findings.add(
                ("names",),
                f"are {len(self.names)} for {len(self.levels)} levels",
                kind="wrong-count",
            )
        if self.range is not None and not (self.range[0] < self.range[1]):
            findings.add(
                ("range",), "must be a lower and a higher value, in this order", kind="wrong-order"
            )
        elif self.range is not None and self.log and self.range[0] <= 0:
            findings.add(
                ("range",), "must be positive for a logarithmic scale", kind="out-of-range"
            )
        labels = self.labels
        for label in dict.fromkeys(each for each in labels if labels.count(each) > 1):
            findings.add(
                ("levels",),
                f"contains {label!r} twice",
                "list each level once",
                kind="duplicate-name",
            )
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _serialise(self, handler: SerializerFunctionWrapHandler, _: SerializationInfo) -> Any:
        if not any(map(has_object, self.levels)):
            return handler(self)
        names = tuple(map(format_level, self.labels))
        storable = {"levels": tuple(map(replace_objects, self.levels)), "names": names}
        return handler(self.model_copy(update=storable))

    @property
    def size(self) -> int:
        """The number of levels; 0 for a range.

        >>> Factor.from_dict([1, 2]).size
        2
        """
        return len(self.levels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the levels; equal labels of different objects are numbered.

        >>> from twinloop.trace import Trace
        >>> Factor.from_dict([Trace(), Trace()]).labels
        ('Trace of 0 tasks', 'Trace of 0 tasks (2)')
        """
        if self.names:
            return self.names
        labels: list[Label] = []
        for value in self.levels:
            label, number = label_level(value), 1
            while has_object(value) and label in labels:
                number += 1
                label = f"{label_level(value)} ({number})"
            labels.append(label)
        return tuple(labels)

    def located(
        self, name: str, folder: Path, more: Sequence[Any] = (), *, whole: bool = False
    ) -> Factor:
        """Return the factor with absolute paths of all files in its levels; the labels stay.

        Args:
            name: The name of the factor.
            folder: The folder that relative paths refer to.
            more: Values of the factor that are not levels; values with files become levels.
            whole: Whether the path of a platform file is replaced by the platform in it.

        >>> found = Factor.from_dict(["kth.swf", "ctc.swf"]).located("workload", Path("/logs"))
        >>> found.levels, found.labels
        (('/logs/kth.swf', '/logs/ctc.swf'), ('kth.swf', 'ctc.swf'))
        """
        levels = [_resolve_level(name, self, each, folder, whole) for each in self.levels]
        names = [format_level(label) for label in self.labels]
        is_unchanged = all(new is old for new, old in zip(levels, self.levels, strict=True))
        for value in more:
            label = format_level(label_level(value))
            resolved = value if label in names else _resolve_level(name, self, value, folder, whole)
            if resolved is not value:
                is_unchanged = False
                levels.append(resolved)
                names.append(label)
        update = {"levels": tuple(levels), "names": tuple(names)}
        return self if is_unchanged else self.model_copy(update=update)

    def place(self, share: float) -> int:
        """Return the index of the level at this fraction (0 to 1) of the list of levels.

        >>> Factor.from_dict(["a", "b", "c"]).place(0.5)
        1
        """
        return min(int(share * len(self.levels)), len(self.levels) - 1)

    def sampled(self, share: float) -> Any:
        """Return the value at this fraction (0 to 1) of the range, or of the levels.

        >>> round(Factor(range=[1, 100], log=True).sampled(0.5), 9)
        10.0
        >>> Factor.from_dict(["a", "b", "c"]).sampled(0.99)
        'c'
        """
        if self.range is None:
            return self.levels[self.place(share)]
        low, high = self.range
        if self.integer:
            # On a linear scale, the limits get the same probability as the integers between them.
            low, high = low - 0.5 * (not self.log), high + 0.5 * (not self.log)
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        if not self.integer:
            return value
        first, last = (round(end) for end in self.range)
        return min(max(round(value), first), last)


def format_level(label: Label) -> str:
    """Format the label of a level as text.

    >>> format_level(2.0), format_level("easy")
    ('2', 'easy')
    """
    return f"{label:g}" if isinstance(label, float) else label


def matches_level(label: Label | None, level: Any) -> bool:
    """Whether a value, or a name, refers to the level with this label.

    >>> matches_level(2.0, 2), matches_level("2", 2), matches_level("easy", "fifo")
    (True, True, False)
    """
    level_label = label_level(level)
    return label is not None and label in (level_label, format_level(level_label))


def label_level(value: Any) -> Label:
    """Make the label of a level without a name.

    >>> policy = {"name": "pack-ic", "options": {"overcommit": 2}}
    >>> label_level(2), label_level("easy"), label_level(policy)
    (2.0, 'easy', 'pack-ic overcommit=2')
    """
    if isinstance(value, bool) or value is None:
        return "yes" if value else "no" if value is False else "none"
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and set(value) <= {"name", "options"} and "name" in value:
        options = " ".join(f"{k}={v}" for k, v in (value.get("options") or {}).items())
        return f"{value['name']} {options}".rstrip()
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {label_level(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return json.dumps(value, default=label_level)
    return _name_object(value)


def _name_object(value: Any) -> str:
    """Name an object in memory by its `repr`, or by its class and its plain attributes.

    >>> class Limit:
    ...     def __init__(self, cores):
    ...         self.cores = cores
    >>> _name_object(Limit(3))
    'Limit cores=3'
    """
    if isinstance(value, BuiltInPolicy):
        return str(label_level({"name": value.name, "options": value.to_dict()}))
    if repr(value) != object.__repr__(value):
        text = " ".join(_ADDRESS.sub("", repr(value)).strip("<>").split())
        return text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 3]}..."
    plain = {
        name.lstrip("_"): each
        for name, each in getattr(value, "__dict__", {}).items()
        if isinstance(each, bool | int | float | str) and len(str(each)) <= _MAX_NAME_LENGTH
    }
    return " ".join([type(value).__name__, *(f"{name}={each}" for name, each in plain.items())])


def has_object(value: Any) -> bool:
    """Whether a level is or contains an object that cannot be stored in a file.

    >>> has_object({"policy": object()}), has_object({"policy": "easy"})
    (True, False)
    """
    if isinstance(value, Mapping):
        return any(map(has_object, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_object, value))
    return not (value is None or isinstance(value, bool | int | float | str))


def replace_objects(value: Any) -> Any:
    """Replace every object in memory in a level by a description that can be stored.

    >>> from twinloop.trace import Trace
    >>> replace_objects({"workload": Trace(), "policy": "easy"})
    {'workload': {'object': 'Trace of 0 tasks'}, 'policy': 'easy'}
    """
    if isinstance(value, Description):
        return value.to_dict()
    if isinstance(value, Policy):
        return {"name": value.name, "object": f"Policy {value.name}"}
    if isinstance(value, Trace | Workload):
        return {"object": repr(value).strip("<>")}
    if isinstance(value, Mapping):
        return {name: replace_objects(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace_objects(each) for each in value]
    return label_level(value) if has_object(value) else value


def list_changes(name: str, factor: Factor, value: Any) -> dict[str, Any]:
    """List the fields of a scenario that a level sets, with their values.

    >>> list_changes("overcommit", Factor.from_dict([1, 2]), 2)
    {'policy.options.overcommit': 2}
    >>> list_changes("shape", Factor.from_dict([{"platform": "2x4", "seed": 3}]),
    ...           {"platform": "2x4", "seed": 3})
    {'platform': '2x4', 'seed': 3}
    """
    field = factor.field or SHORT_NAMES.get(name)
    if field is None and _is_field(name):
        field = name
    if field is not None:
        return {field: value}
    if isinstance(value, Mapping) and value and all(map(_is_field, value)):
        return dict(value)
    raise InputError(
        f"the field of the scenario that '{name}' changes is not given",
        kind="missing-field",
        field=f"factors.{name}.field",
        remedy="add a field such as policy.options.overcommit; "
        + suggest_name(name, sorted(Scenario.model_fields)),
    )


def _resolve_level(name: str, factor: Factor, value: Any, folder: Path, whole: bool) -> Any:
    """Return a level with absolute paths of its files; the level itself if it has none."""
    try:
        fields = list_changes(name, factor, value)
    except InputError:
        return value  # reported when the configurations are made
    resolved = resolve_all_files(fields, folder)
    resolved = read_platform(resolved) if whole else resolved
    if resolved == fields:
        return value
    is_mapping_of_fields = isinstance(value, Mapping) and fields == dict(value)
    return resolved if is_mapping_of_fields else next(iter(resolved.values()))


def _is_field(path: Any) -> bool:
    try:
        return isinstance(path, str) and address_from_path(path)[0] in Scenario.model_fields
    except InputError:
        return False


def describe_level(name: str, factor: Factor, label: Label) -> str:
    """Describe a level as a part of the name of a configuration.

    >>> policies, overcommit = Factor.from_dict(["easy"]), Factor(levels=[1, 2])
    >>> describe_level("policy", policies, "easy"), describe_level("overcommit", overcommit, 2.0)
    ('easy', 'overcommit 2')
    """
    text = format_level(label)
    is_self_explanatory = name in _SELF_EXPLANATORY or (
        factor.field is None and name not in SHORT_NAMES and not _is_field(name)
    )
    return text if is_self_explanatory else f"{name} {text}"


def apply_changes(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario with other values in these fields.

    A field is set together with the fields inside it, and validated with them.

    >>> base = Scenario(platform="2x4", policy="easy", workload="log.swf")
    >>> apply_changes(base, {"policy.options.overcommit": 2, "policy": "pack-ic"}).policy.options
    {'overcommit': 2}
    """
    return scenario.replace(**changes)
