"""Law: a black box returns the result of its program or an error in one line, leaving nothing."""

import errno
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.campaign.conftest import PATIENCE, end, marked, until
from tests.examples import examples
from twinloop.campaign import (
    BlackBoxError,
    Command,
    Function,
    black_box,
    coordinator,
    process_groups,
)
from twinloop.campaign.scratch_folders import make_scratch_folder as scratch_folder
from twinloop.campaign.scratch_folders import remove_unused_folders
from twinloop.campaign.templates import fill_template, find_names
from twinloop.description import DescriptionError
from twinloop.description.errors import InputError
from twinloop.execution.nodes import Guard

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "black_box"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of scratch folders; none may be left, nor any process that uses it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TWINLOOP_TEST", str(folder))
    yield folder
    mark = f"TWINLOOP_TEST={folder}"
    try:
        assert list(folder.iterdir()) == []
        assert until(lambda: not marked(mark))
    finally:
        end(mark)


def sh(text: str, **parts: Any) -> Command:
    return Command(command=["sh", "-c", text], **parts)


def test_the_shipped_example_falls_as_physics_says() -> None:
    box = Command.load(EXAMPLE / "drops.yaml")
    assert box.names == {"gravity", "drag", "bounce", "case.height"}
    result = box({"gravity": 9.81, "drag": 0.0, "bounce": 0.5}, {"height": 2.0})
    assert isinstance(result, dict)
    # Without air: sqrt(2h/g) down, and every bounce takes half as long as the one before.
    fall = math.sqrt(2 * 2.0 / 9.81)
    assert result["first"] == pytest.approx(fall, rel=1e-3)
    flights = [2 * fall * 0.5**n for n in range(1, result["bounces"] + 1)]
    assert result["rest"] == pytest.approx(fall + sum(flights), rel=1e-2)
    assert 0.5 ** (2 * result["bounces"]) * 2.0 >= 1e-3 * 0.99
    with pytest.raises(BlackBoxError, match=r"--bounce=2: exit code 1: .*the bounce in \[0, 1\)$"):
        box({"gravity": 9.81, "drag": 0.0, "bounce": 2}, {"height": 2.0})


@example(values={"a": -0.0, "b.c": 1e22})
@examples(50)
@given(values=st.dictionaries(st.sampled_from(["a", "b.c", "d[0].e-f"]), st.floats()))
def test_numbers_read_back_from_a_template_as_they_were(values: dict[str, float]) -> None:
    template = " ".join(f"{{{name}}}" for name in values)
    read = [float(word) for word in fill_template(template, values).split()]
    assert find_names(template) == values.keys()
    assert [repr(x) for x in read] == [repr(x) for x in values.values()]


@examples(8)
@example(text="$(id) '\"; `id` \\ * ~ \n")
@given(text=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30))
def test_no_shell_reads_what_is_put_in(text: str) -> None:
    program = "import json, sys; print(json.dumps({{'it': sys.argv[1]}}))"
    box = Command(command=[sys.executable, "-I", "-S", "-c", program, "{it}"])
    assert box({"it": text}) == {"it": text}


def test_values_reach_arguments_files_and_the_environment(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "from pathlib import Path\n"
        "said = {'argument': sys.argv[1], 'file': Path('in/values.txt').read_text(),\n"
        "        'variable': os.environ['SPEED'], 'folder': os.listdir(),\n"
        "        'stdin': sys.stdin.read()}\n"
        "Path('out.json').write_text(json.dumps(said))\n"
        "print('some talk')\n"
    )
    box = Command(
        command=[sys.executable, "{folder}/program.py", "--speed={speed}$(id)"],
        folder=str(tmp_path),
        files={"in/values.txt": "{speed} {n} {flag} {case.input} {{x}}\n"},
        environment={"SPEED": "{speed}"},
        reads="{case.input}.json",
    )
    values = {"speed": 1e-7, "n": np.float64(20.0), "flag": True}
    assert box(values, {"input": "out"}) == {
        "argument": "--speed=1e-07$(id)",
        "file": "1e-07 20 true out {x}\n",
        "variable": "1e-07",
        "folder": ["in"],
        "stdin": "",
    }


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        ('{"time": 1.5}', {"time": 1.5}),
        ("3", 3.0),
        (".5", 0.5),
        ("inf", math.inf),
        ("step 1\nstep 2\n7.25\n\n", 7.25),
        ('ready\n{"a": [1, null]}', {"a": [1, None]}),
        ('{\n "a": 1\n}', {"a": 1}),
    ],
)
def test_a_result_is_a_json_object_or_a_number(printed: str, result: object) -> None:
    assert Command(command=["printf", "%s", "{said}"])({"said": printed}) == result


@pytest.mark.parametrize(
    ("text", "parts", "message"),
    [
        ("echo talk; echo why >&2; echo >&2; exit 3", {}, "exit code 3: why"),
        ("exit 4", {}, "exit code 4"),
        ("kill -9 $$", {}, "ended by SIGKILL"),
        ("true", {}, "its result, stdout: is empty"),
        ("echo hello", {}, "its result, stdout: is neither JSON nor a number: hello"),
        ("echo '[1]'", {}, "its result, stdout: must be a JSON object or a number, not list"),
        ("echo true", {}, "its result, stdout: must be a JSON object or a number, not bool"),
        (
            "echo '{{\"a\": 1}}'",
            {"expects": ["a", "b"]},
            "its result, stdout: has no 'b', only 'a'",
        ),
        ("echo 1", {"expects": ["b"]}, "stdout: is a number, not an object with 'b'"),
        ("true", {"reads": "out.json"}, "its result, out.json: No such file or directory"),
        ("mkdir out.json", {"reads": "out.json"}, "its result, out.json: Is a directory"),
    ],
)
def test_what_goes_wrong_is_one_line(text: str, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(BlackBoxError) as raised:
        sh(text, **parts)({})
    assert str(raised.value).endswith(message)
    assert str(raised.value).startswith("sh -c ")
    assert "\n" not in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("field", ["command", "files"])
def test_a_value_that_no_program_can_be_given_is_said(field: str) -> None:
    parts = {"command": ["printf", "1"], "files": {"it": ""}}
    parts[field] = {"command": ["printf", "{it}"], "files": {"it": "{it}"}}[field]
    with pytest.raises(BlackBoxError, match=r"null byte|surrogates not allowed"):
        Command(**parts)({"it": "\0\ud800"})


def test_a_program_that_is_not_there_is_said() -> None:
    with pytest.raises(BlackBoxError, match=r"^no-such-program 1: No such file or directory$"):
        Command(command=["no-such-program", "{x}"])({"x": 1})


def test_the_time_limit_ends_the_whole_tree(tmp_path: Path) -> None:
    """Children, those in a session of their own, and those whose parent has gone.

    A machine that is busy may need longer until they are there: then with a longer limit.
    """
    if shutil.which("setsid") is None:
        pytest.skip("there is no setsid")
    for limit in (1, 4, 16, 64):
        started = tmp_path / f"started-{limit}"
        started.mkdir()
        one = f"sh -c 'echo > {started}/$$; exec sleep 300'"
        text = f"{one} & setsid {one} & (setsid {one} &) ; trap '' TERM; sleep 300; sleep 300"
        with pytest.raises(BlackBoxError, match=rf"ended at its time limit of {limit} s$"):
            sh(text, timeout=f"{limit}s")({})
        pids = [int(file.name) for file in started.iterdir()]
        assert not any(map(_runs, pids))
        if len(pids) == 3:
            break
    assert len(pids) == 3


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_whoever_is_left_in_the_group_ends_with_the_program(tmp_path: Path) -> None:
    """A descendant that keeps stdout open does not delay the result."""
    assert sh(f"sleep 300 & echo $! > {tmp_path}/pid; echo 1")({}) == 1.0
    pid = int((tmp_path / "pid").read_text())
    assert until(lambda: not _runs(pid))


def test_what_fails_is_kept_where_asked(tmp_path: Path) -> None:
    box = sh("cat in; echo bad >&2; exit {code}", files={"in": "5"}, keep=str(tmp_path / "kept"))
    assert box({"code": 0}) == 5.0
    assert not (tmp_path / "kept").exists()
    with pytest.raises(BlackBoxError, match=r"exit code 1: bad \(kept in") as raised:
        box({"code": 1})
    (kept,) = (tmp_path / "kept").iterdir()
    assert str(raised.value).endswith(f"(kept in {kept})")
    contents = {file.name: file.read_text() for file in kept.rglob("*") if file.is_file()}
    assert contents == {"in": "5", "stdout": "5", "stderr": "bad\n"}


def test_many_at_once_do_not_meet_and_have_one_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start(run: str, groups: list[str]) -> Guard:
        started.append(run)
        time.sleep(0.05)  # time for the others to look for one
        return guard(run, groups)

    guard = Guard.start
    monkeypatch.setattr(Guard, "start", start)
    process_groups._start_guard.cache_clear()
    box = sh("echo {n} > here; sleep 0.01; cat here")
    with coordinator("threads", workers=4) as workers:
        outcomes = list(workers.map(box, [{"n": n} for n in range(12)]))
    assert [outcome.value for outcome in outcomes] == list(range(12))
    assert len(started) == 1


def test_what_cannot_be_watched_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pidfd_open fails for want of files, the program that was started is ended."""

    def refuse(pid: int) -> int:
        seen.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    seen: list[int] = []
    box = sh("sleep 300")
    assert sh("echo 1")({}) == 1.0  # so that there is a guard
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(BlackBoxError, match=r"cannot be watched .pidfd_open.: Too many open files"):
        box({})
    assert not _runs(seen[-1])


def test_where_commands_cannot_be_run_that_is_said_before_anything_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = sh("echo 1")
    monkeypatch.setattr(sys, "platform", "darwin")
    for given_box in (box, {"command": ["sim"]}):
        with pytest.raises(InputError, match="black_box: a command as a black box runs on Linux o"):
            black_box(given_box)
    monkeypatch.setattr(sys, "platform", "linux")

    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", missing)
    with pytest.raises(InputError, match=r"needs pidfd_open, so Linux 5\.3 or later"):
        black_box(box)
    assert black_box(lambda values: 1)({}) == 1.0


def test_a_sweep_takes_what_nobody_holds_and_nothing_else(scratch: Path) -> None:
    with scratch_folder() as held:
        for name in ("twinloop-box-left", "failed-kept", "other"):
            (scratch / name / "work").mkdir(parents=True)
        assert remove_unused_folders(scratch) == 1
        assert {each.name for each in scratch.iterdir()} == {held.name, "failed-kept", "other"}
    for name in ("failed-kept", "other"):
        shutil.rmtree(scratch / name)


def test_no_place_for_a_scratch_folder_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(BlackBoxError, match=r"no scratch folder can be created: .*No such file"):
        sh("echo 1")({})


def test_an_error_in_a_campaign_says_what_ran_and_for_what() -> None:
    with coordinator("serial") as worker:
        (outcome,) = worker.map(sh("exit {n}"), [{"n": 7}])
    assert outcome.error == "BlackBoxError: sh -c 'exit 7': exit code 7, for {'n': 7}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("command: sim {x}", "1: command: must be a list of a program and its arguments"),
        ("command: []", "1: command: has no program"),
        ("command: [sim, '{x']", "1: command[1]: '{x' has a brace that encloses no name (write {{"),
        ("command: [sim]\ntimeout: 0s", "2: timeout: must be positive"),
        ("command: [sim]\ntimeout: soon", "2: timeout: must be a duration, not 'soon'"),
        ("command: [sim]\nfiles:\n  ../x: ''", '3: files["../x"]: must be a name in the scratch'),
        ("command: [sim]\nreads: /etc/passwd", "2: reads: must be stdout or a name in the scratch"),
        ("command: [sim]\nreads: ''", "2: reads: must be a text of at least 1 character, not ''"),
        (
            "command: [sim]\nfile: {}",
            "2: file: is not a field of the command (did you mean 'files'",
        ),
    ],
)
def test_a_description_that_is_wrong_is_refused_by_place(text: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as raised:
        Command.from_text(text, file="box.yaml")
    assert str(raised.value).startswith(f"box.yaml:{problem}")


def test_a_name_that_nobody_gave_a_value_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        Command(command=["sim", "{sped}"])({"speed": 1})
    assert str(raised.value) == (
        "black_box.command.1: {sped} has no value (did you mean 'speed'?) [TL0222]"
    )


def test_a_description_is_the_same_after_writing_and_after_travelling(tmp_path: Path) -> None:
    box = Command.load(EXAMPLE / "drops.yaml")
    again = Command.load(box.save(tmp_path / "deep" / "box.yaml"))
    assert Path(again.folder).resolve() == EXAMPLE
    assert again.command == box.command
    assert pickle.loads(pickle.dumps(box)) == box


def test_a_function_goes_through_the_same_door() -> None:
    def sum_of(values: dict[str, float], case: dict[str, float] | None = None) -> object:
        return np.float64(sum(values.values())) if case is None else {"sum": case["x"]}

    box = black_box(sum_of)
    assert isinstance(box, Function)
    assert box({"a": 1, "b": 2}) == 3.0
    assert box({"a": 1}, {"x": 4}) == {"sum": 4}
    with pytest.raises(BlackBoxError, match="its result: must be a JSON object or a number"):
        black_box(lambda values: None)({})
    with pytest.raises(InputError, match="black_box: must be a command or a function, not int"):
        black_box(3)  # type: ignore[arg-type]
    assert black_box(box) is box


def test_the_example_is_a_program_of_its_own() -> None:
    said = subprocess.run(
        [sys.executable, EXAMPLE / "drops.py", "--height=1", "--gravity=9.81", "--drag=0.1"]
        + ["--bounce=0"],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"]},
    )
    assert json.loads(said.stdout)["bounces"] == 0
