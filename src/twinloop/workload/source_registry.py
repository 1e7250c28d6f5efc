"""Registry of sources: built-in ones, plug-ins, and Python classes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from twinloop.description.class_registry import ClassRegistry, construct
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.workload.source import Source

#: The group of entry points in which an installed package registers its sources.
SOURCE_GROUP: Final = "twinloop.sources"

#: The names of the built-in sources.
BUILT_IN_SOURCES: Final = ("rigid", "sessions")

_REGISTRY: Final = ClassRegistry("source", SOURCE_GROUP, BUILT_IN_SOURCES)


def check_source_name(name: str) -> None:
    """Raise an error for an unknown name of a source. No code is imported.

    >>> check_source_name("rigit")
    Traceback (most recent call last):
    twinloop.InputError: no source is called 'rigit' (did you mean 'rigid'?) [TL0209]
    """
    _REGISTRY.check_name(name)


def resolve_source(
    name: str, options: Mapping[str, Any] | None = None, allow_code: bool = False
) -> Source:
    """Create the source of a plug-in, or of `module:Class`, with these options.

    Args:
        name: Name of a source of an installed plug-in, or `module:Class`.
        options: Options of the source; options that are not given have their defaults.
        allow_code: Whether `module:Class` may be imported and run.

    >>> resolve_source("my.users:Mine")
    Traceback (most recent call last):
    twinloop.description.class_registry.CodeNotAllowed: 'my.users:Mine' is Python code, which
        needs permission to run
        (--allow-code on the command line, allow_code=True in Python) [TL0224]
    """
    # Not needed for built-in sources.
    from twinloop.workload.source import Source

    loaded = _REGISTRY.load(name, allow_code=allow_code)
    if not isinstance(loaded, type) or not issubclass(loaded, Source):
        raise InputError(
            f"'{name}' is not a source class",
            kind="wrong-interface",
            remedy="derive it from twinloop.workload.Source",
        )
    source: Source = construct(name, loaded, options or {})
    return source
