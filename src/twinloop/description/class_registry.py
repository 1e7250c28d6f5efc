"""Classes that a description names: built-in ones, plug-ins, and Python classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from twinloop.description.address import address_to_path, suggest_name
from twinloop.description.errors import InputError
from twinloop.description.plugins import (
    CODE_PATTERN,
    describe_error,
    import_code,
    list_plugins,
    load_plugin,
)
from twinloop.description.problems import DescriptionError


class CodeNotAllowed(InputError):
    """Error: a class is named as `module:Class`, but importing code is not allowed."""


class ClassRegistry:
    """The names of one kind of class, such as policies.

    Args:
        kind: The kind, for messages: `policy`.
        group: The group of entry points in which installed packages register classes.
        built_in: The names of the built-in classes.

    >>> registry = ClassRegistry("policy", "twinloop.policies", ["easy"])
    >>> registry.check_name("esay")
    Traceback (most recent call last):
    twinloop.InputError: no policy is called 'esay' (did you mean 'easy'?) [TL0209]
    """

    def __init__(self, kind: str, group: str, built_in: Iterable[str]) -> None:
        self._kind = kind
        self._group = group
        self._built_in = tuple(built_in)

    def check_name(self, name: str) -> None:
        """Raise an error for an unknown name. No code is imported."""
        if name in self._built_in or CODE_PATTERN.fullmatch(name):
            return
        offered = list_plugins(self._group)
        if name not in offered:
            known = [*self._built_in, *offered]
            raise InputError(
                f"no {self._kind} is called '{name}'",
                kind="unknown-name",
                remedy=suggest_name(name, known, listed=len(known)),
            )

    def load(self, name: str, *, allow_code: bool) -> Any:
        """Import the class of a plug-in, or of `module:Class` if code is allowed."""
        self.check_name(name)
        if not CODE_PATTERN.fullmatch(name):
            return load_plugin(self._group, name, self._kind)
        if not allow_code:
            raise CodeNotAllowed(
                f"'{name}' is Python code, which needs permission to run",
                kind="code-not-allowed",
                remedy="--allow-code on the command line, allow_code=True in Python",
            )
        return import_code(name, kind=type)


def construct(name: str, loaded: Any, options: Mapping[str, Any]) -> Any:
    """Create an object of a class with options, which are the arguments of its constructor.

    >>> construct("fraction", complex, {"real": 1.0, "imag": 2.0})
    (1+2j)
    >>> construct("fraction", complex, {"rael": 1.0})
    Traceback (most recent call last):
    twinloop.description.DescriptionError: rael: is not an option of 'fraction'
        (did you mean 'real'? options: real, imag) [TL0203]
    """
    parameters = inspect.signature(loaded).parameters
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    problems = [
        InputError("is missing", kind="missing-field", field=key, remedy=f"'{name}' requires it")
        for key, parameter in named.items()
        if parameter.default is parameter.empty and key not in options
    ]
    if not takes_any:
        problems += [
            make_unknown_option_error(name, key, list(named)) for key in options if key not in named
        ]
    if problems:
        raise DescriptionError(problems)
    try:
        return loaded(**options)
    except InputError:
        raise
    except Exception as error:  # any error of a foreign constructor
        raise InputError(
            f"'{name}' cannot be created with these options: {describe_error(error)}",
            kind="policy-options",
        ) from error


def make_unknown_option_error(name: str, key: str, known: list[str]) -> InputError:
    """Make the error for an option that a class does not have.

    >>> print(make_unknown_option_error("easy", "dept", ["depth"]))
    dept: is not an option of 'easy' (did you mean 'depth'? options: depth) [TL0203]
    """
    close = get_close_matches(key, known, n=1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    remedy = f"{meant}options: {', '.join(known)}" if known else "it has no options"
    return InputError(
        f"is not an option of '{name}'",
        kind="unknown-field",
        field=address_to_path((key,)),
        remedy=remedy,
    )
