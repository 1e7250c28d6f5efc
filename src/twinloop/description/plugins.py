"""Objects that installed packages, including Twinloop, register under a name as entry points.

A plug-in registers a policy, a loss or an optimiser in this way. A higher package of Twinloop
registers an object that a lower package needs but may not import, such as the plots of a trace.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError

#: Pattern of a name that refers to Python code: `module:name`.
CODE_PATTERN: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)

#: The group of entry points by which packages of Twinloop register objects for lower packages.
COMPONENTS: Final = "twinloop.components"


def list_plugins(group: str) -> list[str]:
    """Return the names that are registered in a group of entry points."""
    return [entry.name for entry in entry_points(group=group)]


def load_plugin(group: str, name: str, kind: str, field: str | None = None) -> Any:
    """Import the object that is registered under a name.

    Args:
        group: The group of entry points, such as `twinloop.policies`.
        name: A registered name.
        kind: What kind of object it is, for messages: `policy`.
        field: The field of the description that contains the name, for messages.
    """
    candidates = {entry.value: entry for entry in entry_points(group=group) if entry.name == name}
    if len(candidates) > 1:
        raise InputError(
            f"several plug-ins define the {kind} '{name}': {', '.join(sorted(candidates))}",
            kind="plugin-error",
            field=field,
            remedy="uninstall all but one",
        )
    ((value, entry),) = candidates.items()
    try:
        return entry.load()
    except Exception as error:  # any exception can occur while foreign code is imported
        raise InputError(
            f"the plug-in '{name}' ({value}) cannot be loaded: {describe_error(error)}",
            kind="plugin-error",
            field=field,
        ) from error


@cache
def load_component(name: str) -> Any:
    """Import an object that a higher package of Twinloop registers in pyproject.toml.

    >>> load_component("trace-plots").__name__
    'Plots'
    """
    registered = {entry.value: entry for entry in entry_points(group=COMPONENTS, name=name)}
    if len(registered) != 1:
        raise ImportError(
            f"{len(registered)} components are registered as '{name}': the installation of "
            "twinloop is out of date (install it again)"
        )
    return next(iter(registered.values())).load()


def import_code(name: str, field: str | None = None, *, kind: type = object) -> Any:
    """Import the object that `module:name` refers to.

    Args:
        name: `module:name`.
        field: The field of the description that contains the name, for messages.
        kind: The type of the names that an error suggests: `type` for classes.

    >>> import_code("math:pi")
    3.141592653589793
    >>> import_code("math:pie")
    Traceback (most recent call last):
    twinloop.InputError: 'math' has no 'pie' (did you mean 'pi'?) [TL0223]
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # any exception can occur while foreign code is imported
        raise InputError(
            f"'{module_name}' cannot be imported: {describe_error(error)}",
            kind="plugin-error",
            field=field,
        ) from error
    if not hasattr(module, attribute):
        known = _list_own_names(module, kind)
        raise InputError(
            f"'{module_name}' has no '{attribute}'",
            kind="plugin-error",
            field=field,
            remedy=suggest_name(attribute, known) if known else None,
        )
    return getattr(module, attribute)


def _list_own_names(module: ModuleType, kind: type) -> list[str]:
    """List the public names of this kind that a module defines, without those that it imports."""
    return [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and isinstance(value, kind)
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]


def describe_error(error: BaseException) -> str:
    """Describe an exception of foreign code with its type.

    >>> describe_error(KeyError("cores"))
    "KeyError: 'cores'"
    """
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
