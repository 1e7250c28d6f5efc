"""Copies of the state of one run that is an object of a user's class: a policy or a source."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from twinloop.description.errors import InputError
from twinloop.description.plugins import describe_error


def copy_run_state(state: Any, what: str, own: Iterable[tuple[object, object]] = ()) -> Any:
    """Copy the state of a run by its own method `copy()`, or else by `copy.deepcopy`.

    Args:
        state: The object.
        what: What it is, for the error: `the policy my.module:Mine`.
        own: Objects of the run that a deep copy replaces, each with the object of the copied run.

    >>> copy_run_state([[1]], "the policy mine")
    [[1]]
    >>> copy_run_state((each for each in "ab"), "the policy mine")
    Traceback (most recent call last):
    twinloop.InputError: the policy mine cannot be copied:
        TypeError: cannot pickle 'generator' object
        (give its state a method `copy()`, or run the scenario again up to here) [TL0502]
    """
    own_copy = getattr(state, "copy", None)
    try:
        if callable(own_copy):
            return own_copy()
        return copy.deepcopy(state, {id(old): new for old, new in own})
    except Exception as error:  # any exception can occur in foreign code
        raise InputError(
            f"{what} cannot be copied: {describe_error(error)}",
            kind="invalid-operation",
            remedy="give its state a method `copy()`, or run the scenario again up to here",
        ) from error


def describe_policy(state: Any) -> str:
    """Return the name of the run state of a policy in errors.

    >>> describe_policy(3)
    'the policy builtins:int'
    """
    kind = type(state)
    return f"the policy {kind.__module__}:{kind.__qualname__}"
