"""Commands on logs: output, files, errors and exit status."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import twinloop as tl
from twinloop.cli import app
from twinloop.workload.generators import list_generators

SWF = """\
; UnixStartTime: 1000
; MaxProcs: 8
1 0 5 10 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1
2 20 -1 30 2 -1 -1 2 60 -1 0 8 1 -1 1 -1 -1 -1
"""


def run(*words: object, ends_with: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == ends_with, result.output
    return result


def answer(*words: object, ends_with: int = 0) -> dict[str, object]:
    """Run a command with --json; return the only object that it prints."""
    document = json.loads(run(*words, "--json", ends_with=ends_with).stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    return path


def test_the_installed_command_prints_only_one_json_object(log: Path) -> None:
    command = [sys.executable, "-m", "twinloop", "inspect", str(log), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["summary"]["tasks"] == 2
    assert done.stderr == ""


def test_inspect_summarises_a_log(log: Path) -> None:
    document = answer("inspect", log)
    keys = {"path", "summary", "load", "unsupported_losses", "cleaned", "problems", "manifest"}
    assert set(document) == keys
    assert document["summary"]["users"] == 2
    assert document["summary"]["capacity"] == 8
    assert document["summary"]["wait"]["known"] == 1
    text = run("inspect", log).stdout
    assert "2 tasks, 2 users" in text
    assert "cores in use" in text


def test_inspect_draws_a_page_that_needs_no_network(log: Path, tmp_path: Path) -> None:
    run("inspect", log, "--picture", tmp_path / "load.html")
    page = (tmp_path / "load.html").read_text()
    assert "cores in use" in page
    assert 'src="http' not in page


def test_the_exit_status_of_check_is_the_result_of_the_quality_gate(
    log: Path, tmp_path: Path
) -> None:
    document = answer("check", log)
    assert document["ok"] is True
    audit = tmp_path / "audit.md"
    run("check", log, "-o", audit)
    assert "lifecycle" in audit.read_text()
    run("check", log, "-o", audit, ends_with=2)
    log.write_text(SWF + "3 30 no number\n")
    document = answer("check", log, ends_with=1)
    assert document["ok"] is False
    assert "log.swf:5" in json.dumps(document)


def test_convert_keeps_every_field_and_does_not_overwrite(log: Path, tmp_path: Path) -> None:
    document = answer("convert", log, tmp_path / "log.trace")
    assert document["tasks"] == 2
    run("convert", tmp_path / "log.trace", tmp_path / "again.swf.gz")
    before, after = tl.read(log), tl.read(tmp_path / "again.swf.gz")
    assert after.tasks.drop("line").equals(before.tasks.drop("line"))
    assert after.placements.equals(before.placements)
    again = answer("convert", log, tmp_path / "log.trace", ends_with=2)
    assert "exists already" in str(again["error"])
    run("convert", log, tmp_path / "log.trace", "--overwrite")


def test_convert_cuts_scales_and_records_it(log: Path, tmp_path: Path) -> None:
    document = answer(
        "convert", log, tmp_path / "cut.trace", "--user", "8", "--scale-load", 2, "--by", "run-time"
    )
    assert document["tasks"] == 1
    cut = tl.read(tmp_path / "cut.trace")
    assert cut.tasks["run_time"].to_list() == [60.0]
    assert len(cut.manifest.edits) == len(document["edits"]) == 2


def test_csv_needs_a_map_and_takes_it_from_the_command_line(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("JobID,Sent,NCPUS,Seconds\nx,1500,4,10\ny,2500,2,20\n")
    words = ["--column", "id=JobID", "--column", "submit=Sent", "--unit", "submit=ms"]
    words += ["--column", "requested_cores=NCPUS", "--column", "run_time=Seconds"]
    document = answer("inspect", table, *words)
    assert document["summary"]["core_seconds"] == 80
    wrong = answer("inspect", table, "--column", "id=Job", ends_with=2)
    assert "JobID" in wrong["error"]["message"]


@pytest.mark.parametrize("name", list_generators())
def test_every_generator_has_help_and_writes_a_log_that_passes_the_gate(
    name: str, tmp_path: Path
) -> None:
    assert "--seed" in run("generate", name, "--help").stdout
    words = ["--seed", 3]
    if name == "recipe":
        tl.generate("fork-join").save(tmp_path / "flow.trace")
        words += ["--instance", tmp_path / "flow.trace"]
    document = answer("generate", name, tmp_path / "made.trace", *words)
    assert document["seed"] == 3
    made = tl.read(tmp_path / "made.trace")
    assert made.tasks.height == document["tasks"] > 0
    assert made.manifest.seed == 3
    assert answer("check", tmp_path / "made.trace")["ok"] is True
    run("generate", name, tmp_path / "made.swf.gz", *words)
    assert tl.read(tmp_path / "made.swf.gz").tasks.height == made.tasks.height


def test_files_that_a_format_cannot_hold_are_named(tmp_path: Path) -> None:
    text = run("generate", "fork-join", tmp_path / "made.swf").stdout
    assert "ignored 18: table files" in text
    assert "this format has no files of tasks; a trace folder (.trace) has them" in text
    assert "no files" not in run("generate", "fork-join", tmp_path / "made.trace").stdout
    tl.generate("chain", tasks=4).save(tmp_path / "flow.trace")
    words = ("recipe", tmp_path / "nine.trace", "--instance", tmp_path / "flow.trace")
    text = run("generate", *words, "--tasks", 9).stdout
    assert "assumed 4: tasks of the workflow, the nearest to 9" in text


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for output in ("a.swf", "b.swf"):
        run("generate", "lublin", tmp_path / output, "--seed", 5)
    assert (tmp_path / "a.swf").read_bytes() == (tmp_path / "b.swf").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "nowhere.swf"], "nowhere.swf: does not exist"),
        (["inspect", "{log}", "--format", "xml"], "no format is called 'xml'"),
        (["convert", "{log}", "out.unknown"], "has a suffix that no writable format uses"),
        (["convert", "{log}", "out.csv", "--to", "csv"], "can only be read"),
        (["generate", "poisson", "x.trace", "--tasks", "-4"], "tasks"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.format(log=log) for word in words]
    assert message in run(*words, ends_with=2).stderr
    document = answer(*words, ends_with=2)
    assert message in document["error"]["message"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log.swf"]


def test_an_interrupted_write_leaves_nothing(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    CliRunner().invoke(app, ["convert", str(log), str(tmp_path / "out.trace")])
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.swf"]


def test_the_input_is_never_written_to(log: Path) -> None:
    for words in (
        ["inspect", log, "--picture", log],
        ["check", log, "-o", log],
        ["convert", log, log],
    ):
        assert "is the input" in run(*words, "--overwrite", ends_with=2).stderr
    assert log.read_text() == SWF


def test_an_invalid_picture_or_user_is_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "load.html").write_text("mine")
    assert (
        "exists already"
        in run("inspect", log, "--picture", tmp_path / "load.html", ends_with=2).stderr
    )
    assert (tmp_path / "load.html").read_text() == "mine"
    refused = run("convert", log, tmp_path / "out.trace", "--user", "nine", ends_with=2)
    assert "--user nine: no task has this user" in refused.stderr


def test_names_with_brackets_are_not_markup(tmp_path: Path) -> None:
    path = tmp_path / "log[bold] [red].swf"
    path.write_text(SWF)
    assert "log[bold] [red].swf" in run("inspect", path).stdout.replace("\n", "")
    printed = run("convert", path, tmp_path / "out[red].swf").stdout
    assert "out[red].swf" in printed.replace("\n", "")


def test_times_and_shares_have_units(log: Path, tmp_path: Path) -> None:
    assert answer("convert", log, tmp_path / "a.trace", "--start", "10s")["tasks"] == 1
    assert answer("convert", log, tmp_path / "b.trace", "--warm-up", "50%")["tasks"] == 1
    wrong = answer("convert", log, tmp_path / "c.trace", "--start", "soon", ends_with=2)
    assert "--start must be a duration" in wrong["error"]["message"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b,c\n1,2,3\n", "looks like a table"),
        (b"\x1f\x8b\x08", "to its end"),
        (b"; one\n\n ;two", "has no job"),
        (b"; one\nbut that", "is in no known format"),
        (b"\n\n", "is in no known format"),
        (b"\x7fELF\x02\x01\x01,,,,\0\0", "is a program (ELF), not a log (export its content"),
        (b"PAR1,,,\n;;", "is a Parquet file, not a log (Parquet is read from folders"),
        (b"\0\1\2,,\0\0" * 9, "is a binary file of an unknown kind, not a log"),
    ],
)
def test_the_error_for_an_unknown_format_describes_the_file(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "thing").write_bytes(content)
    assert message in run("inspect", tmp_path / "thing", ends_with=2).stderr


@pytest.mark.parametrize("form", ["csv", "swf", "gwf", "sacct"])
def test_a_binary_file_is_no_text_log_under_any_name(tmp_path: Path, form: str) -> None:
    pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "log.swf")
    error = run("inspect", tmp_path / "log.swf", "--format", form, ends_with=2).stderr
    assert "log.swf: is a Parquet file, not a text file" in error


def test_the_error_for_a_log_in_place_of_a_scenario_names_the_option(
    log: Path, tmp_path: Path
) -> None:
    (tmp_path / "factors.yaml").write_text("policy: [fcfs, sjf]\n")
    for words in (
        ("simulate", log),
        ("simulate", log, "--platform", "8x1", "--policy", "easy"),
        ("execute", log),
        ("explore", log, tmp_path / "factors.yaml", "-o", tmp_path / "study"),
    ):
        error = answer(*words, ends_with=2)["error"]
        assert error["file"] == str(log), words
        assert error["problem"].startswith("is a log, not a scenario: ")
        assert f"--workload {log}` with --platform and --policy" in error["remedy"]
    assert not (tmp_path / "study").exists()


def test_an_output_without_a_suffix_is_a_trace_folder(log: Path, tmp_path: Path) -> None:
    document = answer("convert", log, tmp_path / "march")
    assert (document["format"], document["tasks"]) == ("trace", 2)
    assert tl.Trace.load(tmp_path / "march").tasks.height == 2


def test_a_header_without_a_job_is_reported(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("; Version: 2.2\n; MaxProcs: 4\n")
    assert "the log has no job, only a header" in run("inspect", tmp_path / "log.swf").stdout


def test_options_of_another_format_are_refused_except_for_a_second_log(
    log: Path, tmp_path: Path
) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("JobID,Sent\nx,1\n")
    words = ["--column", "id=JobID", "--column", "submit=Sent"]
    assert "--column applies to csv" in run("inspect", log, *words, ends_with=2).stderr
    merged = answer("convert", table, tmp_path / "both.trace", *words, "--merge", log)
    assert merged["tasks"] == 3
