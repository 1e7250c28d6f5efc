"""Paths in levels, probes and what-if changes are relative to the file that contains them."""

from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from twinloop import metrics
from twinloop.exploration.closed_loop.plan import LoopPlan
from twinloop.exploration.factors.design import Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.factors.level_files import make_paths_absolute, resolve_files

BASE = "platform: 2x1\npolicy: fcfs\nworkload: log.swf\n"
STUDY = """
scenario: scenario.yaml
factors:
  workload: [log.swf, sub/more.swf]
  platform: [2x1, small.yaml]
"""
LOOP = """
scenario: scenario.yaml
probes:
  other load: {workload: sub/more.swf}
  fails: {failures: {trace: down.csv}}
what_if: {platform: small.yaml, workload.path: sub/more.swf}
factors: {workload: [log.swf, {path: sub/more.swf}]}
"""


def swf(path: Path, seconds: int) -> None:
    """Write a log of one task with this run time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [1, 0, 0, seconds, 1, seconds, -1, 1, seconds, *[-1] * 9]
    path.write_text(f"; MaxProcs: 1\n{' '.join(map(str, fields))}\n")


def write(folder: Path, seconds: int, cores: int) -> Path:
    """Write a study, a loop and all files that they refer to."""
    swf(folder / "log.swf", seconds)
    swf(folder / "sub" / "more.swf", 2 * seconds)
    (folder / "small.yaml").write_text(f"clusters: [{{hosts: [{{cores: {cores}}}]}}]\n")
    (folder / "down.csv").write_text("node,start,end\nC01-H01-001,1,2\n")
    (folder / "scenario.yaml").write_text(BASE)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "loop.yaml").write_text(LOOP)
    return folder


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders with equal file names and different contents; the second is the current one."""
    write(tmp_path / "two", 500, 7)
    monkeypatch.chdir(tmp_path / "two")
    return write(tmp_path / "one", 50, 1)


def makespan(scenario: tl.Scenario) -> float | None:
    return metrics.figures(tl.simulate(scenario)).makespan


def test_levels_in_a_file_are_relative_to_that_file(one: Path) -> None:
    study = tl.explore(None, one / "study.yaml")
    assert study.runs.select("workload", "platform", "makespan_s").rows() == [
        ("log.swf", "2x1", 50.0),
        ("log.swf", "small.yaml", 50.0),
        ("sub/more.swf", "2x1", 100.0),
        ("sub/more.swf", "small.yaml", 100.0),
    ]
    names = ["log.swf, 2x1", "log.swf, small.yaml", "sub/more.swf, 2x1", "sub/more.swf, small.yaml"]
    assert study.configurations["name"].to_list() == names
    assert study.candidate("log.swf, small.yaml").scenario.platform.total_cores == 1.0
    # The first configuration equals the base scenario, so it is the baseline.
    assert study.baseline.name == "log.swf, 2x1"


def test_a_study_loaded_from_another_folder_keeps_its_files(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(one)
    factors = {"workload": ["log.swf", "sub/more.swf"], "platform": ["2x1", "small.yaml"]}
    made = tl.explore(tl.Scenario.load("scenario.yaml"), factors, folder=tmp_path / "s")
    monkeypatch.chdir(tmp_path / "two")
    back = tl.Study.load(tmp_path / "s")
    assert back.runs.drop("seconds").equals(made.runs.drop("seconds"))
    for each in back.candidates:
        assert makespan(each.scenario) == each.predicted["makespan_s"]
    assert [each.name for each in back.candidates] == [each.name for each in made.candidates]


def test_points_and_conditions_use_the_labels_in_the_file(one: Path) -> None:
    (one / "list.yaml").write_text(
        "design: list\n"
        "factors:\n"
        "  workload: {levels: [log.swf]}\n"
        "  policy: {levels: [fifo, easy], when: {workload: [log.swf]}}\n"
        "points: [{workload: log.swf, policy: easy}, {workload: sub/more.swf, policy: easy}]\n"
    )
    found = list(Design.load(one / "list.yaml").configurations())
    assert [each.labels for each in found] == [
        {"workload": "log.swf", "policy": "easy"},
        {"workload": "sub/more.swf"},
    ]
    assert [each.changes["workload"] for each in found] == [
        (one / name).as_posix() for name in ("log.swf", "sub/more.swf")
    ]


def test_numbers_beside_files_are_labelled_by_their_value(one: Path) -> None:
    (one / "carbon.yaml").write_text(
        "factors:\n"
        "  air: {field: 'platform.clusters[0].carbon', levels: [300, 0.2 kg/kWh, air.csv]}\n"
        "  policy: {levels: [fifo, easy], when: {air: [300]}}\n"
    )
    found = [each.changes for each in Design.load(one / "carbon.yaml").configurations()]
    field = "platform.clusters[0].carbon"
    assert [each[field] for each in found] == [
        *(300, 300, "0.2 kg/kWh", (one / "air.csv").as_posix())
    ]
    assert ["policy" in each for each in found] == [True, True, False, False]


def test_paths_of_a_loop_are_relative_to_its_file(one: Path) -> None:
    plan = LoopPlan.load(one / "loop.yaml")
    probes = plan.probe_scenarios
    assert makespan(probes["other load"]) == 100.0
    assert probes["fails"].failures is not None
    assert probes["fails"].failures.trace == (one / "down.csv").as_posix()
    assert makespan(plan.study_scenario) == 100.0
    assert plan.study_scenario.platform.total_cores == 1.0
    found = list(plan.factors.configurations())
    assert [makespan(apply_changes(plan.study_scenario, each.changes)) for each in found] == [
        50.0,
        100.0,
    ]
    assert [each.name for each in found] == ["log.swf", "path sub/more.swf"]


def test_paths_in_a_file_of_the_current_folder_stay_relative(one: Path) -> None:
    """A plan and its folder can then be moved together."""
    plan = LoopPlan.load("loop.yaml")
    assert plan.probes["other load"] == {"workload": "sub/more.swf"}
    assert plan.factors.factors["workload"].levels[0] == "log.swf"


FOLDER = Path("/there")


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("workload", "a.swf", "/there/a.swf"),
        ("workload", {"path": "a.swf", "format": "swf"}, {"path": "/there/a.swf", "format": "swf"}),
        ("workload", "/logs/a.swf", "/logs/a.swf"),
        ("workload", {"generate": {"name": "poisson"}}, {"generate": {"name": "poisson"}}),
        (
            "workload",
            {"tasks": [{"id": "a", "folder": "run"}], "prepare": [{"creates": "x"}]},
            {"tasks": [{"id": "a", "folder": "/there/run"}], "prepare": [{"creates": "/there/x"}]},
        ),
        ("workload.tasks[3].folder", "run", "/there/run"),
        ("failures", {"trace": "f.csv"}, {"trace": "/there/f.csv"}),
        ("failures", None, None),
        ("failures.trace", "f.csv", "/there/f.csv"),
        ("platform", "2x8@2400MHz", "2x8@2400MHz"),
        ("platform", "p.yaml", "/there/p.yaml"),
        ("platform.clusters[1].carbon", "c.csv", "/there/c.csv"),
        ("platform.clusters[1].carbon", "300 g/kWh", "300 g/kWh"),
        ("platform.clusters[1].carbon", "-300 g/kWh", "-300 g/kWh"),
        ("platform.clusters[1].name", "c.csv", "c.csv"),
        ("policy", "easy", "easy"),
        ("policy.options.overcommit", 2, 2),
        ("source", "sessions:60min", "sessions:60min"),
        ("source", "rigid", "rigid"),
        ("model.overrides", {"a": "b"}, {"a": "b"}),
        ("nothing.there", "x", "x"),
        ("not [ a path", "x", "x"),
        ("workload", "", ""),
    ],
)
def test_values_of_path_fields_become_absolute_paths(path: str, value: Any, found: Any) -> None:
    assert resolve_files(path, value, FOLDER) == found


def test_paths_in_descriptions_in_memory_become_absolute(one: Path) -> None:
    platform = tl.Platform.from_dict({"clusters": [{"hosts": [{"cores": 1}], "carbon": "c.csv"}]})
    found = resolve_files("platform", platform, FOLDER)
    assert found.clusters[0].carbon == "/there/c.csv"
    scenario = tl.Scenario.load("scenario.yaml").replace(platform=platform)
    whole = make_paths_absolute(scenario)
    assert whole.workload.path == (Path.cwd() / "log.swf").as_posix()
    assert whole.platform.clusters[0].carbon == (Path.cwd() / "c.csv").as_posix()
    assert make_paths_absolute(whole) is whole


def test_paths_in_options_of_a_reader_become_absolute() -> None:
    there, options = Path("/logs"), {"sstat": "samples.txt", "utc_offset": 1}
    located = {"sstat": "/logs/samples.txt", "utc_offset": 1}
    assert resolve_files("workload.options", options, there) == located
    assert resolve_files("workload.options.sstat", "samples.txt", there) == "/logs/samples.txt"
    assert resolve_files("workload.options.utc_offset", 2, there) == 2
    workload = {"path": "jobs.txt", "options": options}
    assert resolve_files("workload", workload, there) == {
        "path": "/logs/jobs.txt",
        "options": located,
    }
    scenario = tl.Scenario(platform="1x1", policy="fcfs", workload=workload)
    assert make_paths_absolute(scenario).workload.options["sstat"] == str(
        Path("samples.txt").resolve()
    )
