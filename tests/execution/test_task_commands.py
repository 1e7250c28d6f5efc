"""Laws of commands: arguments, user, folder and environment are exactly those of the scenario."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cli.test_commands import run as twinloop
from tests.execution.runs import left, read_output, scenario, statuses, task
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.execution import execute
from twinloop.execution.task_commands import (
    NODE_VARIABLES,
    TASK_VARIABLES,
    TaskCommands,
    file_name_from_id,
    fill_command,
)
from twinloop.trace import tables

#: Prints its arguments, variables, folder and user.
TELL = (
    "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), "
    "os.getuid()]))"
)
STARTED = {name: column.dtype for name, column in tables.COMMAND_COLUMNS.items()}
PYTHON = (sys.executable, "-S", "-c", TELL)


def read_report(
    folder: Path, name: str = "a", rank: int = 0
) -> tuple[list[str], dict[str, str], str, int]:
    arguments, variables, place, user = json.loads(read_output(folder, name, rank))
    return arguments, variables, place, user


def commands(*tasks: dict[str, Any], **more: Any) -> TaskCommands:
    return TaskCommands(CompiledScenario(scenario(*tasks, **more)), Path("/out"), run="1-1-0000")


def argv(found: TaskCommands, number: int = 0, **place: Any) -> list[str]:
    where = {"rank": 0, "ranks": 1, "node": "n", "cores": 1.0, **place}
    return list(found.launch(number, **where).argv)


# --- templates ------------------------------------------------------------------------------------


def test_a_command_can_name_every_column_of_its_task() -> None:
    log = pl.DataFrame(
        {
            **{name: ["it"] for name in ("id", "name", "user", "group", "queue", "kind")},
            "submit": [0.0],
            "cores": [2.0],
            "limit": [2.0],
            "nodes": [1],
            "work": [3e-7],
            "memory": [3.0 * 2**40],
            "requested_time": [1e14],
            "run_time": [0.25],
            "command": [
                ["p", *(f"{name}={{{name}}}" for name in (*TASK_VARIABLES, *NODE_VARIABLES))]
            ],
        }
    )
    ready = CompiledScenario(
        tl.Scenario(platform="1x2", policy="fcfs", workload=tl.Workload(tasks=log))
    )
    found = TaskCommands(ready, Path("/out"), run="r")
    words = argv(found, rank=1, ranks=3, node="n7", cores=0.5)
    assert dict(word.split("=") for word in words[1:]) == {
        **dict.fromkeys(("id", "name", "user", "group", "queue", "kind"), "it"),
        # Numbers without an exponent, and without a decimal point if they are whole.
        "cores": "2",
        "nodes": "1",
        "work": "0.0000003",
        "memory": "3298534883328",
        "run_time": "0.25",
        "requested_time": "100000000000000",
        "part_cores": "0.5",
        "rank": "1",
        "ranks": "3",
        "node": "n7",
        "output": "/out/it",
    }


def test_two_braces_stand_for_one() -> None:
    words = ["{{id}}", "{{{id}}}", "}}{{", "${{HOME}}", "awk '{{print $1}}'"]
    found = commands(task("a", "p", *words))
    assert argv(found) == ["p", "{id}", "{a}", "}{", "${HOME}", "awk '{print $1}'"]


def test_values_are_not_templates_themselves() -> None:
    assert argv(commands(task("{node}", "p", "{id}"))) == ["p", "{node}"]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("{idd}", "there is no variable 'idd' (did you mean 'id'?)"),
        ("{secret}", "there is no variable 'secret'"),
        ("{id.__class__}", "has a brace that encloses no name"),
        ("{id[0]}", "has a brace that encloses no name"),
        ("{id!r}", "has a brace that encloses no name"),
        ("{cores:>10}", "has a brace that encloses no name"),
        ("{}", "has a brace that encloses no name"),
        ("{0}", "has a brace that encloses no name"),
        ("a{", "has a brace that encloses no name (write {{ for a brace)"),
        ("}", "has a brace that encloses no name (write }} for a brace)"),
        ("{user}", "uses 'user', which has no value"),
        ("{memory}", "uses 'memory', which has no value"),
    ],
)
@pytest.mark.parametrize("where", ["command", "environment.X"])
def test_an_unknown_variable_is_an_error_with_its_position(
    word: str, problem: str, where: str
) -> None:
    more = {"environment": {"X": word}} if where != "command" else {}
    wrong = task("b", "p", *([word] if where == "command" else []), **more)
    with pytest.raises(InputError) as error:
        commands(task("a", "p"), wrong).survey()
    assert error.value.field == f"task 'b': {where}"
    assert problem in str(error.value)


@given(
    st.text(st.characters(exclude_characters="{}\0")),
    st.text(st.characters(exclude_characters="\0")),
)
def test_a_value_is_inserted_unchanged(affix: str, value: str) -> None:
    assert fill_command(f"{affix}{{id}}{affix}", {"id": value}, "") == f"{affix}{value}{affix}"


@given(st.text(st.characters(exclude_characters="\0")))
def test_a_text_with_doubled_braces_is_that_text(text: str) -> None:
    assert fill_command(text.replace("{", "{{").replace("}", "}}"), {}, "") == text


def test_a_task_without_a_command_is_named() -> None:
    with pytest.raises(InputError, match="1 of 2 tasks have no command, such as 'b'"):
        execute(scenario(task("a", "true"), {"id": "b", "run_time": 1}))


def test_a_command_that_is_a_text_is_refused_with_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    for line, where in (
        ("tasks: [{id: a, command: rm -rf x}]", "workload.tasks[0].command"),
        ("{path: log.swf, command: rm -rf x}", "workload.command"),
        ("{path: log.swf, prepare: [{command: rm -rf x}]}", "workload.prepare[0].command"),
    ):
        tree = line if line.startswith("{") else f"{{{line}}}"
        file.write_text(f"platform: 1x1\npolicy: fcfs\nworkload: {tree}\n")
        with pytest.raises(InputError, match="it is not run by a shell") as error:
            tl.load(file)
        assert where in str(error.value)
        assert "[rm, -rf, x]" in str(error.value)


# --- no shell -------------------------------------------------------------------------------------


@pytest.mark.real
def test_arguments_are_passed_unchanged(tmp_path: Path) -> None:
    words = [
        *("; touch here", "$(touch here)", "`touch here`", "| touch here", "&& touch here"),
        *("$HOME", "~", "*", "a  b", "", "'", '"', "\\", "\n", "\t", "-", "--", "> here"),
        *("é", "日本", "\x1b[2J", "\x7f", "a" * 100_000),
    ]
    execute(scenario(task("a", *PYTHON, *words, folder=str(tmp_path))), tmp_path / "run")
    arguments, _, place, user = read_report(tmp_path / "run")
    assert arguments == words
    assert Path(place) == tmp_path
    assert not (tmp_path / "here").exists()
    # With the rights of the calling user.
    assert user == os.getuid()


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0{}")), max_size=5))
def test_any_argument_is_kept_in_a_scenario(words: list[str]) -> None:
    kept = tl.Scenario.from_text(scenario(task("a", "p", *words)).to_yaml())
    assert argv(TaskCommands(CompiledScenario(kept), Path("/out"), run="r")) == ["p", *words]


@pytest.mark.real
def test_tasks_see_the_variables_of_the_user_and_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_USER", "kept")
    monkeypatch.setenv("OVERRIDDEN", "by the task")
    monkeypatch.setenv("BYTES", os.fsdecode(b"\xff\xfe"))
    own = {"OVERRIDDEN": "task {id}", "NEW": "=; $x", "TWINLOOP_RUN": "mine", "TWINLOOP_RANK": "9"}
    execute(
        scenario(
            task("a", *PYTHON, environment=own, cores=2, nodes=2, folder="/"),
        ),
        tmp_path / "run",
    )
    for rank in (0, 1):
        _, seen, place, _ = read_report(tmp_path / "run", rank=rank)
        assert (seen["OF_THE_USER"], seen["OVERRIDDEN"]) == ("kept", "task a")
        assert seen["NEW"] == "=; $x"
        # The variables of Twinloop cannot be removed.
        assert seen["TWINLOOP_RUN"] != "mine"
        assert (seen["TWINLOOP_RANK"], seen["TWINLOOP_RANKS"]) == (str(rank), "2")
        assert (seen["TWINLOOP_TASK"], seen["TWINLOOP_CORES"]) == ("0", "1")
        assert Path(seen["TWINLOOP_OUTPUT"]) == tmp_path / "run" / "output" / "a"
        assert place == "/"
        # Bytes that are no text are passed unchanged.
        assert os.fsencode(seen["BYTES"]) == b"\xff\xfe"


@pytest.mark.real
def test_a_program_with_a_path_is_relative_to_the_folder_of_the_task(tmp_path: Path) -> None:
    inner = tmp_path / "work" / "bin"
    inner.mkdir(parents=True)
    tool = inner / "tool"
    tool.write_text("#!/bin/sh\necho here\n")
    tool.chmod(0o755)
    work = str(tmp_path / "work")
    trace = execute(
        scenario(
            task("relative", "./bin/tool", folder=work),
            task("absolute", str(tool), folder="/"),
            task("on-path", "tool", environment={"PATH": str(inner)}, folder="/"),
            # As in a shell, a name without a slash is looked up on the PATH only.
            task("in-folder", "tool", folder=str(inner)),
        ),
        tmp_path / "run",
    )
    expected = dict.fromkeys(("relative", "absolute", "on-path"), "completed")
    assert statuses(trace) == expected | {"in-folder": "failed"}
    assert all(read_output(tmp_path / "run", name) == "here\n" for name in expected)


@pytest.mark.real
def test_a_task_that_cannot_start_fails_with_its_children_and_is_reported(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    trace = execute(
        scenario(
            task("missing", "no-such-program"),
            task("nowhere", "/no/such/program"),
            task("plain", str(plain)),
            task("folder", "true", folder="/no/such/folder"),
            task("child", "true", parents=["missing"]),
            task("grandchild", "true", parents=["child"]),
            task("rest", "true"),
        ),
        tmp_path / "run",
    )
    expected = dict.fromkeys(trace.tasks["id"], "failed") | {"rest": "completed"}
    assert statuses(trace) == expected
    assert trace.placements["task"].to_list() == ["rest"]
    reasons = {note.what: note.examples for note in trace.manifest.cleaned}
    start = "tasks that could not be started: "
    assert reasons == {
        f"{start}no-such-program: no such program": ("missing",),
        f"{start}/no/such/program: No such file or directory": ("nowhere",),
        f"{start}{plain}: Permission denied": ("plain",),
        f"{start}/no/such/folder: No such file or directory": ("folder",),
        "tasks whose parent did not complete": ("child", "grandchild"),
    }
    assert tl.check(trace).errors == ()


# --- names and links ------------------------------------------------------------------------------


def make_scenario(rows: list[dict[str, Any]]) -> tl.Scenario:
    """Make a scenario from tasks of a log, which has fewer rules than a scenario."""
    usual = {"submit": 0.0, "cores": 1.0, "limit": 1.0, "work": 1.0}
    log = pl.DataFrame([{**usual, **row} for row in rows], schema_overrides=STARTED)
    return tl.Scenario(platform="1x1", policy="fcfs", workload=tl.Workload(tasks=log))


HOSTILE = (
    *("../../x", "..", ".", "/etc/passwd", "a/b", "CON", "-rf", "~", "a\nb", " ", "%", "%2F"),
    *("é", "日本", "x" * 300, "x" * 301, "\x1b[2J", "[red]", "$(id)", ".hidden", "recording"),
)


@pytest.mark.real
def test_hostile_names_of_tasks_stay_in_the_folder(tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if path.exists()}
    folder = tmp_path / "in" / "here" / "run"
    script = ["sh", "-c", 'echo "$1"', "sh", "{id}"]
    given = make_scenario([{"id": name, "command": script} for name in HOSTILE])
    trace = execute(given, folder)
    assert set(statuses(trace).values()) == {"completed"}
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert all(path.is_relative_to(folder) for path in made)
    outputs = list((folder / "output").iterdir())
    assert len(outputs) == len(HOSTILE)
    assert sorted((path / "0.out").read_text() for path in outputs) == sorted(
        f"{name}\n" for name in HOSTILE
    )
    assert statuses(tl.read(folder)) == statuses(trace)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a\0b"},
        {"command": ["touch", "a\0b"]},
        {"folder": "/\0x"},
        {"environment": [{"name": "x", "value": "\0"}]},
        {"environment": [{"name": "a=b", "value": ""}]},
        {"environment": [{"name": "", "value": ""}]},
        {"command": []},
    ],
)
def test_invalid_commands_and_variables_are_an_error_before_anything_runs(
    wrong: dict[str, Any],
) -> None:
    row = {"id": "a", "command": ["touch", "{id}"], "environment": None, "folder": None, **wrong}
    with pytest.raises(InputError) as error:
        TaskCommands(CompiledScenario(make_scenario([row])), Path("/out"), run="r").survey()
    assert error.value.field in {"workload.command"} | {
        f"task {row['id']!r}: {name}"
        for name in ("command", "folder", "environment.x", "environment.a=b", "environment.")
    }


@given(st.lists(st.text(), unique=True))
def test_every_task_has_a_unique_file_name(names: list[str]) -> None:
    found = [file_name_from_id(name) for name in names]
    assert len(set(found)) == len(names)
    for name in found:
        assert 0 < len(name.encode()) <= 120
        assert not set(name) & set("/\\\0\n ")
        assert name not in (".", "..")
        assert Path("out", name).parent == Path("out")


@given(st.sampled_from("./~%x"), st.integers(1, 300), st.sampled_from("./~%x"))
def test_file_names_of_different_long_names_differ(start: str, count: int, end: str) -> None:
    long = start * count
    assert (file_name_from_id(long + end) == file_name_from_id(long + "y")) is False
    assert len(file_name_from_id(long)) <= 120


@pytest.mark.real
def test_nothing_is_written_through_links_of_another_task(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    create = (
        'cd "$TWINLOOP_OUTPUT/.." && ln -s "$1" folder && mkdir file fifo occupied &&'
        ' ln -s "$1/precious" file/0.out && mkfifo fifo/0.out && mkdir occupied/0.out &&'
        " touch plain"
    )
    victims = ("folder", "file", "fifo", "occupied", "plain", "untouched")
    trace = execute(
        scenario(
            task("lays", "sh", "-c", create, "sh", str(outside)),
            *(task(name, "echo", "hello", parents=["lays"]) for name in victims),
        ),
        tmp_path / "run",
    )
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "mine"
    found = statuses(trace)
    assert {name for name, status in found.items() if status == "failed"} == {
        *("folder", "occupied", "plain")
    }
    for name in ("file", "fifo", "untouched"):
        assert read_output(tmp_path / "run", name) == "hello\n"
    assert all("its output cannot be kept" in note.what for note in trace.manifest.cleaned)


@pytest.mark.real
def test_a_task_that_removes_its_own_folders_affects_no_other_task(tmp_path: Path) -> None:
    gone = 'rm -r "$TWINLOOP_OUTPUT" && ln -s / "$TWINLOOP_OUTPUT"; echo still'
    trace = execute(scenario(task("a", "sh", "-c", gone), task("b", "echo", "b")), tmp_path / "run")
    assert statuses(trace) == {"a": "completed", "b": "completed"}
    assert read_output(tmp_path / "run", "b") == "b\n"
    with_all = 'rm -r "$(dirname "$TWINLOOP_OUTPUT")"'
    trace = execute(
        scenario(task("a", "sh", "-c", with_all), task("b", "echo", "b", parents=["a"])),
        tmp_path / "again.trace",
    )
    assert statuses(tl.read(tmp_path / "again.trace")) == statuses(trace)
    assert statuses(trace) == {"a": "completed", "b": "failed"}


# --- which commands run code ----------------------------------------------------------------------


def test_nothing_but_execute_runs_commands(tmp_path: Path) -> None:
    here = tmp_path / "here"
    step = {"command": ["touch", str(here)]}
    given = scenario(task("a", "touch", str(here)), workload={"prepare": [step]})
    file = given.save(tmp_path / "scenario.yaml")
    tl.simulate(tl.load(file)).save(tmp_path / "trace")
    twinloop("simulate", file, "-o", tmp_path / "simulated")
    for command in ("inspect", "check"):
        twinloop(command, tmp_path / "simulated")
    twinloop("simulate", tmp_path / "simulated")
    assert not here.exists()
    # A trace has the commands of its tasks, and reading it starts none.
    tl.write(tl.read(tmp_path / "simulated"), tmp_path / "again.trace")
    assert tl.read(tmp_path / "again.trace").tasks["command"].to_list() == [["touch", str(here)]]
    assert not here.exists()


@pytest.mark.real
def test_commands_are_announced_before_they_run(tmp_path: Path) -> None:
    here = tmp_path / "here"
    script = f"touch {here}\n\x1b[2K\x1b[1A\u202e # nothing"
    words: list[tuple[str, bool]] = []
    listed: list[str] = []

    def record_line(text: str) -> None:
        words.append((text, bool(list(tmp_path.iterdir()))))
        if text.startswith("every command: "):
            listed.append(Path(text.removeprefix("every command: ")).read_text())

    execute(
        scenario(
            task("a", "sh", "-c", script),
            *(task(f"{number}", "echo", number % 6) for number in range(12)),
            workload={"prepare": [{"command": ["touch", f"{here}\x1b[2K"]}]},
        ),
        announce=record_line,
    )
    assert here.exists()
    first = [text for text, has_run in words if not has_run]
    assert first[0] == f"first: touch '{here}\\x1b[2K'"
    assert first[1:4] == ["will run 7 distinct commands for 13 tasks:", "  12 x echo", "  1 x sh"]
    # Every command is in the announced file before anything runs.
    (text,) = listed
    escaped = f"sh -c 'touch {here}\\n\\x1b[2K\\x1b[1A\\u202e # nothing'"
    assert {f"2 x echo {number}" for number in range(6)} | {f"1 x {escaped}"} <= {*text.split("\n")}
    assert text.isascii()
    alone: list[str] = []
    execute(scenario(task("a", "sh", "-c", script)), announce=alone.append)
    # Control characters are escaped.
    assert alone[0] == f"will run 1 x sh -c 'touch {here}\\n\\x1b[2K\\x1b[1A\\u202e # nothing'"
    assert left(os.getpid()) == []


def test_a_run_that_cannot_begin_leaves_the_folder_unchanged(tmp_path: Path) -> None:
    given = scenario(task("a", "true"), platform="1x4096")
    for place in (tmp_path / "new", tmp_path / "empty"):
        with pytest.raises(InputError, match="4096"):
            execute(given, place)
        (tmp_path / "empty").mkdir(exist_ok=True)
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    # A foreign list of commands is not replaced.
    (tmp_path / "empty" / "commands.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a run"):
        execute(scenario(task("a", "true")), tmp_path / "empty", overwrite=True)


def test_variables_of_the_node_stay_in_braces_until_the_start() -> None:
    survey = commands(task("a", "sim", "{rank}", "{node}", "{output}", "{cores}")).survey()
    assert [each.command for each in survey.commands] == ["sim '{rank}' '{node}' '{output}' 1"]


def test_reads_and_writes_become_one_argument_for_each_file() -> None:
    files = [{"name": name, "size": 1} for name in ("in", "a b", "out")]
    argv = ["p", "{reads}", "-o", "{writes}", "{id}", "{folder}/x"]
    given = scenario(
        task("t", *argv, reads=["in", "a b"], writes=["out"], folder="/srv"),
        task("none", "p", "{reads}"),
        workload={"files": files},
    )
    commands = TaskCommands(CompiledScenario(given), Path("out"), run="r")
    place = {"rank": 0, "ranks": 1, "node": "n", "cores": 1.0}
    assert commands.launch(0, **place).argv == ("p", "in", "a b", "-o", "out", "t", "/srv/x")
    assert commands.launch(1, **place).argv == ("p",)
    with pytest.raises(InputError, match=r"\{reads\} is a part of '--in="):
        fill_command("--in={reads}", {}, "command")
