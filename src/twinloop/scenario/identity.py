"""Hashes that identify the objects and the code of a scenario, in addition to its values."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from twinloop.description.plugins import CODE_PATTERN
from twinloop.policy import CLIENTS, CONTROLLERS, POLICIES
from twinloop.policy.code_identity import identify, is_user_module
from twinloop.scenario.failures import OLD_ON_FAILURE
from twinloop.scenario.model import INSTANT_GROUPS
from twinloop.scenario.parts import ControllerDescription, PolicyDescription
from twinloop.scenario.randomness import is_random
from twinloop.scenario.scenario import Scenario
from twinloop.workload import SourceDescription


class Identities:
    """Hashes of workloads in memory and of the code of policies and sources.

    Each object is hashed once. An object that cannot be hashed gets a unique random name, so that
    its runs are never reused.

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
        self._hashes: dict[int, tuple[Any, str]] = {}
        self._named: dict[str, str] = {}
        #: The classes of policies and sources that are named as `module:Class`, by that name.
        self.code: dict[str, type] = {}

    def identify(self, scenario: Scenario) -> dict[str, str]:
        """Return the hashes of the objects of a scenario: workload, policy and source, if any.

        Raises InputError if the policy or the source cannot be created.
        """
        hashes: dict[str, str] = {}
        workload = scenario.workload.object
        if workload is not None:
            hashes["workload"] = self._hash_once(workload, lambda workload: workload.content_hash())
        if scenario.policy.object is not None:
            hashes["policy"] = self._hash_once(scenario.policy.object, _hash_code)
        elif scenario.policy.name not in (*POLICIES, *CLIENTS):
            hashes["policy"] = self._hash_named("policy", scenario.policy)
        for index, each in enumerate(scenario.controllers):
            if each.object is not None:
                hashes[f"controllers[{index}]"] = self._hash_once(each.object, _hash_code)
            elif each.name not in (*POLICIES, *CONTROLLERS):
                hashes[f"controllers[{index}]"] = self._hash_named("policy", each)
        hashes |= self._hash_cloud_controllers(scenario)
        if scenario.source.object is not None:
            hashes["source"] = self._hash_once(scenario.source.object, _hash_code)
        elif scenario.source.name is not None:
            hashes["source"] = self._hash_named("source", scenario.source)
        return hashes

    def _hash_cloud_controllers(self, scenario: Scenario) -> dict[str, str]:
        """Return the hashes of the controllers of clouds that are written in Python."""
        hashes: dict[str, str] = {}
        for number, cloud in enumerate(scenario.platform.clouds):
            for role, choice in cloud.controllers:
                if choice is None or not CODE_PATTERN.fullmatch(choice.name):
                    continue
                controller = ControllerDescription(name=choice.name, options=choice.options)
                with choice.locate_creation():
                    hashed = self._hash_named("policy", controller)
                hashes[f"platform.clouds[{number}].controllers.{role}"] = hashed
        return hashes

    def _hash_named(self, kind: str, description: PolicyDescription | SourceDescription) -> str:
        """Return the hash of user code or of a plug-in, by its name and options."""
        name = str(description.name)
        key = f"{kind} {name} {description.options!r}"
        if key not in self._named:
            created = description.resolve(allow_code=self._allow_code)
            if CODE_PATTERN.fullmatch(name):
                self.code[name] = type(created)
            self._named[key] = _hash_code(created) or uuid4().hex
        return self._named[key]

    def is_random(self, scenario: Scenario) -> bool:
        """Whether the runs of a scenario may depend on the seed."""
        return is_random(scenario, allow_code=self._allow_code)

    def _hash_once(self, thing: Any, hash_function: Callable[[Any], str | None]) -> str:
        if id(thing) not in self._hashes:
            # The object is stored to keep it alive, so that its id stays unique.
            self._hashes[id(thing)] = (thing, hash_function(thing) or uuid4().hex)
        return self._hashes[id(thing)][1]


def values_to_hash(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a scenario (or of a manifest) under the keys that hashes use.

    A renamed key has its first name in hashes and in the headers of journals, and a key that was
    added later is left out while it has its default, so that recorded runs, studies and searches
    keep their identity.

    >>> values_to_hash({"seed": 1, "failures": {"on_failure": "lost", "max_attempts": None}})
    {'seed': 1, 'failures': {'then': 'lost'}}
    >>> values_to_hash({"model": {"speed_factor": 1.0, "decide": "instant"}})
    {'model': {'speed_factor': 1.0}}
    """
    hashed: dict[str, Any] = _strip_added(values, ())
    failures = hashed.get("failures")
    if isinstance(failures, dict) and "on_failure" in failures:
        hashed["failures"] = {
            OLD_ON_FAILURE if key == "on_failure" else key: value for key, value in failures.items()
        }
    return hashed


#: The defaults of keys that were added after the first hashes, by path; `*` is any item of a list.
_ADDED_LATER: Final[Mapping[tuple[str, ...], Any]] = {
    ("failures", "max_attempts"): None,
    ("model", "decide"): "instant",
    ("model", "instant_order"): list(INSTANT_GROUPS),
    ("model", "submission"): dict.fromkeys(("cycle", "before", "after", "interval"), 0.0),
    ("model", "detail"): {
        "network": "described",
        "storage": "described",
        "submission": "described",
        "buffers": "streamed",
        "cache": "none",
    },
    ("controllers",): [],
    ("platform", "clusters", "*", "hosts", "*", "states"): {},
    ("platform", "clusters", "*", "hosts", "*", "ports"): None,
    ("platform", "clusters", "*", "hosts", "*", "store"): None,
    ("platform", "clusters", "*", "hosts", "*", "store", "page_cache"): None,
    ("platform", "clusters", "*", "hosts", "*", "store", "like"): None,
    ("platform", "stores"): [],
    ("platform", "stores", "*", "page_cache"): None,
    ("platform", "stores", "*", "cluster"): None,
    ("platform", "clouds"): [],
    ("platform", "clouds", "*", "shortage"): None,
    ("platform", "clouds", "*", "spot"): None,
    ("platform", "clouds", "*", "types", "*", "price"): None,
    ("platform", "clouds", "*", "billing", "reserved"): None,
    ("platform", "clouds", "*", "billing", "transfer"): None,
    ("platform", "clouds", "*", "images", "*", "boot", "per_booting"): 0.0,
    ("platform", "clouds", "*", "images", "*", "boot", "spread"): 0.0,
    ("platform", "clouds", "*", "images", "*", "boot", "slow"): None,
    ("platform", "clouds", "*", "images", "*", "boot", "failed"): 0.0,
    ("platform", "clouds", "*", "images", "*", "boot", "refused"): 0.0,
    ("workload", "files"): [],
    ("workload", "files", "*", "path"): None,
    ("workload", "workflows"): [],
    ("workload", "inject"): None,
    ("workload", "prediction_errors"): None,
    ("workload", "tasks", "*", "reads"): [],
    ("workload", "tasks", "*", "writes"): [],
    ("workload", "tasks", "*", "speedup"): None,
    ("workload", "tasks", "*", "min_cores"): None,
    ("workload", "tasks", "*", "max_cores"): None,
    ("platform", "network"): None,
    ("source", "name"): None,
    ("source", "options"): {},
}
_PREFIXES: Final = {path[:length] for path in _ADDED_LATER for length in range(len(path))}


def _strip_added(values: Any, path: tuple[str, ...]) -> Any:
    """Return the values without the keys that were added later and have their defaults."""
    if path not in _PREFIXES:
        return values
    if isinstance(values, list | tuple):
        return [_strip_added(value, (*path, "*")) for value in values]
    if not isinstance(values, Mapping):
        return values
    return {
        key: _strip_added(value, (*path, key))
        for key, value in values.items()
        if (*path, key) not in _ADDED_LATER or _as_json(value) != _ADDED_LATER[*path, key]
    }


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _hash_code(created: Any) -> str | None:
    """Return the hash of a policy or source; None if it cannot be hashed.

    For a class of an installed package, the bytes of its module are hashed, too.
    """
    kind = type(created)
    source = ""
    if not is_user_module(kind.__module__):
        file = Path(inspect.getfile(kind))
        source = hashlib.sha256(file.read_bytes()).hexdigest()
    own_hash = identify(created)
    return None if own_hash is None else identify((own_hash, source))
