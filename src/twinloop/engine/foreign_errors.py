"""Errors raised by a policy or a source, with its name, the time and the line of code."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from twinloop._core import SourceError
from twinloop.description.errors import TwinloopError
from twinloop.description.plugins import describe_error

if TYPE_CHECKING:
    from twinloop.engine.compiled_scenario import CompiledScenario


class SimulationClock(Protocol):
    """An object with the current time of a run."""

    @property
    def now(self) -> float:
        """The current time (s)."""


def make_foreign_error(
    what: str, now: float, error: Exception | str, trace: TracebackType | None = None
) -> TwinloopError:
    """Make the error of a policy or source, with the line of its code.

    >>> print(make_foreign_error("the source mine", 5.0, "it has no task"))
    the source mine, at t = 5 s: it has no task
    """
    if isinstance(error, str):
        return TwinloopError(f"{what}, at t = {now:g} s: {error}")
    frames = traceback.extract_tb(trace or error.__traceback__)
    where = ""
    last = frames[-1].filename.replace("\\", "/") if frames else ""
    if last and not any(own in last for own in ("twinloop/engine", "twinloop/execution")):
        where = f" ({frames[-1].filename}:{frames[-1].lineno})"
    named = type(error) in (ValueError, RuntimeError, SourceError)
    text = str(error) if named else describe_error(error)
    return TwinloopError(f"{what}{where}, at t = {now:g} s: {text}")


class ForeignErrors:
    """A context that converts an error of a policy or source to one with name, time and line.

    A class, because a small run is not much longer than the overhead of a generator.
    """

    __slots__ = ("_compiled", "_run")

    def __init__(self, compiled: CompiledScenario, run: SimulationClock) -> None:
        self._compiled = compiled
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
        if isinstance(error, SourceError):
            what = f"the source {self._compiled.scenario.source.title}"
        else:
            what = self._name_policy()
        raise make_foreign_error(what, self._run.now, error, trace) from error

    def _name_policy(self) -> str:
        """Return the name of the policy or controller that was called last."""
        cloud = getattr(self._run, "acting_cloud", None)
        if cloud is not None:
            index, number = cloud
            # A controller that gives no orders is not called.
            called = [each for each in self._compiled.providers[index] if each.name != "always-on"]
            named = self._compiled.machines.platform.clouds[index].name
            return f"the controller {called[number].name} of the cloud {named}"
        index = getattr(self._run, "acting_controller", 0)
        policies = (self._compiled.policy, *self._compiled.controllers)
        return f"the {'controller' if index else 'policy'} {policies[index].name}"
