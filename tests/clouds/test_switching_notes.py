"""Notes on hosts that a controller switches at once and without power."""

from __future__ import annotations

from typing import Any

import pytest

import twinloop as tl
from tests.clouds.cases import POWER, STATES, make_host, make_scenario, make_task


def list_notes(scenario: tl.Scenario) -> list[tuple[str, int, tuple[str, ...]]]:
    notes = tl.simulate(scenario).manifest.cleaned
    return [(each.kind, each.count, each.examples) for each in notes if "`states`" in each.what]


@pytest.mark.parametrize("name", ["on-demand", "power-saving"])
def test_hosts_without_states_that_a_cloud_switches_are_noted(name: str) -> None:
    def count(*hosts: dict[str, Any], machines: str = name) -> Any:
        controllers = {"machines": machines}
        return list_notes(make_scenario(hosts, [make_task(0)], controllers=controllers))

    described = make_host("c", power=POWER, states=STATES)
    # Two hosts of the first group are not described; a state of their own does not describe them.
    plain = make_host("a b", power=POWER, states={"napping": {"power": 20}})
    assert count(plain, described) == [("assumed", 2, ("platform.clusters[0].hosts[0]",))]
    assert count(described, make_host("a")) == [("assumed", 1, ("platform.clusters[0].hosts[1]",))]
    assert count(described) == []
    assert count(plain, machines="always-on") == []


def test_machines_without_states_that_a_scenario_switches_are_noted() -> None:
    platform = {"clusters": [{"hosts": [make_host("a b c")]}]}
    scenario = tl.Scenario(platform=platform, workload={"tasks": [make_task(0)]}, policy="fcfs")
    assert list_notes(scenario) == []
    saving = scenario.replace(controllers=["power-saving"])
    assert list_notes(saving) == [("assumed", 3, ("platform.clusters[0].hosts[0]",))]


def test_hosts_of_another_cloud_are_not_noted() -> None:
    clusters = [{"name": each, "hosts": [make_host(each)]} for each in "xy"]
    clouds = [
        {"name": "x", "clusters": ["x"], "controllers": {"machines": "on-demand"}},
        {"name": "y", "clusters": ["y"]},
    ]
    scenario = tl.Scenario(
        platform={"clusters": clusters, "clouds": clouds},
        workload={"tasks": [make_task(0)]},
        policy="one-per-task",
    )
    assert list_notes(scenario) == [("assumed", 1, ("platform.clusters[0].hosts[0]",))]
