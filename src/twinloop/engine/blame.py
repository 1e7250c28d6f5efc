"""What goes wrong in a policy, told so that its author knows where to look."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from twinloop._core import ClusterRun
from twinloop.policy import AnyPolicy
from twinloop.policy.registry import said_by
from twinloop.trace.errors import TwinloopError


@contextmanager
def blaming(policy: AnyPolicy, run: ClusterRun) -> Iterator[None]:
    """Turn an error that a policy raises or causes into one that names policy, time and line."""
    try:
        yield
    except TwinloopError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = ""
        if frames and "twinloop/engine" not in frames[-1].filename.replace("\\", "/"):
            where = f" ({frames[-1].filename}:{frames[-1].lineno})"
        said = str(error) if type(error) in (ValueError, RuntimeError) else said_by(error)
        raise TwinloopError(
            f"the policy {policy.name}{where}, at t = {run.now:g} s: {said}"
        ) from error
