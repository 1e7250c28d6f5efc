"""Laws of the loop: every step once, the parts belong together, nothing is taken for another."""

import html
import re
import shutil
import tempfile
from pathlib import Path

import pytest

import twinloop as tl
from twinloop import metrics
from twinloop.exploration.closed_loop.plan import LoopPlan
from twinloop.exploration.closed_loop.result import Loop
from twinloop.exploration.closed_loop.run import loop, preview_commands
from twinloop.recordings import archive_path, pack_folder
from twinloop.report import write_loop_page

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"
RECORDED = archive_path("demo")


def quick() -> LoopPlan:
    """The demo with fewer what-ifs, and fewer evaluations than it would take to be sure."""
    factors = {
        "platform": ["2x1", "1x2"],
        "policy": ["fifo", "sjf", "pack-ic"],
        "overcommit": {"levels": [1, 1.5], "when": {"policy": "pack-ic"}},
    }
    whole = LoopPlan.load(DEMO / "loop.yaml")
    return whole.replace(budget=250, analysis=400, factors={"factors": factors})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loop, list[str]]:
    said: list[str] = []
    folder = tmp_path_factory.mktemp("loop") / "demo"
    going = loop(quick(), folder, traces=RECORDED, say=lambda step, text: said.append(step))
    return going, said


def test_the_recorded_runs_go_round_the_whole_loop(made: tuple[Loop, list[str]]) -> None:
    going, said = made
    steps = list(dict.fromkeys(said))
    wanted = ["run", "probe", "check", "simulate", "assess", "calibrate", "explore", "confirm"]
    assert steps == wanted
    assert going.before.mode == "predict"
    assert going.unseen is not None
    assert going.unseen.mode == "predict"
    # It was fitted to this run, so it does not foretell it.
    assert going.after.mode == "replay"
    assert len(going.study.planned_configurations) == 8
    assert going.confirmation is not None
    assert going.confirmation.runs.height == 8
    assert going.confirmation.runs["error"].null_count() == 8
    best = going.study.top(1, "turnaround_mean_s")[0]
    assert going.confirmation.candidates[0].name == best.name
    assert len(going.lines) == 5
    assert best.name in going.lines[3]
    assert any("No energy was measured" in note for note in going.notes)


def test_every_command_is_known_before_anything_runs() -> None:
    plan = quick()
    surveys = preview_commands(plan)
    assert list(surveys) == ["real", *(f"probes/{name}" for name in plan.probes), "confirmation"]
    for survey in surveys.values():
        assert {name for name, _ in survey.programs} == {"twinloop-burn"}
    tasks = plan.scenario.workload.resolve(plan.scenario.seed).tasks.height
    assert sum(each.tasks for each in surveys["real"].commands) == tasks
    # A factor that changes what is run adds its commands.
    other = {"command": ["other", "{id}"], "tasks": [{"id": "x", "run_time": 1}]}
    more = plan.replace(factors={"factors": {"workload": [other], "policy": ["fifo", "sjf"]}})
    assert "other x" in [each.command for each in preview_commands(more)["confirmation"].commands]


def test_the_figures_of_the_confirmation_are_those_of_its_traces(
    made: tuple[Loop, list[str]],
) -> None:
    check = made[0].confirmation
    assert check is not None
    assert check.folder is not None
    for row in check.runs.iter_rows(named=True):
        trace = tl.Trace.load(check.folder / row["trace"])
        found = metrics.figures(trace).turnaround
        assert found is not None
        assert row["turnaround_mean_s"] == pytest.approx(found.mean)


def test_it_is_read_back_and_not_done_twice(made: tuple[Loop, list[str]]) -> None:
    going, _ = made
    said: list[str] = []
    journal = going.folder / "study" / "journal.jsonl"
    before = journal.read_bytes(), (going.folder / "fit" / "fit.json").read_bytes()
    again = loop(quick(), going.folder, traces=RECORDED, say=lambda step, _: said.append(step))
    assert "calibrate" not in said
    assert before == (journal.read_bytes(), (going.folder / "fit" / "fit.json").read_bytes())
    assert again.lines == going.lines == Loop.load(going.folder).lines


def test_a_folder_of_recorded_runs_gives_the_same_loop(
    made: tuple[Loop, list[str]], demo_runs: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    again = loop(quick(), tmp_path / "new", traces=demo_runs, say=lambda _, text: said.append(text))
    assert again.lines == made[0].lines
    assert f"taking the recorded run {demo_runs}/real" in said
    assert f"taking the recorded runs in {demo_runs}/confirmation" in said


def test_nothing_of_an_archive_stays_among_the_temporary_files(
    made: tuple[Loop, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said: list[str] = []

    def stop(step: str, text: str) -> None:
        said.append(text)
        raise KeyboardInterrupt

    assert loop(quick(), made[0].folder, traces=RECORDED).lines == made[0].lines
    with pytest.raises(KeyboardInterrupt):
        loop(quick(), tmp_path / "new", traces=RECORDED, say=stop)
    assert said == [f"taking the recorded run {RECORDED}/real"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_an_archive_that_cannot_be_used_is_named_and_nothing_is_written(
    demo_runs: Path, tmp_path: Path
) -> None:
    def refuse(archive: Path, problem: str) -> None:
        with pytest.raises(tl.InputError, match=f"{archive.name}: {problem}"):
            loop(quick(), tmp_path / "new", traces=archive)
        assert not (tmp_path / "new").exists()

    refuse(tmp_path / "nowhere.tar.zst", "has no recorded run 'real'")
    refuse(pack_folder(demo_runs / "real", tmp_path / "one-run.tar.zst"), "has no recorded run")
    refuse(DEMO / "loop.yaml", "is no tar archive, or a damaged one")
    cut = tmp_path / "cut.tar.zst"
    cut.write_bytes(RECORDED.read_bytes()[:-9])
    refuse(cut, "cannot be read to its end")


def test_its_page_has_the_five_lines(made: tuple[Loop, list[str]], tmp_path: Path) -> None:
    page = write_loop_page(made[0], tmp_path / "report.html").read_text()
    text = " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())
    assert len(made[0].lines) == 5
    for line in made[0].lines:
        assert " ".join(line.split()) in text


def test_a_folder_of_another_loop_is_left_alone(
    made: tuple[Loop, list[str]], demo_runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(tl.InputError, match="holds another loop"):
        loop(quick().replace(seed=5), made[0].folder, traces=RECORDED)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(tl.InputError, match="is no loop"):
        loop(quick(), tmp_path / "mine", traces=RECORDED)
    with pytest.raises(tl.InputError, match="no loop is kept there"):
        Loop.load(tmp_path / "mine")
    shutil.copytree(demo_runs / "real", tmp_path / "half" / "real")
    with pytest.raises(tl.InputError, match="one per core"):
        loop(quick(), tmp_path / "new", traces=tmp_path / "half")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"by": "turnarounds"}, "by: 'turnarounds' is not a KPI"),
        ({"probes": {"x": {"polcy": "fifo"}}}, r"probes.x: .*polcy.*'policy'"),
        ({"what_if": {"seed": -1}}, "what_if: seed"),
        ({"factors": {"policy": []}}, r"factors\.factors\.policy"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(tl.InputError, match=said):
        quick().replace(**change)
