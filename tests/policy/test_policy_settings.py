"""The native settings of each policy."""

from __future__ import annotations

from typing import Any

import pytest

from twinloop._core import NativePolicy
from twinloop.policy import POLICIES, BuiltInPolicy, make_policy
from twinloop.policy.filter_scheduler import Filter, FilterPreset

KEYS = {
    "kind", "order", "backfill", "compress", "depth", "age", "half_life", "share_by", "preempt",
    "filters", "weighers", "subset", "skip", "queue", "waits", "pick", "seed",
}  # fmt: skip

FIT = [("vcpu", 1.0), ("ram", 1.0), ("resource", 1.0)]


def told(name: str, **options: Any) -> dict[str, Any]:
    made = make_policy(name, **options)
    assert isinstance(made, BuiltInPolicy)
    return made.native_settings(seed=11)


#: The settings of policies of workflows, beside those that all have.
WORKFLOW = {
    "list-scheduling": {"cluster", "efficiency", "cap", "ties", "data"},
    **{name: {"critical_path"} for name in ("heft", "cpop")},
    **{name: {"largest"} for name in ("min-min", "max-min")},
}


@pytest.mark.parametrize("name", POLICIES)
def test_the_native_settings_are_complete(name: str) -> None:
    assert set(told(name)) == KEYS | WORKFLOW.get(name, set())
    assert told(name)["seed"] == 11
    NativePolicy(told(name))


@pytest.mark.parametrize(
    ("name", "order", "backfill"),
    [
        ("fcfs", "arrival", "none"),
        ("easy", "arrival", "easy"),
        ("easy-time", "arrival", "easy-time"),
        ("conservative", "arrival", "conservative"),
        ("sjf", "shortest", "none"),
        ("ljf", "longest", "none"),
        ("priority", "priority", "none"),
        ("fair-share", "fair-share", "none"),
    ],
)
def test_batch_policies_set_order_and_backfilling(name: str, order: str, backfill: str) -> None:
    settings = told(name)
    assert (settings["kind"], settings["order"], settings["backfill"]) == ("batch", order, backfill)
    assert settings["preempt"] == "no"


@pytest.mark.parametrize(
    ("name", "filters", "weighers", "pick"),
    [
        ("fifo", [("instance-count", 1.0)], [], "first"),
        ("first-fit", FIT, [], "first"),
        ("best-fit", FIT, [("vcpu", -1.0)], "first"),
        ("worst-fit", FIT, [("vcpu", 1.0)], "first"),
        ("pack-ic", FIT, [("instance-count", 1.0)], "first"),
        ("spread-ic", FIT, [("instance-count", -1.0)], "first"),
        ("spread-vcpu", FIT, [("vcpu", 1.0)], "first"),
        ("baseline-ic1", [("instance-count", 1.0), *FIT], [], "first"),
        ("random", FIT, [], "random"),
        ("round-robin", FIT, [], "round-robin"),
        ("filter", FIT, [], "first"),
    ],
)
def test_the_other_policies_are_presets_of_the_filter_scheduler(
    name: str, filters: list[Any], weighers: list[Any], pick: str
) -> None:
    settings = told(name)
    assert settings["kind"] == "filter"
    assert sorted(settings["filters"]) == sorted(filters)
    assert settings["weighers"] == weighers
    assert (settings["pick"], settings["skip"], settings["subset"]) == (pick, False, 1)
    made = make_policy(name)
    whole = made.to_filter() if isinstance(made, FilterPreset) else made
    assert isinstance(whole, Filter)
    assert whole.native_settings(seed=11) == settings


def test_options_reach_the_native_engine() -> None:
    assert told("conservative", compress=False, depth=9)["compress"] is False
    assert told("conservative")["compress"] is True
    assert told("easy", depth=9)["depth"] == 9
    settings = told("priority", age=0.5, preempt="resume", backfill="easy", depth=3)
    assert [settings[key] for key in ("age", "preempt", "backfill", "depth")] == [
        0.5, "resume", "easy", 3,
    ]  # fmt: skip
    settings = told("fair-share", half_life="2h", share_by="group", backfill="conservative")
    assert [settings[key] for key in ("half_life", "share_by", "backfill", "compress")] == [
        7200.0, "group", "conservative", True,
    ]  # fmt: skip
    for name in ("pack-ic", "spread-ic", "spread-vcpu"):
        assert dict(told(name, overcommit=4)["filters"])["vcpu"] == 4.0
    settings = told(
        "filter",
        filters={"instance_count": 3, "capacity": True, "ram": 1.5},
        weighers={"ram": 2, "capacity": -0.5},
        subset=4,
        skip=True,
    )
    assert settings["filters"] == [("instance-count", 3.0), ("ram", 1.5), ("capacity", 0.0)]
    assert settings["weighers"] == [("ram", 2.0), ("capacity", -0.5)]
    assert (settings["subset"], settings["skip"]) == (4, True)
