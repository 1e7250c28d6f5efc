"""Full disks and missing permissions are an input error of every command.

Every command ends with exit code 2 and a message that names the file, without a traceback, and
leaves no half-written output. The files from which a command resumes are kept and readable.
"""

import ctypes
import json
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import twinloop as tl
from tests.execution.runs import scenario, task
from twinloop.cli import app
from twinloop.cli.commands import SUMMARIES, load_command
from twinloop.description.errors import UnwritableError
from twinloop.description.files import write_atomically

pytestmark = pytest.mark.real

#: How every command that writes is called, once for each kind of output. Words in capitals are
#: inputs of `given`; OUT is the output.
WRITING: dict[str, list[str]] = {
    "inspect": ["LOG --picture OUT.html"],
    "check": ["LOG -o OUT.md"],
    "convert": ["LOG OUT.swf.gz", "LOG OUT.trace", "LOG OUT --to cts", "RUN OUT --to opendc"],
    "simulate": ["SCENARIO -o OUT", "SCENARIO --picture OUT.html"],
    "record": ["-o OUT -- true"],
    "execute": ["SCENARIO -o OUT --isolation none", "SCENARIO --picture OUT.html -o KEPT"],
    "assess": ["RUN TWIN -o OUT.md", "RUN TWIN -o OUT.html"],
    "calibrate": [
        "RUN -o OUT --budget 8 --analysis 0",
        "--black-box BENCH -o OUT --budget 4 --on threads",
    ],
    "explore": ["SCENARIO FACTORS -o OUT --on serial"],
    "confirm": ["STUDY -o OUT --repetitions 1 --isolation none", "STUDY --bundle OUT"],
    "loop": ["PLAN --traces RECORDED -o OUT"],
    "report": ["RUN -o OUT.html --no-open"],
    "generate": [
        *("poisson OUT.swf", "bursts OUT.swf", "parallel-tasks OUT.swf", "lublin OUT.swf"),
        *("sessions OUT.swf", "arrays OUT.swf", "ffmpeg OUT.swf", "burn OUT.swf"),
        *("chain OUT.swf", "fork-join OUT.swf", "recipe OUT.swf --instance FLOW"),
    ],
}
#: Commands that write no file; `view` serves until it is ended.
READING = {"nodes": [], "burn": [], "diff": ["RUN TWIN"], "view": [], "explain": []}
#: Options and arguments that are paths, by their use.
OUTPUTS = {"output", "picture", "bundle"}
INPUTS = {
    *("path", "source", "scenario", "factors", "real", "twin", "a", "b", "study", "plan", "what"),
    *("sstat", "merge", "criteria", "repeat", "params", "validate", "black_box", "fit", "traces"),
    *("fitted_to", "folder", "dag", "levels", "spec_sheet"),
}
#: Commands that keep their output after a failure, to resume from it.
RESUMED = {"calibrate", "explore", "confirm", "loop"}

CALLS = [(name, words) for name, calls in WRITING.items() for words in calls]
#: Folders without the permission to write, for every call, and for one call of each command also
#: without the permission to read.
PLACES = [(0o555, *call) for call in CALLS] + [(0o000, n, calls[0]) for n, calls in WRITING.items()]
#: Full disks: without any space, or with space for the small files of an output only.
DISKS = [(0, *call) for call in CALLS] + [
    (4000, name, words)
    for name, words in CALLS
    if name in {*RESUMED, "convert", "simulate", "execute", "record"}
]


def test_every_command_that_writes_is_in_the_table() -> None:
    """A command or an option that writes and is not in the table fails this test."""
    assert {*WRITING, *READING} == {*SUMMARIES}
    for name in SUMMARIES:
        whole = load_command(name)
        parts = getattr(whole, "commands", {"": whole}).values()
        for part in parts:
            paths = {each.name for each in part.params if _is_path(each)}
            assert paths <= OUTPUTS | INPUTS, f"{name}: is {paths} read or written?"
            written = paths & OUTPUTS
            calls = WRITING.get(name, [])
            calls = [words for words in calls if whole is part or words.split()[0] == part.name]
            assert len(calls) >= len(written), f"{name}: {written}"
            assert all("OUT" in words for words in calls)


def _is_path(parameter: Any) -> bool:
    """Return whether a parameter of a command is a path, by its annotation in Typer."""
    return "path" in str(getattr(parameter, "type_descriptor", parameter)).lower()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The inputs of the commands."""
    folder = tmp_path_factory.mktemp("given")
    plain = scenario(task("a", "true"), task("b", "true"), platform="1x1", policy="fcfs")
    tl.execute(plain, folder / "run").save(folder / "recorded" / "real")
    twin = tl.simulate(plain)
    twin.save(folder / "twin")
    tl.write(twin, folder / "log.swf")
    tl.generate("chain").save(folder / "flow.trace")
    (folder / "factors.yaml").write_text("policy: [fcfs, sjf]\n")
    levels = [{"name": "spread-ic", "options": {"overcommit": 2}}, "fcfs"]
    tl.explore(plain, {"policy": levels}, folder=folder / "study", on="serial")
    bench = {
        "black_box": {"command": ["echo", '{{"time": {speed}}}']},
        "parameters": {"speed": {"linear": [1, 5]}},
        "experiments": [{"truth": {"time": 2.0}}],
    }
    (folder / "bench.yaml").write_text(json.dumps(bench))
    plan = {"factors": {"policy": levels}, "budget": 10, "analysis": 0}
    (folder / "loop.yaml").write_text(json.dumps({"scenario": plain.to_dict(), **plan}))
    return {
        "LOG": folder / "log.swf",
        "FLOW": folder / "flow.trace",
        "SCENARIO": plain.save(folder / "scenario.yaml"),
        "RUN": folder / "run",
        "TWIN": folder / "twin",
        "FACTORS": folder / "factors.yaml",
        "STUDY": folder / "study",
        "BENCH": folder / "bench.yaml",
        "PLAN": folder / "loop.yaml",
        "RECORDED": folder / "recorded",
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for outputs."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@contextmanager
def deny_access(path: Path, mode: int) -> Iterator[None]:
    """Change the permissions of a path for a while; root loses the capability to ignore them."""
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    try:
        with drop_capabilities():
            yield
    finally:
        path.chmod(before)


@contextmanager
def drop_capabilities() -> Iterator[None]:
    """Give up, in this thread, the capabilities with which root reads and writes everything."""
    kernel = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, in two halves
    assert kernel.capget(header, held) == 0
    less = (ctypes.c_uint32 * 6)(*held)
    less[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert kernel.capset(header, less) == 0
    try:
        yield
    finally:
        assert kernel.capset(header, held) == 0


@contextmanager
def limit_file_size(free: int) -> Iterator[None]:
    """Limit the size of files, as on a disk without more free space."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def call(name: str, words: str, given: dict[str, Path], out: Path, **extra: Path) -> Result:
    known: dict[str, Any] = {**given, "KEPT": out.with_name("kept"), **extra}
    whole = [str(known.get(word, word)).replace("OUT", str(out)) for word in words.split()]
    return CliRunner().invoke(app, [name, *whole])


def check_refused(result: Result, where: Path) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    error = result.stderr.replace("\n", "")
    assert str(where) in error, error
    assert "Traceback" not in error


@pytest.mark.parametrize(("mode", "name", "words"), PLACES)
def test_a_denied_write_is_an_input_error(
    given: dict[str, Path], place: Path, name: str, words: str, mode: int
) -> None:
    with deny_access(place, mode):
        refused = call(name, words, given, place / "out")
    check_refused(refused, place)
    assert list(place.iterdir()) == []


#: Every command with every input that may not be read.
UNREAD = [
    (name, words, word)
    for name, calls in {**WRITING, **READING}.items()
    for words in calls
    for word in words.split()
    if word.isupper() and word not in ("OUT", "KEPT")
]


@pytest.mark.parametrize(("name", "words", "word"), UNREAD)
def test_a_denied_read_is_an_input_error(
    given: dict[str, Path], place: Path, name: str, words: str, word: str
) -> None:
    with deny_access(given[word], 0o000):
        refused = call(name, words, given, place / "out")
    check_refused(refused, given[word])
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("free", "name", "words"), DISKS)
def test_a_full_disk_is_an_input_error(
    given: dict[str, Path], place: Path, name: str, words: str, free: int
) -> None:
    with limit_file_size(free):
        done = call(name, words, given, place / "out")
    if done.exit_code in (0, 1, 3) and free:
        return  # all its output is smaller
    check_refused(done, place)
    if name in RESUMED and "--bundle" not in words:
        again = call(name, words, given, place / "out")
        assert again.exit_code in (0, 1, 3), again.output
    else:
        assert [each.name for each in place.iterdir() if each.name != "kept"] == []


@pytest.mark.parametrize("free", [0, 1000, 9000, 30_000, 50_000])
def test_a_table_is_refused_at_any_size_of_the_disk(free: int, tmp_path: Path) -> None:
    """Polars writes the headers of pages and the footer of a Parquet file separately."""
    table = pl.DataFrame({f"c{number}": [float(number)] for number in range(200)})
    with (
        limit_file_size(free),
        pytest.raises(UnwritableError, match="cannot be written: "),
        write_atomically(tmp_path / "table.parquet") as stream,
    ):
        table.write_parquet(stream)
    assert list(tmp_path.iterdir()) == []
