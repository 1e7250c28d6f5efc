"""Closed loops: each step once, consistent parts, and errors for other folders and plans."""

import html
import re
import shutil
import tempfile
from pathlib import Path

import polars as pl
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


def make_quick_plan() -> LoopPlan:
    """The plan of the demo with fewer configurations and evaluations."""
    factors = {
        "platform": ["2x1", "1x2"],
        "policy": ["fifo", "sjf", "pack-ic"],
        "overcommit": {"levels": [1, 1.5], "when": {"policy": "pack-ic"}},
    }
    whole = LoopPlan.load(DEMO / "loop.yaml")
    return whole.replace(budget=250, analysis=400, factors={"factors": factors})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loop, list[str]]:
    messages: list[str] = []
    folder = tmp_path_factory.mktemp("loop") / "demo"
    result = loop(
        make_quick_plan(), folder, traces=RECORDED, say=lambda step, text: messages.append(step)
    )
    return result, messages


def test_recorded_runs_pass_through_all_steps(made: tuple[Loop, list[str]]) -> None:
    result, messages = made
    steps = list(dict.fromkeys(messages))
    wanted = ["run", "probe", "check", "simulate", "assess", "calibrate", "explore", "confirm"]
    assert steps == wanted
    assert result.before.mode == "predict"
    assert result.unseen is not None
    assert result.unseen.mode == "predict"
    # The twin was fitted to this run, so it is not a prediction.
    assert result.after.mode == "replay"
    assert len(result.study.planned_configurations) == 8
    assert result.confirmation is not None
    assert result.confirmation.runs.height == 8
    assert result.confirmation.runs["error"].null_count() == 8
    best = result.study.top(1, "turnaround_mean_s")[0]
    assert result.confirmation.candidates[0].name == best.name
    assert len(result.lines) == 5
    assert best.name in result.lines[3]
    assert any("No energy was measured" in note for note in result.notes)


def test_all_commands_can_be_listed_without_a_run() -> None:
    plan = make_quick_plan()
    surveys = preview_commands(plan)
    assert list(surveys) == ["real", *(f"probes/{name}" for name in plan.probes), "confirmation"]
    for survey in surveys.values():
        assert {name for name, _ in survey.programs} == {"twinloop-burn"}
    tasks = plan.scenario.workload.resolve(plan.scenario.seed).tasks.height
    assert sum(each.tasks for each in surveys["real"].commands) == tasks
    # A factor that changes the workload adds its commands.
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


def test_a_finished_loop_is_read_and_not_repeated(made: tuple[Loop, list[str]]) -> None:
    result, _ = made
    messages: list[str] = []
    journal = result.folder / "study" / "journal.jsonl"
    before = journal.read_bytes(), (result.folder / "fit" / "fit.json").read_bytes()
    again = loop(
        make_quick_plan(), result.folder, traces=RECORDED, say=lambda step, _: messages.append(step)
    )
    assert "calibrate" not in messages
    assert before == (journal.read_bytes(), (result.folder / "fit" / "fit.json").read_bytes())
    assert again.lines == result.lines == Loop.load(result.folder).lines


def test_a_folder_of_recorded_runs_gives_the_same_loop(
    made: tuple[Loop, list[str]], demo_runs: Path, tmp_path: Path
) -> None:
    messages: list[str] = []
    again = loop(
        make_quick_plan(),
        tmp_path / "new",
        traces=demo_runs,
        say=lambda _, text: messages.append(text),
    )
    assert again.lines == made[0].lines
    assert f"using the recorded run {demo_runs}/real" in messages
    assert f"using the recorded runs in {demo_runs}/confirmation" in messages


@pytest.mark.parametrize("damaged", ["real", "probes/real"])
def test_a_run_that_fails_the_quality_gate_is_named_with_its_folder(
    demo_runs: Path, tmp_path: Path, damaged: str
) -> None:
    # A probe may have the same name as the folder of the first run.
    plan = make_quick_plan()
    name, changes = next(iter(plan.probes.items()))
    runs = tmp_path / "runs"
    shutil.copytree(demo_runs / "real", runs / "real")
    shutil.copytree(demo_runs / "probes" / name, runs / "probes" / "real")
    trace = tl.Trace.load(runs / damaged)
    reversed_times = trace.placements.with_columns(end=pl.col("start") - 1.0)
    shutil.rmtree(runs / damaged)
    trace.replace(placements=reversed_times).save(runs / damaged)
    with pytest.raises(tl.InputError) as caught:
        loop(plan.replace(probes={"real": changes}), tmp_path / "new", traces=runs)
    start = (
        f"the recorded run '{damaged}' does not pass the quality gate: it breaks lifecycle-order"
    )
    assert start in str(caught.value)
    assert "RuleFinding" not in str(caught.value)
    assert f"`twinloop check {tmp_path / 'new' / damaged}`" in str(caught.value)


def test_an_unpacked_archive_is_removed(
    made: tuple[Loop, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    messages: list[str] = []

    def stop(step: str, text: str) -> None:
        messages.append(text)
        raise KeyboardInterrupt

    assert loop(make_quick_plan(), made[0].folder, traces=RECORDED).lines == made[0].lines
    with pytest.raises(KeyboardInterrupt):
        loop(make_quick_plan(), tmp_path / "new", traces=RECORDED, say=stop)
    assert messages == [f"using the recorded run {RECORDED}/real"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_an_unusable_archive_is_an_error_and_nothing_is_written(
    demo_runs: Path, tmp_path: Path
) -> None:
    def expect_error(archive: Path, problem: str) -> None:
        with pytest.raises(tl.InputError, match=f"{archive.name}: {problem}"):
            loop(make_quick_plan(), tmp_path / "new", traces=archive)
        assert not (tmp_path / "new").exists()

    expect_error(tmp_path / "nowhere.tar.zst", "has no recorded run 'real'")
    expect_error(
        pack_folder(demo_runs / "real", tmp_path / "one-run.tar.zst"), "has no recorded run"
    )
    expect_error(DEMO / "loop.yaml", "is not a tar archive, or is damaged")
    cut = tmp_path / "cut.tar.zst"
    cut.write_bytes(RECORDED.read_bytes()[:-9])
    expect_error(cut, "cannot be read to its end")


def test_the_page_contains_the_five_lines(made: tuple[Loop, list[str]], tmp_path: Path) -> None:
    page = write_loop_page(made[0], tmp_path / "report.html").read_text()
    text = " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())
    assert len(made[0].lines) == 5
    for line in made[0].lines:
        assert " ".join(line.split()) in text


def test_folders_with_other_contents_are_errors(
    made: tuple[Loop, list[str]], demo_runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(tl.InputError, match="contains another loop"):
        loop(make_quick_plan().replace(seed=5), made[0].folder, traces=RECORDED)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(tl.InputError, match="is not a loop"):
        loop(make_quick_plan(), tmp_path / "mine", traces=RECORDED)
    with pytest.raises(tl.InputError, match="contains no loop"):
        Loop.load(tmp_path / "mine")
    shutil.copytree(demo_runs / "real", tmp_path / "half" / "real")
    with pytest.raises(tl.InputError, match="one per core"):
        loop(make_quick_plan(), tmp_path / "new", traces=tmp_path / "half")


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"by": "turnarounds"}, "by: 'turnarounds' is not a KPI"),
        ({"probes": {"x": {"polcy": "fifo"}}}, r"probes.x: .*polcy.*'policy'"),
        ({"what_if": {"seed": -1}}, "what_if: seed"),
        ({"factors": {"policy": []}}, r"^factors\.policy"),
    ],
)
def test_invalid_plans_are_errors(change: dict[str, object], messages: str) -> None:
    with pytest.raises(tl.InputError, match=messages):
        make_quick_plan().replace(**change)
