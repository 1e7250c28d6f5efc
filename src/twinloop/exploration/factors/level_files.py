"""Paths of files in changes of a scenario.

A path in a file is relative to that file. Whether a part of a level is a path follows from the type
of the field of the scenario that it sets.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from twinloop.description.address import address_from_path
from twinloop.description.description import Description, is_file_path_validator
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.platform.carbon import read_constant
from twinloop.platform.shorthand import is_shorthand
from twinloop.scenario import Scenario
from twinloop.scenario.workflows import change_paths, resolve_option_paths


def resolve_files(path: str, value: Any, folder: Path) -> Any:
    """Make the paths of files in the value of a field of a scenario absolute.

    Args:
        path: The field, as a dotted path.
        value: The value of the field.
        folder: The folder that relative paths refer to.

    >>> logs = Path("/logs")
    >>> resolve_files("workload", "kth.swf", logs), resolve_files("workload.path", "kth.swf", logs)
    ('/logs/kth.swf', '/logs/kth.swf')
    >>> resolve_files("platform.clusters[0]", {"hosts": [{"cores": 8}], "carbon": "uk.csv"}, logs)
    {'hosts': [{'cores': 8}], 'carbon': '/logs/uk.csv'}
    >>> resolve_files("platform", "2x8", logs), resolve_files("platform", "two.yaml", logs)
    ('2x8', '/logs/two.yaml')
    >>> resolve_files("policy", "easy", logs)
    'easy'
    """
    try:
        where = address_from_path(path)
    except InputError:
        return value  # reported when the change is applied
    return _resolve_at((Scenario,), where, value, folder)


def resolve_all_files(changes: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Make all paths of files in changes of a scenario absolute.

    >>> resolve_all_files({"workload": "kth.swf", "seed": 3}, Path("/logs"))
    {'workload': '/logs/kth.swf', 'seed': 3}
    """
    return {path: resolve_files(path, value, folder) for path, value in changes.items()}


def read_platform(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the path of a platform file in changes by the platform, if the file can be read.

    A study then stores the platform that was simulated, as it does for its base scenario.

    >>> read_platform({"platform": "2x8", "seed": 3})
    {'platform': '2x8', 'seed': 3}
    """
    text = changes.get("platform")
    if not isinstance(text, str) or is_shorthand(text):
        return dict(changes)
    try:
        return {**changes, "platform": Platform.load(text)}
    except InputError:
        return dict(changes)  # the run fails and reports the error


def make_paths_absolute(scenario: Scenario) -> Scenario:
    """Return the scenario with absolute paths, which do not depend on the working directory.

    >>> scenario = Scenario(platform="1x1", workload="/logs/kth.swf", policy="easy")
    >>> make_paths_absolute(scenario).workload.path
    '/logs/kth.swf'
    """
    resolved: Scenario = _resolve_description(Scenario, scenario, Path())
    return resolved


def _resolve_at(kinds: tuple[Any, ...], where: Address, value: Any, folder: Path) -> Any:
    """Resolve a value at this address below an object of one of these types."""
    if not where:
        return _resolve_value(kinds, value, folder)
    key, rest = where[0], where[1:]
    if _OPTIONS in kinds and not rest:
        return _resolve_options({str(key): value}, folder)[str(key)]
    for kind in kinds:
        inner: Any = None
        if _is_description(kind):
            field = kind.model_fields.get(key)
            inner = None if field is None else _list_field_kinds(field)
        elif get_origin(kind) in ((tuple, list) if isinstance(key, int) else (dict,)):
            inner = _list_kinds(_get_item_type(kind))
        if inner is not None:
            return _resolve_at(tuple(inner), rest, value, folder)
    return value


def _resolve_value(kinds: tuple[Any, ...], value: Any, folder: Path) -> Any:
    """Resolve the paths in a value of one of these types."""
    if isinstance(value, str):
        return _resolve_text(kinds, value, folder)
    if _OPTIONS in kinds and isinstance(value, Mapping):
        return _resolve_options(value, folder)
    for kind in kinds:
        if _is_description(kind) and isinstance(value, kind | Mapping):
            return _resolve_description(kind, value, folder)
        if get_origin(kind) in (tuple, list) and isinstance(value, tuple | list):
            inner = tuple(_list_kinds(_get_item_type(kind)))
            return type(value)(_resolve_value(inner, each, folder) for each in value)
        if get_origin(kind) is dict and isinstance(value, Mapping):
            inner = tuple(_list_kinds(_get_item_type(kind)))
            return {name: _resolve_value(inner, each, folder) for name, each in value.items()}
    return value


def _resolve_text(kinds: tuple[Any, ...], value: str, folder: Path) -> str:
    """Resolve a text, which may be a path or the short form of a description with a path."""
    if not value:
        return value
    if _PATH in kinds:
        return value if float in kinds and _is_constant(value) else _make_absolute(value, folder)
    for kind in filter(_is_description, kinds):
        if kind is Platform:
            return value if is_shorthand(value) else _make_absolute(value, folder)
        long_form = _long_form(kind, value)
        resolved = (
            _resolve_description(kind, long_form, folder)
            if isinstance(long_form, Mapping)
            else long_form
        )
        if resolved is not long_form:
            (short,) = resolved.values()  # for example the path of a workload
            return str(short)
    return value


def _long_form(kind: type[Description], value: str) -> Any:
    try:
        return kind._long_form(value)
    except InputError:
        return value  # reported when the change is applied


def _resolve_description(kind: type[Description], value: Any, folder: Path) -> Any:
    """Resolve the paths in a description, or in the mapping that it is made from."""
    is_object = isinstance(value, Description)
    changed = {}
    for name, field in kind.model_fields.items():
        if is_object or name in value:
            old = getattr(value, name) if is_object else value[name]
            new = _resolve_value(tuple(_list_field_kinds(field)), old, folder)
            if new is not old and new != old:
                changed[name] = new
    if not changed:
        return value
    # `model_copy` keeps private attributes that were set when the description was read.
    return value.model_copy(update=changed) if is_object else {**value, **changed}


def _resolve_options(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return change_paths(options, lambda path: _make_absolute(path, folder))


class _PathMarker:
    """Marker for the path of a file among the types of a field."""


class _OptionsMarker:
    """Marker for the options of a reader among the types of a field."""


_PATH, _OPTIONS = _PathMarker(), _OptionsMarker()


def _list_field_kinds(field: FieldInfo) -> Iterator[Any]:
    if any(map(_is_path_validator, field.metadata)):
        yield _PATH
    if AfterValidator(resolve_option_paths) in field.metadata:
        yield _OPTIONS
    yield from _list_kinds(field.annotation)


def _list_kinds(annotation: Any) -> Iterator[Any]:
    """Generate the alternatives of a type: each part of a union, and a marker for a path."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        if any(map(_is_path_validator, metadata)):
            yield _PATH
        yield from _list_kinds(inner)
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _list_kinds(part)
    else:
        yield annotation


def _get_item_type(kind: Any) -> Any:
    """Return the type of the items of a tuple, list or mapping."""
    first, *rest = get_args(kind)
    return rest[0] if get_origin(kind) is dict else first


def _is_path_validator(metadata: Any) -> bool:
    return isinstance(metadata, AfterValidator) and is_file_path_validator(metadata)


def _is_description(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Description)


def _is_constant(value: str) -> bool:
    """Whether a text is a carbon intensity, not a path; an invalid one is reported later."""
    try:
        return read_constant(value) is not None
    except InputError:
        return True


def _make_absolute(value: str, folder: Path) -> str:
    return (folder / value).resolve().as_posix()
