"""What goes wrong in a policy, told so that its author knows where to look."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from twinloop.description.errors import TwinloopError
from twinloop.policy import AnyPolicy
from twinloop.policy.registry import describe_error


class RunClock(Protocol):
    """Something that knows what time it is in a run."""

    @property
    def now(self) -> float:
        """Seconds since t = 0."""


@contextmanager
def attribute_error(policy: AnyPolicy, run: RunClock) -> Iterator[None]:
    """Turn an error that a policy raises or causes into one that names policy, time and line."""
    try:
        yield
    except TwinloopError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = ""
        last = frames[-1].filename.replace("\\", "/") if frames else ""
        if last and not any(own in last for own in ("twinloop/engine", "twinloop/execute")):
            where = f" ({frames[-1].filename}:{frames[-1].lineno})"
        said = str(error) if type(error) in (ValueError, RuntimeError) else describe_error(error)
        raise TwinloopError(
            f"the policy {policy.name}{where}, at t = {run.now:g} s: {said}"
        ) from error
