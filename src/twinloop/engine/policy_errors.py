"""Errors raised by a policy, with the policy, the time and the line of code."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Protocol

from twinloop.description.errors import TwinloopError
from twinloop.description.plugins import describe_error
from twinloop.policy import AnyPolicy


class SimulationClock(Protocol):
    """An object with the current time of a run."""

    @property
    def now(self) -> float:
        """The current time (s)."""


class PolicyErrors:
    """A context that converts an error of a policy to one with policy, time and line.

    A class, because a small run is not much longer than the overhead of a generator.
    """

    __slots__ = ("_policies", "_run")

    def __init__(self, policies: tuple[AnyPolicy, ...], run: SimulationClock) -> None:
        self._policies = policies
        self._run = run

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, TwinloopError):
            return
        frames = traceback.extract_tb(trace)
        where = ""
        last = frames[-1].filename.replace("\\", "/") if frames else ""
        if last and not any(own in last for own in ("twinloop/engine", "twinloop/execution")):
            where = f" ({frames[-1].filename}:{frames[-1].lineno})"
        index = getattr(self._run, "acting_controller", 0)
        policy, kind_name = self._policies[index], "controller" if index else "policy"
        text = str(error) if type(error) in (ValueError, RuntimeError) else describe_error(error)
        raise TwinloopError(
            f"the {kind_name} {policy.name}{where}, at t = {self._run.now:g} s: {text}"
        ) from error
