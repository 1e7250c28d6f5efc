"""User-defined objects in a study: a run is reused only if its object did not change."""

import re
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache, partial, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinloop as tl
from twinloop.policy import CLIENTS, POLICIES, Place, Policy
from twinloop.policy.code_identity import identify
from twinloop.scenario.identity import Identities

TASKS = [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(12)]
BASE = tl.Scenario(platform="1x8", policy="fifo", workload={"tasks": TASKS})


class AtMost(Policy):
    """A policy that runs at most this many tasks at the same time."""

    def __init__(self, most: int) -> None:
        self.most = most

    def decide(self, view: Any) -> Any:
        room = min(self.most - len(view.running), int(view.free_cores[0]))
        return [Place(task, 0) for task in list(view.waiting)[: max(0, room)]]


class Locked(AtMost):
    """A policy with an attribute that cannot be identified."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> "Locked":
        return Locked(self.most)


def explore_policies(policies: list[Any], folder: Path | None = None) -> tuple[tl.Study, int]:
    """Explore these policies; return the study and the number of runs that were simulated."""
    made: list[object] = []
    study = tl.explore(BASE, {"policy": policies}, folder=folder, on="serial", progress=made.append)
    return study, len(made)


def test_policies_with_different_arguments_are_different_runs() -> None:
    study, made = explore_policies([AtMost(1), AtMost(8)])
    assert study.runs["makespan_s"].to_list() == [120.0, 20.0]
    assert made == 3  # two policies and the baseline
    assert study.configurations["name"].to_list() == ["AtMost most=1", "AtMost most=8"]
    assert study.runs["policy"].to_list() == ["AtMost most=1", "AtMost most=8"]


def test_a_journal_is_reused_for_the_same_policy_only(tmp_path: Path) -> None:
    assert explore_policies([AtMost(1)], tmp_path / "s")[1] == 2
    again, made = explore_policies([AtMost(1)], tmp_path / "s")
    assert (made, again.runs["makespan_s"].to_list()) == (0, [120.0])
    other, made = explore_policies([AtMost(8)], tmp_path / "s")
    assert (made, other.runs["makespan_s"].to_list()) == (1, [20.0])
    # A loaded study has the same names, but not the object.
    back = tl.Study.load(tmp_path / "s")
    assert back.configurations["name"].to_list() == ["AtMost most=8"]
    with pytest.raises(tl.InputError, match="was an object in memory"):
        back.rank()


def test_runs_of_unidentifiable_objects_are_not_reused(tmp_path: Path) -> None:
    assert identify(Locked(1)) is None
    same = Locked(1)
    for _ in range(2):
        study, made = explore_policies([same, Locked(1), Locked(8)], tmp_path / "s")
        assert study.runs["makespan_s"].to_list() == [120.0, 120.0, 20.0]
        assert made >= 3
    names = study.configurations["name"].to_list()
    assert len(set(names)) == 3


CODE = """
from twinloop.policy import Place, Policy
import {helper}

class Mine(Policy):
    def decide(self, view):
        room = min({helper}.most() {change} - len(view.running), int(view.free_cores[0]))
        return [Place(task, 0) for task in list(view.waiting)[:max(0, room)]]
"""


@pytest.mark.parametrize("edited", ["policy", "helper"])
@pytest.mark.parametrize("named", [True, False])
def test_edited_code_is_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, named: bool
) -> None:
    """Edit the class, or a module that it uses; given by name, or as an object."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    mine, helper = f"mine_{edited}_{named}", f"helper_{edited}_{named}"

    def study(change: str, most: int) -> tuple[list[float], int]:
        (tmp_path / f"{mine}.py").write_text(CODE.format(helper=helper, change=change))
        (tmp_path / f"{helper}.py").write_text(f"def most():\n    return {most}\n")
        for name in (mine, helper):
            sys.modules.pop(name, None)
        policy: Any = f"{mine}:Mine"
        if not named:
            policy = __import__(mine).Mine()
        made: list[object] = []
        found = tl.explore(
            BASE,
            {"policy": {"levels": {"mine": policy}}},
            folder=tmp_path / "s",
            on="serial",
            allow_code=True,
            progress=made.append,
        )
        return found.runs["makespan_s"].to_list(), len(made)

    assert study("+ 0", 1) == ([120.0], 2)
    assert study("+ 0", 1) == ([120.0], 0)
    if edited == "policy":
        assert study("+ 7", 1) == ([20.0], 1)
    else:
        assert study("+ 0", 8) == ([20.0], 1)


def test_workloads_in_memory_are_identified_by_their_content(tmp_path: Path) -> None:
    def study(*seconds: int) -> list[float]:
        logs = {f"{s} s": {"workload": _log(s)} for s in seconds}
        found = tl.explore(BASE, {"load": {"levels": logs}}, folder=tmp_path / "s", on="serial")
        return found.runs["makespan_s"].to_list()

    assert study(10, 30) == [120.0, 360.0]  # one task after the other
    assert study(50, 70) == [600.0, 840.0]
    made: list[object] = []
    logs = {"levels": {"x": {"workload": _log(50)}}}
    tl.explore(BASE, {"load": logs}, folder=tmp_path / "s", on="serial", progress=made.append)
    assert made == []


def _log(seconds: int) -> tl.Trace:
    return tl.Scenario(
        platform="1x8",
        policy="fifo",
        workload={"tasks": [{**task, "run_time": seconds} for task in TASKS]},
    ).workload.resolve()  # type: ignore[return-value]


# --- identity ------------------------------------------------------------------------------------


def limited(most: int, *, default: int = 1) -> Any:
    """A policy class that closes over a number."""

    class Closed(Policy):
        extra = default

        def decide(self, view: Any) -> Any:
            return [Place(task, 0) for task in list(view.waiting)[: most + self.extra]]

    return Closed()


def test_identity_includes_closures_class_attributes_and_base_classes() -> None:
    assert identify(limited(1)) == identify(limited(1))
    assert identify(limited(1)) != identify(limited(2))
    assert identify(limited(1)) != identify(limited(1, default=2))

    def derived(most: int) -> Any:
        class Derived(type(limited(most))):  # type: ignore[misc]
            pass

        return Derived()

    assert identify(derived(1)) == identify(derived(1)) != identify(derived(2))


FACTOR = 1


def scaled(x: float) -> float:
    """Multiply by a global variable."""
    return x * FACTOR


def test_identity_includes_globals_and_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identify(scaled)
    monkeypatch.setitem(globals(), "FACTOR", 2)
    assert identify(scaled) != before
    assert identify({"a": [1, 2]}) == identify({"a": [1, 2]}) != identify({"a": [1, 3]})
    assert identify({1, "a"}) == identify({"a", 1})
    assert identify([1]) != identify((1,)) != identify("1")
    loop: list[Any] = []
    loop.append(loop)
    assert identify(loop) is not None


@dataclass
class Described(Policy):
    """A policy whose arguments are fields."""

    most: int
    names: list[str] = field(default_factory=list)
    pattern: re.Pattern[str] = re.compile("t[0-9]+")
    weights: Any = None

    def decide(self, view: Any) -> Any:
        return None


def test_identity_of_common_attribute_values() -> None:
    def made(**given: Any) -> str | None:
        return identify(Described(1, **given))

    assert made() == made() is not None
    others = [
        made(names=["a"]),
        made(pattern=re.compile("u")),
        made(weights=np.array([1.0, 2.0])),
        made(weights=np.array([1.0, 3.0])),
        made(weights=np.random.default_rng(1)),
        made(weights=np.random.default_rng(2)),
        made(weights=lambda x: x),
        made(weights=lambda x: x + 1),
        made(weights=partial(scaled, 2)),
    ]
    assert None not in others
    assert len({made(), *others}) == 1 + len(others)


class Scaled:
    """A wrapper of a function, with an attribute."""

    def __init__(self, function: Any, by: int) -> None:
        update_wrapper(self, function)
        self.by = by

    def __call__(self, x: float) -> float:
        return self.by * x


def test_identity_includes_attributes_of_wrappers_and_functions() -> None:
    def with_attribute(by: int) -> Any:
        def function(x: float) -> float:
            return x * function.by  # type: ignore[attr-defined, no-any-return]

        function.by = by  # type: ignore[attr-defined]
        return function

    for make in (partial(Scaled, scaled), with_attribute):
        assert identify(make(1)) == identify(make(1)) is not None
        assert identify(make(1)) != identify(make(2))
    assert identify(lru_cache(scaled)) == identify(lru_cache(scaled)) is not None


def test_identity_includes_variables_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be read from a file, so they do not follow from the code of the module."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tables_of_mine.py").write_text("WEIGHTS = {'a': [1]}\n")
    module: Any = __import__("tables_of_mine")

    def weight() -> Any:
        return module.WEIGHTS["a"]

    before = identify(weight)
    assert before is not None
    assert identify(weight) == before
    module.WEIGHTS["a"].append(2)
    assert identify(weight) != before


@pytest.mark.parametrize("name", [*POLICIES, *CLIENTS])
def test_built_in_policies_are_identified_by_name_and_options(name: str) -> None:
    """Their classes are code of the package, of which an edit must not repeat stored runs."""
    policy = {"name": name, "options": {"budget": 1} if name == "budget" else {}}
    assert Identities().identify(BASE.replace(policy=policy)) == {}
