"""Errors of clouds that are found when a scenario is compiled: what is wrong, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clouds.cases import make_host, make_scenario, make_task
from twinloop.description.errors import InputError
from twinloop.engine import Simulation
from twinloop.scenario import Scenario


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("controllers.placement", "frist-fit", "controllers.placement.name"),
        ("controllers.placement", "on-demand", "controllers.placement.name"),
        (
            "controllers.placement",
            {"name": "first-fit", "options": {"queue": "blok"}},
            "controllers.placement.options.queue",
        ),
        ("controllers.machines", "ondemand", "controllers.machines.name"),
        (
            "controllers.consolidation",
            {"name": "consolidate", "options": {"interval": 0}},
            "controllers.consolidation.options.interval",
        ),
    ],
)
def test_errors_of_controllers_have_their_path(path: str, value: Any, field: str) -> None:
    role = path.split(".")[1]
    scenario = make_scenario([make_host()], [make_task(0)], controllers={role: value})
    with pytest.raises(InputError) as caught:
        Simulation(scenario)
    assert f"platform.clouds[0].{field}: " in str(caught.value)


def test_no_node_store_or_switch_has_the_name_of_an_instance(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    text = (
        "platform:\n"
        "  clusters:\n"
        "    - {name: instance, hosts: [{name: pm, cores: 1, count: 2}]}\n"
        "    - hosts:\n"
        "        - cores: 1\n"
        "          names: [instance-01,\n"
        "            instance-2]\n"
        "  stores:\n"
        "    - {name: instance-30}\n"
        "  network: {latency: 1s,\n"
        "    switches: [instance-4]}\n"
    )
    rest = "workload: {tasks: [{id: a, run_time: 1}]}\npolicy: "
    file.write_text(f"{text}{rest}fcfs\n")
    Scenario.load(file)
    file.write_text(f"{text}  clouds: [{{name: east}}]\n{rest}one-per-task\n")
    with pytest.raises(InputError) as caught:
        Scenario.load(file)
    places = {
        "instance-2": ":7: platform.clusters[1].hosts[0].names[1]",
        "instance-30": ":9: platform.stores[0].name",
        "instance-4": ":11: platform.network.switches[0]",
    }
    for name, place in places.items():
        assert f"{place}: '{name}' is the name of an instance of a cloud" in str(caught.value)
    assert str(caught.value).count("is the name of") == 3


def test_no_store_of_a_simulation_gets_the_name_of_an_instance() -> None:
    sim = Simulation(make_scenario([make_host()], [make_task(0)]))
    with pytest.raises(InputError, match="already the name of an instance of a cloud"):
        sim.register_store("instance-1")


def test_errors_of_the_client_have_the_line_of_its_option(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(
        "platform: {clusters: [{hosts: [{cores: 1}]}], clouds: [{name: east}]}\n"
        "workload: {tasks: [{id: a, run_time: 1}]}\n"
        "policy:\n  name: one-per-task\n  options:\n    cloud: west\n"
    )
    with pytest.raises(InputError, match=r"cloud\.yaml:6: policy\.options\.cloud: unknown cloud"):
        Simulation(Scenario.load(file))
