"""`--overwrite` of every command: foreign files, runs that are alive, inputs and failures."""

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
SIMULATE = ("simulate", "--workload", "log.swf", "--platform", "4x1", "--policy", "fifo")


@dataclass(frozen=True)
class Case:
    """One output of a command that `--overwrite` replaces."""

    command: str
    words: tuple[object, ...]
    output: str
    #: Writes what the command would have written, and nothing real runs for it.
    before: Callable[[Path], Any] | None = None
    #: Statuses that the command may end with if all is well; None: it is not tried here.
    ends: tuple[int, ...] | None = (0,)
    #: A word for an input, and one in its place with which the command must fail.
    broken: tuple[str, str] | None = ("log.swf", "broken.swf")

    @property
    def is_folder(self) -> bool:
        return Path(self.output).suffix in ("", ".trace", ".opendc", ".cts")


def recorded(path: Path) -> None:
    """A run as `execute` and `record` leave it, with what its task printed."""
    trace = Trace(
        tasks=pl.DataFrame({"id": ["true"], "status": ["completed"]}),
        manifest=Manifest(kind="recorded"),
    )
    folder = RunFolder.create(path, trace)
    (folder.output / "true").mkdir()
    (folder.output / "true" / "0.out").write_text("printed")
    folder.finish(trace)


def looped(path: Path) -> None:
    """A loop that has made its first run and one probe."""
    recorded(path / "real")
    recorded(path / "probes" / "one per core")
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
    yield Case("execute", (*real, "run"), "run", recorded, None, broken)
    yield Case("execute", (*real, "new", "--picture", "p.html"), "p.html", Path.touch, None, broken)
    yield Case("record", ("record", "-o", "run", "true"), "run", recorded, None, ("true", "--pid"))
    traces = ("--traces", str(RECORDED))
    yield Case("loop", ("loop", "loop.yaml", *traces, "-o", "made"), "made", looped, None,
               ("loop.yaml", "broken.yaml"))  # fmt: skip
    for model in list_generators():
        words = ("generate", model, "made.trace")
        yield Case(f"generate {model}", words, "made.trace", broken=None)
    yield Case("generate poisson", ("generate", "poisson", "made.swf"), "made.swf", broken=None)


CASES = list(cases())
FOLDERS = [case for case in CASES if case.is_folder]
#: What all models have in common is tried with one of them.
ONE_MODEL = [case for case in CASES if case.command in ("generate poisson", *SUMMARIES)]
FILES = [case for case in CASES if not case.is_folder]


def named(case: Case) -> str:
    return f"{case.command}-{case.output}"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text(SWF)
    Path("broken.swf").write_bytes(b"\x7fELF no log")
    Path("broken.yaml").write_text("platform: 1x1\nno: such field\n")
    scenario(task("true", "true")).save("real.yaml")
    Path("loop.yaml").write_text((DEMO / "loop.yaml").read_text())
    for file in DEMO.glob("*.yaml"):
        if not Path(file.name).exists():
            Path(file.name).write_text(file.read_text())
    return tmp_path


def content(path: Path) -> dict[str, Any]:
    """Everything at a path but the lock."""
    if not path.is_dir():
        return {"": path.read_bytes()}
    return {
        str(file.relative_to(path)): file.read_bytes() if file.is_file() else None
        for file in sorted(path.rglob("*"))
        if file.name != ".lock"
    }


def written(case: Case) -> Path:
    """The output as the command wrote it."""
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


def refused(case: Case, said: str) -> None:
    option = ("--overwrite", *case.words[1:])  # what follows a command of `record` is its own
    error = run(case.words[0], *option, ends_with=2).stderr if case.command == "record" else run(
        *case.words, "--overwrite", ends_with=2
    ).stderr  # fmt: skip
    assert said in error


def test_every_command_with_the_option_is_tried_here() -> None:
    found = set()
    for name in SUMMARIES:
        command = load_command(name)
        for inner, each in getattr(command, "commands", {"": command}).items():
            if any("--overwrite" in option.opts for option in each.params):
                found.add(f"{name} {inner}".strip())
    assert found == {case.command for case in CASES}


@pytest.mark.parametrize("case", FOLDERS, ids=named)
def test_foreign_files_stop_it(case: Case) -> None:
    """A file that the command did not write, wherever it lies, is named, and all stays."""
    output = written(case)
    inner = next((entry for entry in output.rglob("*") if entry.is_dir()), output)
    for file in (output / "thesis.tex", inner / ".hidden"):
        file.write_text("years of work")
        before = content(output)
        refused(case, file.name)
        assert content(output) == before
        file.unlink()
    # A link is foreign, too, and what it leads to stays.
    Path("precious").mkdir()
    Path("precious", "thesis.tex").write_text("years of work")
    (output / "link").symlink_to(Path("precious").resolve())
    refused(case, "link")
    assert Path("precious", "thesis.tex").exists()


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.is_folder], ids=named)
def test_a_folder_of_another_origin_is_never_replaced(case: Case) -> None:
    """Names that the command would write do not make a folder one that it wrote."""
    output = Path(case.output)
    output.mkdir()
    for names in (
        ["manifest.json", "loop.json"],
        ["tasks.parquet", "fragments.parquet"],
        ["invocations.jsonl", "proc_metrics.jsonl", "nodes.json"],
    ):
        for name in names:
            (output / name).write_text('{"name": "of another program"}')
        before = content(output)
        refused(case, "not replaced")
        assert content(output) == before
        for name in names:
            (output / name).unlink()
    # A trace of another kind was written by another command.
    other = Manifest(kind="generated" if case.command == "simulate" else "simulated")
    Trace(tasks=pl.DataFrame({"id": ["a"]}), manifest=other).save(output / "x").rename("x")
    output.rmdir()
    Path("x").rename(output)
    before = content(output)
    refused(case, "not replaced")
    assert content(output) == before


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.is_folder], ids=named)
def test_a_folder_in_which_a_process_works_is_not_replaced(case: Case) -> None:
    output = written(case)
    before = content(output)
    parts = [output, *(entry.parent for entry in output.rglob("manifest.json"))]
    for part in (parts[0], parts[-1]):
        lock = FolderLock.acquire(part)
        refused(case, f"is in use by process {os.getpid()}")
        lock.release()
    assert content(output) == before


@pytest.mark.parametrize("case", [case for case in CASES if case.broken], ids=named)
def test_a_failure_leaves_what_was_there(case: Case) -> None:
    """A wrong input is found before anything is replaced."""
    assert case.broken is not None
    output = written(case)
    before = content(output)
    words = [case.broken[1] if word == case.broken[0] else word for word in case.words]
    refused(Case(case.command, tuple(words), case.output), "")
    assert content(output) == before
    assert sorted(Path().glob(".*")) == []


@pytest.mark.parametrize("case", FILES, ids=named)
def test_only_a_regular_file_is_replaced(case: Case) -> None:
    output = Path(case.output)
    Path("target").write_text("years of work")
    for make in (Path.mkdir, lambda path: path.symlink_to("target"), os.mkfifo):
        make(output)
        refused(case, "not replaced")
        assert os.path.lexists(output)
        assert not output.is_file() or output.is_symlink()
        output.rmdir() if output.is_dir() else output.unlink()
    assert Path("target").read_text() == "years of work"


@pytest.mark.parametrize("case", [case for case in ONE_MODEL if case.ends], ids=named)
def test_its_own_output_is_replaced(case: Case) -> None:
    output = written(case)
    run(*case.words, ends_with=2)
    old = output.stat().st_ino
    run_any(case, "--overwrite")
    assert output.stat().st_ino != old
    assert {entry.name for entry in Path().glob(".*")} == set()


@pytest.mark.parametrize("name", ["report.md", "study/report.md", "confirmation/runs/notes.txt"])
def test_a_loop_owns_no_file_that_no_loop_writes(name: str) -> None:
    looped(Path("made"))
    kept = json.loads(Path("made", "loop.json").read_text())
    Path("made", "loop.json").write_text(json.dumps(kept | {"offline": True}))
    check_replaceable(Path("made"), list_loop_files)
    Path("made", name).parent.mkdir(parents=True, exist_ok=True)
    Path("made", name).write_text("years of work")
    with pytest.raises(tl.InputError, match=f"contains other files, .*: {name} "):
        check_replaceable(Path("made"), list_loop_files)


def test_the_folder_that_a_link_names_is_replaced() -> None:
    """The link became a folder, and the old one stayed with a lock in it."""
    run(*SIMULATE, "-o", "disk/run")
    Path("run").symlink_to("disk/run")
    old = Path("disk/run").stat().st_ino
    run(*SIMULATE, "-o", "run", "--overwrite")
    assert Path("run").is_symlink()
    assert Path("disk/run").stat().st_ino != old
    assert not Path("disk/run/.lock").exists()
    assert [entry.name for entry in Path("disk").iterdir()] == ["run"]


def test_an_input_is_not_replaced_nor_what_holds_it_or_lies_in_it() -> None:
    write(tl.read("log.swf"), "data.trace")
    run("simulate", "--workload", "data.trace", *SIMULATE[3:], "-o", "run")
    recorded(Path("real"))
    before = content(Path("data.trace")), content(Path("real"))
    (Path("run") / "notes.md").touch()
    for words, said in (
        (("convert", "data.trace/manifest.json", "data.trace"), "contains the input"),
        (("assess", "run", "run", "-o", "run/notes.md"), "is inside the input"),
        (("simulate", "--workload", "data.trace", *SIMULATE[3:], "-o", "data.trace"), "input"),
        (("execute", "--workload", "real", "--platform", "2x1", "--policy", "fifo", "-o", "real"),
         "contains the input"),
        (("simulate", *SIMULATE[1:], "--picture", "log.swf/../log.swf"), "HTML"),
    ):  # fmt: skip
        assert said in run(*words, "--overwrite", ends_with=2).stderr
    assert before == (content(Path("data.trace")), content(Path("real")))


def test_a_loop_does_not_replace_the_recordings_that_it_takes(demo_runs: Path) -> None:
    looped(Path("made"))
    for name in ("real", "probes/one per core"):
        for file in (demo_runs / name).iterdir():
            (Path("made", name) / file.name).write_bytes(file.read_bytes())
    words = ("loop", "loop.yaml", "-o", "made", "--overwrite", "--traces")
    before = content(Path("made"))
    for traces in ("made", "made/../made"):
        run(*words, traces, ends_with=2)
        assert content(Path("made")) == before
    # A folder that happens to hold a file of this name is no loop.
    Path("mine").mkdir()
    Path("mine", "loop.json").write_text("{}")
    Path("mine", "thesis.tex").write_text("years of work")
    said = run("loop", "loop.yaml", "-o", "mine", "--overwrite", "--traces", RECORDED,
               ends_with=2).stderr  # fmt: skip
    assert "is not a loop, so it is not replaced" in said
    assert Path("mine", "thesis.tex").read_text() == "years of work"


def test_a_loop_replaces_a_loop_when_everything_is_checked() -> None:
    """Its own files are gone when the new one has begun, and the folder is the same."""
    looped(Path("made"))
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


def test_a_run_that_cannot_begin_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(Path("run"))
    before = content(Path("run"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(tl.InputError, match="No space left"):
        RunFolder.create(Path("run"), Trace(tasks=pl.DataFrame({"id": ["b"]})), overwrite=True)
    assert content(Path("run")) == before
    assert not Path("run", ".lock").exists()


@pytest.mark.real
def test_a_run_that_is_alive_is_not_replaced_and_one_that_was_killed_is(launch: Launch) -> None:
    """Two runs in one folder were mixed into one trace that passed the gate."""
    alive = launch(scenario(task("long", "sh", "-c", "echo there; sleep 300")))
    alive.until_there("long")
    given = scenario(task("b", "true"))
    with pytest.raises(tl.InputError, match=f"is in use by process {alive.pid} "):
        execute(given, alive.folder, overwrite=True)
    said = run("record", "-o", alive.folder, "--overwrite", "--", "true", ends_with=2).stderr
    assert f"is in use by process {alive.pid}" in said
    alive.kill()
    alive.ends(-9)
    execute(given, alive.folder, overwrite=True)
    assert ends(tl.read(alive.folder)) == {"b": "completed"}
    assert [entry.name for entry in (alive.folder / "output").iterdir()] == ["b"]
    run("record", "-o", alive.folder, "--overwrite", "--", "true")
    assert ends(tl.read(alive.folder)) == {"true": "completed"}


@pytest.mark.parametrize("name", ["study.json", "report.md", "runs.parquet", "plan.json"])
def test_what_is_never_replaced_without_asking(name: str) -> None:
    """Folders that are gone on with: a file of another origin is not written over either."""
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
    assert content(Path("mine")) == {name: b'{"title": "years of work"}'}
