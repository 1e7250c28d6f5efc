"""Levels of detail: every combination is a version, and errors have file, line and field."""

from pathlib import Path

import pytest

from twinloop.calibration import Levels
from twinloop.calibration.detail.inactive_parameters import find_inactive_parameters
from twinloop.calibration.detail.spec_sheet import SpecSheet
from twinloop.description.errors import InputError
from twinloop.scenario import Scenario

TWELVE = """
model.detail.network: [one-link, star, link+star]
model.detail.storage: [submit, all]
model.detail.submission: [direct, negotiator]
"""


def make_scenario() -> Scenario:
    return Scenario(platform="2x2", policy="fcfs", workload={"tasks": [{"id": "a", "run_time": 1}]})


def write(text: str, folder: Path) -> Path:
    path = folder / "levels.yaml"
    path.write_text(text)
    return path


def test_all_combinations_are_versions(tmp_path: Path) -> None:
    levels = Levels.of(write(TWELVE, tmp_path))
    assert [each.name for each in levels.factors] == ["network", "storage", "submission"]
    assert len(levels.versions) == len({each.name for each in levels.versions}) == 12
    assert levels.versions[0].name == "one-link, submit, direct"
    assert levels.versions[-1].changes == {
        "model.detail.network": "link+star",
        "model.detail.storage": "all",
        "model.detail.submission": "negotiator",
    }


def test_partial_combinations_are_left_out(tmp_path: Path) -> None:
    text = TWELVE + (
        "except:\n"
        "- {model.detail.network: star, model.detail.submission: direct}\n"
        "- {model.detail.network: link+star}\n"
    )
    names = [version.name for version in Levels.of(write(text, tmp_path)).versions]
    assert len(names) == 12 - 2 - 4
    assert not any("link+star" in name for name in names)
    assert "star, all, negotiator" in names
    assert "star, all, direct" not in names


def test_labels_that_are_no_words_have_the_name_of_their_factor() -> None:
    levels = Levels.of({"model.decision_interval": [0, 5], "policy": {"first": "fcfs"}})
    assert [each.name for each in levels.versions] == [
        "decision_interval=0, first",
        "decision_interval=5, first",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must map paths of the scenario to lists of values"),
        ("policy: [fcfs]\n\nseed: []\n", "levels.yaml:3: seed: has no value"),
        ("policy: fcfs\n", "levels.yaml:1: policy: must be a list of values, not 'fcfs'"),
        ("seed: [1, 1]\n", r"levels.yaml:1: seed\[1\]: has 1 twice"),
        ("seed: [1]\nexcept: {seed: 1}\n", "levels.yaml:2: except: must be a list"),
        ("seed: [1, 2]\nexcept:\n- {seed: 3}\n", "levels.yaml:3: .*3 is not a level of seed"),
        ("seed: [1, 2]\nexcept:\n- {sed: 1}\n", "levels.yaml:3: .*not a path of these levels"),
        ("seed: [1]\nexcept:\n- {seed: 1}\n", "leaves out all versions"),
    ],
)
def test_errors_have_line_and_field(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Levels.of(write(text, tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: [1]\nmodel.detal: [a]\n", "levels.yaml:2: model.detal: the version 'seed=1, a'"),
        ("policy:\n- fcfs\n- esy\n", "levels.yaml:3: policy: the version 'esy' .*'easy'"),
        ("policy: {x: fcfs, y: 7}\n", "levels.yaml:1: policy: the version 'y'"),
    ],
)
def test_a_version_that_is_no_scenario_is_named(text: str, message: str, tmp_path: Path) -> None:
    levels = Levels.of(write(text, tmp_path))
    with pytest.raises(InputError, match=message):
        levels.apply(levels.versions[-1], make_scenario())


def test_whole_fields_are_set_before_their_parts() -> None:
    levels = Levels.of(
        {
            "model.contention.linear.slope": [0.25],
            "model.contention": {"linear": {"linear": {"slope": 0.0}}},
        }
    )
    model = levels.apply(levels.versions[0], make_scenario()).model
    assert model.contention.linear is not None
    assert model.contention.linear.slope == 0.25


def test_a_scenario_lacks_only_parameters_without_a_value() -> None:
    names = [
        "speed_factor",
        "service_factors.cpu",
        "contention.linear.slope",
        "contention.kinds.cpu.pressure",
        "platform.clusters[0].hosts[0].cores",
        "platform.clusters[0].hosts[0].mhz",
        "power.idle",
        "policy.options.depth",
    ]
    assert find_inactive_parameters(make_scenario(), names) == [
        "contention.linear.slope",
        "contention.kinds.cpu.pressure",
        "platform.clusters[0].hosts[0].mhz",
        "power.idle",
        "policy.options.depth",
    ]
    kinds = {"model.contention": {"kinds": {"cpu": {"pressure": 1, "sensitivity": 0}}}}
    scenario = make_scenario().replace(platform="2x2@2GHz", **kinds)
    assert find_inactive_parameters(scenario, names) == [
        "contention.linear.slope",
        "power.idle",
        "policy.options.depth",
    ]


def test_a_specification_sheet_has_units_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text("values:\n  startup_overhead: 20ms\n  model: {speed_factor: 1.1}\n")
    found = SpecSheet.of(path).read_values(make_scenario(), [])
    assert found == {"startup_overhead": 0.02, "model.speed_factor": 1.1}
    path.write_text("speed_factor: 1.1\nspeed: 2\n")
    with pytest.raises(InputError, match=r"sheet\.yaml:2: speed: "):
        SpecSheet.of(path).read_values(make_scenario(), [])


def test_a_scenario_is_a_specification_sheet_of_its_parameters() -> None:
    sheet = SpecSheet.of(make_scenario().replace(**{"model.speed_factor": 1.5}))
    names = ["speed_factor", "contention.linear.slope"]
    assert sheet.read_values(make_scenario(), names) == {"speed_factor": 1.5}
