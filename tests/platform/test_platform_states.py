"""The states of hosts in a description: forms, defaults, and problems with their paths."""

from __future__ import annotations

import jsonschema
import pytest
import yaml

from twinloop.description import DescriptionError
from twinloop.platform import Platform
from twinloop.scenario.schema import build_schemas

POWER = "power: {model: linear, idle: 100, max: 200}"


def text_of(states: str, power: str = POWER) -> str:
    lines = "\n".join(f"        {line}" for line in states.strip("\n").splitlines())
    return f"clusters:\n- hosts:\n  - cores: 4\n    {power}\n    states:\n{lines}\n"


@pytest.mark.parametrize("key", ["off", '"off"', "'off'"])
def test_the_state_off_may_be_written_with_or_without_quotes(key: str) -> None:
    host = Platform.from_text(text_of(f"{key}: {{power: 36.4 W}}")).clusters[0].hosts[0]
    assert host.states["off"].to_dict() == {"power": {"model": "constant", "power": 36.4}}


def test_a_key_that_a_yaml_reader_made_false_is_off() -> None:
    values = yaml.safe_load(text_of("off: {power: 5}"))
    assert list(Platform.from_dict(values).clusters[0].hosts[0].states) == ["off"]


STATES = """
off: {power: 36.4 W}
switching-on: {power: 483.1, duration: 3min 20s}
switching-off:
  tasks:
  - {work: 0.275, limit: 0.11}
  - {after: 2.5s, work: 0.855, limit: 0.19}
suspended:
  power: {model: table, points: [[0, 60], [1, 60]]}
  tasks: kept
  enter: {name: suspending, duration: 8s}
  leave: {power: 450 W, tasks: [{work: 2}]}
"""


def test_states_are_written_and_read_again() -> None:
    platform = Platform.from_text(text_of(STATES))
    assert Platform.from_text(platform.to_yaml()) == platform
    assert platform.shorthand is None
    schema = build_schemas()["platform.schema.json"]
    quoted = yaml.safe_load(text_of(STATES.replace("\noff:", '\n"off":')))
    for values in (quoted, platform.to_dict()):
        jsonschema.validate(values, schema)


@pytest.mark.parametrize(
    ("states", "path", "problem"),
    [
        ("running: {power: 5}", "running", "is not a state that can be described"),
        ("down: {power: 5}", "down", "is not a state"),
        ("switching-on: {power: 5}", "switching-on.duration", "without tasks"),
        (
            "switching-on: {duration: 5, tasks: [{work: 1}]}",
            "switching-on.duration",
            "with tasks",
        ),
        ("switching-off: {tasks: kept}", "switching-off.tasks", "must be a list"),
        ("switching-off: {duration: 5, enter: {duration: 5}}", "switching-off.enter", "your own"),
        ("off: {duration: 5}", "off.duration", "is only for a transition"),
        ("off: {tasks: kept}", "off.tasks", "not for this state"),
        ("off: {leave: {duration: 5}}", "off.leave", "your own"),
        ("asleep: {tasks: kept}", "asleep.power", "must be given"),
        ("asleep: {power: 5, duration: 1}", "asleep.duration", "is only for a transition"),
        ("asleep: {power: 5, tasks: [{work: 1}]}", "asleep.tasks", "must be `kept`"),
        ("asleep: {power: 5, enter: {power: 5}}", "asleep.enter.duration", "without tasks"),
        ("asleep: {power: 5, enter: {name: asleep, duration: 1}}", "asleep.enter", "another state"),
        ("switching-on: {tasks: [{work: 1, limit: 2}]}", "switching-on.tasks", "1"),
        ("off: {power: -5}", "off.power", "negative|at least 0"),
    ],
)
def test_problems_have_the_path_of_the_state(states: str, path: str, problem: str) -> None:
    with pytest.raises(DescriptionError, match=problem) as raised:
        Platform.from_text(text_of(states))
    fields = [each.field or "" for each in raised.value.problems]
    assert any(each.startswith(f"clusters[0].hosts[0].states.{path}") for each in fields), fields


def test_a_power_of_a_state_needs_the_power_of_the_host() -> None:
    states = "off: {power: 5}\nasleep: {enter: {power: 5, duration: 1}}"
    with pytest.raises(DescriptionError) as raised:
        Platform.from_text(text_of(states, "memory: 1 GiB"))
    assert [each.field for each in raised.value.problems] == [
        "clusters[0].hosts[0].states.off.power",
        "clusters[0].hosts[0].states.asleep.enter.power",
    ]


@pytest.mark.parametrize(
    ("states", "path", "remedy"),
    [
        ("Off: {power: 36.4 W}", "Off", "did you mean 'off'?"),
        ("switching_on: {duration: 1, power: 1 W}", "switching_on", "did you mean 'switching-on'?"),
        ("SwitchingOff: {power: 1 W}", "SwitchingOff", "did you mean 'switching-off'?"),
        ("Running: {power: 1 W}", "Running", "choose another name"),
        (
            "slow: {power: 1 W, enter: {name: OFF, duration: 1}}",
            "slow.enter.name",
            "did you mean 'off'?",
        ),
    ],
)
def test_a_state_cannot_be_spelt_almost_as_a_built_in_one(
    states: str, path: str, remedy: str
) -> None:
    with pytest.raises(DescriptionError) as found:
        Platform.from_text(
            f"clusters: [{{hosts: [{{cores: 1, power: {{model: constant, power: 90}},"
            f" states: {{{states}}}}}]}}]"
        )
    reported = [(each.field, each.remedy, each.code) for each in found.value.problems]
    assert (f"clusters[0].hosts[0].states.{path}", remedy, "TL0209") in reported


def test_only_the_fitting_member_of_a_union_has_problems() -> None:
    tasks = {"switching-on": {"tasks": [{"work": 1, "limit": 2}]}}
    with pytest.raises(DescriptionError) as found:
        Platform.from_dict({"clusters": [{"hosts": [{"cores": 1, "states": tasks}]}]})
    (problem,) = found.value.problems
    assert problem.field == "clusters[0].hosts[0].states.switching-on.tasks[0].limit"
    assert problem.problem == "must be at most 1, not 2"
