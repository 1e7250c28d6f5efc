"""Seeds are replications only if something is random."""

from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run
from tests.exploration.test_own_objects import AtMost
from twinloop.scenario.randomness import is_random

TASKS = {"tasks": [{"id": f"t{i}", "run_time": 10 + i, "cores": 1} for i in range(12)]}
FIXED = tl.Scenario(platform="2x4", policy="easy", workload=TASKS)
MADE = {"generate": {"name": "poisson", "parameters": {"tasks": 20}}}


def test_a_fixed_log_is_simulated_once_for_all_seeds(tmp_path: Path) -> None:
    made: list[object] = []
    study = tl.explore(
        FIXED, {"policy": ["easy", "fcfs"], "seeds": 5}, folder=tmp_path / "s",
        progress=made.append,
    )  # fmt: skip
    assert (len(made), study.planned, study.runs.height) == (2, 2, 2)
    assert study.configurations["makespan_s_sd"].to_list() == [None, None]
    for each in (study, tl.Study.load(tmp_path / "s")):
        assert "nothing in the scenario is random" in " ".join(each.notes)
        assert "nothing in the scenario is random" in str(each)
    # More seeds change nothing, and nothing is simulated again.
    tl.explore(FIXED, {"policy": ["easy"], "seeds": 9}, folder=tmp_path / "s", progress=made.append)
    assert len(made) == 2


def test_only_random_configurations_are_replicated() -> None:
    made: list[object] = []
    study = tl.explore(
        FIXED, {"policy": ["easy", "random"], "seeds": 3}, on="serial", progress=made.append
    )
    assert len(made) == 1 + 3
    assert study.configurations["runs"].to_list() == [3, 3]
    assert "1 of 2 configurations" in " ".join(study.notes)


@pytest.mark.parametrize(
    ("changes", "random"),
    [
        ({}, False),
        ({"workload": MADE}, True),
        ({"failures": {"mtbf": "1h", "mttr": "1min"}}, True),
        ({"policy": "random"}, True),
        ({"policy": "round-robin"}, False),
        ({"policy": {"name": "filter", "options": {"subset": 3}}}, True),
        ({"policy": {"name": "filter", "options": {"pick": "random"}}}, True),
        ({"policy": "filter"}, False),
        ({"policy": AtMost(2)}, True),  # it gets a generator, which it may use
    ],
)
def test_random_parts_of_a_scenario(changes: dict[str, Any], random: bool) -> None:
    assert is_random(FIXED.replace(**changes)) is random


def test_failures_from_a_table_are_fixed(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("node,start,end\nC01-H01-001,1,2\n")
    assert not is_random(FIXED.replace(failures={"trace": str(tmp_path / "f.csv")}))


def test_seeds_without_effect_are_noted() -> None:
    """A user-defined policy may use its generator; this one does not."""
    study = tl.explore(FIXED, {"policy": [AtMost(1), AtMost(2)], "seeds": 2}, on="serial")
    assert study.planned == 4
    assert "made no difference" in str(study)


def test_the_command_shows_the_note(tmp_path: Path) -> None:
    FIXED.save(tmp_path / "scenario.yaml")
    (tmp_path / "factors.yaml").write_text("{factors: {policy: [easy, fcfs]}, seeds: 5}\n")
    words = ("explore", tmp_path / "scenario.yaml", tmp_path / "factors.yaml")
    assert "nothing in the scenario is random" in run(*words, "-o", tmp_path / "s").stdout
    notes = answer("explore", tmp_path / "s")["notes"]
    assert "nothing in the scenario is random" in " ".join(notes)  # type: ignore[call-overload]
