"""Law: no command prints a control character or a line break of a name."""

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import twinloop as tl
import twinloop.cli
from tests.report.sample_runs import draw_tasks, run_fcfs
from twinloop.cli import app
from twinloop.cli.commands import SUMMARIES
from twinloop.cli.console import SafeConsole, err, escape, out
from twinloop.cli.run_display import render
from twinloop.description import Cleaning, InputError
from twinloop.execution.run_progress import RunProgress
from twinloop.exploration import Study
from twinloop.fidelity import assess
from twinloop.metrics import difference, figures
from twinloop.trace import Manifest, QualityError, Trace, check

#: A name that sets the title of the window, hides text, reverses the direction of writing, has
#: markup without a begin, and starts a new line.
EVIL = "n\x1b]0;owned\x07\x9b31m\x7f\u202e\u2028[/][red]:bomb:\r\nFORGED\t"
#: A hostile name that a description accepts.
NAME = "n\x9b31m\u202e\u2028[/][red]:bomb:"
#: A hostile name that is valid for a file or folder.
FILE = EVIL.replace("[/][red]", "")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def evil(number: object) -> str:
    return f"{EVIL}{number}"


class Folder:
    """Logs, descriptions and results with hostile names only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._next = count()
        self.scenario = self._written("scenario.yaml", self._scenario())
        self.log = self._log()
        self.trace = self._trace("recorded").save(root / f"{FILE}run")
        self.twin = self._trace("simulated", stretch=1.1).save(root / "twin")
        self.broken = self._broken().save(root / "broken")
        self.simulated = tl.simulate(tl.load(self.scenario)).save(root / "simulated")
        self.factors = self._written(
            "factors.yaml",
            {
                "factors": {
                    "policy": ["fifo", "sjf"],
                    f"{NAME}x": {"field": "name", "levels": [f"{NAME}1", f"{NAME}2"]},
                }
            },
        )
        self.study = root / f"{FILE}study"
        tl.explore(self.scenario, self.factors, folder=self.study, on="serial")

    def new(self, suffix: str = "") -> Path:
        """Return a path that does not exist."""
        return self.root / f"{FILE}new{next(self._next)}{suffix}"

    def _written(self, name: str, document: dict[str, Any]) -> Path:
        path = self.root / f"{FILE}{name}"
        path.write_text(yaml.safe_dump(document))
        return path

    def _scenario(self) -> dict[str, Any]:
        tasks = [
            {
                "id": f"{NAME}{number}",
                "name": NAME,
                "user": f"{NAME}{number % 2}",
                "command": ["true", evil(number)],
                "run_time": 0.01,
                "cores": 1 + 8 * (number == 3),  # the last is too large for every node
            }
            for number in range(4)
        ]
        hosts = [{"name": NAME, "count": 2, "cores": 1}]
        return {
            "name": NAME,
            "platform": {"clusters": [{"name": NAME, "hosts": hosts}]},
            "policy": "fifo",
            "workload": {"tasks": tasks},
        }

    def _log(self) -> Path:
        frame = pl.DataFrame(
            {
                "id": [evil(1), evil(2), evil(2)],
                "submit": ["0", "1", evil("time")],
                "cores": ["1", "2", "1"],
                "user": [evil("u"), evil("v"), evil("w")],
            }
        )
        path = self.root / f"{FILE}log.csv"
        frame.write_csv(path)
        return path

    def _trace(self, kind: str, stretch: float = 1.0) -> Trace:
        run = run_fcfs([(gap, length * stretch, size) for gap, length, size in draw_tasks(30)])
        note = Cleaning(kind="skipped", what=evil("what"), count=1, examples=(evil("where"),))
        manifest = Manifest(
            kind=kind,  # type: ignore[arg-type]
            cleaned=(note,),
            scenario={"name": evil("scenario"), "policy": evil("policy")},
            facts={"run": {"policy": evil("policy"), evil("fact"): evil("value")}},
        )
        renamed = {"task": pl.lit(EVIL) + pl.col("task"), "machine": EVIL + pl.col("machine")}
        tasks = run.tasks.with_columns(
            id=EVIL + pl.col("id"),
            user=EVIL + pl.col("user"),
            **{name: pl.lit(evil(name)) for name in ("name", "group", "queue", "partition")},
        )
        return run.replace(
            tasks=tasks,
            placements=run.placements.with_columns(**renamed),
            nodes=run.nodes.with_columns(node=EVIL + pl.col("node")),
            manifest=manifest,
        )

    def _broken(self) -> Trace:
        whole = self._trace("recorded")
        tasks = whole.tasks.with_columns(
            parents=pl.lit([evil("nowhere")]), status=pl.lit(evil("status"))
        )
        placements = whole.placements.with_columns(end=pl.col("start") - 5.0)
        return whole.replace(tasks=tasks, placements=placements)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("evil"))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal so wide that only a newline breaks a line."""
    for console in (out, err):
        monkeypatch.setattr(console, "_width", 10_000)


@pytest.fixture(autouse=True)
def child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the program of a command that replaces its process as a child process instead."""

    def run(path: Path, words: list[str]) -> None:
        done = subprocess.run(words, executable=path, capture_output=True, text=True, check=False)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)

    monkeypatch.setattr(os, "execv", run)


Words = Callable[[Folder], list[object]]
LOG = ["--column", "id=id", "--column", "submit=submit"]
#: Arguments of each command; each is also called with --json.
CALLS: dict[str, list[Words]] = {
    "inspect": [
        lambda f: [f.trace],
        lambda f: [f.broken],
        lambda f: [f.log, *LOG],
        lambda f: [f.new()],
        lambda f: [f.trace, "--picture", f.new(".html")],
    ],
    "check": [
        lambda f: [f.trace, "-o", f.new(".md")],
        lambda f: [f.broken],
        lambda f: [f.log, *LOG],
        lambda f: [f.log, *LOG, "--strict"],
    ],
    "convert": [
        lambda f: [f.trace, f.new(".swf")],
        lambda f: [f.log, f.new(".trace"), *LOG],
        lambda f: [f.broken, f.new(".swf")],
        lambda f: [f.trace, f.new(f".{FILE}")],
    ],
    "simulate": [
        lambda f: [f.scenario],
        lambda f: [f.scenario, "-o", f.new()],
        lambda f: [f.trace, "--platform", "4x4"],
        lambda f: [f.broken],
        lambda f: ["--workload", f.trace, "--platform", "2x4", "--policy", EVIL],
        lambda f: ["--workload", f.trace, "--platform", "2x4", "--policy", "fifo"],
        lambda f: [f.simulated],
        lambda f: [f.scenario, "--set", f"{EVIL}=1"],
    ],
    "nodes": [lambda f: [], lambda f: [EVIL]],
    "burn": [lambda f: [EVIL], lambda f: ["--seconds", EVIL]],
    "record": [
        lambda f: ["-o", f.trace, "--", "true"],
        lambda f: ["-o", f.new(), "--", "true", EVIL],
        lambda f: ["-o", f.new(), "--", EVIL],
    ],
    "execute": [
        lambda f: [f.scenario, "-o", f.trace],
        lambda f: [f.scenario, "-o", f.new()],
    ],
    "assess": [lambda f: [f.trace, f.twin], lambda f: [f.trace, f.new()]],
    "calibrate": [
        lambda f: [f.simulated, "-o", f.new(), "--budget", "20", "--analysis", "0"],
        lambda f: [f.new(), "-o", f.new()],
    ],
    "explore": [
        lambda f: [f.scenario, f.factors, "-o", f.new(), "--on", "serial"],
        lambda f: [f.scenario, f.factors, "-o", f.new(), "--on", EVIL],
        lambda f: [f.scenario, f.scenario, "-o", f.new()],
        lambda f: [f.study, "--by", EVIL],
        lambda f: [f.study],
    ],
    "confirm": [
        lambda f: [f.study, "--bundle", f.new()],
        lambda f: [f.trace, "-o", f.new()],
        lambda f: [f.study],
    ],
    "loop": [lambda f: [f.scenario, "-o", f.new()], lambda f: [f.new(), "-o", f.new()]],
    "report": [
        lambda f: [f.trace, "-o", f.new(".html")],
        lambda f: [f.study, "-o", f.new(".html")],
        lambda f: [f.new()],
    ],
    "view": [lambda f: [f.new()]],
    "diff": [lambda f: [f.trace, f.twin], lambda f: [f.trace, f.broken]],
    "explain": [lambda f: [EVIL], lambda f: ["TL0101"]],
    "generate": [lambda f: ["lublin", f.new(".swf")], lambda f: [EVIL]],
}
#: Commands that start real processes.
REAL = {"burn", "record", "execute"}


def test_every_command_is_called() -> None:
    assert CALLS.keys() == SUMMARIES.keys()


def calls() -> Iterator[Any]:
    for command, lines in CALLS.items():
        for number, words in enumerate(lines):
            for more in ([], ["--json"]):
                marks = [pytest.mark.real] if command in REAL else []
                name = f"{command}-{number}{''.join(more)}"
                yield pytest.param(command, words, more, id=name, marks=marks)


@pytest.mark.parametrize(("command", "words", "more"), list(calls()))
def test_no_command_prints_control_characters_of_a_name(
    command: str, words: Words, more: list[str], folder: Folder
) -> None:
    given = [str(word) for word in words(folder)]
    split = given.index("--") if "--" in given else len(given)
    result = CliRunner().invoke(app, [command, *given[:split], *more, *given[split:]])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    for text in (result.stdout, result.stderr):
        assert not UNSAFE.search(text), repr(text)
        assert not re.search(r"^\W*FORGED", text, re.MULTILINE), repr(text)
    if more and result.stdout:
        json.loads(result.stdout)


#: Control sequences of rich: styles and cursor movements.
SENT = re.compile("\x1b\\[[0-9;?]*[A-Za-z]|\r")


def test_a_terminal_gets_only_control_sequences_of_rich() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, width=400, emoji=False)
    table = Table(escape(evil("heading")))
    table.add_row(escape(evil("cell")), style="red")
    table.add_row(Text(EVIL.replace("\n", "")))
    console.print(table)
    console.print(f"[bold]{escape(EVIL)}[/]", style="green")
    with console.status(escape(evil("status"))):
        console.print(EVIL.replace("\n", ""), markup=False)
    moment = RunProgress(3.0, 10, {"completed": 4}, 2, {evil("node"): (evil("a"), evil("b"))})
    with Live(console=console) as live:
        live.update(render(moment))
    with Progress(console=console) as bar:
        bar.add_task(escape(evil("progress")))
    text = stream.getvalue()
    assert "\x1b[1;32m" in text  # there are styles
    assert not UNSAFE.search(SENT.sub("", text)), repr(text)
    assert not re.search(r"^\W*FORGED", SENT.sub("", text), re.MULTILINE), repr(text)


def test_python_shows_names_escaped(folder: Folder) -> None:
    whole, broken, twin = map(Trace.load, (folder.trace, folder.broken, folder.twin))
    scenario = tl.load(folder.scenario)
    study = Study.load(folder.study)
    shown = [
        whole, check(whole), check(broken), *whole.manifest.cleaned, figures(whole),
        difference(whole, broken), assess(whole, twin), scenario, scenario.platform,
        scenario.workload, study, study.top(3), study.top(3)[0],
        InputError(EVIL, file=EVIL, field=EVIL, remedy=EVIL), QualityError(check(broken)),
        tl.Simulation(scenario),
    ]  # fmt: skip
    for thing in shown:
        for text in (str(thing), repr(thing)):
            assert not UNSAFE.search(text), f"{type(thing).__name__}: {text!r}"
            assert not re.search(r"^\W*FORGED", text, re.MULTILINE), type(thing).__name__


#: Modules of commands that also print without the consoles, a text without names.
CONSTANTS = {"__init__.py": {"echo"}, "assess.py": {"echo"}, "commands.py": {"echo"}}


def test_commands_print_through_the_consoles_of_one_module() -> None:
    for file in Path(twinloop.cli.__file__).parent.glob("*.py"):
        if file.name in {"console.py", "output.py"}:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        # `escape` of rich keeps newlines and control characters; `escape` of `console` does not.
        assert not imported & {"rich.console", "rich.markup"}, file.name
        called = {
            getattr(node.func, "attr", getattr(node.func, "id", None))
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(getattr(node.func, "value", None), "id", "") not in {"out", "err"}
        }
        assert called & {"print", "echo", "secho", "Console"} <= CONSTANTS.get(file.name, set())
