"""Scenarios in commands: the file, its parts as options, and conflicts between them."""

from pathlib import Path

import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run
from twinloop.cli.scenario_options import make_scenario

TASKS = {"tasks": [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(3)]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    policy = {"name": "fair-share", "options": {"depth": 7, "backfill": "easy"}}
    return tl.Scenario(platform="2x4", policy=policy, workload=TASKS).save(tmp_path / "s.yaml")


def test_an_option_leaves_the_others_of_the_file(file: Path) -> None:
    made = make_scenario(file, {}, {"depth": "3"}, {})
    assert made.policy.name == "fair-share"
    assert made.policy.options == {"depth": 3, "backfill": "easy"}
    # Another policy has other options.
    other = make_scenario(file, {"policy": "easy"}, {"depth": "3"}, {})
    assert (other.policy.name, other.policy.options) == ("easy", {"depth": 3})
    # The same policy as in the file keeps its options.
    same = make_scenario(file, {"policy": "fair-share"}, {"depth": "3"}, {})
    assert same.policy.options == {"depth": 3, "backfill": "easy"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seed", "1", "--set", "seed=2"), "--seed and --set seed"),
        (("--speed", "2", "--set", "model.speed_factor=3"), "--speed and --set model.speed_factor"),
        (("--policy", "easy", "--set", "policy=fifo"), "--policy and --set policy"),
        (("--option", "depth=1", "--set", "policy=easy"), "--option depth and --set policy"),
        (
            ("--option", "depth=1", "--set", "policy.options.depth=2"),
            "--option depth and --set policy.options.depth",
        ),
        (
            ("--option", "depth=1", "--set", "policy.options={depth: 2}"),
            "--option depth and --set policy.options",
        ),
        (("--set", "seed=1", "--set", "seed=2"), "--set seed=2"),
        (("--option", "depth=1", "--option", "depth=2"), "--option depth=2"),
        (("--set", "self=1"), "self"),
        (("--set", "seed={"), "--set seed"),
        (("--set", "seed=!!python/object/apply:os.getcwd []"), "--set seed"),
        (("--set", "seed=" + 200 * "["), "--set seed"),
        (("--set", "seed=" + 5000 * "1"), "seed"),
        (("--set", "seed=1e999"), "seed"),
        (("--set", "seed=\x00"), "--set seed"),
        (("--set", "seed"), "expected NAME=VALUE"),
        (("--set", "=1"), "expected NAME=VALUE"),
        (("--set", ".=1"), "is not a path"),
        (("--set", "seed.x=1"), "seed.x"),
        (("--set", "platform.clusters[9].name=x"), "clusters[9]"),
        (("--set", f"platform.clusters[{5000 * '9'}].name=x"), "is not a path"),
        (("--set", "workload.generate.parameters.tasks=3"), "generate"),
        (("--set", "policy.options=3"), "policy.options"),
        (("--option", "depth={"), "--option depth"),
    ],
)
def test_conflicting_or_unreadable_options_are_an_input_error(
    file: Path, words: tuple[str, ...], message: str
) -> None:
    found = run("simulate", file, *words, ends_with=2)
    assert message in " ".join(found.stderr.split())
    assert found.exception is None or isinstance(found.exception, SystemExit)


def test_dates_and_numbers_are_set_as_in_a_file(file: Path) -> None:
    made = make_scenario(file, {}, {}, {"start": "2024-07-01", "time_scale": "1e1", "name": "no"})
    assert (made.start, made.time_scale, made.name) == ("2024-07-01T00:00:00Z", 10.0, "no")
    assert answer("simulate", file, "--set", "time_scale=2")["completed"] == 3
