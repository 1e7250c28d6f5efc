"""The registry of policies: known names, errors, and permission to run code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from twinloop.description import DescriptionError, InputError
from twinloop.policy import POLICIES, Easy, Policy, list_policies, make_policy, resolve_policy
from twinloop.policy.registry import CLIENTS, ENTRY_POINT_GROUP
from twinloop.scenario import Scenario

CODE = """
from twinloop.policy import Easy, Policy

class Mine(Policy):
    def __init__(self, depth: int, *, greedy: bool = False) -> None:
        if depth < 0:
            raise ValueError("depth is negative")
        self.depth, self.greedy = depth, greedy
    def decide(self, view):
        return None

class Open(Mine):
    def __init__(self, **options) -> None:
        self.options = options

class Unfinished(Policy):
    pass

class Deep(Easy):
    name = "deep"
    depth: int = 7

class Other:
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with policies that is not imported yet."""
    (tmp_path / "policies_of_others.py").write_text(CODE)
    (tmp_path / "broken_policies.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "policies_of_others"
    sys.modules.pop("policies_of_others", None)


@pytest.fixture
def plug_ins(module: str, monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points of installed packages; a test may add to them."""
    offered = [
        EntryPoint("greedy", f"{module}:Mine", ENTRY_POINT_GROUP),
        EntryPoint("deep", f"{module}:Deep", ENTRY_POINT_GROUP),
        EntryPoint("wrong", f"{module}:Other", ENTRY_POINT_GROUP),
        EntryPoint("broken", "broken_policies:Mine", ENTRY_POINT_GROUP),
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [e for e in offered if e.group == group and name in (None, e.name)]

    monkeypatch.setattr("twinloop.description.plugins.entry_points", entry_points)
    return offered


def test_each_built_in_policy_is_registered_by_its_own_name() -> None:
    assert [kind.name for kind in list_policies().values()] == list(POLICIES)


def test_the_names_of_the_built_in_policies() -> None:
    assert set(POLICIES) == {
        "fifo", "fcfs", "easy", "easy-time", "conservative", "sjf", "ljf", "priority",
        "fair-share", "first-fit", "best-fit", "worst-fit", "pack-ic", "spread-ic",
        "spread-vcpu", "baseline-ic1", "filter", "random", "round-robin", "list-scheduling",
        "heft", "cpop", "min-min", "max-min",
    }  # fmt: skip
    assert len(POLICIES) == len(set(POLICIES)) == 24


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_has_its_name_and_survives_a_round_trip(name: str) -> None:
    made = make_policy(name)
    assert made.name == name
    assert type(made) is list_policies()[name]
    assert made == type(made).from_dict(made.to_dict(complete=True))  # type: ignore[union-attr]
    assert type(made).__doc__
    for option, field in list_policies()[name].model_fields.items():
        assert field.description, option


def test_built_in_policies_are_found_without_a_search_for_plug_ins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def entry_points(**_: Any) -> list[EntryPoint]:
        raise AssertionError("nobody needs them")

    monkeypatch.setattr("twinloop.description.plugins.entry_points", entry_points)
    for name in POLICIES:
        assert resolve_policy(name).name == name
    Scenario(platform="2x8", workload="log.swf", policy="easy")


def test_all_problems_of_the_options_are_reported_at_once() -> None:
    with pytest.raises(DescriptionError) as caught:
        make_policy("conservative", compres=False, depth=-1, colour="red")
    assert [str(problem) for problem in caught.value.problems] == [
        "compres: is not an option of 'conservative' (did you mean 'compress'? "
        "options: depth, compress) [TL0203]",
        "colour: is not an option of 'conservative' (options: depth, compress) [TL0203]",
        "depth: must not be negative, not -1 [TL0206]",
    ]
    with pytest.raises(
        DescriptionError, match=r"depth: is not an option of 'fcfs' .it has no options"
    ):
        make_policy("fcfs", depth=3)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("easy", {"depth": 1.5}, "depth: must be a whole number"),
        ("easy", {"depth": True}, "depth: must be a whole number"),
        ("conservative", {"compress": "yes"}, "compress: must be true or false"),
        ("priority", {"preempt": "maybe"}, "preempt: must be one of no, restart, resume"),
        ("priority", {"age": -1}, "age: must not be negative"),
        ("priority", {"depth": 5}, "depth: has no effect without backfilling"),
        ("fair-share", {"compress": False}, "compress: has no effect unless"),
        ("fair-share", {"half_life": 0}, "half_life: must be positive"),
        ("fair-share", {"share_by": "queue"}, "share_by: must be one of user, group"),
        ("pack-ic", {"overcommit": 0}, "overcommit: must be positive"),
        ("filter", {"filters": {"vcpu": 0}}, r"filters\.vcpu: must be positive"),
        ("filter", {"weighers": {"vcpus": 1}}, r"weighers\.vcpus: is not a field .*mean 'vcpu'"),
        ("filter", {"pick": "random", "subset": 2}, "subset: has no effect with pick: random"),
        ("filter", {"pick": "random", "weighers": {"ram": 1}}, "weighers: have no effect with"),
    ],
)
def test_an_option_with_a_wrong_value_is_refused(
    name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(DescriptionError, match=said):
        make_policy(name, **options)


def test_code_is_not_imported_without_permission(module: str) -> None:
    with pytest.raises(InputError, match="--allow-code"):
        resolve_policy(f"{module}:Mine", {"depth": 1})
    Scenario(platform="2x8", workload="log.swf", policy=f"{module}:Mine")
    assert module not in sys.modules


def test_code_runs_with_permission_and_its_options_are_checked(module: str) -> None:
    made: Any = resolve_policy(f"{module}:Mine", {"depth": 3, "greedy": True}, allow_code=True)
    assert isinstance(made, Policy)
    assert (made.depth, made.greedy, made.name) == (3, True, f"{module}:Mine")
    assert resolve_policy(f"{module}:Open", {"a": 1}, allow_code=True).options == {"a": 1}  # type: ignore[union-attr]
    with pytest.raises(DescriptionError) as caught:
        resolve_policy(f"{module}:Mine", {"greddy": True}, allow_code=True)
    assert [(problem.field, problem.problem) for problem in caught.value.problems] == [
        ("depth", "is missing"),
        ("greddy", f"is not an option of '{module}:Mine'"),
    ]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("policies_of_others:Mine", {"depth": -1}, "ValueError: depth is negative"),
        ("policies_of_others:Mien", {}, "has no 'Mien' .did you mean 'Mine'"),
        ("policies_of_others:Other", {}, "derive it from twinloop.policy.Policy"),
        ("policies_of_others:Unfinished", {}, "cannot be created .*decide"),
        ("no_such_module:Mine", {}, "'no_such_module' cannot be imported: ModuleNotFoundError"),
        ("broken_policies:Mine", {}, "cannot be imported: RuntimeError: no licence"),
    ],
)
def test_unusable_code_is_an_error(
    module: str, name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        resolve_policy(name, options, allow_code=True)


def test_a_plug_in_is_found_by_its_name(plug_ins: list[EntryPoint]) -> None:
    made: Any = make_policy("greedy", depth=2)
    assert (made.depth, made.greedy) == (2, False)
    deep = make_policy("deep")
    assert isinstance(deep, Easy)
    assert (deep.native_settings()["depth"], deep.name) == (7, "deep")


def test_the_options_of_a_plug_in_are_checked_with_the_scenario(
    plug_ins: list[EntryPoint],
) -> None:
    text = "platform: 2x8\nworkload: log.swf\npolicy:\n  name: greedy\n  options: {dept: 2}\n"
    with pytest.raises(DescriptionError) as caught:
        Scenario.from_text(text, file="s.yaml")
    places = [(problem.line, problem.field) for problem in caught.value.problems]
    assert places == [(5, "policy.options.depth"), (5, "policy.options.dept")]
    good = Scenario.from_text(text.replace("dept", "depth"))
    assert Scenario.from_text(good.to_yaml()) == good


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("greedi", "no policy is called 'greedi' .did you mean 'greedy'"),
        ("wrong", "'wrong' is not a policy class"),
        ("broken", r"'broken' \(broken_policies:Mine\) cannot be loaded: RuntimeError: no licence"),
        ("twice", "several plug-ins define the policy 'twice'"),
    ],
)
def test_an_unusable_plug_in_is_an_error(plug_ins: list[EntryPoint], name: str, said: str) -> None:
    plug_ins += [
        EntryPoint("twice", "a:A", ENTRY_POINT_GROUP),
        EntryPoint("twice", "b:B", ENTRY_POINT_GROUP),
    ]
    with pytest.raises(InputError, match=said):
        make_policy(name)
    with pytest.raises(InputError, match=said):
        Scenario(platform="2x8", workload="log.swf", policy=name)


def test_the_error_of_an_unknown_name_lists_all_names() -> None:
    with pytest.raises(InputError, match="no policy is called 'bogus'") as caught:
        make_policy("bogus")
    assert caught.value.remedy == f"known: {', '.join((*POLICIES, *CLIENTS))}"
