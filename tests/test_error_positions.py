"""Errors that are found only when a scenario is used have its file, line and field."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

import twinloop as tl
from twinloop.cli import app
from twinloop.description import InputError
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario

CLASSES = """
from twinloop.policy import AnyPolicy, Policy, View, make_policy
from twinloop.workload import Source

LIMIT = 3

class Mine(Policy):
    def __init__(self, depth=1):
        if depth > LIMIT:
            raise RuntimeError("too deep")
    def decide(self, view):
        return []

class Users(Source):
    def __init__(self, count):
        pass
"""
START = "platform: 1x1\nworkload: {tasks: [{id: a, run_time: 1}]}\n"


@pytest.fixture(autouse=True)
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "classes_of_positions.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def compile_text(text: str) -> InputError:
    Path("s.yaml").write_text(text.replace("MODULE", "classes_of_positions"))
    # The position is also known in another process.
    scenario = pickle.loads(pickle.dumps(Scenario.load("s.yaml")))
    with pytest.raises(InputError) as found:
        CompiledScenario(scenario, allow_code=True)
    return found.value


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        ("policy: MODULE:Nope\n", 3, "policy", "has no 'Nope'"),
        ("policy:\n  name: MODULE:Nope\n", 4, "policy.name", "has no 'Nope'"),
        (
            "policy:\n  name: MODULE:Mine\n  options:\n    wht: 1\n",
            6,
            "policy.options.wht",
            "is not an option of",
        ),
        (
            "policy:\n  name: MODULE:Mine\n  options: {depth: 4}\n",
            5,
            "policy.options",
            "too deep",
        ),
        (
            "policy: fcfs\ncontrollers:\n- power-saving\n- {name: MODULE:Nope}\n",
            6,
            "controllers[1].name",
            "has no 'Nope'",
        ),
        (
            "policy: fcfs\nsource:\n  name: MODULE:Users\n",
            4,
            "source.options.count",
            "is missing",
        ),
        ("policy: fcfs\nsource: nowhere.at.all:Users\n", 4, "source", "cannot be imported"),
    ],
)
def test_errors_of_classes_have_their_place(text: str, line: int, field: str, problem: str) -> None:
    error = compile_text(START + text)
    assert (error.file, error.line, error.field) == ("s.yaml", line, field)
    assert problem in error.problem


def test_only_classes_that_the_module_defines_are_listed() -> None:
    error = compile_text(START + "policy: MODULE:Nope\n")
    assert error.remedy == "known: Mine, Users"


def test_an_error_of_a_class_in_memory_has_its_field() -> None:
    scenario = Scenario(
        platform="1x1",
        workload={"tasks": [{"id": "a", "run_time": 1}]},
        policy={"name": "classes_of_positions:Mine", "options": {"wht": 1}},
    )
    with pytest.raises(InputError) as found:
        tl.simulate(scenario, allow_code=True)
    assert (found.value.file, found.value.field) == (None, "policy.options.wht")


FILES = """
workload:
  tasks: [{id: a, run_time: 1, writes: [out]}]
  files: [{name: small, size: 1 kB}, {name: out, size: 2 MB, store: STORE}]
policy: fcfs
"""
PLATFORM = """clusters:
- hosts:
  - cores: 1
    store:
      capacity: 1 MB
stores:
- name: disk
  capacity: 1 MB
"""


@pytest.mark.parametrize(
    ("store", "field", "line"),
    [("disk", "stores[0].capacity", 8), ("local", "clusters[0].hosts[0].store.capacity", 5)],
)
@pytest.mark.parametrize("is_inline", [True, False])
def test_a_store_that_is_too_small_has_its_place(
    store: str, field: str, line: int, is_inline: bool
) -> None:
    if is_inline:
        platform = "platform:\n" + "".join(f"  {each}\n" for each in PLATFORM.splitlines())
        expected = ("s.yaml", line + 1, f"platform.{field}")
    else:
        platform = "platform: p.yaml\n"
        Path("p.yaml").write_text(PLATFORM)
        expected = ("p.yaml", line, field)
    Path("s.yaml").write_text(platform + FILES.replace("STORE", store))
    done = CliRunner().invoke(app, ["simulate", "s.yaml", "--json"])
    error = json.loads(done.stdout)["error"]
    assert (error["file"], error["line"], error["field"]) == expected
    assert error["problem"].startswith("file 'out' needs 2000000 bytes, and '")


def test_an_empty_list_of_choices_is_no_remedy() -> None:
    assert str(InputError("is unknown", remedy="one of: ")) == "is unknown [TL0200]"
