"""The identity of what a scenario holds beside its values: objects in memory, and code by name."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from twinloop.policy import POLICIES
from twinloop.policy.code_identity import identify, is_user_module
from twinloop.policy.registry import CODE_PATTERN
from twinloop.scenario.parts import PolicyDescription
from twinloop.scenario.randomness import is_random
from twinloop.scenario.scenario import Scenario


class Identities:
    """Names what a description cannot say: the content of workloads, the code of policies.

    Each object is hashed once. One that has no identity gets a name that no other one ever has, so
    that nothing is shared with it, now or later.

    >>> import polars as pl
    >>> from twinloop.trace import Trace
    >>> log = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [5.0]}))
    >>> scenario = Scenario(platform="2x4", policy="easy", workload=log)
    >>> Identities().identify(scenario) == Identities().identify(scenario)
    True
    >>> Identities().identify(scenario.replace(workload="log.swf"))
    {}
    """

    def __init__(self, *, allow_code: bool = False) -> None:
        self._allow_code = allow_code
        self._known: dict[int, tuple[Any, str]] = {}
        self._policies: dict[str, str] = {}
        #: The classes of the policies that are named as `module:Class`, by that name.
        self.code: dict[str, type] = {}

    def identify(self, scenario: Scenario) -> dict[str, str]:
        """The identities of what a scenario holds; InputError where its policy cannot be had."""
        found: dict[str, str] = {}
        held = scenario.workload.object
        if held is not None:
            found["workload"] = self._once(held, lambda workload: workload.content_hash())
        if scenario.policy.object is not None:
            found["policy"] = self._once(scenario.policy.object, _policy_hash)
        elif scenario.policy.name not in POLICIES:
            found |= self._named(scenario.policy)
        return found

    def _named(self, description: PolicyDescription) -> dict[str, str]:
        """The identity of a policy that is code or of a plug-in, by its name and options."""
        key = f"{description.name} {description.options!r}"
        if key not in self._policies:
            policy = description.resolve(allow_code=self._allow_code)
            if CODE_PATTERN.fullmatch(description.name):
                self.code[description.name] = type(policy)
            self._policies[key] = _policy_hash(policy) or uuid4().hex
        return {"policy": self._policies[key]}

    def is_random(self, scenario: Scenario) -> bool:
        """Whether runs of a scenario may differ from seed to seed."""
        return is_random(scenario, allow_code=self._allow_code)

    def _once(self, thing: Any, of: Callable[[Any], str | None]) -> str:
        if id(thing) not in self._known:
            self._known[id(thing)] = (thing, of(thing) or uuid4().hex)  # alive, so its id is its
        return self._known[id(thing)][1]


def _policy_hash(policy: Any) -> str | None:
    """The identity of a policy; of one in an installed package also the bytes of its module."""
    kind = type(policy)
    written = ""
    if not is_user_module(kind.__module__):
        file = Path(inspect.getfile(kind))
        written = hashlib.sha256(file.read_bytes()).hexdigest()
    own = identify(policy)
    return None if own is None else identify((own, written))
