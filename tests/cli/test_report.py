"""The command `twinloop report`: pages of runs, logs and results, and the browser."""

import json
import webbrowser
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import twinloop as tl
from tests.report.page_reader import PageReader
from tests.report.sample_runs import draw_tasks, run_fcfs
from twinloop.cli import report as command
from twinloop.cli.report import report
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.report import render_run_svg, render_study_svg
from twinloop.trace import Manifest, Trace

app = typer.Typer()
app.command()(report)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser is requested to open; no browser is started."""
    asked: list[str] = []

    def note(url: str) -> bool:
        asked.append(url)
        return len(asked) == 1

    monkeypatch.setattr(webbrowser, "open", note)
    return asked


def run(*words: object, ends_with: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == ends_with, result.output
    return result


def made(kind: str = "simulated", tasks: int = 12) -> Trace:
    return run_fcfs(draw_tasks(tasks), manifest=Manifest(kind=kind))


def test_the_page_of_a_run_is_in_its_folder(tmp_path: Path, opened: list[str]) -> None:
    made().save(tmp_path / "runs/easy.v2")
    printed = run(tmp_path / "runs/easy.v2").stdout
    page = tmp_path / "runs/easy.v2.html"
    assert printed == f"wrote {page}\n"
    assert "12 tasks" in PageReader(page.read_text("utf-8")).text
    # No other file is written, and nothing is opened without a terminal.
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"easy.v2", "easy.v2.html"}
    assert Trace.load(tmp_path / "runs/easy.v2") == made()
    assert opened == []


def test_the_page_of_a_log_is_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "week.swf"
    log.write_text("1 0 5 60 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n")
    document = json.loads(run(log, "--json").stdout)
    page = tmp_path / "week.html"
    assert document == {
        "input": [str(log)], "kind": "run", "report": str(page), "size": page.stat().st_size,
        "opened": False,
    }  # fmt: skip
    assert log.read_text().startswith("1 0 5")


@pytest.mark.parametrize("named", [False, True])
def test_a_foreign_file_is_not_replaced_by_a_page(tmp_path: Path, named: bool) -> None:
    log = tmp_path / "week.swf"
    log.write_text("1 0 5 60 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n")
    notes = tmp_path / ("notes.html" if named else "week.html")
    notes.write_text("<h1>my own notes</h1>")
    words = [log, *(["-o", notes] if named else [])]
    assert "is not a page of Twinloop" in " ".join(run(*words, ends_with=2).output.split())
    assert notes.read_text() == "<h1>my own notes</h1>"
    notes.unlink()
    for _ in range(2):  # a page is written again
        run(*words)


def test_two_runs_are_an_assessment(tmp_path: Path) -> None:
    real, twin = made("recorded").save(tmp_path / "real"), made().save(tmp_path / "twin")
    document = json.loads(run(real, twin, "--json").stdout)
    assert document["kind"] == "assessment"
    assert document["report"] == str(tmp_path / "twin-assessment.html")
    page = PageReader(Path(document["report"]).read_text("utf-8"))
    assert "Assessment of the twin" in page.text
    assert "KS p" in page.text
    run(real, twin, "-o", tmp_path / "trust.html")
    assert (tmp_path / "trust.html").read_bytes() == Path(document["report"]).read_bytes()


def test_pages_of_a_fit_a_study_and_a_confirmation(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": f"t{n}", "run_time": 10 + n, "cores": 1 + n % 3} for n in range(12)
    ]
    scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    study = tl.explore(scenario, {"policy": ["fifo", "easy"]}, folder=tmp_path / "study")
    best, baseline = study.top(1)[0], study.baseline
    runs = [
        {"candidate": one.name, "repetition": turn, "makespan_s": one.predicted["makespan_s"]}
        for one in (best, baseline)
        for turn in (1, 2)
    ]
    Confirmation.of([best], baseline, runs, ["makespan_s"]).save(tmp_path / "confirmation")
    speed = {"speed_factor": {"linear": [0.5, 2]}}
    tl.calibrate(tl.simulate(scenario), parameters=speed, budget=10, analysis=0).save(
        tmp_path / "fit"
    )
    for kind, text in (
        ("fit", "speed_factor"),
        ("study", f"{best.name} is predicted to be best"),
        ("confirmation", f"{best.name}"),
    ):
        document = json.loads(run(tmp_path / kind, "--json").stdout)
        assert document["kind"] == kind
        assert document["report"] == str(tmp_path / kind / "report.html")
        assert text in PageReader(Path(document["report"]).read_text("utf-8")).text
    before = (tmp_path / "study/report.html").read_bytes()
    run(tmp_path / "study")
    assert (tmp_path / "study/report.html").read_bytes() == before


def test_the_browser_is_started_on_request(tmp_path: Path, opened: list[str]) -> None:
    made().save(tmp_path / "a run")
    page = (tmp_path / "a run.html").resolve()
    assert json.loads(run(tmp_path / "a run", "--open", "--json").stdout)["opened"] is True
    assert opened == [page.as_uri()]
    again = run(tmp_path / "a run", "--open")
    assert "open the file yourself" in again.stderr
    run(tmp_path / "a run", "--no-open")
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("terminal", "display", "opens"),
    [(True, ":0", True), (True, "", False), (False, ":0", False)],
)
def test_the_browser_is_started_in_a_terminal_with_a_display(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, display: str, opens: bool
) -> None:
    monkeypatch.setattr(command.sys, "platform", "linux")
    monkeypatch.setattr(command.out, "_force_terminal", terminal)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    assert command.can_open_browser() is opens


def test_an_unreportable_folder_is_an_error_that_lists_the_expected_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    error = run(tmp_path / "empty", ends_with=2).stderr
    for marker in ("loop.json", "confirmation.json", "study.json", "fit.json", "manifest.json"):
        assert marker in error
    assert not (tmp_path / "empty.html").exists()
    odd = tmp_path / "notes.md"
    odd.write_text("# Notes\n")
    problem = json.loads(run(odd, "--json", ends_with=2).stdout)["error"]["problem"]
    assert "is not a loop, confirmation, study, detail, fit or run" in problem
    assert "does not exist" in run(tmp_path / "none", ends_with=2).stderr
    assert "does not exist" in run(made().save(tmp_path / "run"), "none", ends_with=2).stderr


def test_the_name_of_a_page_must_end_with_html(tmp_path: Path) -> None:
    made().save(tmp_path / "run")
    data = tmp_path / "data.csv"
    data.write_text("mine")
    assert "must end with .html or .svg" in run(tmp_path / "run", "-o", data, ends_with=2).stderr
    assert data.read_text() == "mine"


def test_a_run_and_a_study_have_a_picture(tmp_path: Path) -> None:
    made().save(tmp_path / "run")
    tasks = [{"id": f"t{n}", "run_time": 10 + n, "cores": 1 + n % 3} for n in range(12)]
    scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    study = tl.explore(scenario, {"policy": ["fifo", "easy"]}, folder=tmp_path / "study")
    for kind, expected in (("run", render_run_svg(made())), ("study", render_study_svg(study))):
        picture = tmp_path / f"{kind}.svg"
        for _ in range(2):  # it replaces its own picture
            document = json.loads(run(tmp_path / kind, "-o", picture, "--json").stdout)
            assert (document["kind"], document["report"]) == (kind, str(picture))
            assert picture.read_text("utf-8") == expected
    (tmp_path / "mine.svg").write_text("<svg>mine</svg>")
    message = run(tmp_path / "run", "-o", tmp_path / "mine.svg", ends_with=2).stderr
    assert "is not a picture of Twinloop" in message
    words = (tmp_path / "run", tmp_path / "run", "-o", tmp_path / "both.svg")
    assert "an assessment has no picture" in run(*words, ends_with=2).stderr


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
@pytest.mark.parametrize("marker", ["study.json", "fit.json", "confirmation.json", "loop.json"])
def test_a_damaged_folder_prints_no_traceback(tmp_path: Path, marker: str, content: str) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / marker).write_text(content)
    assert "error: " in run(tmp_path / "it", ends_with=2).stderr
    assert not (tmp_path / "it/report.html").exists()
