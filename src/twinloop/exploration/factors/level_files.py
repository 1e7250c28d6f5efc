"""Files that changes of a scenario name, and where they are.

A path in a file is relative to that file, as everywhere in Twinloop; but which part of a level is a
path, only the field of the scenario tells that it goes to.
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
from twinloop.scenario.parts import change_paths, resolve_option_paths


def resolve_files(path: str, value: Any, folder: Path) -> Any:
    """What a field of a scenario is set to, with all files in it named by absolute paths.

    Args:
        path: The field, as a dotted path.
        value: What it is set to.
        folder: What paths in it are relative to.

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
        return value  # whatever reads the change will complain
    return _at((Scenario,), where, value, folder)


def resolve_all_files(changes: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Changes of a scenario with all files in them named by absolute paths.

    >>> resolve_all_files({"workload": "kth.swf", "seed": 3}, Path("/logs"))
    {'workload': '/logs/kth.swf', 'seed': 3}
    """
    return {path: resolve_files(path, value, folder) for path, value in changes.items()}


def read_platform(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of a scenario with the platform itself in the place of its file, if it is there.

    So a study keeps the platform that was simulated, as it keeps that of its scenario.

    >>> read_platform({"platform": "2x8", "seed": 3})
    {'platform': '2x8', 'seed': 3}
    """
    text = changes.get("platform")
    if not isinstance(text, str) or is_shorthand(text):
        return dict(changes)
    try:
        return {**changes, "platform": Platform.load(text)}
    except InputError:
        return dict(changes)  # the run will fail, and say why


def make_paths_absolute(scenario: Scenario) -> Scenario:
    """The scenario with absolute paths, so that it is the same from any folder.

    >>> scenario = Scenario(platform="1x1", workload="/logs/kth.swf", policy="easy")
    >>> make_paths_absolute(scenario).workload.path
    '/logs/kth.swf'
    """
    found: Scenario = _inside(Scenario, scenario, Path())
    return found


def _at(kinds: tuple[Any, ...], where: Address, value: Any, folder: Path) -> Any:
    """A value that goes to this address below something of these kinds."""
    if not where:
        return _found(kinds, value, folder)
    step, rest = where[0], where[1:]
    if _OPTIONS in kinds and not rest:
        return _options({str(step): value}, folder)[str(step)]
    for kind in kinds:
        below: Any = None
        if _is_description(kind):
            field = kind.model_fields.get(step)
            below = None if field is None else _of_field(field)
        elif get_origin(kind) in ((tuple, list) if isinstance(step, int) else (dict,)):
            below = _kinds(_inner(kind))
        if below is not None:
            return _at(tuple(below), rest, value, folder)
    return value


def _found(kinds: tuple[Any, ...], value: Any, folder: Path) -> Any:
    """A value of one of these kinds, with its files located."""
    if isinstance(value, str):
        return _text(kinds, value, folder)
    if _OPTIONS in kinds and isinstance(value, Mapping):
        return _options(value, folder)
    for kind in kinds:
        if _is_description(kind) and isinstance(value, kind | Mapping):
            return _inside(kind, value, folder)
        if get_origin(kind) in (tuple, list) and isinstance(value, tuple | list):
            inner = tuple(_kinds(_inner(kind)))
            return type(value)(_found(inner, each, folder) for each in value)
        if get_origin(kind) is dict and isinstance(value, Mapping):
            inner = tuple(_kinds(_inner(kind)))
            return {name: _found(inner, each, folder) for name, each in value.items()}
    return value


def _text(kinds: tuple[Any, ...], value: str, folder: Path) -> str:
    """A text, which may be a path, or short for a description that has one."""
    if not value:
        return value
    if _PATH in kinds:
        return value if float in kinds and _is_constant(value) else _absolute(value, folder)
    for kind in filter(_is_description, kinds):
        if kind is Platform:
            return value if is_shorthand(value) else _absolute(value, folder)
        long = _long_form(kind, value)
        found = _inside(kind, long, folder) if isinstance(long, Mapping) else long
        if found is not long:
            (short,) = found.values()  # such as the path of a workload
            return str(short)
    return value


def _long_form(kind: type[Description], value: str) -> Any:
    try:
        return kind._long_form(value)
    except InputError:
        return value  # whatever reads the change will complain


def _inside(kind: type[Description], value: Any, folder: Path) -> Any:
    """A description, or the mapping that it is made from, with its files located."""
    known = isinstance(value, Description)
    changed = {}
    for name, field in kind.model_fields.items():
        if known or name in value:
            old = getattr(value, name) if known else value[name]
            new = _found(tuple(_of_field(field)), old, folder)
            if new is not old and new != old:
                changed[name] = new
    if not changed:
        return value
    # A copy, and not one made anew: what was noted when it was read stays with it.
    return value.model_copy(update=changed) if known else {**value, **changed}


def _options(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return change_paths(options, lambda path: _absolute(path, folder))


class _Path:
    """Stands for the path of a file among the kinds of a field."""


class _Options:
    """Stands for the options of a reader."""


_PATH, _OPTIONS = _Path(), _Options()


def _of_field(field: FieldInfo) -> Iterator[Any]:
    if any(map(_locates, field.metadata)):
        yield _PATH
    if AfterValidator(resolve_option_paths) in field.metadata:
        yield _OPTIONS
    yield from _kinds(field.annotation)


def _kinds(annotation: Any) -> Iterator[Any]:
    """What a type may be: each part of a union, and a mark where it is the path of a file."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        if any(map(_locates, metadata)):
            yield _PATH
        yield from _kinds(inner)
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    else:
        yield annotation


def _inner(kind: Any) -> Any:
    """The type of the items of a tuple, list or mapping."""
    first, *rest = get_args(kind)
    return rest[0] if get_origin(kind) is dict else first


def _locates(metadata: Any) -> bool:
    return isinstance(metadata, AfterValidator) and is_file_path_validator(metadata)


def _is_description(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Description)


def _is_constant(value: str) -> bool:
    """Whether a text is a carbon intensity, and no path; a wrong one is complained about later."""
    try:
        return read_constant(value) is not None
    except InputError:
        return True


def _absolute(value: str, folder: Path) -> str:
    return (folder / value).resolve().as_posix()
