"""The registry: objects that installed packages, Twinloop included, offer under a name.

They are entry points of Python packages. A plug-in registers a policy, a loss or an optimiser in
this way, and a higher package of Twinloop registers what a lower one needs but may not import, such
as the figures of a trace.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError

#: Pattern of a name that refers to Python code: `module:name`.
CODE_PATTERN: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)

#: The entry points by which packages of Twinloop offer objects to the packages below them.
COMPONENTS: Final = "twinloop.components"


def list_plugins(group: str) -> list[str]:
    """The names that are registered in a group."""
    return [entry.name for entry in entry_points(group=group)]


def load_plugin(group: str, name: str, kind: str, field: str | None = None) -> Any:
    """Import the object that is registered under a name.

    Args:
        group: The group of entry points, such as `twinloop.policies`.
        name: A registered name.
        kind: What the object should be, for messages: `policy`.
        field: The field of the description that has the name, for messages.
    """
    offered = {entry.value: entry for entry in entry_points(group=group) if entry.name == name}
    if len(offered) > 1:
        raise InputError(
            f"several plug-ins define the {kind} '{name}': {', '.join(sorted(offered))}",
            kind="plugin-error",
            field=field,
            remedy="uninstall all but one",
        )
    ((value, entry),) = offered.items()
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
    found = {entry.value: entry for entry in entry_points(group=COMPONENTS, name=name)}
    if len(found) != 1:
        raise ImportError(
            f"{len(found)} components are registered as '{name}': the installation of twinloop is "
            "out of date (install it again)"
        )
    return next(iter(found.values())).load()


def import_code(name: str, field: str | None = None) -> Any:
    """Import the object that `module:name` refers to.

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
        public = [key for key in vars(module) if not key.startswith("_")]
        raise InputError(
            f"'{module_name}' has no '{attribute}'",
            kind="plugin-error",
            field=field,
            remedy=suggest_name(attribute, public),
        )
    return getattr(module, attribute)


def describe_error(error: BaseException) -> str:
    """Describe an exception of foreign code with its type.

    >>> describe_error(KeyError("cores"))
    "KeyError: 'cores'"
    """
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
