"""`twinloop explore` on recorded executions: results, options, errors, and the page."""

from pathlib import Path

import polars as pl
import pytest

from tests.cli.test_commands import answer, run
from tests.exploration.sample_executions import write_executions
from twinloop.exploration import ExecutionStudy


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_executions(tmp_path / "runs", 4)
    names = sorted(path.stem for path in (tmp_path / "runs").glob("*.tasks"))
    rows = [f"{name},900,{400 + number}" for number, name in enumerate(names)]
    (tmp_path / "real.csv").write_text("\n".join(["xp_id,uptime,makespan", *rows, ""]))
    (tmp_path / "lab.yaml").write_text(
        "measured: real.csv\nrun: [runs]\ninject: [best, predictions]\n"
    )
    return tmp_path


def test_the_result_as_text_and_as_json(files: Path) -> None:
    shown = run("explore", files / "lab.yaml", "-o", files / "study", "--top", 1)
    assert "4 executions with 2 sets of injected data: 8 of 8 runs done" in shown.stdout
    assert "predictions (predict: nothing is injected): mean / median" in shown.stdout
    found = answer("explore", files / "lab.yaml", "-o", files / "study", "--top", 2)
    study = ExecutionStudy.load(files / "study")
    assert (found["planned"], found["done"], found["failed"]) == (8, 8, 0)
    assert found["statistics"] == study.statistics.to_dicts()
    assert found["differences"] == study.differences.to_dicts()
    assert [each["mode"] for each in found["sets"]] == ["replay", "predict"]
    assert len(found["largest"]) == 2
    for name in ("runs", "statistics", "frequencies", "histogram", "differences", "repetitions"):
        table: pl.DataFrame = getattr(study, name)
        stored = pl.read_parquet(files / "study" / f"{name}.parquet")
        assert stored.drop("seconds", strict=False).equals(table.drop("seconds", strict=False))
    assert "Study over real executions" in (files / "study" / "report.html").read_text()


def test_a_stored_study_is_shown_and_reported_without_running_anything(files: Path) -> None:
    run("explore", files / "lab.yaml", "-o", files / "study")
    before = (files / "study" / "journal.jsonl").read_bytes()
    assert answer("explore", files / "study")["done"] == 8
    assert (files / "study" / "journal.jsonl").read_bytes() == before
    page = files / "page.html"
    assert answer("report", files / "study", "-o", page)["kind"] == "study"
    assert "Largest errors of the makespan" in page.read_text()


def test_failed_runs_are_reported_with_status_1(files: Path) -> None:
    (files / "runs" / "unnamed.tasks").write_text("a 5 70 ~ 60 50\n")
    shown = run("explore", files / "lab.yaml", "-o", files / "study", ends_with=1)
    assert "2 of 10 runs failed; --retry repeats them" in shown.stderr
    assert "the settings of its broker are unknown" in shown.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lab.yaml",), "an output folder is needed"),
        (("lab.yaml", "-o", "study", "--by", "makespan_s"), "--by applies to other studies"),
        (("lab.yaml", "-o", "study", "--fit", "fit"), "--fit applies to other studies"),
        (("broken.yaml", "-o", "study"), "has no factor `inject`"),
    ],
)
def test_errors(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    (files / "broken.yaml").write_text("run: [runs]\n")
    monkeypatch.chdir(files)
    shown = run("explore", *words, ends_with=2)
    assert message in shown.stderr
    assert not (files / "study").exists()
