"""Errors raised by a policy, with the policy, the time and the line of code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from twinloop.description.errors import TwinloopError
from twinloop.description.plugins import describe_error
from twinloop.policy import AnyPolicy


class SimulationClock(Protocol):
    """An object with the current time of a run."""

    @property
    def now(self) -> float:
        """The current time (s)."""


@contextmanager
def attribute_error(policy: AnyPolicy, run: SimulationClock) -> Iterator[None]:
    """Convert an error raised or caused by a policy to an error with policy, time and line."""
    try:
        yield
    except TwinloopError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = ""
        last = frames[-1].filename.replace("\\", "/") if frames else ""
        if last and not any(own in last for own in ("twinloop/engine", "twinloop/execution")):
            where = f" ({frames[-1].filename}:{frames[-1].lineno})"
        text = str(error) if type(error) in (ValueError, RuntimeError) else describe_error(error)
        raise TwinloopError(
            f"the policy {policy.name}{where}, at t = {run.now:g} s: {text}"
        ) from error
