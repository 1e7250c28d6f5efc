"""`--overwrite` of every command: foreign files, active runs, inputs and failures."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.cli.test_commands import SWF, run
from tests.execution.runs import Launch, launch, scenario, task
from tests.execution.runs import statuses as ends
from twinloop.cli.commands import SUMMARIES, load_command
from twinloop.description.locks import FolderLock
from twinloop.description.replacement import check_replaceable
from twinloop.execution import execute
from twinloop.execution.run_folder import RunFolder
from twinloop.exploration.closed_loop.run import loop
from twinloop.exploration.confirmation.run import confirm
from twinloop.exploration.owned_files import list_loop_files
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.recordings import archive_path
from twinloop.trace import Manifest, Trace, write
from twinloop.workload.generators import list_generators

__all__ = ["launch"]  # a fixture

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"
RECORDED = archive_path("demo")
FLOW = {
    "workflow": {"tasks": [{"name": "a", "parents": []}, {"name": "b", "parents": ["a"]}]},
}
SIMULATE = ("simulate", "--workload", "log.swf", "--platform", "4x1", "--policy", "fifo")


@dataclass(frozen=True)
class Case:
    """One output of a command that `--overwrite` replaces."""

    command: str
    words: tuple[object, ...]
    output: str
    #: Writes the output of the command without running it.
    before: Callable[[Path], Any] | None = None
    #: Valid exit statuses of the command; None: it is not run here.
    ends: tuple[int, ...] | None = (0,)
    #: An argument for an input, and a replacement with which the command must fail.
    broken: tuple[str, str] | None = ("log.swf", "broken.swf")

    @property
    def is_folder(self) -> bool:
        return Path(self.output).suffix in ("", ".trace", ".opendc", ".cts")


def write_run(path: Path) -> None:
    """Write a run like `execute` and `record`, with the output of its task."""
    trace = Trace(
        tasks=pl.DataFrame({"id": ["true"], "status": ["completed"]}),
        manifest=Manifest(kind="recorded"),
    )
    folder = RunFolder.create(path, trace)
    (folder.output / "true").mkdir()
    (folder.output / "true" / "0.out").write_text("printed")
    folder.finish(trace)


def write_loop(path: Path) -> None:
    """Write a loop with its first run and one probe."""
    write_run(path / "real")
    write_run(path / "probes" / "one per core")
    plan = {"probes": {"one per core": {}}}
    (path / "loop.json").write_text(json.dumps({"twinloop": "0", "plan": plan, "offline": False}))
    (path / "report.html").write_text("<!DOCTYPE html>")


def cases() -> Iterator[Case]:
    log = "log.swf"
    yield Case("convert", ("convert", log, "out.trace"), "out.trace")
    yield Case("convert", ("convert", log, "out.opendc"), "out.opendc")
    yield Case("convert", ("convert", log, "out.cts"), "out.cts")
    yield Case("convert", ("convert", log, "out.swf"), "out.swf")
    yield Case("inspect", ("inspect", log, "--picture", "load.html"), "load.html", Path.touch)
    yield Case("check", ("check", log, "-o", "audit.md"), "audit.md", Path.touch, (0, 1))
    yield Case(
        "assess", ("assess", log, log, "-o", "report.md"), "report.md", Path.touch, (0, 1, 3)
    )
    yield Case("simulate", (*SIMULATE, "-o", "run"), "run")
    yield Case("simulate", (*SIMULATE, "--picture", "run.html"), "run.html", Path.touch)
    real = ("execute", "real.yaml", "-o")
    broken = ("real.yaml", "broken.yaml")
    yield Case("execute", (*real, "run"), "run", write_run, None, broken)
    yield Case("execute", (*real, "new", "--picture", "p.html"), "p.html", Path.touch, None, broken)
    yield Case("record", ("record", "-o", "run", "true"), "run", write_run, None, ("true", "--pid"))
    traces = ("--traces", str(RECORDED))
    yield Case("loop", ("loop", "loop.yaml", *traces, "-o", "made"), "made", write_loop, None,
               ("loop.yaml", "broken.yaml"))  # fmt: skip
    for model in list_generators():
        words = ("generate", model, "made.trace")
        words += ("--instance", "flow.json") if model == "recipe" else ()
        yield Case(f"generate {model}", words, "made.trace", broken=None)
    yield Case("generate poisson", ("generate", "poisson", "made.swf"), "made.swf", broken=None)


CASES = list(cases())
FOLDERS = [case for case in CASES if case.is_folder]
#: One model stands for all, for properties that they share.
ONE_MODEL = [case for case in CASES if case.command in ("generate poisson", *SUMMARIES)]
FILES = [case for case in CASES if not case.is_folder]


def name_case(case: Case) -> str:
    return f"{case.command}-{case.output}"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text(SWF)
    Path("flow.json").write_text(json.dumps(FLOW))
    Path("broken.swf").write_bytes(b"\x7fELF no log")
    Path("broken.yaml").write_text("platform: 1x1\nno: such field\n")
    scenario(task("true", "true")).save("real.yaml")
    Path("loop.yaml").write_text((DEMO / "loop.yaml").read_text())
    for file in DEMO.glob("*.yaml"):
        if not Path(file.name).exists():
            Path(file.name).write_text(file.read_text())
    return tmp_path


def read_content(path: Path) -> dict[str, Any]:
    """Read all files at a path except the lock."""
    if not path.is_dir():
        return {"": path.read_bytes()}
    return {
        str(file.relative_to(path)): file.read_bytes() if file.is_file() else None
        for file in sorted(path.rglob("*"))
        if file.name != ".lock"
    }


def write_output(case: Case) -> Path:
    """Write the output of the command."""
    output = Path(case.output)
    if case.before is None:
        run_any(case)
    else:
        case.before(output)
    return output


def run_any(case: Case, *more: str) -> None:
    from typer.testing import CliRunner

    from twinloop.cli import app

    done = CliRunner().invoke(app, [*map(str, case.words), *more])
    assert done.exit_code in (case.ends or (0,)), done.output


def check_refused(case: Case, message: str) -> None:
    # Options after the command of `record` belong to that command.
    option = ("--overwrite", *case.words[1:])
    error = run(case.words[0], *option, ends_with=2).stderr if case.command == "record" else run(
        *case.words, "--overwrite", ends_with=2
    ).stderr  # fmt: skip
    assert message in error


def test_every_command_with_the_option_is_tested() -> None:
    found = set()
    for name in SUMMARIES:
        command = load_command(name)
        for inner, each in getattr(command, "commands", {"": command}).items():
            if any("--overwrite" in option.opts for option in each.params):
                found.add(f"{name} {inner}".strip())
    assert found == {case.command for case in CASES}


@pytest.mark.parametrize("case", FOLDERS, ids=name_case)
def test_foreign_files_prevent_replacement(case: Case) -> None:
    """A file that the command did not write is named at any depth, and everything is kept."""
    output = write_output(case)
    inner = next((entry for entry in output.rglob("*") if entry.is_dir()), output)
    for file in (output / "thesis.tex", inner / ".hidden"):
        file.write_text("years of work")
        before = read_content(output)
        check_refused(case, file.name)
        assert read_content(output) == before
        file.unlink()
    # A link is foreign, too, and its target is kept.
    Path("precious").mkdir()
    Path("precious", "thesis.tex").write_text("years of work")
    (output / "link").symlink_to(Path("precious").resolve())
    check_refused(case, "link")
    assert Path("precious", "thesis.tex").exists()


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.is_folder], ids=name_case)
def test_a_folder_of_another_origin_is_never_replaced(case: Case) -> None:
    """Equal file names do not make a folder an output of the command."""
    output = Path(case.output)
    output.mkdir()
    for names in (
        ["manifest.json", "loop.json"],
        ["tasks.parquet", "fragments.parquet"],
        ["invocations.jsonl", "proc_metrics.jsonl", "nodes.json"],
    ):
        for name in names:
            (output / name).write_text('{"name": "of another program"}')
        before = read_content(output)
        check_refused(case, "not replaced")
        assert read_content(output) == before
        for name in names:
            (output / name).unlink()
    # A trace of another kind is the output of another command.
    other = Manifest(kind="generated" if case.command == "simulate" else "simulated")
    Trace(tasks=pl.DataFrame({"id": ["a"]}), manifest=other).save(output / "x").rename("x")
    output.rmdir()
    Path("x").rename(output)
    before = read_content(output)
    check_refused(case, "not replaced")
    assert read_content(output) == before


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.is_folder], ids=name_case)
def test_a_folder_in_use_by_a_process_is_not_replaced(case: Case) -> None:
    output = write_output(case)
    before = read_content(output)
    parts = [output, *(entry.parent for entry in output.rglob("manifest.json"))]
    for part in (parts[0], parts[-1]):
        lock = FolderLock.acquire(part)
        check_refused(case, f"is in use by process {os.getpid()}")
        lock.release()
    assert read_content(output) == before


@pytest.mark.parametrize("case", [case for case in CASES if case.broken], ids=name_case)
def test_a_failure_keeps_the_previous_output(case: Case) -> None:
    """An invalid input is found before anything is replaced."""
    assert case.broken is not None
    output = write_output(case)
    before = read_content(output)
    words = [case.broken[1] if word == case.broken[0] else word for word in case.words]
    check_refused(Case(case.command, tuple(words), case.output), "")
    assert read_content(output) == before
    assert sorted(Path().glob(".*")) == []


@pytest.mark.parametrize("case", FILES, ids=name_case)
def test_only_a_regular_file_is_replaced(case: Case) -> None:
    output = Path(case.output)
    Path("target").write_text("years of work")
    for make in (Path.mkdir, lambda path: path.symlink_to("target"), os.mkfifo):
        make(output)
        check_refused(case, "not replaced")
        assert os.path.lexists(output)
        assert not output.is_file() or output.is_symlink()
        output.rmdir() if output.is_dir() else output.unlink()
    assert Path("target").read_text() == "years of work"


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.ends], ids=name_case)
def test_its_own_output_is_replaced(case: Case) -> None:
    output = write_output(case)
    run(*case.words, ends_with=2)
    old = output.stat().st_ino
    run_any(case, "--overwrite")
    assert output.stat().st_ino != old
    assert {entry.name for entry in Path().glob(".*")} == set()


@pytest.mark.parametrize("name", ["report.md", "study/report.md", "confirmation/runs/notes.txt"])
def test_a_loop_owns_only_files_that_a_loop_writes(name: str) -> None:
    write_loop(Path("made"))
    kept = json.loads(Path("made", "loop.json").read_text())
    Path("made", "loop.json").write_text(json.dumps(kept | {"offline": True}))
    check_replaceable(Path("made"), list_loop_files)
    Path("made", name).parent.mkdir(parents=True, exist_ok=True)
    Path("made", name).write_text("years of work")
    with pytest.raises(tl.InputError, match=f"contains other files, .*: {name} "):
        check_replaceable(Path("made"), list_loop_files)


def test_the_target_folder_of_a_link_is_replaced() -> None:
    """Otherwise the link becomes a folder, and the old folder is kept with a lock in it."""
    run(*SIMULATE, "-o", "disk/run")
    Path("run").symlink_to("disk/run")
    old = Path("disk/run").stat().st_ino
    run(*SIMULATE, "-o", "run", "--overwrite")
    assert Path("run").is_symlink()
    assert Path("disk/run").stat().st_ino != old
    assert not Path("disk/run/.lock").exists()
    assert [entry.name for entry in Path("disk").iterdir()] == ["run"]


def test_an_input_and_folders_above_and_below_it_are_not_replaced() -> None:
    write(tl.read("log.swf"), "data.trace")
    run("simulate", "--workload", "data.trace", *SIMULATE[3:], "-o", "run")
    write_run(Path("real"))
    before = read_content(Path("data.trace")), read_content(Path("real"))
    (Path("run") / "notes.md").touch()
    for words, message in (
        (("convert", "data.trace/manifest.json", "data.trace"), "contains the input"),
        (("assess", "run", "run", "-o", "run/notes.md"), "is inside the input"),
        (("simulate", "--workload", "data.trace", *SIMULATE[3:], "-o", "data.trace"), "input"),
        (("execute", "--workload", "real", "--platform", "2x1", "--policy", "fifo", "-o", "real"),
         "contains the input"),
        (("simulate", *SIMULATE[1:], "--picture", "log.swf/../log.swf"), "must end with .html"),
    ):  # fmt: skip
        assert message in run(*words, "--overwrite", ends_with=2).stderr
    # Nothing new is written inside an input either.
    inside = ("simulate", "--workload", "data.trace", *SIMULATE[3:], "-o", "data.trace/twin")
    assert "is inside the input" in run(*inside, ends_with=2).stderr
    assert before == (read_content(Path("data.trace")), read_content(Path("real")))


def test_a_loop_does_not_replace_its_input_recordings(demo_runs: Path) -> None:
    write_loop(Path("made"))
    for name in ("real", "probes/one per core"):
        for file in (demo_runs / name).iterdir():
            (Path("made", name) / file.name).write_bytes(file.read_bytes())
    words = ("loop", "loop.yaml", "-o", "made", "--overwrite", "--traces")
    before = read_content(Path("made"))
    for traces in ("made", "made/../made"):
        run(*words, traces, ends_with=2)
        assert read_content(Path("made")) == before
    # A folder with a file of this name is not necessarily a loop.
    Path("mine").mkdir()
    Path("mine", "loop.json").write_text("{}")
    Path("mine", "thesis.tex").write_text("years of work")
    message = run("loop", "loop.yaml", "-o", "mine", "--overwrite", "--traces", RECORDED,
               ends_with=2).stderr  # fmt: skip
    assert "is not a loop, so it is not replaced" in message
    assert Path("mine", "thesis.tex").read_text() == "years of work"


def test_a_loop_replaces_a_loop_after_all_checks() -> None:
    """The files of the old loop are removed when the new one has begun, in the same folder."""
    write_loop(Path("made"))
    place = Path("made").stat().st_ino
    steps: list[str] = []

    def stop(step: str, text: str) -> None:
        steps.append(step)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop("loop.yaml", "made", traces=RECORDED, overwrite=True, say=stop)
    assert steps == ["run"]
    assert Path("made").stat().st_ino == place
    assert sorted(entry.name for entry in Path("made").iterdir()) == ["loop.json"]
    assert json.loads(Path("made", "loop.json").read_bytes())["offline"] is True


def test_a_run_that_cannot_begin_keeps_the_previous_run(monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(Path("run"))
    before = read_content(Path("run"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(tl.InputError, match="No space left"):
        RunFolder.create(Path("run"), Trace(tasks=pl.DataFrame({"id": ["b"]})), overwrite=True)
    assert read_content(Path("run")) == before
    assert not Path("run", ".lock").exists()


@pytest.mark.real
def test_an_active_run_is_not_replaced_and_a_killed_run_is(launch: Launch) -> None:
    """Otherwise two runs in one folder are mixed into one trace, which passes the quality gate."""
    alive = launch(scenario(task("long", "sh", "-c", "echo there; sleep 300")))
    alive.until_there("long")
    given = scenario(task("b", "true"))
    with pytest.raises(tl.InputError, match=f"is in use by process {alive.pid} "):
        execute(given, alive.folder, overwrite=True)
    message = run("record", "-o", alive.folder, "--overwrite", "--", "true", ends_with=2).stderr
    assert f"is in use by process {alive.pid}" in message
    alive.kill()
    alive.ends(-9)
    execute(given, alive.folder, overwrite=True)
    assert ends(tl.read(alive.folder)) == {"b": "completed"}
    assert [entry.name for entry in (alive.folder / "output").iterdir()] == ["b"]
    run("record", "-o", alive.folder, "--overwrite", "--", "true")
    assert ends(tl.read(alive.folder)) == {"true": "completed"}


@pytest.mark.parametrize("name", ["study.json", "report.md", "runs.parquet", "plan.json"])
def test_resumable_folders_with_foreign_files_are_not_overwritten(name: str) -> None:
    """In folders that a command resumes, a foreign file is not overwritten either."""
    Path("mine").mkdir()
    Path("mine", name).write_text('{"title": "years of work"}')
    made = tl.Scenario(platform="2x1", policy="fifo", workload={"tasks": [task("a", "true")]})
    with pytest.raises(tl.InputError, match="mine"):
        tl.explore(made, {"policy": ["fifo"]}, folder="mine")
    sides = [Candidate(p, made.replace(policy=p), {"makespan_s": 1.0}) for p in ("easy", "fifo")]
    for traces in (None, "returned"):
        with pytest.raises(tl.InputError, match="mine"):
            confirm(
                sides[:1], baseline=sides[1], folder="mine", traces=traces, announce=lambda _: None
            )
    assert read_content(Path("mine")) == {name: b'{"title": "years of work"}'}
