"""Commands load quickly: only their own modules, and no library before it is needed."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from twinloop import cli
from twinloop.cli.commands import COMMANDS, SUMMARIES, load_command
from twinloop.cli.log_options import FormatName
from twinloop.trace import list_formats

HEAVY = {"dask", "distributed", "numpy", "plotly", "polars", "scipy", "sklearn", "yaml"}

LOADED = """
import json, sys
from contextlib import suppress
from twinloop.__main__ import main

sys.argv[0] = "twinloop"
with suppress(SystemExit):
    main()
print(json.dumps(list(sys.modules)), file=sys.stderr)
"""

FACES = """
import json, sys
from twinloop.cli.commands import load_command

for name in sys.argv[1:]:
    load_command(name)
print(json.dumps(list(sys.modules)), file=sys.stderr)
"""


def list_loaded_modules(code: str, *words: str, **environment: str) -> tuple[set[str], str]:
    """Run code; return the modules that are loaded at the end, and the output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env=os.environ | environment,
    )
    return set(json.loads(done.stderr)), done.stdout


def libraries(names: set[str]) -> set[str]:
    return HEAVY & {name.partition(".")[0] for name in names}


def commands(names: set[str]) -> set[str]:
    return {name for name in SUMMARIES if f"twinloop.cli.{name}" in names}


@pytest.mark.parametrize(
    ("words", "text"), [(["--version"], "twinloop "), (["--help"], SUMMARIES["simulate"])]
)
def test_general_options_load_no_command(words: list[str], text: str) -> None:
    names, printed = list_loaded_modules(LOADED, *words)
    assert text in printed
    assert (libraries(names), commands(names)) == (set(), set())


def test_the_help_of_a_command_loads_that_command_alone() -> None:
    names, printed = list_loaded_modules(LOADED, "simulate", "--help")
    assert "--power-step" in printed
    assert (libraries(names), commands(names)) == (set(), {"simulate"})


def test_completing_a_command_loads_none() -> None:
    asked = {"_TWINLOOP_COMPLETE": "complete_bash", "COMP_WORDS": "twinloop c", "COMP_CWORD": "1"}
    names, printed = list_loaded_modules(LOADED, **asked)
    assert printed.split() == ["check", "convert", "calibrate", "confirm"]
    assert (libraries(names), commands(names)) == (set(), set())


def test_the_options_of_no_command_need_a_library() -> None:
    # The options of `generate` are the parameters of its models.
    names, _ = list_loaded_modules(FACES, *(name for name in SUMMARIES if name != "generate"))
    assert libraries(names) == set()


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    first = inspect.cleandoc(load_command(name).help).partition("\n\n")[0]
    assert SUMMARIES[name] == " ".join(first.split())


def test_every_command_has_a_module() -> None:
    files = Path(cli.__file__).parent.glob("*.py")
    made = {
        file.stem for file in files if file.read_text().startswith(f'"""`twinloop {file.stem}`')
    }
    assert made == set(SUMMARIES)


def test_the_help_names_all_known_formats() -> None:
    option: typer.models.OptionInfo = FormatName.__metadata__[0]  # type: ignore[attr-defined]
    names = ", ".join(form.name for form in list_formats())
    assert (option.help or "").endswith(f"One of: {names}.")


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_fits_on_a_screen_of_60_lines(name: str) -> None:
    shown = CliRunner().invoke(cli.app, [name, "--help"], env={"COLUMNS": "80"}).output
    assert len(shown.splitlines()) <= 60
    assert max(map(len, shown.splitlines())) <= 80


def test_the_commands_are_grouped_by_purpose() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "80"}).output
    for purpose, commands in COMMANDS.items():
        panel = shown.split(f"─ {purpose} ─", 1)[1].split("╰", 1)[0]
        listed = [line.split()[1] for line in panel.splitlines()[1:] if line.startswith("│")]
        assert listed == list(commands)
        assert all(f"{name} " in panel and text in panel for name, text in commands.items())
