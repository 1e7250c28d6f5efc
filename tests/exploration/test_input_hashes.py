"""Predictions of a file that has changed since are neither confirmed nor bundled."""

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

AGAIN = r"give the same `twinloop explore` again"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of two logs and two platforms, the scenario being that of the first."""
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
    """The candidates of one log, with the baseline, as a ranking."""
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
def test_what_would_run_a_file_that_has_changed_is_refused(
    folder: Path, use: Callable[[Any, Path], object]
) -> None:
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    with pytest.raises(tl.InputError, match=rf"b\.swf: has changed since .* \({AGAIN}"):
        use(study.top(4), folder / "out")
    assert not (folder / "out").exists()
    (note,) = study.notes
    assert note.startswith(f"changed since it was simulated: {folder / 'b.swf'} (give the same")
    assert note in str(study)


def test_a_file_that_changes_between_is_seen_without_a_folder(folder: Path) -> None:
    base = tl.Scenario(platform="1x1", policy="fcfs", workload=str(folder / "a.swf"))
    ranking = tl.explore(base, {"policy": ["easy", "sjf"]}).top(2)
    swf(folder / "a.swf", 10)
    with pytest.raises(tl.InputError, match=r"a\.swf: has changed since easy was simulated"):
        bundle(ranking, folder / "out")


def test_only_what_would_be_run_counts(folder: Path) -> None:
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    assert bundle(of(study, "a.swf"), folder / "out").is_dir()
    with pytest.raises(tl.InputError, match=r"b\.swf: has changed"):
        bundle(of(study, "b.swf"), folder / "other")


def test_a_study_whose_files_are_gone_can_be_looked_at(folder: Path) -> None:
    before = tl.Study.load(folder / "s")
    platforms = [each.scenario.platform for each in before.candidates]
    for name in ("a.swf", "two.yaml"):
        (folder / name).unlink()
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert str(study) == str(before)
    # The platform is the one that was simulated, as that of the scenario is.
    assert [each.scenario.platform for each in study.candidates] == platforms
    with pytest.raises(tl.InputError, match=r"a\.swf: is not there any more: .* was sim"):
        bundle(study.top(4), folder / "out")


def test_the_same_explore_again_makes_it_right(folder: Path) -> None:
    swf(folder / "a.swf", 10)
    base = tl.Scenario(platform="1x1", policy="fcfs", workload=str(folder / "a.swf"))
    tl.explore(base, folder / "factors.yaml", folder=folder / "s")
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert bundle(study.top(2), folder / "out").is_dir()


def test_files_that_come_into_a_folder_or_leave_it_are_seen(tmp_path: Path) -> None:
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
    with pytest.raises(tl.InputError, match=r"2\.json: is not there any more"):
        choose_candidates(many[:1], many[1])


def test_a_study_from_before_the_hashes_were_kept_is_read(folder: Path) -> None:
    manifest = folder / "s" / "study.json"
    kept = json.loads(manifest.read_text())
    assert set(kept["inputs"]) == {str(folder / name) for name in ("a.swf", "b.swf")}
    del kept["inputs"]
    manifest.write_text(json.dumps(kept))
    swf(folder / "b.swf", 10)
    study = tl.Study.load(folder / "s")
    assert study.notes == ()
    assert bundle(study.top(4), folder / "out").is_dir()
    # The hash of the scenario's own log was kept all along.
    swf(folder / "a.swf", 10)
    assert "a.swf" in tl.Study.load(folder / "s").notes[0]


def test_the_command_refuses_it(folder: Path) -> None:
    swf(folder / "a.swf", 10)
    for words in (("-o", folder / "out"), ("--bundle", folder / "out"), ("--dry-run",)):
        found = run("confirm", folder / "s", *words, ends_with=2)
        said = " ".join(found.stderr.split())
        assert "a.swf: has changed since" in said
        assert "give the same `twinloop explore` again" in said
    assert "a.swf" in run("explore", folder / "s").stdout
