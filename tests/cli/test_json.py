"""Law: --json prints one object whose keys are those that docs/json.md lists."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.cli.json_page import list_commands, list_keys
from twinloop.cli import app
from twinloop.cli.commands import SUMMARIES
from twinloop.metrics import FIGURES


def print_object(*words: object) -> dict[str, object]:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("json") / "log.swf"
    tl.write(tl.generate("poisson", tasks=20, seed=1), path)
    return path


def test_every_command_has_a_section_in_the_order_of_the_help() -> None:
    assert sorted(list_commands()) == sorted(SUMMARIES)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("inspect", ["{log}"]),
        ("check", ["{log}"]),
        ("convert", ["{log}", "{folder}/out.trace"]),
        ("generate", ["poisson", "{folder}/made.swf"]),
        ("diff", ["{log}", "{log}"]),
        ("explain", ["TL0101"]),
        ("report", ["{log}", "-o", "{folder}/page.html"]),
        ("assess", ["{log}", "{log}"]),
    ],
)
def test_the_keys_are_the_listed_keys(
    command: str, words: list[str], log: Path, tmp_path: Path
) -> None:
    given = [word.format(log=log, folder=tmp_path) for word in words]
    assert set(print_object(command, *given)) == list_keys(command)


def test_a_simulation_has_all_figures_and_the_listed_keys(log: Path) -> None:
    found = print_object("simulate", "--workload", log, "--platform", "4x8", "--policy", "fcfs")
    assert list_keys("simulate") <= set(found)
    assert set(found) <= list_keys("simulate") | set(FIGURES)


def test_an_error_is_one_object_as_well(tmp_path: Path) -> None:
    found = print_object("inspect", tmp_path / "missing.swf")
    assert set(found) == {"error"}


@pytest.mark.parametrize(
    ("words", "field", "code"),
    [
        (["simulate", "--bogus"], "--bogus", "TL0209"),
        (["simulate", "--seed", "abc"], "--seed", "TL1104"),
        (["generate", "lublin"], "output", "TL1101"),
        (["inspct"], None, "TL0209"),
        (["inspect", "a", "b"], None, "TL0200"),
    ],
)
def test_a_usage_error_is_one_object_as_well(
    words: list[str], field: str | None, code: str
) -> None:
    done = CliRunner().invoke(app, [*words, "--json"])
    found = json.loads(done.stdout)
    assert set(found) == {"error"}
    assert (found["error"]["field"], found["error"]["code"]) == (field, code)
    assert (done.exit_code, "Usage" in done.stderr) == (2, True)
    assert not CliRunner().invoke(app, words).stdout


def test_words_of_another_program_do_not_request_json() -> None:
    done = CliRunner().invoke(app, ["record", "--bogus", "--", "prog", "--json"])
    assert (done.exit_code, done.stdout) == (2, "")
