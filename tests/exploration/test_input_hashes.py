"""Predictions from a file that has changed since are neither confirmed nor bundled."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.cli.test_commands import run
from tests.exploration.test_study import swf
from twinloop.exploration.confirmation.bundles import bundle
from twinloop.exploration.confirmation.plan import choose_candidates
from twinloop.exploration.confirmation.run import confirm, preview_commands
from twinloop.exploration.ranking.candidate import Candidate

AGAIN = r"run the same `twinloop explore` again"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of two logs and two platforms, with the first log in the base scenario."""
    swf(tmp_path / "a.swf", 50)
    swf(tmp_path / "b.swf", 60)
    (tmp_path / "two.yaml").write_text("clusters: [{hosts: [{cores: 2}]}]\n")
    base = tl.Scenario(platform="1x1", policy="fcfs", workload=str(tmp_path / "a.swf"))
    logs, platforms = [str(tmp_path / name) for name in ("a.swf", "b.swf")], ["1x1", "two.yaml"]
    (tmp_path / "factors.yaml").write_text(
        json.dumps({"factors": {"workload": logs, "platform": platforms}})
    )
    tl.explore(base, tmp_path / "factors.yaml", folder=tmp_path / "s")
    return tmp_path


def of(study: tl.Study, log: str) -> Any:
    """The ranking of the candidates of one log, with the baseline."""
    ranking = study.rank()
    places = tuple(each for each in ranking.places if log in each.candidate.name)
    return replace(ranking, places=places)


@pytest.mark.parametrize(
    "use",
    [
        lambda ranking, there: confirm(ranking, folder=there, announce=lambda text: None),
        lambda ranking, there: bundle(ranking, there),
        lambda ranking, there: preview_commands(ranking),
    ],
    ids=["confirm", "bundle", "preview"],
)
def test_a_changed_input_file_is_an_error(folder: Path, use: Callable[[Any, Path], object]) -> None:
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    with pytest.raises(tl.InputError, match=rf"b\.swf: has changed since .* \({AGAIN}"):
        use(study.top(4), folder / "out")
    assert not (folder / "out").exists()
    (note,) = study.notes
    assert note.startswith(f"changed since the simulation: {folder / 'b.swf'} (run the same")
    assert note in str(study)


def test_a_change_is_detected_for_a_study_in_memory(folder: Path) -> None:
    base = tl.Scenario(platform="1x1", policy="fcfs", workload=str(folder / "a.swf"))
    ranking = tl.explore(base, {"policy": ["easy", "sjf"]}).top(2)
    swf(folder / "a.swf", 10)
    with pytest.raises(tl.InputError, match=r"a\.swf: has changed since easy was simulated"):
        bundle(ranking, folder / "out")


def test_only_inputs_of_chosen_candidates_are_checked(folder: Path) -> None:
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    assert bundle(of(study, "a.swf"), folder / "out").is_dir()
    with pytest.raises(tl.InputError, match=r"b\.swf: has changed"):
        bundle(of(study, "b.swf"), folder / "other")


def test_a_study_with_removed_files_can_be_loaded(folder: Path) -> None:
    before = tl.Study.load(folder / "s")
    platforms = [each.scenario.platform for each in before.candidates]
    for name in ("a.swf", "two.yaml"):
        (folder / name).unlink()
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert str(study) == str(before)
    # The simulated platforms are stored in the study.
    assert [each.scenario.platform for each in study.candidates] == platforms
    with pytest.raises(tl.InputError, match=r"a\.swf: does not exist any more, and .* was sim"):
        bundle(study.top(4), folder / "out")


def test_the_same_exploration_updates_a_study(folder: Path) -> None:
    swf(folder / "a.swf", 10)
    base = tl.Scenario(platform="1x1", policy="fcfs", workload=str(folder / "a.swf"))
    tl.explore(base, folder / "factors.yaml", folder=folder / "s")
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert bundle(study.top(2), folder / "out").is_dir()


def test_added_and_removed_files_of_a_folder_are_detected(tmp_path: Path) -> None:
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text("{}")
    scenario = tl.Scenario(platform="1x1", policy="fcfs", workload=str(tmp_path))
    hashes = {file.name: file.sha256 for file in scenario.inputs()}
    many = [
        Candidate(policy, scenario.replace(policy=policy), {}, inputs=hashes)
        for policy in ("fcfs", "easy")
    ]
    assert choose_candidates(many[:1], many[1])[1] is many[1]
    (tmp_path / "3.json").write_text("{}")
    with pytest.raises(tl.InputError, match=r"3\.json: has changed"):
        choose_candidates(many[:1], many[1])
    (tmp_path / "3.json").unlink()
    (tmp_path / "2.json").unlink()
    with pytest.raises(tl.InputError, match=r"2\.json: does not exist any more"):
        choose_candidates(many[:1], many[1])


def test_a_study_without_stored_hashes_can_be_read(folder: Path) -> None:
    manifest = folder / "s" / "study.json"
    kept = json.loads(manifest.read_text())
    assert set(kept["inputs"]) == {str(folder / name) for name in ("a.swf", "b.swf")}
    del kept["inputs"]
    manifest.write_text(json.dumps(kept))
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert bundle(study.top(4), folder / "out").is_dir()
    # The hash of the log of the base scenario has always been stored.
    swf(folder / "a.swf", 10)
    assert "a.swf" in tl.Study.load(folder / "s").notes[0]


def test_the_command_reports_a_changed_file(folder: Path) -> None:
    swf(folder / "a.swf", 10)
    for words in (("-o", folder / "out"), ("--bundle", folder / "out"), ("--dry-run",)):
        found = run("confirm", folder / "s", *words, ends_with=2)
        message = " ".join(found.stderr.split())
        assert "a.swf: has changed since" in message
        assert "run the same `twinloop explore` again" in message
    assert "a.swf" in run("explore", folder / "s").stdout
