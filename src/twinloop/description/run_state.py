"""Copies of the state of one run that is an object of a user's class: a policy or a source."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.description.plugins import describe_error

_NOT_JSON: Final = object()
_RANDOM: Final = "numpy.random.Generator"


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


def save_run_state(state: Any, what: str | None = None) -> Any:
    """Return the attributes of a run state as values of JSON.

    A class may choose them by a method `state()`, else by `__getstate__`. NumPy's random generators
    are included.

    Args:
        state: The object.
        what: What it is, for the error; by default a policy.

    >>> class Turn:
    ...     def __init__(self):
    ...         self.last = 3
    >>> save_run_state(Turn())
    {'last': 3}
    """
    if callable(getattr(state, "state", None)):
        values = state.state()
    else:
        chooses = "__getstate__" in vars(type(state)) or not hasattr(state, "__dict__")
        values = state.__getstate__() if chooses else vars(state)
    saved = _encode(values)
    if saved is not _NOT_JSON and json.loads(json.dumps(saved)) == saved:
        return saved
    names = (
        [name for name, value in values.items() if _encode(value) is _NOT_JSON]
        if isinstance(values, dict)
        else []
    )
    which = f" (attribute {names[0]!r})" if names else ""
    raise InputError(
        f"the state of {what or describe_policy(state)} cannot be saved: "
        f"it is not made of values of JSON{which}",
        kind="invalid-operation",
        remedy="give its class methods `state()` and `set_state(values)`, with values of JSON",
    )


def restore_run_state(state: Any, saved: Any, what: str | None = None) -> None:
    """Set a run state to saved values: by `set_state(values)`, `__setstate__` or its attributes.

    >>> class Turn:
    ...     last = 0
    >>> turn = Turn()
    >>> restore_run_state(turn, {"last": 3})
    >>> turn.last
    3
    """
    try:
        values = _decode(saved)
        if callable(getattr(state, "set_state", None)):
            state.set_state(values)
        elif hasattr(state, "__setstate__"):
            state.__setstate__(values)
        else:
            vars(state).update(values)
    except Exception as error:  # any error of a foreign class
        raise InputError(
            f"the state of {what or describe_policy(state)} cannot be restored: "
            f"{describe_error(error)}",
            kind="invalid-state",
        ) from error


def _encode(value: Any) -> Any:
    """Return the value with plain data; _NOT_JSON if that is not possible."""
    if isinstance(value, np.random.Generator):
        return {_RANDOM: _encode(value.bit_generator.state)}
    if isinstance(value, dict):
        items = {key: _encode(item) for key, item in value.items()}
        is_json = all(isinstance(key, str) and item is not _NOT_JSON for key, item in items.items())
        return items if is_json else _NOT_JSON
    if isinstance(value, list):
        items_of_list = [_encode(item) for item in value]
        return _NOT_JSON if any(item is _NOT_JSON for item in items_of_list) else items_of_list
    is_plain = value is None or type(value) in (bool, int, float, str)
    return value if is_plain else _NOT_JSON


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {_RANDOM}:
            state = _decode(value[_RANDOM])
            generator = getattr(np.random, str(state["bit_generator"]))()
            generator.state = state
            return np.random.Generator(generator)
        return {key: _decode(item) for key, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value
